//! Vector memory: flat, global, scratch and buffer instructions.

use super::atomic::{self, Change};
use super::{not, op};
use crate::Space;
use crate::inst::{Env, Inst, Op, Outcome, Segment, Stop};
use crate::ops::Table;
use crate::wave::{LANES, Row, Wave};

/// Where an access of a lane goes.
#[derive(Debug, Clone, Copy)]
enum Place {
    Global(u64),
    Lds(u64),
    /// An offset in the lane's scratch memory.
    Scratch(u64),
    /// Behind the end of a buffer: loads read 0, and stores do nothing.
    Nowhere,
}

/// The scalar register that a field of 7 bits names, unless it says that there is none.
fn scalar_base(i: &Inst) -> Option<usize> {
    (i.sdst != 0x7f).then_some(usize::from(i.sdst))
}

fn lane_word(w: &Wave, i: &Inst, lane: usize, word: usize) -> u32 {
    let row = usize::from(i.src[0]).saturating_sub(256) + word;
    w.v[row][lane]
}

/// Where the access of a lane goes that takes this many bytes.
fn place(w: &Wave, i: &Inst, lane: usize, bytes: u64) -> Result<Place, Stop> {
    let offset = i64::from(i.imm);
    let whole = || u64::from(lane_word(w, i, lane, 0)) | u64::from(lane_word(w, i, lane, 1)) << 32;
    match i.segment {
        Segment::Flat => {
            let address = whole().wrapping_add_signed(offset);
            let [shared, private] = w.bases.map(|base| address >> 32 == base >> 32);
            let low = address & 0xffff_ffff;
            Ok(match (shared, private) {
                (true, _) => Place::Lds(low),
                (_, true) => Place::Scratch(low),
                _ => Place::Global(address),
            })
        }
        Segment::Global => {
            let base = match scalar_base(i) {
                Some(at) => w.pair(at).wrapping_add(u64::from(lane_word(w, i, lane, 0))),
                None => whole(),
            };
            Ok(Place::Global(base.wrapping_add_signed(offset)))
        }
        Segment::Scratch => {
            // Bit 13 says that there is a vector register.
            let vector = if i.bits >> 13 & 1 == 1 { lane_word(w, i, lane, 0) } else { 0 };
            let scalar = scalar_base(i).map_or(0, |at| w.s[at]);
            let sum = vector.wrapping_add(scalar).wrapping_add_signed(i.imm);
            Ok(Place::Scratch(u64::from(sum)))
        }
        Segment::Buffer => buffer_place(w, i, lane, bytes),
    }
}

fn buffer_place(w: &Wave, i: &Inst, lane: usize, bytes: u64) -> Result<Place, Stop> {
    let descriptor = usize::from(i.sdst);
    let word = w.s[descriptor + 1];
    if word >> 31 == 1 {
        return Err(Stop::NotEmulated("a swizzled buffer"));
    }
    let (by_offset, by_index) = (i.bits >> 12 & 1 == 1, i.bits >> 13 & 1 == 1);
    let index = if by_index { u64::from(lane_word(w, i, lane, 0)) } else { 0 };
    let own = if by_offset { u64::from(lane_word(w, i, lane, usize::from(by_index))) } else { 0 };
    let stride = u64::from(word >> 16 & 0x3fff);
    let (records, offset) = (u64::from(w.s[descriptor + 2]), own + i.imm as u64);
    let is_there =
        if stride == 0 { offset + bytes <= records } else { index < records && offset < stride };
    let base = w.pair(descriptor) & 0xffff_ffff_ffff;
    let scalar = u64::from(w.scalar::<u32>(i, 2));
    let address = base.wrapping_add(scalar).wrapping_add(index * stride).wrapping_add(offset);
    Ok(if is_there { Place::Global(address) } else { Place::Nowhere })
}

/// The bytes at an offset in a lane's scratch memory.
fn scratch(w: &mut Wave, lane: usize, offset: u64, length: usize) -> Result<&mut [u8], Stop> {
    let own = w.scratch.len() / LANES;
    let found = usize::try_from(offset).ok().filter(|at| at.saturating_add(length) <= own);
    let at = found.ok_or(Stop::OutOfRange(Space::Scratch, offset))? + lane * own;
    Ok(&mut w.scratch[at..at + length])
}

/// The bytes at an offset in the local data share.
pub(crate) fn shared<'a>(
    e: &'a mut Env<'_>,
    offset: u64,
    length: usize,
) -> Result<&'a mut [u8], Stop> {
    let end = offset.saturating_add(length as u64);
    let found = usize::try_from(offset).ok().filter(|_| end <= e.lds.len() as u64);
    let at = found.ok_or(Stop::OutOfRange(Space::Lds, offset))?;
    Ok(&mut e.lds[at..at + length])
}

fn read(w: &mut Wave, e: &mut Env<'_>, (place, lane): (Place, usize), into: &mut [u8]) -> Outcome {
    match (place, into.len()) {
        (Place::Global(at), 4) => into.copy_from_slice(&e.memory.read_u32(at)?.to_le_bytes()),
        (Place::Global(at), 8) => into.copy_from_slice(&e.memory.read_u64(at)?.to_le_bytes()),
        (Place::Global(at), _) => e.memory.read(at, into)?,
        (Place::Lds(at), length) => into.copy_from_slice(shared(e, at, length)?),
        (Place::Scratch(at), length) => into.copy_from_slice(scratch(w, lane, at, length)?),
        (Place::Nowhere, _) => into.fill(0),
    }
    Ok(())
}

fn write(w: &mut Wave, e: &mut Env<'_>, (place, lane): (Place, usize), from: &[u8]) -> Outcome {
    match (place, from) {
        (Place::Global(at), &[a, b, c, d]) => {
            e.memory.write_u32(at, u32::from_le_bytes([a, b, c, d]))?;
        }
        (Place::Global(at), &[a, b, c, d, f, g, h, i]) => {
            e.memory.write_u64(at, u64::from_le_bytes([a, b, c, d, f, g, h, i]))?;
        }
        (Place::Global(at), _) => e.memory.write(at, from)?,
        (Place::Lds(at), _) => shared(e, at, from.len())?.copy_from_slice(from),
        (Place::Scratch(at), _) => scratch(w, lane, at, from.len())?.copy_from_slice(from),
        (Place::Nowhere, _) => {}
    }
    Ok(())
}

/// The lanes of a mask.
pub(crate) fn lanes_of(mask: u64) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

/// How a loaded byte or half becomes a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Signed,
    /// The lower or the upper half of the register; the other one stays.
    Low,
    LowSigned,
    High,
    HighSigned,
}

/// The register that a loaded value of this many bytes makes of what it held.
pub(crate) fn extended(value: u32, bytes: usize, part: Part, old: u32) -> u32 {
    let shift = 32 - 8 * bytes.min(4) as u32;
    let signed = ((value << shift) as i32 >> shift) as u32;
    match part {
        Part::Whole => value,
        Part::Signed => signed,
        Part::Low => old & !0xffff | value & 0xffff,
        Part::LowSigned => old & !0xffff | signed & 0xffff,
        Part::High => old & 0xffff | value << 16,
        Part::HighSigned => old & 0xffff | signed << 16,
    }
}

fn load(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize, part: Part) -> Outcome {
    let (exec, to) = (w.exec(), usize::from(i.dst));
    let mut rows: [Row; 4] = [[0; LANES]; 4];
    for lane in lanes_of(exec) {
        let mut found = [[0; 4]; 4];
        let at = place(w, i, lane, bytes as u64)?;
        read(w, e, (at, lane), &mut found.as_flattened_mut()[..bytes])?;
        for (row, found) in rows.iter_mut().zip(found).take(bytes.div_ceil(4)) {
            row[lane] = u32::from_le_bytes(found);
        }
    }
    for (n, row) in rows.iter_mut().enumerate().take(bytes.div_ceil(4)) {
        if part != Part::Whole {
            let old = w.v[to + n];
            row.iter_mut()
                .zip(old)
                .for_each(|(word, old)| *word = extended(*word, bytes, part, old));
        }
        w.write_row(to + n, row, exec);
    }
    Ok(())
}

/// Stores bytes of registers, from byte `first` of the first one.
fn store(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize, first: usize) -> Outcome {
    let from = usize::from(i.src[1]).saturating_sub(256);
    for lane in lanes_of(w.exec()) {
        let words: [[u8; 4]; 4] = std::array::from_fn(|n| w.v[from + n][lane].to_le_bytes());
        let at = place(w, i, lane, bytes as u64)?;
        write(w, e, (at, lane), &words.as_flattened()[first..first + bytes])?;
    }
    Ok(())
}

fn data(w: &Wave, row: usize, lane: usize, bytes: usize) -> u64 {
    let high = if bytes == 8 { u64::from(w.v[row + 1][lane]) << 32 } else { 0 };
    u64::from(w.v[row][lane]) | high
}

/// An atomic of 4 or 8 bytes.
fn atomic(w: &mut Wave, i: &Inst, e: &mut Env<'_>, bytes: usize, change: Change) -> Outcome {
    let from = usize::from(i.src[1]).saturating_sub(256);
    let exec = w.exec();
    let mut rows: [Row; 2] = [[0; LANES]; 2];
    for lane in lanes_of(exec) {
        let (one, other) = (data(w, from, lane, bytes), data(w, from + bytes / 4, lane, bytes));
        let at = place(w, i, lane, bytes as u64)?;
        let old = replace(w, e, (at, lane), bytes, &mut |old| change(old, one, other))?;
        (rows[0][lane], rows[1][lane]) = (old as u32, (old >> 32) as u32);
    }
    let answers = i.bits >> (if i.segment == Segment::Buffer { 14 } else { 16 }) & 1 == 1;
    if answers {
        for (n, row) in rows.iter().enumerate().take(bytes / 4) {
            w.write_row(usize::from(i.dst) + n, row, exec);
        }
    }
    Ok(())
}

fn replace(
    w: &mut Wave,
    e: &mut Env<'_>,
    at: (Place, usize),
    bytes: usize,
    change: &mut dyn FnMut(u64) -> u64,
) -> Result<u64, Stop> {
    if let (Place::Global(address), _) = at {
        return Ok(if bytes == 4 {
            let change = &mut |old| change(u64::from(old)) as u32;
            u64::from(e.memory.update_u32(address, change)?)
        } else {
            e.memory.update_u64(address, change)?
        });
    }
    let mut old = [0; 8];
    read(w, e, at, &mut old[..bytes])?;
    let new = change(u64::from_le_bytes(old)).to_le_bytes();
    write(w, e, at, &new[..bytes])?;
    Ok(u64::from_le_bytes(old))
}

/// Loads and stores, which have the same numbers in all encodings.
macro_rules! accesses {
    ($name:ident, $prefix:literal) => {
        static $name: &[Op] = &[
            op!(16, concat!($prefix, "load_ubyte"), |w, i, e| load(w, i, e, 1, Part::Whole)),
            op!(17, concat!($prefix, "load_sbyte"), |w, i, e| load(w, i, e, 1, Part::Signed)),
            op!(18, concat!($prefix, "load_ushort"), |w, i, e| load(w, i, e, 2, Part::Whole)),
            op!(19, concat!($prefix, "load_sshort"), |w, i, e| load(w, i, e, 2, Part::Signed)),
            op!(20, concat!($prefix, "load_dword"), |w, i, e| load(w, i, e, 4, Part::Whole)),
            op!(21, concat!($prefix, "load_dwordx2"), |w, i, e| load(w, i, e, 8, Part::Whole)),
            op!(22, concat!($prefix, "load_dwordx3"), |w, i, e| load(w, i, e, 12, Part::Whole)),
            op!(23, concat!($prefix, "load_dwordx4"), |w, i, e| load(w, i, e, 16, Part::Whole)),
            op!(24, concat!($prefix, "store_byte"), |w, i, e| store(w, i, e, 1, 0)),
            op!(25, concat!($prefix, "store_byte_d16_hi"), |w, i, e| store(w, i, e, 1, 2)),
            op!(26, concat!($prefix, "store_short"), |w, i, e| store(w, i, e, 2, 0)),
            op!(27, concat!($prefix, "store_short_d16_hi"), |w, i, e| store(w, i, e, 2, 2)),
            op!(28, concat!($prefix, "store_dword"), |w, i, e| store(w, i, e, 4, 0)),
            op!(29, concat!($prefix, "store_dwordx2"), |w, i, e| store(w, i, e, 8, 0)),
            op!(30, concat!($prefix, "store_dwordx3"), |w, i, e| store(w, i, e, 12, 0)),
            op!(31, concat!($prefix, "store_dwordx4"), |w, i, e| store(w, i, e, 16, 0)),
            op!(32, concat!($prefix, "load_ubyte_d16"), |w, i, e| load(w, i, e, 1, Part::Low)),
            op!(33, concat!($prefix, "load_ubyte_d16_hi"), |w, i, e| load(w, i, e, 1, Part::High)),
            op!(34, concat!($prefix, "load_sbyte_d16"), |w, i, e| {
                load(w, i, e, 1, Part::LowSigned)
            }),
            op!(35, concat!($prefix, "load_sbyte_d16_hi"), |w, i, e| {
                load(w, i, e, 1, Part::HighSigned)
            }),
            op!(36, concat!($prefix, "load_short_d16"), |w, i, e| load(w, i, e, 2, Part::Low)),
            op!(37, concat!($prefix, "load_short_d16_hi"), |w, i, e| load(w, i, e, 2, Part::High)),
        ];
    };
}

/// Atomics, which have the same numbers in all encodings.
macro_rules! atomics {
    ($name:ident, $prefix:literal) => {
        static $name: &[Op] = &[
            op!(64, concat!($prefix, "swap"), |w, i, e| atomic(w, i, e, 4, atomic::swap)),
            op!(65, concat!($prefix, "cmpswap"), |w, i, e| {
                atomic(w, i, e, 4, atomic::swap_if_equal)
            }),
            op!(66, concat!($prefix, "add"), |w, i, e| atomic(w, i, e, 4, atomic::add)),
            op!(67, concat!($prefix, "sub"), |w, i, e| atomic(w, i, e, 4, atomic::sub)),
            op!(68, concat!($prefix, "smin"), |w, i, e| atomic(w, i, e, 4, atomic::min_i32)),
            op!(69, concat!($prefix, "umin"), |w, i, e| atomic(w, i, e, 4, atomic::min_u)),
            op!(70, concat!($prefix, "smax"), |w, i, e| atomic(w, i, e, 4, atomic::max_i32)),
            op!(71, concat!($prefix, "umax"), |w, i, e| atomic(w, i, e, 4, atomic::max_u)),
            op!(72, concat!($prefix, "and"), |w, i, e| atomic(w, i, e, 4, atomic::and)),
            op!(73, concat!($prefix, "or"), |w, i, e| atomic(w, i, e, 4, atomic::or)),
            op!(74, concat!($prefix, "xor"), |w, i, e| atomic(w, i, e, 4, atomic::xor)),
            op!(75, concat!($prefix, "inc"), |w, i, e| atomic(w, i, e, 4, atomic::inc)),
            op!(76, concat!($prefix, "dec"), |w, i, e| atomic(w, i, e, 4, atomic::dec)),
            op!(77, concat!($prefix, "add_f32"), |w, i, e| atomic(w, i, e, 4, atomic::add_f32)),
            op!(78, concat!($prefix, "pk_add_f16"), |w, i, e| {
                atomic(w, i, e, 4, atomic::add_pair_f16)
            }),
            op!(79, concat!($prefix, "add_f64"), |w, i, e| atomic(w, i, e, 8, atomic::add_f64)),
            op!(80, concat!($prefix, "min_f64"), |w, i, e| atomic(w, i, e, 8, atomic::min_f64)),
            op!(81, concat!($prefix, "max_f64"), |w, i, e| atomic(w, i, e, 8, atomic::max_f64)),
            op!(96, concat!($prefix, "swap_x2"), |w, i, e| atomic(w, i, e, 8, atomic::swap)),
            op!(97, concat!($prefix, "cmpswap_x2"), |w, i, e| {
                atomic(w, i, e, 8, atomic::swap_if_equal)
            }),
            op!(98, concat!($prefix, "add_x2"), |w, i, e| atomic(w, i, e, 8, atomic::add)),
            op!(99, concat!($prefix, "sub_x2"), |w, i, e| atomic(w, i, e, 8, atomic::sub)),
            op!(100, concat!($prefix, "smin_x2"), |w, i, e| atomic(w, i, e, 8, atomic::min_i64)),
            op!(101, concat!($prefix, "umin_x2"), |w, i, e| atomic(w, i, e, 8, atomic::min_u)),
            op!(102, concat!($prefix, "smax_x2"), |w, i, e| atomic(w, i, e, 8, atomic::max_i64)),
            op!(103, concat!($prefix, "umax_x2"), |w, i, e| atomic(w, i, e, 8, atomic::max_u)),
            op!(104, concat!($prefix, "and_x2"), |w, i, e| atomic(w, i, e, 8, atomic::and)),
            op!(105, concat!($prefix, "or_x2"), |w, i, e| atomic(w, i, e, 8, atomic::or)),
            op!(106, concat!($prefix, "xor_x2"), |w, i, e| atomic(w, i, e, 8, atomic::xor)),
            op!(107, concat!($prefix, "inc_x2"), |w, i, e| atomic(w, i, e, 8, atomic::inc)),
            op!(108, concat!($prefix, "dec_x2"), |w, i, e| atomic(w, i, e, 8, atomic::dec)),
        ];
    };
}

accesses!(FLAT_ACCESSES, "flat_");
accesses!(GLOBAL_ACCESSES, "global_");
accesses!(SCRATCH_ACCESSES, "scratch_");
accesses!(BUFFER_ACCESSES, "buffer_");
atomics!(FLAT_ATOMICS, "flat_atomic_");
atomics!(GLOBAL_ATOMICS, "global_atomic_");
atomics!(BUFFER_ATOMICS, "buffer_atomic_");

pub(crate) static FLAT: Table = &[
    FLAT_ACCESSES,
    FLAT_ATOMICS,
    &[op!(82, "flat_atomic_pk_add_bf16", |w, i, e| { atomic(w, i, e, 4, atomic::add_pair_bf16) })],
];

pub(crate) static GLOBAL: Table = &[
    GLOBAL_ACCESSES,
    GLOBAL_ATOMICS,
    &[
        op!(82, "global_atomic_pk_add_bf16", |w, i, e| {
            atomic(w, i, e, 4, atomic::add_pair_bf16)
        }),
        not!(38, "global_load_lds_ubyte"),
        not!(39, "global_load_lds_sbyte"),
        not!(40, "global_load_lds_ushort"),
        not!(41, "global_load_lds_sshort"),
        not!(42, "global_load_lds_dword"),
    ],
];

pub(crate) static SCRATCH: Table = &[
    SCRATCH_ACCESSES,
    &[
        not!(38, "scratch_load_lds_ubyte"),
        not!(39, "scratch_load_lds_sbyte"),
        not!(40, "scratch_load_lds_ushort"),
        not!(41, "scratch_load_lds_sshort"),
        not!(42, "scratch_load_lds_dword"),
    ],
];

pub(crate) static BUFFER: Table = &[
    BUFFER_ACCESSES,
    BUFFER_ATOMICS,
    &[
        not!(0, "buffer_load_format_x"),
        not!(1, "buffer_load_format_xy"),
        not!(2, "buffer_load_format_xyz"),
        not!(3, "buffer_load_format_xyzw"),
        not!(4, "buffer_store_format_x"),
        not!(5, "buffer_store_format_xy"),
        not!(6, "buffer_store_format_xyz"),
        not!(7, "buffer_store_format_xyzw"),
        // Nothing is cached.
        op!(40, "buffer_wbl2", |_, _, _| Ok(())),
        op!(41, "buffer_inv", |_, _, _| Ok(())),
    ],
];
