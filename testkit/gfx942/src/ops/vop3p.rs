//! Packed arithmetic and dot products.

use super::mask::accumulator_move;
use super::{clamped, lanes, op};
use crate::float::{Float, f16_value, fma_odd};
use crate::inst::{Env, Inst, Op, Outcome};
use crate::lanes::map0;
use crate::ops::Table;
use crate::ops::mfma::MATRIX;
use crate::value::{Half, Value};
use crate::wave::{LANES, Row, Wave};

pub(crate) static VOP3P: Table = &[SHORTS, HALVES, MIXED, DOT, SINGLE, MATRIX];

/// A function of the two halves of packed operands.
macro_rules! packed {
    (|$a:ident: $A:ty, $b:ident: $B:ty| $e:expr) => {
        lanes!(|a: [$A; 2], b: [$B; 2]| [0, 1].map(|n| {
            let ($a, $b): ($A, $B) = (a[n], b[n]);
            $e
        }))
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty| $e:expr, $clamped:expr) => {
        clamped!(
            |a: [$A; 2], b: [$B; 2]| [0, 1].map(|n| {
                let ($a, $b): ($A, $B) = (a[n], b[n]);
                $e
            }),
            [0, 1].map(|n| {
                let ($a, $b): ($A, $B) = (a[n], b[n]);
                $clamped
            })
        )
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| $e:expr) => {
        lanes!(|a: [$A; 2], b: [$B; 2], c: [$C; 2]| [0, 1].map(|n| {
            let ($a, $b, $c): ($A, $B, $C) = (a[n], b[n], c[n]);
            $e
        }))
    };
}

static SHORTS: &[Op] = &[
    op!(0, "v_pk_mad_i16", packed!(|a: i16, b: i16, c: i16| a.wrapping_mul(b).wrapping_add(c))),
    op!(1, "v_pk_mul_lo_u16", packed!(|a: u16, b: u16| a.wrapping_mul(b))),
    op!(2, "v_pk_add_i16", packed!(|a: i16, b: i16| a.wrapping_add(b), a.saturating_add(b))),
    op!(3, "v_pk_sub_i16", packed!(|a: i16, b: i16| a.wrapping_sub(b), a.saturating_sub(b))),
    op!(4, "v_pk_lshlrev_b16", packed!(|a: u16, b: u16| b << (a & 15))),
    op!(5, "v_pk_lshrrev_b16", packed!(|a: u16, b: u16| b >> (a & 15))),
    op!(6, "v_pk_ashrrev_i16", packed!(|a: i16, b: i16| b >> (a & 15))),
    op!(7, "v_pk_max_i16", packed!(|a: i16, b: i16| a.max(b))),
    op!(8, "v_pk_min_i16", packed!(|a: i16, b: i16| a.min(b))),
    op!(9, "v_pk_mad_u16", packed!(|a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c))),
    op!(10, "v_pk_add_u16", packed!(|a: u16, b: u16| a.wrapping_add(b), a.saturating_add(b))),
    op!(11, "v_pk_sub_u16", packed!(|a: u16, b: u16| a.wrapping_sub(b), a.saturating_sub(b))),
    op!(12, "v_pk_max_u16", packed!(|a: u16, b: u16| a.max(b))),
    op!(13, "v_pk_min_u16", packed!(|a: u16, b: u16| a.min(b))),
];

static HALVES: &[Op] = &[
    op!(14, "v_pk_fma_f16", packed!(|a: Half, b: Half, c: Half| Half(fma_odd(a.0, b.0, c.0)))),
    op!(15, "v_pk_add_f16", packed!(|a: Half, b: Half| Half(a.0 + b.0))),
    op!(16, "v_pk_mul_f16", packed!(|a: Half, b: Half| Half(a.0 * b.0))),
    op!(17, "v_pk_min_f16", packed!(|a: Half, b: Half| a.least(b))),
    op!(18, "v_pk_max_f16", packed!(|a: Half, b: Half| a.greatest(b))),
];

static SINGLE: &[Op] = &[
    op!(48, "v_pk_fma_f32", packed!(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
    op!(49, "v_pk_mul_f32", packed!(|a: f32, b: f32| a * b)),
    op!(50, "v_pk_add_f32", packed!(|a: f32, b: f32| a + b)),
    op!(51, "v_pk_mov_b32", |w, i, e| {
        // The lower result is of operand 0 and the upper one of operand 1.
        let part = |n: u8| i.op_sel >> n & 1;
        let i = Inst {
            op_sel: part(0) | part(1) << 1,
            op_sel_hi: part(0) | part(1) << 1,
            neg: 0,
            abs: 0,
            ..i.clone()
        };
        let run: crate::inst::Run = lanes!(|a: [f32; 2], b: [f32; 2]| {
            u64::from(a[0].to_bits()) | u64::from(b[0].to_bits()) << 32
        });
        run(w, &i, e)
    }),
    op!(88, "v_accvgpr_read_b32", accumulator_move),
    op!(89, "v_accvgpr_write_b32", accumulator_move),
];

static MIXED: &[Op] = &[
    op!(32, "v_fma_mix_f32", |w, i, _| {
        let values = mixed(w, i);
        let plain = Inst { extra: crate::inst::Extra::None, ..i.clone() };
        map0(w, &plain, |lane| values[lane] as f32)
    }),
    op!(33, "v_fma_mixlo_f16", |w, i, e| mixed_half(w, i, e, false)),
    op!(34, "v_fma_mixhi_f16", |w, i, e| mixed_half(w, i, e, true)),
];

fn mixed_half(w: &mut Wave, i: &Inst, _: &mut Env<'_>, upper: bool) -> Outcome {
    let (values, old) = (mixed(w, i), w.v[usize::from(i.dst)]);
    let plain = Inst { extra: crate::inst::Extra::None, clamp: false, ..i.clone() };
    map0(w, &plain, |lane| {
        // It is rounded to 32 bits first.
        let half = Half(f64::from(values[lane] as f32)).adjust(0, i.clamp).bits().0;
        if upper { half << 16 | old[lane] & 0xffff } else { half | old[lane] & !0xffff }
    })
}

/// `a * b + c` of operands that are halves or whole registers.
fn mixed(w: &Wave, i: &Inst) -> [f64; LANES] {
    let operands = [0, 1, 2].map(|n| mixed_operand(w, i, n));
    std::array::from_fn(|lane| fma_odd(operands[0][lane], operands[1][lane], operands[2][lane]))
}

fn mixed_operand(w: &Wave, i: &Inst, n: usize) -> [f64; LANES] {
    let is_set = |bits: u8| bits >> n & 1 == 1;
    let is_half = is_set(i.op_sel_hi);
    let row: Row = match w.row(i, n) {
        Some(row) => *row,
        None if is_half && i.src[n] >= 240 => [w.scalar::<Half>(i, n).bits().0; LANES],
        None => [w.scalar::<u32>(i, n); LANES],
    };
    row.map(|word| {
        let value = match (is_half, is_set(i.op_sel)) {
            (false, _) => f64::from(f32::from_bits(word)),
            (true, false) => f16_value(word as u16),
            (true, true) => f16_value((word >> 16) as u16),
        };
        let value = if is_set(i.abs) { value.abs() } else { value };
        if is_set(i.neg) { -value } else { value }
    })
}

/// A dot product that a function of whole registers computes.
macro_rules! dot {
    ($run:expr) => {
        |w, i, e| dot(w, i, e, $run)
    };
}

static DOT: &[Op] = &[
    op!(35, "v_dot2_f32_f16", dot!(lanes!(|a: [Half; 2], b: [Half; 2], c: f32| dot2_f32(a, b, c)))),
    op!(
        38,
        "v_dot2_i32_i16",
        dot!(clamped!(|a: [i16; 2], b: [i16; 2], c: i32| dot2_i32(a, b, c), {
            let product = |n: usize| i64::from(a[n]) * i64::from(b[n]);
            saturated(product(0) + product(1) + i64::from(c))
        }))
    ),
    op!(
        39,
        "v_dot2_u32_u16",
        dot!(lanes!(|a: [u16; 2], b: [u16; 2], c: u32| {
            let product = |n: usize| u32::from(a[n]).wrapping_mul(u32::from(b[n]));
            product(0).wrapping_add(product(1)).wrapping_add(c)
        }))
    ),
    op!(
        40,
        "v_dot4_i32_i8",
        dot!(clamped!(|a: u32, b: u32, c: i32| dot4_i32(a, b, c), {
            saturated(i64::from(dot4_i32(a, b, 0)) + i64::from(c))
        }))
    ),
    op!(
        41,
        "v_dot4_u32_u8",
        dot!(clamped!(|a: u32, b: u32, c: u32| dot4_u32(a, b).wrapping_add(c), {
            dot4_u32(a, b).saturating_add(c)
        }))
    ),
    op!(
        42,
        "v_dot8_i32_i4",
        dot!(clamped!(|a: u32, b: u32, c: i32| dot8_i32(a, b, c), {
            saturated(i64::from(dot8_i32(a, b, 0)) + i64::from(c))
        }))
    ),
    op!(
        43,
        "v_dot8_u32_u4",
        dot!(clamped!(|a: u32, b: u32, c: u32| dot8_u32(a, b).wrapping_add(c), {
            dot8_u32(a, b).saturating_add(c)
        }))
    ),
];

/// A dot product: operand 2 is a whole register.
fn dot(w: &mut Wave, i: &Inst, e: &mut Env<'_>, run: crate::inst::Run) -> Outcome {
    let i = Inst { op_sel: i.op_sel & 3, op_sel_hi: i.op_sel_hi | 4, ..i.clone() };
    run(w, &i, e)
}

fn saturated(value: i64) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

pub(crate) fn dot2_f32(a: [Half; 2], b: [Half; 2], c: f32) -> f32 {
    // Products of halves are exact.
    let products = [a[0].0 * b[0].0, a[1].0 * b[1].0];
    (products[0] + products[1] + f64::from(c)) as f32
}

pub(crate) fn dot2_i32(a: [i16; 2], b: [i16; 2], c: i32) -> i32 {
    let product = |n: usize| i32::from(a[n]) * i32::from(b[n]);
    product(0).wrapping_add(product(1)).wrapping_add(c)
}

pub(crate) fn dot4_i32(a: u32, b: u32, c: i32) -> i32 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    pairs.fold(c, |sum, (a, b)| sum.wrapping_add(i32::from(a as i8) * i32::from(b as i8)))
}

fn dot4_u32(a: u32, b: u32) -> u32 {
    a.to_le_bytes().into_iter().zip(b.to_le_bytes()).map(|(a, b)| u32::from(a) * u32::from(b)).sum()
}

pub(crate) fn dot8_i32(a: u32, b: u32, c: i32) -> i32 {
    let nibble = |word: u32, n: u32| (word << (28 - 4 * n)) as i32 >> 28;
    (0..8).fold(c, |sum, n| sum.wrapping_add(nibble(a, n) * nibble(b, n)))
}

fn dot8_u32(a: u32, b: u32) -> u32 {
    let nibble = |word: u32, n: u32| word >> (4 * n) & 15;
    (0..8).map(|n| nibble(a, n) * nibble(b, n)).sum()
}
