//! Vector instructions that only the long encoding has.

use super::divide::{fix_up, last, scale};
use super::mask::{count_before, read_lane, write_lane};
use super::vop1::{norm_i16, norm_u16};
use super::vop2::{i24, u24};
use super::{clamped, lanes, not, op};
use crate::float::{Float, fma_odd, ldexp};
use crate::inst::{Env, Inst, Op, Outcome, Stop};
use crate::lanes::{carry3, map3};
use crate::ops::Table;
use crate::value::Half;
use crate::wave::Wave;

pub(crate) static VOP3: Table = &[WHOLE, FLOATS, DIVISION, WIDE, BYTES, HALVES, SHORTS, LANES];

static WHOLE: &[Op] = &[
    op!(450, "v_mad_i32_i24", clamped!(
        |a: u32, b: u32, c: i32| (i24(a) * i24(b) + i64::from(c)) as i32,
        (i24(a) * i24(b) + i64::from(c)).clamp(i32::MIN.into(), i32::MAX.into()) as i32
    )),
    op!(451, "v_mad_u32_u24", clamped!(
        |a: u32, b: u32, c: u32| (u24(a) * u24(b) + u64::from(c)) as u32,
        (u24(a) * u24(b) + u64::from(c)).min(u32::MAX.into()) as u32
    )),
    op!(456, "v_bfe_u32", lanes!(|a: u32, b: u32, c: u32| {
        ((u64::from(a) >> (b & 31)) & ((1 << (c & 31)) - 1)) as u32
    })),
    op!(457, "v_bfe_i32", lanes!(|a: i32, b: u32, c: u32| signed_field(a, b & 31, c & 31))),
    op!(458, "v_bfi_b32", lanes!(|a: u32, b: u32, c: u32| a & b | !a & c)),
    op!(462, "v_alignbit_b32", lanes!(|a: u32, b: u32, c: u32| {
        ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
    })),
    op!(463, "v_alignbyte_b32", lanes!(|a: u32, b: u32, c: u32| {
        ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
    })),
    op!(465, "v_min3_i32", lanes!(|a: i32, b: i32, c: i32| a.min(b).min(c))),
    op!(466, "v_min3_u32", lanes!(|a: u32, b: u32, c: u32| a.min(b).min(c))),
    op!(468, "v_max3_i32", lanes!(|a: i32, b: i32, c: i32| a.max(b).max(c))),
    op!(469, "v_max3_u32", lanes!(|a: u32, b: u32, c: u32| a.max(b).max(c))),
    op!(471, "v_med3_i32", lanes!(|a: i32, b: i32, c: i32| a.min(b).max(a.max(b).min(c)))),
    op!(472, "v_med3_u32", lanes!(|a: u32, b: u32, c: u32| a.min(b).max(a.max(b).min(c)))),
    op!(493, "v_perm_b32", lanes!(|a: u32, b: u32, c: u32| permuted(a, b, c))),
    op!(499, "v_xad_u32", lanes!(|a: u32, b: u32, c: u32| (a ^ b).wrapping_add(c))),
    op!(509, "v_lshl_add_u32", lanes!(|a: u32, b: u32, c: u32| (a << (b & 31)).wrapping_add(c))),
    op!(510, "v_add_lshl_u32", lanes!(|a: u32, b: u32, c: u32| a.wrapping_add(b) << (c & 31))),
    op!(511, "v_add3_u32", lanes!(|a: u32, b: u32, c: u32| a.wrapping_add(b).wrapping_add(c))),
    op!(512, "v_lshl_or_b32", lanes!(|a: u32, b: u32, c: u32| a << (b & 31) | c)),
    op!(513, "v_and_or_b32", lanes!(|a: u32, b: u32, c: u32| a & b | c)),
    op!(514, "v_or3_b32", lanes!(|a: u32, b: u32, c: u32| a | b | c)),
    op!(645, "v_mul_lo_u32", lanes!(|a: u32, b: u32| a.wrapping_mul(b))),
    op!(646, "v_mul_hi_u32", lanes!(|a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32)),
    op!(647, "v_mul_hi_i32", lanes!(|a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32)),
    op!(651, "v_bcnt_u32_b32", lanes!(|a: u32, b: u32| a.count_ones().wrapping_add(b))),
    op!(659, "v_bfm_b32", lanes!(|a: u32, b: u32| ((1 << (a & 31)) - 1) << (b & 31))),
    op!(668, "v_add_i32", clamped!(|a: i32, b: i32| a.wrapping_add(b), a.saturating_add(b))),
    op!(669, "v_sub_i32", clamped!(|a: i32, b: i32| a.wrapping_sub(b), a.saturating_sub(b))),
];

fn signed_field(value: i32, offset: u32, width: u32) -> i32 {
    if width == 0 {
        return 0;
    }
    let moved = i64::from(value) >> offset;
    (moved << (64 - width) >> (64 - width)) as i32
}

/// Bytes of `a:b`, or constants, as the bytes of `which` select them.
fn permuted(a: u32, b: u32, which: u32) -> u32 {
    let bytes = u64::from(a) << 32 | u64::from(b);
    let byte = |n: u32| match which >> (8 * n) & 0xff {
        n @ 0..=7 => (bytes >> (8 * n)) as u32 & 0xff,
        n @ 8..=11 => if bytes >> (16 * (n - 8) + 15) & 1 == 1 { 0xff } else { 0 },
        12 => 0,
        _ => 0xff,
    };
    (0..4).fold(0, |word, n| word | byte(n) << (8 * n))
}

static FLOATS: &[Op] = &[
    not!(452, "v_cubeid_f32"),
    not!(453, "v_cubesc_f32"),
    not!(454, "v_cubetc_f32"),
    not!(455, "v_cubema_f32"),
    op!(459, "v_fma_f32", lanes!(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
    op!(460, "v_fma_f64", lanes!(|a: f64, b: f64, c: f64| a.mul_add(b, c))),
    op!(464, "v_min3_f32", lanes!(|a: f32, b: f32, c: f32| a.least(b).least(c))),
    op!(467, "v_max3_f32", lanes!(|a: f32, b: f32, c: f32| a.greatest(b).greatest(c))),
    op!(470, "v_med3_f32", lanes!(|a: f32, b: f32, c: f32| a.middle(b, c))),
    op!(640, "v_add_f64", lanes!(|a: f64, b: f64| a + b)),
    op!(641, "v_mul_f64", lanes!(|a: f64, b: f64| a * b)),
    op!(642, "v_min_f64", lanes!(|a: f64, b: f64| a.least(b))),
    op!(643, "v_max_f64", lanes!(|a: f64, b: f64| a.greatest(b))),
    op!(644, "v_ldexp_f64", lanes!(|a: f64, b: i32| ldexp(a, b))),
    op!(648, "v_ldexp_f32", lanes!(|a: f32, b: i32| ldexp(f64::from(a), b) as f32)),
    not!(658, "v_trig_preop_f64"),
    op!(673, "v_mul_legacy_f32", lanes!(|a: f32, b: f32| {
        if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
    })),
];

static DIVISION: &[Op] = &[
    op!(478, "v_div_fixup_f32", lanes!(|a: f32, b: f32, c: f32| fix_up(a, b, c))),
    op!(479, "v_div_fixup_f64", lanes!(|a: f64, b: f64, c: f64| fix_up(a, b, c))),
    op!(480, "v_div_scale_f32", |w, i, _| carry3(w, i, scale::<f32>)),
    op!(481, "v_div_scale_f64", |w, i, _| carry3(w, i, scale::<f64>)),
    op!(482, "v_div_fmas_f32", |w, i, _| {
        let bits = LaneBits::of(w.vcc());
        map3(w, i, |a: f32, b, c| last(a, b, c, bits.next()))
    }),
    op!(483, "v_div_fmas_f64", |w, i, _| {
        let bits = LaneBits::of(w.vcc());
        map3(w, i, |a: f64, b, c| last(a, b, c, bits.next()))
    }),
    op!(495, "v_div_fixup_legacy_f16", lanes!(|a: Half, b: Half, c: Half| fix_up_f16(a, b, c))),
    op!(519, "v_div_fixup_f16", lanes!(|a: Half, b: Half, c: Half| fix_up_f16(a, b, c))),
];

/// The bits of a mask, one for each lane in turn.
struct LaneBits(std::cell::Cell<u64>);

impl LaneBits {
    fn of(mask: u64) -> Self {
        Self(mask.into())
    }

    fn next(&self) -> bool {
        let mask = self.0.get();
        self.0.set(mask >> 1);
        mask & 1 == 1
    }
}

fn fix_up_f16(quotient: Half, denominator: Half, numerator: Half) -> Half {
    Half(fix_up(quotient.0, denominator.0, numerator.0))
}

static WIDE: &[Op] = &[
    op!(488, "v_mad_u64_u32", |w, i, _| {
        carry3(w, i, |a: u32, b: u32, c: u64| (u64::from(a) * u64::from(b)).overflowing_add(c))
    }),
    op!(489, "v_mad_i64_i32", |w, i, _| {
        carry3(w, i, |a: i32, b: i32, c: i64| (i64::from(a) * i64::from(b)).overflowing_add(c))
    }),
    op!(520, "v_lshl_add_u64", lanes!(|a: u64, b: u32, c: u64| (a << (b & 7)).wrapping_add(c))),
    op!(655, "v_lshlrev_b64", lanes!(|a: u32, b: u64| b << (a & 63))),
    op!(656, "v_lshrrev_b64", lanes!(|a: u32, b: u64| b >> (a & 63))),
    op!(657, "v_ashrrev_i64", lanes!(|a: u32, b: i64| b >> (a & 63))),
];

static BYTES: &[Op] = &[
    op!(461, "v_lerp_u8", lanes!(|a: u32, b: u32, c: u32| {
        (0..4).fold(0, |word, n| {
            let byte = |value: u32| value >> (8 * n) & 0xff;
            word | ((byte(a) + byte(b) + (byte(c) & 1)) >> 1) << (8 * n)
        })
    })),
    op!(473, "v_sad_u8", lanes!(|a: u32, b: u32, c: u32| c.wrapping_add(sad_u8(a, b)))),
    op!(474, "v_sad_hi_u8", lanes!(|a: u32, b: u32, c: u32| {
        c.wrapping_add(sad_u8(a, b) << 16)
    })),
    op!(475, "v_sad_u16", lanes!(|a: [u16; 2], b: [u16; 2], c: u32| {
        c.wrapping_add(u32::from(a[0].abs_diff(b[0])) + u32::from(a[1].abs_diff(b[1])))
    })),
    op!(476, "v_sad_u32", lanes!(|a: u32, b: u32, c: u32| c.wrapping_add(a.abs_diff(b)))),
    op!(477, "v_cvt_pk_u8_f32", lanes!(|a: f32, b: u32, c: u32| {
        let shift = 8 * (b & 3);
        c & !(0xff << shift) | u32::from(a.round_ties_even() as u8) << shift
    })),
    not!(484, "v_msad_u8"),
    not!(485, "v_qsad_pk_u16_u8"),
    not!(486, "v_mqsad_pk_u16_u8"),
    not!(487, "v_mqsad_u32_u8"),
    not!(674, "v_cvt_pk_fp8_f32"),
    not!(675, "v_cvt_pk_bf8_f32"),
    not!(676, "v_cvt_sr_fp8_f32"),
    not!(677, "v_cvt_sr_bf8_f32"),
];

fn sad_u8(a: u32, b: u32) -> u32 {
    a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
}

static HALVES: &[Op] = &[
    // They flush and round in between, as compilers do not want it.
    not!(490, "v_mad_legacy_f16"),
    not!(515, "v_mad_f16"),
    op!(494, "v_fma_legacy_f16", lanes!(|a: Half, b: Half, c: Half| Half(fma_odd(a.0, b.0, c.0)))),
    op!(500, "v_min3_f16", lanes!(|a: Half, b: Half, c: Half| a.least(b).least(c))),
    op!(503, "v_max3_f16", lanes!(|a: Half, b: Half, c: Half| a.greatest(b).greatest(c))),
    op!(506, "v_med3_f16", lanes!(|a: Half, b: Half, c: Half| a.middle(b, c))),
    op!(518, "v_fma_f16", lanes!(|a: Half, b: Half, c: Half| Half(fma_odd(a.0, b.0, c.0)))),
    op!(660, "v_cvt_pknorm_i16_f32", lanes!(|a: f32, b: f32| [a, b].map(|v| norm_i16(v.into())))),
    op!(661, "v_cvt_pknorm_u16_f32", lanes!(|a: f32, b: f32| [a, b].map(|v| norm_u16(v.into())))),
    op!(662, "v_cvt_pkrtz_f16_f32", lanes!(|a: f32, b: f32| [a, b].map(towards_zero))),
    op!(665, "v_cvt_pknorm_i16_f16", lanes!(|a: Half, b: Half| [a, b].map(|v| norm_i16(v.0)))),
    op!(666, "v_cvt_pknorm_u16_f16", lanes!(|a: Half, b: Half| [a, b].map(|v| norm_u16(v.0)))),
    op!(672, "v_pack_b32_f16", lanes!(|a: u16, b: u16| u32::from(a) | u32::from(b) << 16)),
];

/// The number of 16 bits that is not further from 0.
fn towards_zero(value: f32) -> Half {
    let exact = f64::from(value);
    let rounded = crate::float::f16_value(crate::float::f16_bits(exact));
    if exact.is_finite() && rounded.abs() > exact.abs() {
        let bits = crate::float::f16_bits(rounded);
        return Half(crate::float::f16_value(bits - 1));
    }
    Half(exact)
}

static SHORTS: &[Op] = &[
    op!(491, "v_mad_legacy_u16", lanes!(|a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c))),
    op!(492, "v_mad_legacy_i16", lanes!(|a: i16, b: i16, c: i16| a.wrapping_mul(b).wrapping_add(c))),
    op!(497, "v_mad_u32_u16", lanes!(|a: u16, b: u16, c: u32| {
        (u32::from(a) * u32::from(b)).wrapping_add(c)
    })),
    op!(498, "v_mad_i32_i16", lanes!(|a: i16, b: i16, c: i32| {
        (i32::from(a) * i32::from(b)).wrapping_add(c)
    })),
    op!(501, "v_min3_i16", lanes!(|a: i16, b: i16, c: i16| a.min(b).min(c))),
    op!(502, "v_min3_u16", lanes!(|a: u16, b: u16, c: u16| a.min(b).min(c))),
    op!(504, "v_max3_i16", lanes!(|a: i16, b: i16, c: i16| a.max(b).max(c))),
    op!(505, "v_max3_u16", lanes!(|a: u16, b: u16, c: u16| a.max(b).max(c))),
    op!(507, "v_med3_i16", lanes!(|a: i16, b: i16, c: i16| a.min(b).max(a.max(b).min(c)))),
    op!(508, "v_med3_u16", lanes!(|a: u16, b: u16, c: u16| a.min(b).max(a.max(b).min(c)))),
    op!(516, "v_mad_u16", lanes!(|a: u16, b: u16, c: u16| a.wrapping_mul(b).wrapping_add(c))),
    op!(517, "v_mad_i16", lanes!(|a: i16, b: i16, c: i16| a.wrapping_mul(b).wrapping_add(c))),
    op!(663, "v_cvt_pk_u16_u32", lanes!(|a: u32, b: u32| [a, b].map(|v| v.min(0xffff) as u16))),
    op!(664, "v_cvt_pk_i16_i32", lanes!(|a: i32, b: i32| {
        [a, b].map(|v| v.clamp(i16::MIN.into(), i16::MAX.into()) as i16)
    })),
    op!(670, "v_add_i16", clamped!(|a: i16, b: i16| a.wrapping_add(b), a.saturating_add(b))),
    op!(671, "v_sub_i16", clamped!(|a: i16, b: i16| a.wrapping_sub(b), a.saturating_sub(b))),
];

static LANES: &[Op] = &[
    op!(649, "v_readlane_b32", read_lane),
    op!(650, "v_writelane_b32", write_lane),
    op!(652, "v_mbcnt_lo_u32_b32", |w, i, _| count_before(w, i, 0)),
    op!(653, "v_mbcnt_hi_u32_b32", |w, i, _| count_before(w, i, 32)),
];
