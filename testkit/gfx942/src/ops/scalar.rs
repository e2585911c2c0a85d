//! Scalar arithmetic.

use super::{not, op};
use crate::inst::{Inst, Op, Outcome, Stop};
use crate::ops::Table;
use crate::value::Value;
use crate::wave::{EXEC, INDEXED, M0, Wave};

/// Writes a result to the scalar registers `dst`.
fn put<D: Value>(w: &mut Wave, i: &Inst, value: D) {
    let (low, high) = value.bits();
    let at = usize::from(i.dst);
    w.s[at] = low;
    if D::WORDS == 2 {
        w.s[at + 1] = high;
    }
}

/// A function of one or two operands, whose result leaves the condition as it is.
macro_rules! s {
    (|$a:ident: $A:ty| $e:expr) => {
        |w, i, _| {
            let $a: $A = w.scalar(i, 0);
            put(w, i, $e);
            Ok(())
        }
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty| $e:expr) => {
        |w, i, _| {
            let ($a, $b): ($A, $B) = (w.scalar(i, 0), w.scalar(i, 1));
            put(w, i, $e);
            Ok(())
        }
    };
}

/// A function whose result sets the condition if it is not 0.
macro_rules! z {
    (|$a:ident: $A:ty| $e:expr) => {
        |w, i, _| {
            let $a: $A = w.scalar(i, 0);
            let value = $e;
            w.scc = value != 0;
            put(w, i, value);
            Ok(())
        }
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty| $e:expr) => {
        |w, i, _| {
            let ($a, $b): ($A, $B) = (w.scalar(i, 0), w.scalar(i, 1));
            let value = $e;
            w.scc = value != 0;
            put(w, i, value);
            Ok(())
        }
    };
}

/// A function of two operands and the condition, which also says what the condition becomes.
macro_rules! c {
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:pat_param| $e:expr) => {
        |w, i, _| {
            let ($a, $b): ($A, $B) = (w.scalar(i, 0), w.scalar(i, 1));
            let $c = w.scc;
            let (value, condition) = $e;
            w.scc = condition;
            put(w, i, value);
            Ok(())
        }
    };
}

/// A comparison of two operands.
macro_rules! cmp {
    (|$a:ident: $A:ty, $b:ident: $B:ty| $e:expr) => {
        |w, i, _| {
            let ($a, $b): ($A, $B) = (w.scalar(i, 0), w.scalar(i, 1));
            w.scc = $e;
            Ok(())
        }
    };
}

/// A comparison of a register with the immediate.
macro_rules! cmpk {
    (|$a:ident: i32, $b:ident| $e:expr) => {
        |w, i, _| {
            let ($a, $b) = (w.s[usize::from(i.dst)] as i32, i.imm);
            w.scc = $e;
            Ok(())
        }
    };
    (|$a:ident: u32, $b:ident| $e:expr) => {
        |w, i, _| {
            let ($a, $b) = (w.s[usize::from(i.dst)], i.imm as u32 & 0xffff);
            w.scc = $e;
            Ok(())
        }
    };
}

/// Keeps `exec`, and replaces it by a function of the operand and of what it was.
macro_rules! saveexec {
    (|$a:ident, $e:ident| $f:expr) => {
        |w, i, _| {
            let ($a, $e): (u64, u64) = (w.scalar(i, 0), w.exec());
            let value: u64 = $f;
            put(w, i, $e);
            w.set_pair(EXEC, value);
            w.scc = value != 0;
            Ok(())
        }
    };
}

/// Replaces `exec` and writes the same to a register.
macro_rules! wrexec {
    (|$a:ident, $e:ident| $f:expr) => {
        |w, i, _| {
            let ($a, $e): (u64, u64) = (w.scalar(i, 0), w.exec());
            let value: u64 = $f;
            w.set_pair(EXEC, value);
            put(w, i, value);
            w.scc = value != 0;
            Ok(())
        }
    };
}

/// A field of a number: the offset in the low bits of `fields`, the width from bit 16.
fn field(value: u64, bits: u32, fields: u32) -> (u64, u32) {
    let width = (fields >> 16 & 0x7f).min(bits);
    let shifted = value.checked_shr(fields & (bits - 1)).unwrap_or(0);
    (if width == 0 { 0 } else { shifted & (u64::MAX >> (64 - width)) }, width)
}

/// A field with its sign.
fn signed_field(value: i64, bits: u32, fields: u32) -> i64 {
    let (found, width) = field((value >> (fields & (bits - 1))) as u64, bits, fields & !0x7f);
    if width == 0 { 0 } else { (found << (64 - width)) as i64 >> (64 - width) }
}

/// `width` ones from bit `offset`.
fn ones(width: u32, offset: u32) -> u64 {
    let ones = if width == 0 { 0 } else { u64::MAX >> (64 - (width & 63).max(1)) };
    if width & 63 == 0 { 0 } else { ones << offset }
}

fn position(found: u32, bits: u32) -> u32 {
    if found >= bits { u32::MAX } else { found }
}

pub(crate) static SOP2: Table = &[ARITHMETIC, LOGIC, SHIFTS];

static ARITHMETIC: &[Op] = &[
    op!(0, "s_add_u32", c!(|a: u32, b: u32, _| a.overflowing_add(b))),
    op!(1, "s_sub_u32", c!(|a: u32, b: u32, _| a.overflowing_sub(b))),
    op!(2, "s_add_i32", c!(|a: i32, b: i32, _| a.overflowing_add(b))),
    op!(3, "s_sub_i32", c!(|a: i32, b: i32, _| a.overflowing_sub(b))),
    op!(4, "s_addc_u32", c!(|a: u32, b: u32, c| a.carrying_add_of(b, c))),
    op!(5, "s_subb_u32", c!(|a: u32, b: u32, c| a.borrowing_sub_of(b, c))),
    op!(6, "s_min_i32", c!(|a: i32, b: i32, _| (a.min(b), a < b))),
    op!(7, "s_min_u32", c!(|a: u32, b: u32, _| (a.min(b), a < b))),
    op!(8, "s_max_i32", c!(|a: i32, b: i32, _| (a.max(b), a > b))),
    op!(9, "s_max_u32", c!(|a: u32, b: u32, _| (a.max(b), a > b))),
    op!(10, "s_cselect_b32", c!(|a: u32, b: u32, c| (if c { a } else { b }, c))),
    op!(11, "s_cselect_b64", c!(|a: u64, b: u64, c| (if c { a } else { b }, c))),
    op!(36, "s_mul_i32", s!(|a: u32, b: u32| a.wrapping_mul(b))),
    op!(42, "s_absdiff_i32", z!(|a: i32, b: i32| a.wrapping_sub(b).wrapping_abs())),
    op!(44, "s_mul_hi_u32", s!(|a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32)),
    op!(45, "s_mul_hi_i32", s!(|a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32)),
    op!(46, "s_lshl1_add_u32", c!(|a: u32, b: u32, _| shift_add(a, b, 1))),
    op!(47, "s_lshl2_add_u32", c!(|a: u32, b: u32, _| shift_add(a, b, 2))),
    op!(48, "s_lshl3_add_u32", c!(|a: u32, b: u32, _| shift_add(a, b, 3))),
    op!(49, "s_lshl4_add_u32", c!(|a: u32, b: u32, _| shift_add(a, b, 4))),
    not!(41, "s_cbranch_g_fork"),
    not!(43, "s_rfe_restore_b64"),
];

static LOGIC: &[Op] = &[
    op!(12, "s_and_b32", z!(|a: u32, b: u32| a & b)),
    op!(13, "s_and_b64", z!(|a: u64, b: u64| a & b)),
    op!(14, "s_or_b32", z!(|a: u32, b: u32| a | b)),
    op!(15, "s_or_b64", z!(|a: u64, b: u64| a | b)),
    op!(16, "s_xor_b32", z!(|a: u32, b: u32| a ^ b)),
    op!(17, "s_xor_b64", z!(|a: u64, b: u64| a ^ b)),
    op!(18, "s_andn2_b32", z!(|a: u32, b: u32| a & !b)),
    op!(19, "s_andn2_b64", z!(|a: u64, b: u64| a & !b)),
    op!(20, "s_orn2_b32", z!(|a: u32, b: u32| a | !b)),
    op!(21, "s_orn2_b64", z!(|a: u64, b: u64| a | !b)),
    op!(22, "s_nand_b32", z!(|a: u32, b: u32| !(a & b))),
    op!(23, "s_nand_b64", z!(|a: u64, b: u64| !(a & b))),
    op!(24, "s_nor_b32", z!(|a: u32, b: u32| !(a | b))),
    op!(25, "s_nor_b64", z!(|a: u64, b: u64| !(a | b))),
    op!(26, "s_xnor_b32", z!(|a: u32, b: u32| !(a ^ b))),
    op!(27, "s_xnor_b64", z!(|a: u64, b: u64| !(a ^ b))),
];

static SHIFTS: &[Op] = &[
    op!(28, "s_lshl_b32", z!(|a: u32, b: u32| a << (b & 31))),
    op!(29, "s_lshl_b64", z!(|a: u64, b: u32| a << (b & 63))),
    op!(30, "s_lshr_b32", z!(|a: u32, b: u32| a >> (b & 31))),
    op!(31, "s_lshr_b64", z!(|a: u64, b: u32| a >> (b & 63))),
    op!(32, "s_ashr_i32", z!(|a: i32, b: u32| a >> (b & 31))),
    op!(33, "s_ashr_i64", z!(|a: i64, b: u32| a >> (b & 63))),
    op!(34, "s_bfm_b32", s!(|a: u32, b: u32| ones(a & 31, b & 31) as u32)),
    op!(35, "s_bfm_b64", s!(|a: u32, b: u32| ones(a & 63, b & 63))),
    op!(37, "s_bfe_u32", z!(|a: u32, b: u32| field(u64::from(a), 32, b).0 as u32)),
    op!(38, "s_bfe_i32", z!(|a: i32, b: u32| signed_field(i64::from(a), 32, b) as i32)),
    op!(39, "s_bfe_u64", z!(|a: u64, b: u32| field(a, 64, b).0)),
    op!(40, "s_bfe_i64", z!(|a: i64, b: u32| signed_field(a, 64, b))),
    op!(50, "s_pack_ll_b32_b16", s!(|a: u32, b: u32| a & 0xffff | b << 16)),
    op!(51, "s_pack_lh_b32_b16", s!(|a: u32, b: u32| a & 0xffff | b & 0xffff_0000)),
    op!(52, "s_pack_hh_b32_b16", s!(|a: u32, b: u32| a >> 16 | b & 0xffff_0000)),
];

/// Sums with a carry.
trait Carry: Sized {
    fn carrying_add_of(self, other: Self, carry: bool) -> (Self, bool);
    fn borrowing_sub_of(self, other: Self, borrow: bool) -> (Self, bool);
}

impl Carry for u32 {
    fn carrying_add_of(self, other: Self, carry: bool) -> (Self, bool) {
        let sum = u64::from(self) + u64::from(other) + u64::from(carry);
        (sum as Self, sum >> 32 != 0)
    }
    fn borrowing_sub_of(self, other: Self, borrow: bool) -> (Self, bool) {
        let less = u64::from(other) + u64::from(borrow);
        (self.wrapping_sub(less as Self), u64::from(self) < less)
    }
}

fn shift_add(a: u32, b: u32, shift: u32) -> (u32, bool) {
    let sum = (u64::from(a) << shift) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}

pub(crate) static SOPK: Table = &[&[
    op!(0, "s_movk_i32", |w, i, _| {
        put(w, i, i.imm);
        Ok(())
    }),
    op!(1, "s_cmovk_i32", |w, i, _| {
        if w.scc {
            put(w, i, i.imm);
        }
        Ok(())
    }),
    op!(2, "s_cmpk_eq_i32", cmpk!(|a: i32, b| a == b)),
    op!(3, "s_cmpk_lg_i32", cmpk!(|a: i32, b| a != b)),
    op!(4, "s_cmpk_gt_i32", cmpk!(|a: i32, b| a > b)),
    op!(5, "s_cmpk_ge_i32", cmpk!(|a: i32, b| a >= b)),
    op!(6, "s_cmpk_lt_i32", cmpk!(|a: i32, b| a < b)),
    op!(7, "s_cmpk_le_i32", cmpk!(|a: i32, b| a <= b)),
    op!(8, "s_cmpk_eq_u32", cmpk!(|a: u32, b| a == b)),
    op!(9, "s_cmpk_lg_u32", cmpk!(|a: u32, b| a != b)),
    op!(10, "s_cmpk_gt_u32", cmpk!(|a: u32, b| a > b)),
    op!(11, "s_cmpk_ge_u32", cmpk!(|a: u32, b| a >= b)),
    op!(12, "s_cmpk_lt_u32", cmpk!(|a: u32, b| a < b)),
    op!(13, "s_cmpk_le_u32", cmpk!(|a: u32, b| a <= b)),
    op!(14, "s_addk_i32", |w, i, _| {
        let (value, overflows) = (w.s[usize::from(i.dst)] as i32).overflowing_add(i.imm);
        w.scc = overflows;
        put(w, i, value);
        Ok(())
    }),
    op!(15, "s_mulk_i32", |w, i, _| {
        let value = (w.s[usize::from(i.dst)] as i32).wrapping_mul(i.imm);
        put(w, i, value);
        Ok(())
    }),
    not!(16, "s_cbranch_i_fork"),
    op!(17, "s_getreg_b32", |w, i, _| {
        let value = hardware_register(w, i)?;
        let (shift, width) = register_field(i);
        put(w, i, value >> shift & (u32::MAX >> (32 - width)));
        Ok(())
    }),
    op!(18, "s_setreg_b32", |w, i, _| {
        let value = w.s[usize::from(i.dst)];
        set_register(w, i, value)
    }),
    op!(20, "s_setreg_imm32_b32", |w, i, _| set_register(w, i, i.literal)),
    op!(21, "s_call_b64", |w, i, _| {
        put(w, i, w.pc);
        w.branch(i);
        Ok(())
    }),
]];

/// The lowest bit of the field of a hardware register, and how many bits it has.
fn register_field(i: &Inst) -> (u32, u32) {
    ((i.imm >> 6 & 31) as u32, (i.imm >> 11 & 31) as u32 + 1)
}

fn hardware_register(w: &Wave, i: &Inst) -> Result<u32, Stop> {
    match i.imm & 63 {
        1 => Ok(w.mode),
        // Status: the condition, and that `exec` and `vcc` are 0.
        2 => Ok(u32::from(w.scc)
            | u32::from(w.exec() == 0) << 9
            | u32::from(w.vcc() == 0) << 10
            | 1 << 16),
        // No exception has happened, and the wave is on the first unit of everything.
        3 | 4 | 20 => Ok(0),
        15 => Ok((w.bases[1] >> 48) as u32 | (w.bases[0] >> 48 << 16) as u32),
        _ => Err(Stop::NotEmulated("s_getreg_b32 of this register")),
    }
}

/// The bits of the mode that say how numbers are rounded and which of them are flushed to 0.
const FLOATS: u32 = 0xff;

fn set_register(w: &mut Wave, i: &Inst, value: u32) -> Outcome {
    let (shift, width) = register_field(i);
    let mask = (u32::MAX >> (32 - width)) << shift;
    match i.imm & 63 {
        1 => {
            let mode = w.mode & !mask | value << shift & mask;
            if (mode ^ w.mode) & FLOATS != 0 {
                return Err(Stop::NotEmulated("another rounding or flushing of numbers"));
            }
            w.mode = mode;
            Ok(())
        }
        // Exceptions that are forgotten: there is none.
        3 => Ok(()),
        _ => Err(Stop::NotEmulated("s_setreg_b32 of this register")),
    }
}

pub(crate) static SOP1: Table = &[MOVES, COUNTS, JUMPS, MASKS];

static MOVES: &[Op] = &[
    op!(0, "s_mov_b32", s!(|a: u32| a)),
    op!(1, "s_mov_b64", s!(|a: u64| a)),
    op!(2, "s_cmov_b32", |w, i, _| {
        if w.scc {
            let value: u32 = w.scalar(i, 0);
            put(w, i, value);
        }
        Ok(())
    }),
    op!(3, "s_cmov_b64", |w, i, _| {
        if w.scc {
            let value: u64 = w.scalar(i, 0);
            put(w, i, value);
        }
        Ok(())
    }),
    op!(4, "s_not_b32", z!(|a: u32| !a)),
    op!(5, "s_not_b64", z!(|a: u64| !a)),
    op!(6, "s_wqm_b32", z!(|a: u32| whole_quads(u64::from(a)) as u32)),
    op!(7, "s_wqm_b64", z!(|a: u64| whole_quads(a))),
    op!(8, "s_brev_b32", s!(|a: u32| a.reverse_bits())),
    op!(9, "s_brev_b64", s!(|a: u64| a.reverse_bits())),
    op!(22, "s_sext_i32_i8", s!(|a: u32| i32::from(a as i8))),
    op!(23, "s_sext_i32_i16", s!(|a: u32| i32::from(a as i16))),
    op!(24, "s_bitset0_b32", |w, i, _| {
        let bit: u32 = w.scalar(i, 0);
        w.s[usize::from(i.dst)] &= !(1 << (bit & 31));
        Ok(())
    }),
    op!(25, "s_bitset0_b64", |w, i, _| {
        let bit: u32 = w.scalar(i, 0);
        put(w, i, w.pair(usize::from(i.dst)) & !(1 << (bit & 63)));
        Ok(())
    }),
    op!(26, "s_bitset1_b32", |w, i, _| {
        let bit: u32 = w.scalar(i, 0);
        w.s[usize::from(i.dst)] |= 1 << (bit & 31);
        Ok(())
    }),
    op!(27, "s_bitset1_b64", |w, i, _| {
        let bit: u32 = w.scalar(i, 0);
        put(w, i, w.pair(usize::from(i.dst)) | 1 << (bit & 63));
        Ok(())
    }),
    op!(48, "s_abs_i32", z!(|a: i32| a.wrapping_abs())),
    op!(55, "s_bitreplicate_b64_b32", s!(|a: u32| replicated(a))),
];

static COUNTS: &[Op] = &[
    op!(10, "s_bcnt0_i32_b32", z!(|a: u32| a.count_zeros())),
    op!(11, "s_bcnt0_i32_b64", z!(|a: u64| a.count_zeros())),
    op!(12, "s_bcnt1_i32_b32", z!(|a: u32| a.count_ones())),
    op!(13, "s_bcnt1_i32_b64", z!(|a: u64| a.count_ones())),
    op!(14, "s_ff0_i32_b32", s!(|a: u32| position(a.trailing_ones(), 32))),
    op!(15, "s_ff0_i32_b64", s!(|a: u64| position(a.trailing_ones(), 64))),
    op!(16, "s_ff1_i32_b32", s!(|a: u32| position(a.trailing_zeros(), 32))),
    op!(17, "s_ff1_i32_b64", s!(|a: u64| position(a.trailing_zeros(), 64))),
    op!(18, "s_flbit_i32_b32", s!(|a: u32| position(a.leading_zeros(), 32))),
    op!(19, "s_flbit_i32_b64", s!(|a: u64| position(a.leading_zeros(), 64))),
    op!(20, "s_flbit_i32", s!(|a: i32| position((a ^ a >> 31).leading_zeros(), 32))),
    op!(21, "s_flbit_i32_i64", s!(|a: i64| position((a ^ a >> 63).leading_zeros(), 64))),
];

static JUMPS: &[Op] = &[
    op!(28, "s_getpc_b64", |w, i, _| {
        put(w, i, w.pc);
        Ok(())
    }),
    op!(29, "s_setpc_b64", |w, i, _| {
        w.pc = w.scalar::<u64>(i, 0) & !3;
        Ok(())
    }),
    op!(30, "s_swappc_b64", |w, i, _| {
        let to = w.scalar::<u64>(i, 0) & !3;
        put(w, i, w.pc);
        w.pc = to;
        Ok(())
    }),
    not!(31, "s_rfe_b64"),
    not!(42, "s_movrels_b32"),
    not!(43, "s_movrels_b64"),
    not!(44, "s_movreld_b32"),
    not!(45, "s_movreld_b64"),
    not!(46, "s_cbranch_join"),
    op!(50, "s_set_gpr_idx_idx", |w, i, _| {
        let index: u32 = w.scalar(i, 0);
        w.s[M0] = w.s[M0] & !0xff | index & 0xff;
        Ok(())
    }),
];

static MASKS: &[Op] = &[
    op!(32, "s_and_saveexec_b64", saveexec!(|a, e| a & e)),
    op!(33, "s_or_saveexec_b64", saveexec!(|a, e| a | e)),
    op!(34, "s_xor_saveexec_b64", saveexec!(|a, e| a ^ e)),
    op!(35, "s_andn2_saveexec_b64", saveexec!(|a, e| a & !e)),
    op!(36, "s_orn2_saveexec_b64", saveexec!(|a, e| a | !e)),
    op!(37, "s_nand_saveexec_b64", saveexec!(|a, e| !(a & e))),
    op!(38, "s_nor_saveexec_b64", saveexec!(|a, e| !(a | e))),
    op!(39, "s_xnor_saveexec_b64", saveexec!(|a, e| !(a ^ e))),
    op!(40, "s_quadmask_b32", z!(|a: u32| quads(u64::from(a)) as u32)),
    op!(41, "s_quadmask_b64", z!(|a: u64| quads(a))),
    op!(51, "s_andn1_saveexec_b64", saveexec!(|a, e| !a & e)),
    op!(52, "s_orn1_saveexec_b64", saveexec!(|a, e| !a | e)),
    op!(53, "s_andn1_wrexec_b64", wrexec!(|a, e| !a & e)),
    op!(54, "s_andn2_wrexec_b64", wrexec!(|a, e| a & !e)),
];

/// A bit for each four bits of which one is set.
fn quads(mask: u64) -> u64 {
    (0..16).filter(|quad| mask >> (4 * quad) & 15 != 0).fold(0, |bits, quad| bits | 1 << quad)
}

fn whole_quads(mask: u64) -> u64 {
    (0..16).filter(|quad| mask >> (4 * quad) & 15 != 0).fold(0, |bits, quad| bits | 15 << (4 * quad))
}

fn replicated(bits: u32) -> u64 {
    (0..32).filter(|bit| bits >> bit & 1 == 1).fold(0, |all, bit| all | 3 << (2 * bit))
}

pub(crate) static SOPC: Table = &[&[
    op!(0, "s_cmp_eq_i32", cmp!(|a: i32, b: i32| a == b)),
    op!(1, "s_cmp_lg_i32", cmp!(|a: i32, b: i32| a != b)),
    op!(2, "s_cmp_gt_i32", cmp!(|a: i32, b: i32| a > b)),
    op!(3, "s_cmp_ge_i32", cmp!(|a: i32, b: i32| a >= b)),
    op!(4, "s_cmp_lt_i32", cmp!(|a: i32, b: i32| a < b)),
    op!(5, "s_cmp_le_i32", cmp!(|a: i32, b: i32| a <= b)),
    op!(6, "s_cmp_eq_u32", cmp!(|a: u32, b: u32| a == b)),
    op!(7, "s_cmp_lg_u32", cmp!(|a: u32, b: u32| a != b)),
    op!(8, "s_cmp_gt_u32", cmp!(|a: u32, b: u32| a > b)),
    op!(9, "s_cmp_ge_u32", cmp!(|a: u32, b: u32| a >= b)),
    op!(10, "s_cmp_lt_u32", cmp!(|a: u32, b: u32| a < b)),
    op!(11, "s_cmp_le_u32", cmp!(|a: u32, b: u32| a <= b)),
    op!(12, "s_bitcmp0_b32", cmp!(|a: u32, b: u32| a >> (b & 31) & 1 == 0)),
    op!(13, "s_bitcmp1_b32", cmp!(|a: u32, b: u32| a >> (b & 31) & 1 == 1)),
    op!(14, "s_bitcmp0_b64", cmp!(|a: u64, b: u32| a >> (b & 63) & 1 == 0)),
    op!(15, "s_bitcmp1_b64", cmp!(|a: u64, b: u32| a >> (b & 63) & 1 == 1)),
    not!(16, "s_setvskip"),
    op!(17, "s_set_gpr_idx_on", |w, i, _| {
        let index: u32 = w.scalar(i, 0);
        w.s[M0] = w.s[M0] & !0xf0ff | index & 0xff | u32::from(i.src[1] & 15) << 12;
        w.mode |= INDEXED;
        Ok(())
    }),
    op!(18, "s_cmp_eq_u64", cmp!(|a: u64, b: u64| a == b)),
    op!(19, "s_cmp_lg_u64", cmp!(|a: u64, b: u64| a != b)),
]];
