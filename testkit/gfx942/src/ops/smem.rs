//! Scalar memory.

use super::{not, op};
use crate::inst::{Env, Inst, Outcome};
use crate::ops::Table;
use crate::wave::Wave;

/// The offset: an immediate of 21 bits, a register, or both.
fn offset(w: &Wave, i: &Inst) -> u64 {
    let has = |bit: u64| i.bits >> bit & 1 == 1;
    let immediate = if has(17) { i64::from(i.imm) } else { 0 };
    let register = match (has(14), has(17)) {
        (true, _) => Some(i.bits >> 57 & 0x7f),
        (false, false) => Some(i.bits >> 32 & 0x7f),
        (false, true) => None,
    };
    let register = register.map_or(0, |at| w.s[at as usize]);
    u64::from(register).wrapping_add_signed(immediate)
}

fn base(i: &Inst) -> usize {
    2 * (i.bits & 0x3f) as usize
}

fn load<const WORDS: usize>(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Outcome {
    let address = w.pair(base(i)).wrapping_add(offset(w, i)) & !3;
    let mut bytes = [[0; 4]; 16];
    if WORDS == 1 {
        bytes[0] = e.memory.read_u32(address)?.to_le_bytes();
    } else if WORDS == 2 && address.is_multiple_of(8) {
        let value = e.memory.read_u64(address)?;
        bytes[0] = (value as u32).to_le_bytes();
        bytes[1] = ((value >> 32) as u32).to_le_bytes();
    } else {
        e.memory.read(address, bytes[..WORDS].as_flattened_mut())?;
    }
    let to = usize::from(i.dst);
    for (register, bytes) in w.s[to..to + WORDS].iter_mut().zip(bytes) {
        *register = u32::from_le_bytes(bytes);
    }
    Ok(())
}

/// Reads from a buffer; 0 behind its end.
fn buffer_load<const WORDS: usize>(w: &mut Wave, i: &Inst, e: &mut Env<'_>) -> Outcome {
    let from = base(i);
    let start = w.pair(from) & 0xffff_ffff_ffff;
    let stride = u64::from(w.s[from + 1] >> 16 & 0x3fff).max(1);
    let length = u64::from(w.s[from + 2]) * stride;
    let offset = offset(w, i) & !3;
    for at in 0..WORDS {
        let place = offset.wrapping_add(4 * at as u64);
        let is_there = place.checked_add(4).is_some_and(|end| end <= length);
        let value = if is_there { e.memory.read_u32(start.wrapping_add(place))? } else { 0 };
        w.s[usize::from(i.dst) + at] = value;
    }
    Ok(())
}

fn time(w: &mut Wave, i: &Inst, ticks: u64) -> Outcome {
    w.set_pair(usize::from(i.dst), ticks);
    Ok(())
}

pub(crate) static SMEM: Table = &[&[
    op!(0, "s_load_dword", load::<1>),
    op!(1, "s_load_dwordx2", load::<2>),
    op!(2, "s_load_dwordx4", load::<4>),
    op!(3, "s_load_dwordx8", load::<8>),
    op!(4, "s_load_dwordx16", load::<16>),
    not!(5, "s_scratch_load_dword"),
    not!(6, "s_scratch_load_dwordx2"),
    not!(7, "s_scratch_load_dwordx4"),
    op!(8, "s_buffer_load_dword", buffer_load::<1>),
    op!(9, "s_buffer_load_dwordx2", buffer_load::<2>),
    op!(10, "s_buffer_load_dwordx4", buffer_load::<4>),
    op!(11, "s_buffer_load_dwordx8", buffer_load::<8>),
    op!(12, "s_buffer_load_dwordx16", buffer_load::<16>),
    // Nothing is cached.
    op!(32, "s_dcache_inv", |_, _, _| Ok(())),
    op!(33, "s_dcache_wb", |_, _, _| Ok(())),
    op!(34, "s_dcache_inv_vol", |_, _, _| Ok(())),
    op!(35, "s_dcache_wb_vol", |_, _, _| Ok(())),
    op!(36, "s_memtime", |w, i, e| time(w, i, e.clock.now_ns())),
    op!(37, "s_memrealtime", |w, i, e| time(w, i, e.clock.now_ns() / 10)),
]];
