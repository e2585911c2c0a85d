//! How vector instructions read operands and write results.
#![expect(
    clippy::needless_range_loop,
    reason = "lanes count rows of several operands at once, and compilers know their number"
)]

use crate::inst::{Extra, Inst, Outcome, Stop};
use crate::value::Value;
use crate::wave::{LANES, Row, Wave};

const ZERO: Row = [0; LANES];

/// The words of an operand for all lanes.
struct Words<'a> {
    low: &'a Row,
    high: &'a Row,
}

impl Words<'_> {
    #[inline(always)]
    fn get<T: Value>(&self, lane: usize) -> T {
        T::of(self.low[lane], if T::WORDS == 2 { self.high[lane] } else { 0 })
    }
}

/// Operand `n`, of which `gathered` is what [`gathered`] answered.
#[inline(always)]
fn operand<'a, T: Value>(
    wave: &'a Wave,
    inst: &Inst,
    n: usize,
    gathered: &'a Option<[Row; 2]>,
) -> Words<'a> {
    if let Some([low, high]) = gathered {
        return Words { low, high };
    }
    // Without a row it was gathered.
    let row = usize::from(inst.src[n]).saturating_sub(256);
    Words { low: &wave.v[row], high: &wave.v[row + T::WORDS - 1] }
}

/// An operand that is not just rows of registers.
#[inline(always)]
fn gathered<T: Value>(wave: &Wave, inst: &Inst, n: usize) -> Option<[Row; 2]> {
    let is_direct = inst.is_plain && inst.src[n] >= 256;
    if is_direct { None } else { Some(gather::<T>(wave, inst, n)) }
}

#[inline(never)]
fn gather<T: Value>(wave: &Wave, inst: &Inst, n: usize) -> [Row; 2] {
    let mut room = [ZERO; 2];
    if let Some(row) = wave.row(inst, n) {
        room[0] = *row;
        room[1] = if T::WORDS == 2 { wave.v[usize::from(inst.src[n]) - 255] } else { ZERO };
    } else {
        let (low, high) = wave.scalar::<T>(inst, n).bits();
        room = [[low; LANES], [high; LANES]];
        if T::IS_HALF && inst.src[n] < 128 {
            // The upper half may be what is wanted.
            room[0] = [wave.s[usize::from(inst.src[n])]; LANES];
        }
    }
    if inst.is_plain {
        return room;
    }
    match inst.extra {
        Extra::Dpp(fields) if n == 0 => room.iter_mut().for_each(|row| permute(wave, fields, row)),
        Extra::Sdwa(fields) if n < 2 => select(fields >> (16 + 8 * n), &mut room[0]),
        Extra::Packed => {
            pack::<T>(inst, n, &mut room);
            return room;
        }
        _ => {}
    }
    if T::IS_HALF && inst.op_sel >> n & 1 == 1 {
        room[0].iter_mut().for_each(|word| *word >>= 16);
    }
    let sign = if T::IS_HALF { 1 << 15 } else { 1 << 31 };
    let row = &mut room[T::WORDS - 1];
    if inst.abs >> n & 1 == 1 {
        row.iter_mut().for_each(|word| *word &= !sign);
    }
    if inst.neg >> n & 1 == 1 {
        row.iter_mut().for_each(|word| *word ^= sign);
    }
    room
}

/// The parts of a packed operand that the instruction selects.
fn pack<T: Value>(inst: &Inst, n: usize, room: &mut [Row; 2]) {
    let is_set = |bits: u8| bits >> n & 1 == 1;
    let (low, high) = (is_set(inst.op_sel), is_set(inst.op_sel_hi));
    for lane in 0..LANES {
        if T::WORDS == 2 {
            let words = [room[0][lane], room[1][lane]];
            room[0][lane] = words[usize::from(low)] ^ u32::from(is_set(inst.neg)) << 31;
            room[1][lane] = words[usize::from(high)] ^ u32::from(is_set(inst.abs)) << 31;
        } else {
            let word = room[0][lane];
            let half = |upper: bool| if upper { word >> 16 } else { word & 0xffff };
            let signs = u32::from(is_set(inst.neg)) << 15 | u32::from(is_set(inst.abs)) << 31;
            room[0][lane] = (half(low) | half(high) << 16) ^ signs;
        }
    }
}

/// A part of each word, as SDWA selects it.
fn select(fields: u32, row: &mut Row) {
    let (which, is_signed) = (fields & 7, fields >> 3 & 1 == 1);
    for word in row {
        *word = match which {
            0..=3 => {
                let byte = (*word >> (8 * which)) as u8;
                if is_signed { i32::from(byte as i8) as u32 } else { u32::from(byte) }
            }
            4 | 5 => {
                let half = (*word >> (16 * (which - 4))) as u16;
                if is_signed { i32::from(half as i16) as u32 } else { u32::from(half) }
            }
            _ => *word,
        };
    }
}

/// The lane that DPP reads for a lane, if there is one.
fn source_lane(control: u32, lane: usize) -> Option<usize> {
    let (row, at) = (lane & !15, lane & 15);
    let n = (control & 15) as usize;
    match control {
        0..=0xff => Some(lane & !3 | (control >> (2 * (lane & 3)) & 3) as usize),
        0x101..=0x10f => (at + n < 16).then_some(lane + n),
        0x111..=0x11f => (at >= n).then(|| lane - n),
        0x121..=0x12f => Some(row | (at + 16 - n) & 15),
        0x130 => (lane < 63).then_some(lane + 1),
        0x134 => Some((lane + 1) & 63),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) & 63),
        0x140 => Some(row | (15 - at)),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        0x142 => row.checked_sub(1),
        0x143 => (lane >= 32).then_some(31),
        0x150..=0x15f => Some(row | n),
        _ => None,
    }
}

/// True if DPP knows this control.
pub(crate) fn is_dpp_control(control: u32) -> bool {
    (0..LANES).any(|lane| source_lane(control, lane).is_some())
}

fn permute(wave: &Wave, fields: u32, row: &mut Row) {
    let (from, exec) = (*row, wave.exec());
    for (lane, word) in row.iter_mut().enumerate() {
        let source = source_lane(fields >> 8 & 0x1ff, lane);
        *word = source.filter(|&source| exec >> source & 1 == 1).map_or(0, |source| from[source]);
    }
}

/// The lanes that DPP lets an instruction write.
fn dpp_lanes(wave: &Wave, fields: u32) -> u64 {
    let exec = wave.exec();
    let has_source = |lane| {
        let source = source_lane(fields >> 8 & 0x1ff, lane);
        fields >> 19 & 1 == 1 || source.is_some_and(|source| exec >> source & 1 == 1)
    };
    let (rows, banks) = (fields >> 28, fields >> 24 & 15);
    let is_written = |lane: usize| {
        rows >> (lane / 16) & 1 == 1 && banks >> (lane / 4 % 4) & 1 == 1 && has_source(lane)
    };
    (0..LANES).filter(|&lane| is_written(lane)).fold(0, |lanes, lane| lanes | 1 << lane)
}

/// Writes the result to all lanes that are active.
#[inline]
fn put<D: Value>(wave: &mut Wave, inst: &Inst, result: &mut [Row; 2]) -> Outcome {
    let mut mask = wave.exec();
    if !inst.is_plain {
        adjust::<D>(inst, result)?;
        match inst.extra {
            Extra::Dpp(fields) => mask &= dpp_lanes(wave, fields),
            Extra::Sdwa(fields) => insert(fields, &mut result[0], &wave.v[usize::from(inst.dst)]),
            // The other half stays.
            Extra::None if D::IS_HALF && inst.bits & KEEPS_HALF != 0 => {
                let upper = inst.op_sel >> 3 & 1 == 1;
                merge(upper, &mut result[0], &wave.v[usize::from(inst.dst)]);
            }
            _ => {}
        }
    }
    let row = usize::from(inst.dst);
    wave.write_row(row, &result[0], mask);
    if D::WORDS == 2 {
        wave.write_row(row + 1, &result[1], mask);
    }
    Ok(())
}

/// A bit of an instruction's fields: a result of 16 bits leaves the other half as it is.
pub(crate) const KEEPS_HALF: u64 = 1 << 63;

fn merge(upper: bool, row: &mut Row, old: &Row) {
    for (word, old) in row.iter_mut().zip(old) {
        *word = if upper { *word << 16 | old & 0xffff } else { *word & 0xffff | old & !0xffff };
    }
}

fn adjust<D: Value>(inst: &Inst, result: &mut [Row; 2]) -> Outcome {
    if inst.omod == 0 && !inst.clamp {
        return Ok(());
    }
    if !D::IS_FLOAT {
        return Err(Stop::NotEmulated("clamping this whole number"));
    }
    for lane in 0..LANES {
        let value = D::of(result[0][lane], result[1][lane]).adjust(inst.omod, inst.clamp);
        (result[0][lane], result[1][lane]) = value.bits();
    }
    Ok(())
}

/// Puts a result where SDWA says.
fn insert(fields: u32, row: &mut Row, old: &Row) {
    let (shift, bits) = match fields >> 8 & 7 {
        n @ 0..=3 => (8 * n, 8),
        4 => (0, 16),
        5 => (16, 16),
        _ => return,
    };
    let ones = (1_u32 << bits) - 1;
    for (word, old) in row.iter_mut().zip(old) {
        let part = (*word & ones) << shift;
        let is_negative = *word >> (bits - 1) & 1 == 1;
        *word = match fields >> 11 & 3 {
            0 => part,
            1 if is_negative => part | !(u32::MAX >> (32 - bits - shift)),
            1 => part,
            _ => part | old & !(ones << shift),
        };
    }
}

/// Results of a function of each lane's number.
#[inline(always)]
fn each<D: Value>(wave: &mut Wave, inst: &Inst, result: impl Fn(&Wave, usize) -> D) -> Outcome {
    let mut rows = [ZERO; 2];
    for lane in 0..LANES {
        let (low, high) = result(wave, lane).bits();
        rows[0][lane] = low;
        if D::WORDS == 2 {
            rows[1][lane] = high;
        }
    }
    put::<D>(wave, inst, &mut rows)
}

/// Writes what a function of the lane makes.
#[inline(always)]
pub(crate) fn map0<D: Value>(wave: &mut Wave, inst: &Inst, f: impl Fn(usize) -> D) -> Outcome {
    each(wave, inst, |_, lane| f(lane))
}

/// Declares a function that writes what a function of some operands makes: the type, the name and
/// the number of each operand.
macro_rules! map {
    ($(#[doc = $doc:literal])+ $name:ident: $($type:ident $operand:ident $number:literal),+) => {
        $(#[doc = $doc])+
        #[inline(always)]
        pub(crate) fn $name<$($type: Value,)+ D: Value>(
            wave: &mut Wave,
            inst: &Inst,
            f: impl Fn($($type),+) -> D,
        ) -> Outcome {
            let mut rows = [ZERO; 2];
            {
                $(let $operand = gathered::<$type>(wave, inst, $number);)+
                $(let $operand = operand::<$type>(wave, inst, $number, &$operand);)+
                for lane in 0..LANES {
                    let (low, high) = f($($operand.get(lane)),+).bits();
                    rows[0][lane] = low;
                    if D::WORDS == 2 {
                        rows[1][lane] = high;
                    }
                }
            }
            put::<D>(wave, inst, &mut rows)
        }
    };
}

map! {
    /// Writes what a function of one operand makes.
    map1: A a 0
}
map! {
    /// Writes what a function of two operands makes.
    map2: A a 0, B b 1
}
map! {
    /// Writes what a function of three operands makes.
    map3: A a 0, B b 1, C c 2
}

/// As [`map2`] and [`map3`], for functions that also answer a bit: its mask goes to `sdst`. The
/// last operand of the function is the lane's bit of the mask in operand 2.
#[inline(always)]
pub(crate) fn carry<A: Value, B: Value, D: Value>(
    wave: &mut Wave,
    inst: &Inst,
    f: impl Fn(A, B, bool) -> (D, bool),
) -> Outcome {
    let room_a = gathered::<A>(wave, inst, 0);
    let room_b = gathered::<B>(wave, inst, 1);
    let (mut rows, mut bits) = ([ZERO; 2], 0);
    let carries = if inst.src[2] < 128 { wave.scalar::<u64>(inst, 2) } else { 0 };
    {
        let a = operand::<A>(wave, inst, 0, &room_a);
        let b = operand::<B>(wave, inst, 1, &room_b);
        for lane in 0..LANES {
            let (value, bit) = f(a.get(lane), b.get(lane), carries >> lane & 1 == 1);
            (rows[0][lane], rows[1][lane]) = value.bits();
            bits |= u64::from(bit) << lane;
        }
    }
    let exec = wave.exec();
    put::<D>(wave, inst, &mut rows)?;
    wave.set_pair(usize::from(inst.sdst), bits & exec);
    Ok(())
}

/// As [`carry`], for a function of three operands.
#[inline(always)]
pub(crate) fn carry3<A: Value, B: Value, C: Value, D: Value>(
    wave: &mut Wave,
    inst: &Inst,
    f: impl Fn(A, B, C) -> (D, bool),
) -> Outcome {
    let bits = std::cell::Cell::new(0_u64);
    let lane = std::cell::Cell::new(0_u32);
    let exec = wave.exec();
    map3::<A, B, C, D>(wave, inst, |a, b, c| {
        let (value, bit) = f(a, b, c);
        bits.set(bits.get() | u64::from(bit) << lane.get());
        lane.set(lane.get() + 1);
        value
    })?;
    wave.set_pair(usize::from(inst.sdst), bits.get() & exec);
    Ok(())
}

/// Compares two operands; the mask goes to `sdst`, and to `exec` if `to_exec`.
#[inline(always)]
pub(crate) fn compare<A: Value, B: Value>(
    wave: &mut Wave,
    inst: &Inst,
    to_exec: bool,
    f: impl Fn(A, B) -> bool,
) -> Outcome {
    let room_a = gathered::<A>(wave, inst, 0);
    let room_b = gathered::<B>(wave, inst, 1);
    let mut bits = 0_u64;
    {
        let a = operand::<A>(wave, inst, 0, &room_a);
        let b = operand::<B>(wave, inst, 1, &room_b);
        let mut found = [0_u8; LANES];
        for (lane, found) in found.iter_mut().enumerate() {
            *found = u8::from(f(a.get(lane), b.get(lane)));
        }
        for (eight, found) in found.chunks_exact(8).enumerate() {
            let byte = found.iter().rev().fold(0, |byte, bit| byte << 1 | u64::from(*bit));
            bits |= byte << (8 * eight);
        }
    }
    bits &= wave.exec();
    wave.set_pair(usize::from(inst.sdst), bits);
    if to_exec {
        wave.set_pair(crate::wave::EXEC, bits);
    }
    Ok(())
}

/// One operand as words of all lanes.
pub(crate) fn words<T: Value>(wave: &Wave, inst: &Inst, n: usize) -> Row {
    let room = gathered::<T>(wave, inst, n);
    *operand::<T>(wave, inst, n, &room).low
}
