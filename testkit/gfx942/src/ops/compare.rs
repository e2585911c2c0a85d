//! Comparisons of lanes.
#![expect(
    clippy::neg_cmp_op_on_partial_ord,
    clippy::double_comparisons,
    reason = "what is not a number makes a difference between them"
)]

use crate::float::Float;
use crate::inst::Op;
use crate::lanes::compare;
use crate::ops::Table;
use crate::value::Half;

/// One comparison, to a mask and to `exec` as well.
macro_rules! pair {
    ($n:expr, $name:literal, $type:literal, $t:ty, |$a:ident, $b:ident| $e:expr) => {
        [
            Op($n, concat!("v_cmp_", $name, $type), |w, i, _| {
                compare::<$t, $t>(w, i, false, |$a, $b| $e)
            }),
            Op($n + 16, concat!("v_cmpx_", $name, $type), |w, i, _| {
                compare::<$t, $t>(w, i, true, |$a, $b| $e)
            }),
        ]
    };
}

/// The 16 comparisons of numbers with a fraction.
macro_rules! floats {
    ($n:literal, $t:ty, $type:literal) => {
        &[
            pair!($n, "f_", $type, $t, |_a, _b| false),
            pair!($n + 1, "lt_", $type, $t, |a, b| a < b),
            pair!($n + 2, "eq_", $type, $t, |a, b| a == b),
            pair!($n + 3, "le_", $type, $t, |a, b| a <= b),
            pair!($n + 4, "gt_", $type, $t, |a, b| a > b),
            pair!($n + 5, "lg_", $type, $t, |a, b| a < b || a > b),
            pair!($n + 6, "ge_", $type, $t, |a, b| a >= b),
            pair!($n + 7, "o_", $type, $t, |a, b| a <= b || a > b),
            pair!($n + 8, "u_", $type, $t, |a, b| !(a <= b || a > b)),
            pair!($n + 9, "nge_", $type, $t, |a, b| !(a >= b)),
            pair!($n + 10, "nlg_", $type, $t, |a, b| !(a < b || a > b)),
            pair!($n + 11, "ngt_", $type, $t, |a, b| !(a > b)),
            pair!($n + 12, "nle_", $type, $t, |a, b| !(a <= b)),
            pair!($n + 13, "neq_", $type, $t, |a, b| !(a == b)),
            pair!($n + 14, "nlt_", $type, $t, |a, b| !(a < b)),
            pair!($n + 15, "tru_", $type, $t, |_a, _b| true),
        ]
    };
}

/// The 8 comparisons of whole numbers.
macro_rules! integers {
    ($n:literal, $t:ty, $type:literal) => {
        &[
            pair!($n, "f_", $type, $t, |_a, _b| false),
            pair!($n + 1, "lt_", $type, $t, |a, b| a < b),
            pair!($n + 2, "eq_", $type, $t, |a, b| a == b),
            pair!($n + 3, "le_", $type, $t, |a, b| a <= b),
            pair!($n + 4, "gt_", $type, $t, |a, b| a > b),
            pair!($n + 5, "ne_", $type, $t, |a, b| a != b),
            pair!($n + 6, "ge_", $type, $t, |a, b| a >= b),
            pair!($n + 7, "t_", $type, $t, |_a, _b| true),
        ]
    };
}

/// Tests of whether a number is of one of the classes that the other operand lists.
macro_rules! class {
    ($n:literal, $t:ty, $type:literal) => {
        &[[
            Op($n, concat!("v_cmp_class_", $type), |w, i, _| {
                compare::<$t, u32>(w, i, false, |a, b| a.class() & b != 0)
            }),
            Op($n + 1, concat!("v_cmpx_class_", $type), |w, i, _| {
                compare::<$t, u32>(w, i, true, |a, b| a.class() & b != 0)
            }),
        ]]
    };
}

static CLASS_F32: &[[Op; 2]] = class!(0x10, f32, "f32");
static CLASS_F64: &[[Op; 2]] = class!(0x12, f64, "f64");
static CLASS_F16: &[[Op; 2]] = class!(0x14, Half, "f16");
static F16: &[[Op; 2]] = floats!(0x20, Half, "f16");
static F32: &[[Op; 2]] = floats!(0x40, f32, "f32");
static F64: &[[Op; 2]] = floats!(0x60, f64, "f64");
static I16: &[[Op; 2]] = integers!(0xa0, i16, "i16");
static U16: &[[Op; 2]] = integers!(0xa8, u16, "u16");
static I32: &[[Op; 2]] = integers!(0xc0, i32, "i32");
static U32: &[[Op; 2]] = integers!(0xc8, u32, "u32");
static I64: &[[Op; 2]] = integers!(0xe0, i64, "i64");
static U64: &[[Op; 2]] = integers!(0xe8, u64, "u64");

pub(crate) static COMPARE: Table = &[
    CLASS_F32.as_flattened(),
    CLASS_F64.as_flattened(),
    CLASS_F16.as_flattened(),
    F16.as_flattened(),
    F32.as_flattened(),
    F64.as_flattened(),
    I16.as_flattened(),
    U16.as_flattened(),
    I32.as_flattened(),
    U32.as_flattened(),
    I64.as_flattened(),
    U64.as_flattened(),
];
