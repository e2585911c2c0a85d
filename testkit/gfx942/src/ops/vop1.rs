//! Vector instructions with one operand.

use super::mask::{accumulator_move, read_first_lane, swap};
use super::{lanes, not, op};
use crate::float::{Float, fract, frexp};
use crate::inst::Op;
use crate::ops::Table;
use crate::value::Half;

pub(crate) static VOP1: Table = &[MOVES, CONVERSIONS, FLOATS, DOUBLES, HALVES];

static MOVES: &[Op] = &[
    op!(0, "v_nop", |_, _, _| Ok(())),
    op!(1, "v_mov_b32", lanes!(|a: u32| a)),
    op!(2, "v_readfirstlane_b32", read_first_lane),
    op!(43, "v_not_b32", lanes!(|a: u32| !a)),
    op!(44, "v_bfrev_b32", lanes!(|a: u32| a.reverse_bits())),
    op!(45, "v_ffbh_u32", lanes!(|a: u32| found(a.leading_zeros()))),
    op!(46, "v_ffbl_b32", lanes!(|a: u32| found(a.trailing_zeros()))),
    op!(47, "v_ffbh_i32", lanes!(|a: i32| found((a ^ a >> 31).leading_zeros()))),
    not!(53, "v_clrexcp"),
    not!(55, "v_screen_partition_4se_b32"),
    op!(56, "v_mov_b64", lanes!(|a: u64| a)),
    op!(81, "v_swap_b32", swap),
    op!(82, "v_accvgpr_mov_b32", accumulator_move),
];

/// A position, or -1 if there is none.
fn found(position: u32) -> u32 {
    if position == 32 { u32::MAX } else { position }
}

static CONVERSIONS: &[Op] = &[
    op!(3, "v_cvt_i32_f64", lanes!(|a: f64| a as i32)),
    op!(4, "v_cvt_f64_i32", lanes!(|a: i32| f64::from(a))),
    op!(5, "v_cvt_f32_i32", lanes!(|a: i32| a as f32)),
    op!(6, "v_cvt_f32_u32", lanes!(|a: u32| a as f32)),
    op!(7, "v_cvt_u32_f32", lanes!(|a: f32| a as u32)),
    op!(8, "v_cvt_i32_f32", lanes!(|a: f32| a as i32)),
    op!(10, "v_cvt_f16_f32", lanes!(|a: f32| Half(f64::from(a)))),
    op!(11, "v_cvt_f32_f16", lanes!(|a: Half| a.0 as f32)),
    op!(12, "v_cvt_rpi_i32_f32", lanes!(|a: f32| (f64::from(a) + 0.5).floor() as i32)),
    op!(13, "v_cvt_flr_i32_f32", lanes!(|a: f32| a.floor() as i32)),
    op!(14, "v_cvt_off_f32_i4", lanes!(|a: u32| ((a << 28) as i32 >> 28) as f32 / 16.0)),
    op!(15, "v_cvt_f32_f64", lanes!(|a: f64| a as f32)),
    op!(16, "v_cvt_f64_f32", lanes!(|a: f32| f64::from(a))),
    op!(17, "v_cvt_f32_ubyte0", lanes!(|a: u32| f32::from(a as u8))),
    op!(18, "v_cvt_f32_ubyte1", lanes!(|a: u32| f32::from((a >> 8) as u8))),
    op!(19, "v_cvt_f32_ubyte2", lanes!(|a: u32| f32::from((a >> 16) as u8))),
    op!(20, "v_cvt_f32_ubyte3", lanes!(|a: u32| f32::from((a >> 24) as u8))),
    op!(21, "v_cvt_u32_f64", lanes!(|a: f64| a as u32)),
    op!(22, "v_cvt_f64_u32", lanes!(|a: u32| f64::from(a))),
    op!(57, "v_cvt_f16_u16", lanes!(|a: u16| Half(f64::from(a)))),
    op!(58, "v_cvt_f16_i16", lanes!(|a: i16| Half(f64::from(a)))),
    op!(59, "v_cvt_u16_f16", lanes!(|a: Half| a.0 as u16)),
    op!(60, "v_cvt_i16_f16", lanes!(|a: Half| a.0 as i16)),
    op!(77, "v_cvt_norm_i16_f16", lanes!(|a: Half| norm_i16(a.0))),
    op!(78, "v_cvt_norm_u16_f16", lanes!(|a: Half| norm_u16(a.0))),
    op!(
        79,
        "v_sat_pk_u8_i16",
        lanes!(|a: [i16; 2]| {
            let byte = |half: i16| half.clamp(0, 255) as u32;
            byte(a[0]) | byte(a[1]) << 8
        })
    ),
    not!(84, "v_cvt_f32_fp8"),
    not!(85, "v_cvt_f32_bf8"),
    not!(86, "v_cvt_pk_f32_fp8"),
    not!(87, "v_cvt_pk_f32_bf8"),
];

/// From -1 to 1 as a whole number.
pub(crate) fn norm_i16(value: f64) -> i16 {
    (value.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16
}

/// From 0 to 1 as a whole number.
pub(crate) fn norm_u16(value: f64) -> u16 {
    (value.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16
}

static FLOATS: &[Op] = &[
    op!(
        27,
        "v_fract_f32",
        lanes!(|a: f32| { fract(f64::from(a), f64::from(f32::from_bits(0x3f7f_ffff))) as f32 })
    ),
    op!(28, "v_trunc_f32", lanes!(|a: f32| a.trunc())),
    op!(29, "v_ceil_f32", lanes!(|a: f32| a.ceil())),
    op!(30, "v_rndne_f32", lanes!(|a: f32| a.round_ties_even())),
    op!(31, "v_floor_f32", lanes!(|a: f32| a.floor())),
    op!(32, "v_exp_f32", lanes!(|a: f32| f64::from(a).exp2() as f32)),
    op!(33, "v_log_f32", lanes!(|a: f32| f64::from(a).log2() as f32)),
    op!(34, "v_rcp_f32", lanes!(|a: f32| 1.0 / a)),
    op!(35, "v_rcp_iflag_f32", lanes!(|a: f32| 1.0 / a)),
    op!(36, "v_rsq_f32", lanes!(|a: f32| inverse_root(f64::from(a)) as f32)),
    op!(39, "v_sqrt_f32", lanes!(|a: f32| a.sqrt())),
    op!(41, "v_sin_f32", lanes!(|a: f32| turn(f64::from(a)).sin() as f32)),
    op!(42, "v_cos_f32", lanes!(|a: f32| turn(f64::from(a)).cos() as f32)),
    op!(51, "v_frexp_exp_i32_f32", lanes!(|a: f32| frexp(f64::from(a)).1)),
    op!(52, "v_frexp_mant_f32", lanes!(|a: f32| frexp(f64::from(a)).0 as f32)),
    op!(75, "v_exp_legacy_f32", lanes!(|a: f32| f64::from(a).exp2() as f32)),
    op!(76, "v_log_legacy_f32", lanes!(|a: f32| f64::from(a).log2() as f32)),
];

static DOUBLES: &[Op] = &[
    op!(23, "v_trunc_f64", lanes!(|a: f64| a.trunc())),
    op!(24, "v_ceil_f64", lanes!(|a: f64| a.ceil())),
    op!(25, "v_rndne_f64", lanes!(|a: f64| a.round_ties_even())),
    op!(26, "v_floor_f64", lanes!(|a: f64| a.floor())),
    op!(37, "v_rcp_f64", lanes!(|a: f64| 1.0 / a)),
    op!(38, "v_rsq_f64", lanes!(|a: f64| inverse_root(a))),
    op!(40, "v_sqrt_f64", lanes!(|a: f64| a.sqrt())),
    op!(48, "v_frexp_exp_i32_f64", lanes!(|a: f64| frexp(a).1)),
    op!(49, "v_frexp_mant_f64", lanes!(|a: f64| frexp(a).0)),
    op!(50, "v_fract_f64", lanes!(|a: f64| fract(a, 1.0 - f64::EPSILON / 2.0))),
];

static HALVES: &[Op] = &[
    op!(61, "v_rcp_f16", lanes!(|a: Half| Half(1.0 / a.0))),
    op!(62, "v_sqrt_f16", lanes!(|a: Half| Half(a.0.sqrt()))),
    op!(63, "v_rsq_f16", lanes!(|a: Half| Half(inverse_root(a.0)))),
    op!(64, "v_log_f16", lanes!(|a: Half| Half(a.0.log2()))),
    op!(65, "v_exp_f16", lanes!(|a: Half| Half(a.0.exp2()))),
    op!(66, "v_frexp_mant_f16", lanes!(|a: Half| Half(frexp(a.0).0))),
    op!(67, "v_frexp_exp_i16_f16", lanes!(|a: Half| frexp(a.to_f64()).1 as i16)),
    op!(68, "v_floor_f16", lanes!(|a: Half| Half(a.0.floor()))),
    op!(69, "v_ceil_f16", lanes!(|a: Half| Half(a.0.ceil()))),
    op!(70, "v_trunc_f16", lanes!(|a: Half| Half(a.0.trunc()))),
    op!(71, "v_rndne_f16", lanes!(|a: Half| Half(a.0.round_ties_even()))),
    op!(72, "v_fract_f16", lanes!(|a: Half| Half(fract(a.0, 2047.0 / 2048.0)))),
    op!(73, "v_sin_f16", lanes!(|a: Half| Half(turn(a.0).sin()))),
    op!(74, "v_cos_f16", lanes!(|a: Half| Half(turn(a.0).cos()))),
];

/// Of -0 it is minus infinity.
fn inverse_root(value: f64) -> f64 {
    1.0 / value.sqrt()
}

/// The angle of this many turns.
fn turn(turns: f64) -> f64 {
    turns.fract() * std::f64::consts::TAU
}
