//! Vector instructions with two operands. Operand 2 is what the result register held, or the mask
//! of carries.

use super::mask::choose;
use super::{clamped, lanes, not, op};
use crate::float::{Float, fma_odd, ldexp};
use crate::inst::Op;
use crate::lanes::carry;
use crate::ops::Table;
use crate::ops::vop3p::{dot2_f32, dot2_i32, dot4_i32, dot8_i32};
use crate::value::Half;

pub(crate) static VOP2: Table = &[FLOATS, WHOLE, CARRIES, HALVES, SHORTS];

/// The sign-extended, or zero-extended, lower 24 bits.
pub(crate) fn i24(value: u32) -> i64 {
    i64::from((value << 8) as i32 >> 8)
}

pub(crate) fn u24(value: u32) -> u64 {
    u64::from(value & 0xff_ffff)
}

static FLOATS: &[Op] = &[
    op!(0, "v_cndmask_b32", choose),
    op!(1, "v_add_f32", lanes!(|a: f32, b: f32| a + b)),
    op!(2, "v_sub_f32", lanes!(|a: f32, b: f32| a - b)),
    op!(3, "v_subrev_f32", lanes!(|a: f32, b: f32| b - a)),
    op!(4, "v_fmac_f64", lanes!(|a: f64, b: f64, c: f64| a.mul_add(b, c))),
    op!(5, "v_mul_f32", lanes!(|a: f32, b: f32| a * b)),
    op!(10, "v_min_f32", lanes!(|a: f32, b: f32| a.least(b))),
    op!(11, "v_max_f32", lanes!(|a: f32, b: f32| a.greatest(b))),
    op!(23, "v_fmamk_f32", lanes!(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
    op!(24, "v_fmaak_f32", lanes!(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
    op!(55, "v_dot2c_f32_f16", lanes!(|a: [Half; 2], b: [Half; 2], c: f32| dot2_f32(a, b, c))),
    op!(59, "v_fmac_f32", lanes!(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
];

static WHOLE: &[Op] = &[
    op!(6, "v_mul_i32_i24", lanes!(|a: u32, b: u32| (i24(a) * i24(b)) as u32)),
    op!(7, "v_mul_hi_i32_i24", lanes!(|a: u32, b: u32| ((i24(a) * i24(b)) >> 32) as u32)),
    op!(8, "v_mul_u32_u24", lanes!(|a: u32, b: u32| (u24(a) * u24(b)) as u32)),
    op!(9, "v_mul_hi_u32_u24", lanes!(|a: u32, b: u32| ((u24(a) * u24(b)) >> 32) as u32)),
    op!(12, "v_min_i32", lanes!(|a: i32, b: i32| a.min(b))),
    op!(13, "v_max_i32", lanes!(|a: i32, b: i32| a.max(b))),
    op!(14, "v_min_u32", lanes!(|a: u32, b: u32| a.min(b))),
    op!(15, "v_max_u32", lanes!(|a: u32, b: u32| a.max(b))),
    op!(16, "v_lshrrev_b32", lanes!(|a: u32, b: u32| b >> (a & 31))),
    op!(17, "v_ashrrev_i32", lanes!(|a: u32, b: i32| b >> (a & 31))),
    op!(18, "v_lshlrev_b32", lanes!(|a: u32, b: u32| b << (a & 31))),
    op!(19, "v_and_b32", lanes!(|a: u32, b: u32| a & b)),
    op!(20, "v_or_b32", lanes!(|a: u32, b: u32| a | b)),
    op!(21, "v_xor_b32", lanes!(|a: u32, b: u32| a ^ b)),
    op!(52, "v_add_u32", clamped!(|a: u32, b: u32| a.wrapping_add(b), a.saturating_add(b))),
    op!(53, "v_sub_u32", clamped!(|a: u32, b: u32| a.wrapping_sub(b), a.saturating_sub(b))),
    op!(54, "v_subrev_u32", clamped!(|a: u32, b: u32| b.wrapping_sub(a), b.saturating_sub(a))),
    op!(56, "v_dot2c_i32_i16", lanes!(|a: [i16; 2], b: [i16; 2], c: i32| dot2_i32(a, b, c))),
    op!(57, "v_dot4c_i32_i8", lanes!(|a: u32, b: u32, c: i32| dot4_i32(a, b, c))),
    op!(58, "v_dot8c_i32_i4", lanes!(|a: u32, b: u32, c: i32| dot8_i32(a, b, c))),
    op!(61, "v_xnor_b32", lanes!(|a: u32, b: u32| !(a ^ b))),
];

fn add(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

fn subtract(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let less = u64::from(b) + u64::from(borrow);
    (a.wrapping_sub(less as u32), u64::from(a) < less)
}

static CARRIES: &[Op] = &[
    op!(25, "v_add_co_u32", |w, i, _| carry(w, i, |a: u32, b: u32, _| add(a, b, false))),
    op!(26, "v_sub_co_u32", |w, i, _| carry(w, i, |a: u32, b: u32, _| subtract(a, b, false))),
    op!(27, "v_subrev_co_u32", |w, i, _| carry(w, i, |a: u32, b: u32, _| subtract(b, a, false))),
    op!(28, "v_addc_co_u32", |w, i, _| carry(w, i, add)),
    op!(29, "v_subb_co_u32", |w, i, _| carry(w, i, subtract)),
    op!(30, "v_subbrev_co_u32", |w, i, _| carry(w, i, |a: u32, b: u32, c| subtract(b, a, c))),
];

static HALVES: &[Op] = &[
    op!(31, "v_add_f16", lanes!(|a: Half, b: Half| Half(a.0 + b.0))),
    op!(32, "v_sub_f16", lanes!(|a: Half, b: Half| Half(a.0 - b.0))),
    op!(33, "v_subrev_f16", lanes!(|a: Half, b: Half| Half(b.0 - a.0))),
    op!(34, "v_mul_f16", lanes!(|a: Half, b: Half| Half(a.0 * b.0))),
    // They flush and round in between, as compilers do not want it.
    not!(35, "v_mac_f16"),
    not!(36, "v_madmk_f16"),
    not!(37, "v_madak_f16"),
    op!(45, "v_max_f16", lanes!(|a: Half, b: Half| a.greatest(b))),
    op!(46, "v_min_f16", lanes!(|a: Half, b: Half| a.least(b))),
    op!(51, "v_ldexp_f16", lanes!(|a: Half, b: i16| Half(ldexp(a.0, i32::from(b))))),
    op!(
        60,
        "v_pk_fmac_f16",
        lanes!(|a: [Half; 2], b: [Half; 2], c: [Half; 2]| {
            [0, 1].map(|n| Half(fma_odd(a[n].0, b[n].0, c[n].0)))
        })
    ),
];

static SHORTS: &[Op] = &[
    op!(38, "v_add_u16", clamped!(|a: u16, b: u16| a.wrapping_add(b), a.saturating_add(b))),
    op!(39, "v_sub_u16", clamped!(|a: u16, b: u16| a.wrapping_sub(b), a.saturating_sub(b))),
    op!(40, "v_subrev_u16", clamped!(|a: u16, b: u16| b.wrapping_sub(a), b.saturating_sub(a))),
    op!(41, "v_mul_lo_u16", lanes!(|a: u16, b: u16| a.wrapping_mul(b))),
    op!(42, "v_lshlrev_b16", lanes!(|a: u16, b: u16| b << (a & 15))),
    op!(43, "v_lshrrev_b16", lanes!(|a: u16, b: u16| b >> (a & 15))),
    op!(44, "v_ashrrev_i16", lanes!(|a: u16, b: i16| b >> (a & 15))),
    op!(47, "v_max_u16", lanes!(|a: u16, b: u16| a.max(b))),
    op!(48, "v_max_i16", lanes!(|a: i16, b: i16| a.max(b))),
    op!(49, "v_min_u16", lanes!(|a: u16, b: u16| a.min(b))),
    op!(50, "v_min_i16", lanes!(|a: i16, b: i16| a.min(b))),
];
