//! The local data share, and exchanges between lanes that go through it.

use super::atomic::{self, Change};
use super::memory::{Part, extended, lanes_of, shared};
use super::{not, op};
use crate::inst::{Env, Inst, Op, Outcome, Stop};
use crate::lanes::words;
use crate::ops::Table;
use crate::wave::{LANES, Row, Wave};

/// The row of an operand: 0 is the address, 1 and 2 are data.
fn row(i: &Inst, n: usize) -> usize {
    usize::from(i.src[n]).saturating_sub(256)
}

/// The offsets of instructions that make two accesses, in units of this many bytes.
fn offsets(i: &Inst, unit: u64) -> [u64; 2] {
    let offset = i.imm as u64;
    [(offset & 0xff) * unit, (offset >> 8 & 0xff) * unit]
}

fn address(w: &Wave, i: &Inst, lane: usize, offset: u64) -> u64 {
    u64::from(w.v[row(i, 0)][lane]) + offset
}

fn read(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize) -> Outcome {
    gather(w, i, e, &[i.imm as u64], bytes)
}

/// Reads as many bytes at each of the offsets into the result's registers.
fn gather(w: &mut Wave, i: &Inst, e: &mut Env<'_>, offsets: &[u64], bytes: usize) -> Outcome {
    let exec = w.exec();
    let each = bytes.div_ceil(4);
    let mut rows: [Row; 4] = [[0; LANES]; 4];
    for lane in lanes_of(exec) {
        for (n, offset) in offsets.iter().enumerate() {
            let mut found = [[0; 4]; 4];
            let at = address(w, i, lane, *offset);
            found.as_flattened_mut()[..bytes].copy_from_slice(shared(e, at, bytes)?);
            for (row, found) in rows[n * each..].iter_mut().zip(found).take(each) {
                row[lane] = u32::from_le_bytes(found);
            }
        }
    }
    for (n, row) in rows.iter().enumerate().take(each * offsets.len()) {
        w.write_row(usize::from(i.dst) + n, row, exec);
    }
    Ok(())
}

/// Reads one or two bytes into a part of a register.
fn read_part(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize, part: Part) -> Outcome {
    let (exec, to) = (w.exec(), usize::from(i.dst));
    let mut row = w.v[to];
    for lane in lanes_of(exec) {
        let mut found = [0; 4];
        let at = address(w, i, lane, i.imm as u64);
        found[..bytes].copy_from_slice(shared(e, at, bytes)?);
        row[lane] = extended(u32::from_le_bytes(found), bytes, part, row[lane]);
    }
    w.v[to] = row;
    Ok(())
}

/// Writes as many bytes of operand 1 and, if there are two offsets, of operand 2.
fn write(
    w: &mut Wave,
    i: &Inst,
    e: &mut Env<'_>,
    offsets: &[u64],
    (bytes, first): (usize, usize),
) -> Outcome {
    for lane in lanes_of(w.exec()) {
        for (n, offset) in offsets.iter().enumerate() {
            let from = row(i, 1 + n);
            let words: [[u8; 4]; 4] =
                std::array::from_fn(|word| w.v[from + word][lane].to_le_bytes());
            let at = address(w, i, lane, *offset);
            shared(e, at, bytes)?.copy_from_slice(&words.as_flattened()[first..first + bytes]);
        }
    }
    Ok(())
}

fn write_one(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize, first: usize) -> Outcome {
    let offset = i.imm as u64;
    write(w, i, e, &[offset], (bytes, first))
}

fn write_two(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize, unit: u64) -> Outcome {
    write(w, i, e, &offsets(i, unit), (bytes, 0))
}

fn data(w: &Wave, row: usize, lane: usize, bytes: usize) -> u64 {
    let high = if bytes == 8 { u64::from(w.v[row + 1][lane]) << 32 } else { 0 };
    u64::from(w.v[row][lane]) | high
}

/// Replaces values at each of the offsets; the old values are the result if `answers`. Operand 2 is
/// the further data, or, if there are two offsets, the data of the second.
fn exchange(
    w: &mut Wave,
    i: &Inst,
    e: &mut Env<'_>,
    offsets: &[u64],
    (bytes, answers, change): (usize, bool, Change),
) -> Outcome {
    let exec = w.exec();
    let mut rows: [Row; 4] = [[0; LANES]; 4];
    for lane in lanes_of(exec) {
        for (n, offset) in offsets.iter().enumerate() {
            let (one, other) =
                (data(w, row(i, 1 + n), lane, bytes), data(w, row(i, 2), lane, bytes));
            let place = shared(e, address(w, i, lane, *offset), bytes)?;
            let mut old = [0; 8];
            old[..bytes].copy_from_slice(place);
            let old = u64::from_le_bytes(old);
            place.copy_from_slice(&change(old, one, other).to_le_bytes()[..bytes]);
            rows[n * bytes / 4][lane] = old as u32;
            rows[(n * bytes / 4 + 1) & 3][lane] = (old >> 32) as u32;
        }
    }
    for (n, row) in
        rows.iter().enumerate().take(if answers { offsets.len() * bytes / 4 } else { 0 })
    {
        w.write_row(usize::from(i.dst) + n, row, exec);
    }
    Ok(())
}

fn atomic(w: &mut Wave, i: &Inst, e: &mut Env<'_>, what: (usize, bool, Change)) -> Outcome {
    exchange(w, i, e, &[i.imm as u64], what)
}

/// The values of the lanes that `source` names, 0 where that lane is not active.
fn fetch(w: &mut Wave, i: &Inst, from: usize, source: impl Fn(usize) -> usize) -> Outcome {
    let (values, exec) = (w.v[from], w.exec());
    let row = std::array::from_fn(|lane| {
        let source = source(lane) & 63;
        if exec >> source & 1 == 1 { values[source] } else { 0 }
    });
    w.write_row(usize::from(i.dst), &row, exec);
    Ok(())
}

fn bpermute(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let (addresses, offset) = (words::<u32>(w, i, 0), i.imm as u32);
    fetch(w, i, row(i, 1), |lane| (addresses[lane].wrapping_add(offset) >> 2) as usize)
}

fn permute(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let (addresses, values, exec) = (w.v[row(i, 0)], w.v[row(i, 1)], w.exec());
    let mut result = [0; LANES];
    for lane in lanes_of(exec) {
        let to = addresses[lane].wrapping_add(i.imm as u32) >> 2 & 63;
        result[to as usize] = values[lane];
    }
    w.write_row(usize::from(i.dst), &result, exec);
    Ok(())
}

fn swizzle(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let how = i.imm as usize;
    let from = row(i, 0);
    match how >> 14 {
        3 => Err(Stop::NotEmulated("ds_swizzle_b32 in this mode")),
        2 => fetch(w, i, from, |lane| lane & !3 | how >> (2 * (lane & 3)) & 3),
        _ => fetch(w, i, from, |lane| {
            let [and, or, xor] = [how & 31, how >> 5 & 31, how >> 10 & 31];
            lane & 32 | ((lane & 31 & and | or) ^ xor)
        }),
    }
}

/// Adds to a counter, or takes from it, as many as there are active lanes.
fn count(w: &mut Wave, i: &Inst, e: &mut Env<'_>, appends: bool) -> Outcome {
    let lanes = w.exec().count_ones();
    let at = u64::from(w.s[crate::wave::M0] >> 16) + i.imm as u64;
    let place = shared(e, at, 4)?;
    let mut old = [0; 4];
    old.copy_from_slice(place);
    let old = u32::from_le_bytes(old);
    let new = if appends { old.wrapping_add(lanes) } else { old.wrapping_sub(lanes) };
    place.copy_from_slice(&new.to_le_bytes());
    let exec = w.exec();
    w.write_row(usize::from(i.dst), &[old; LANES], exec);
    Ok(())
}

pub(crate) static DS: Table = &[WRITES, READS, WORDS, LONGS, EXCHANGES];

static WRITES: &[Op] = &[
    op!(13, "ds_write_b32", |w, i, e| write_one(w, i, e, 4, 0)),
    op!(14, "ds_write2_b32", |w, i, e| write_two(w, i, e, 4, 4)),
    op!(15, "ds_write2st64_b32", |w, i, e| write_two(w, i, e, 4, 256)),
    op!(20, "ds_nop", |_, _, _| Ok(())),
    not!(29, "ds_write_addtid_b32"),
    op!(30, "ds_write_b8", |w, i, e| write_one(w, i, e, 1, 0)),
    op!(31, "ds_write_b16", |w, i, e| write_one(w, i, e, 2, 0)),
    op!(77, "ds_write_b64", |w, i, e| write_one(w, i, e, 8, 0)),
    op!(78, "ds_write2_b64", |w, i, e| write_two(w, i, e, 8, 8)),
    op!(79, "ds_write2st64_b64", |w, i, e| write_two(w, i, e, 8, 512)),
    op!(84, "ds_write_b8_d16_hi", |w, i, e| write_one(w, i, e, 1, 2)),
    op!(85, "ds_write_b16_d16_hi", |w, i, e| write_one(w, i, e, 2, 2)),
    op!(222, "ds_write_b96", |w, i, e| write_one(w, i, e, 12, 0)),
    op!(223, "ds_write_b128", |w, i, e| write_one(w, i, e, 16, 0)),
];

static READS: &[Op] = &[
    op!(54, "ds_read_b32", |w, i, e| read(w, i, e, 4)),
    op!(55, "ds_read2_b32", |w, i, e| gather(w, i, e, &offsets(i, 4), 4)),
    op!(56, "ds_read2st64_b32", |w, i, e| gather(w, i, e, &offsets(i, 256), 4)),
    op!(57, "ds_read_i8", |w, i, e| read_part(w, i, e, 1, Part::Signed)),
    op!(58, "ds_read_u8", |w, i, e| read_part(w, i, e, 1, Part::Whole)),
    op!(59, "ds_read_i16", |w, i, e| read_part(w, i, e, 2, Part::Signed)),
    op!(60, "ds_read_u16", |w, i, e| read_part(w, i, e, 2, Part::Whole)),
    op!(86, "ds_read_u8_d16", |w, i, e| read_part(w, i, e, 1, Part::Low)),
    op!(87, "ds_read_u8_d16_hi", |w, i, e| read_part(w, i, e, 1, Part::High)),
    op!(88, "ds_read_i8_d16", |w, i, e| read_part(w, i, e, 1, Part::LowSigned)),
    op!(89, "ds_read_i8_d16_hi", |w, i, e| read_part(w, i, e, 1, Part::HighSigned)),
    op!(90, "ds_read_u16_d16", |w, i, e| read_part(w, i, e, 2, Part::Low)),
    op!(91, "ds_read_u16_d16_hi", |w, i, e| read_part(w, i, e, 2, Part::High)),
    op!(118, "ds_read_b64", |w, i, e| read(w, i, e, 8)),
    op!(119, "ds_read2_b64", |w, i, e| gather(w, i, e, &offsets(i, 8), 8)),
    op!(120, "ds_read2st64_b64", |w, i, e| gather(w, i, e, &offsets(i, 512), 8)),
    not!(182, "ds_read_addtid_b32"),
    op!(254, "ds_read_b96", |w, i, e| read(w, i, e, 12)),
    op!(255, "ds_read_b128", |w, i, e| read(w, i, e, 16)),
];

/// An atomic without and with a result.
macro_rules! both {
    ($n:literal, $bytes:literal, $name:literal, $with:literal, $change:expr) => {
        [
            op!($n, $name, |w, i, e| atomic(w, i, e, ($bytes, false, $change))),
            op!($n + 32, $with, |w, i, e| atomic(w, i, e, ($bytes, true, $change))),
        ]
    };
}

static WORDS: &[Op] = [
    both!(0, 4, "ds_add_u32", "ds_add_rtn_u32", atomic::add),
    both!(1, 4, "ds_sub_u32", "ds_sub_rtn_u32", atomic::sub),
    both!(2, 4, "ds_rsub_u32", "ds_rsub_rtn_u32", atomic::reverse_sub),
    both!(3, 4, "ds_inc_u32", "ds_inc_rtn_u32", atomic::inc),
    both!(4, 4, "ds_dec_u32", "ds_dec_rtn_u32", atomic::dec),
    both!(5, 4, "ds_min_i32", "ds_min_rtn_i32", atomic::min_i32),
    both!(6, 4, "ds_max_i32", "ds_max_rtn_i32", atomic::max_i32),
    both!(7, 4, "ds_min_u32", "ds_min_rtn_u32", atomic::min_u),
    both!(8, 4, "ds_max_u32", "ds_max_rtn_u32", atomic::max_u),
    both!(9, 4, "ds_and_b32", "ds_and_rtn_b32", atomic::and),
    both!(10, 4, "ds_or_b32", "ds_or_rtn_b32", atomic::or),
    both!(11, 4, "ds_xor_b32", "ds_xor_rtn_b32", atomic::xor),
    both!(12, 4, "ds_mskor_b32", "ds_mskor_rtn_b32", atomic::mask_or),
    both!(16, 4, "ds_cmpst_b32", "ds_cmpst_rtn_b32", atomic::store_if_equal),
    both!(17, 4, "ds_cmpst_f32", "ds_cmpst_rtn_f32", atomic::store_if_equal_f32),
    both!(18, 4, "ds_min_f32", "ds_min_rtn_f32", atomic::min_f32),
    both!(19, 4, "ds_max_f32", "ds_max_rtn_f32", atomic::max_f32),
    both!(21, 4, "ds_add_f32", "ds_add_rtn_f32", atomic::add_f32),
]
.as_flattened();

static LONGS: &[Op] = [
    both!(64, 8, "ds_add_u64", "ds_add_rtn_u64", atomic::add),
    both!(65, 8, "ds_sub_u64", "ds_sub_rtn_u64", atomic::sub),
    both!(66, 8, "ds_rsub_u64", "ds_rsub_rtn_u64", atomic::reverse_sub),
    both!(67, 8, "ds_inc_u64", "ds_inc_rtn_u64", atomic::inc),
    both!(68, 8, "ds_dec_u64", "ds_dec_rtn_u64", atomic::dec),
    both!(69, 8, "ds_min_i64", "ds_min_rtn_i64", atomic::min_i64),
    both!(70, 8, "ds_max_i64", "ds_max_rtn_i64", atomic::max_i64),
    both!(71, 8, "ds_min_u64", "ds_min_rtn_u64", atomic::min_u),
    both!(72, 8, "ds_max_u64", "ds_max_rtn_u64", atomic::max_u),
    both!(73, 8, "ds_and_b64", "ds_and_rtn_b64", atomic::and),
    both!(74, 8, "ds_or_b64", "ds_or_rtn_b64", atomic::or),
    both!(75, 8, "ds_xor_b64", "ds_xor_rtn_b64", atomic::xor),
    both!(76, 8, "ds_mskor_b64", "ds_mskor_rtn_b64", atomic::mask_or),
    both!(80, 8, "ds_cmpst_b64", "ds_cmpst_rtn_b64", atomic::store_if_equal),
    both!(81, 8, "ds_cmpst_f64", "ds_cmpst_rtn_f64", atomic::store_if_equal_f64),
    both!(82, 8, "ds_min_f64", "ds_min_rtn_f64", atomic::min_f64),
    both!(83, 8, "ds_max_f64", "ds_max_rtn_f64", atomic::max_f64),
    both!(92, 8, "ds_add_f64", "ds_add_rtn_f64", atomic::add_f64),
]
.as_flattened();

static EXCHANGES: &[Op] = &[
    op!(23, "ds_pk_add_f16", |w, i, e| atomic(w, i, e, (4, false, atomic::add_pair_f16))),
    op!(24, "ds_pk_add_bf16", |w, i, e| atomic(w, i, e, (4, false, atomic::add_pair_bf16))),
    op!(183, "ds_pk_add_rtn_f16", |w, i, e| atomic(w, i, e, (4, true, atomic::add_pair_f16))),
    op!(184, "ds_pk_add_rtn_bf16", |w, i, e| atomic(w, i, e, (4, true, atomic::add_pair_bf16))),
    op!(45, "ds_wrxchg_rtn_b32", |w, i, e| atomic(w, i, e, (4, true, atomic::swap))),
    op!(46, "ds_wrxchg2_rtn_b32", |w, i, e| {
        exchange(w, i, e, &offsets(i, 4), (4, true, atomic::swap))
    }),
    op!(47, "ds_wrxchg2st64_rtn_b32", |w, i, e| {
        exchange(w, i, e, &offsets(i, 256), (4, true, atomic::swap))
    }),
    op!(52, "ds_wrap_rtn_b32", |w, i, e| atomic(w, i, e, (4, true, atomic::wrap))),
    op!(109, "ds_wrxchg_rtn_b64", |w, i, e| atomic(w, i, e, (8, true, atomic::swap))),
    op!(110, "ds_wrxchg2_rtn_b64", |w, i, e| {
        exchange(w, i, e, &offsets(i, 8), (8, true, atomic::swap))
    }),
    op!(111, "ds_wrxchg2st64_rtn_b64", |w, i, e| {
        exchange(w, i, e, &offsets(i, 512), (8, true, atomic::swap))
    }),
    not!(126, "ds_condxchg32_rtn_b64"),
    op!(61, "ds_swizzle_b32", swizzle),
    op!(62, "ds_permute_b32", permute),
    op!(63, "ds_bpermute_b32", bpermute),
    not!(153, "ds_gws_init"),
    not!(155, "ds_gws_sema_br"),
    not!(157, "ds_gws_barrier"),
    op!(189, "ds_consume", |w, i, e| count(w, i, e, false)),
    op!(190, "ds_append", |w, i, e| count(w, i, e, true)),
];
