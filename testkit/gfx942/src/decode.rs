//! From the bytes of an instruction to what it does.

use std::sync::LazyLock;

use crate::inst::{Extra, Inst, Op, Segment};
use crate::lanes::{KEEPS_HALF, is_dpp_control};
use crate::ops::{self, Table};
use crate::wave::VCC;

/// Registers of a wave that an instruction may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Rows of vector registers, with the accumulators.
    pub(crate) rows: usize,
    /// The row of the first accumulator.
    pub(crate) accumulators: usize,
    /// How numbers are rounded and which are flushed, as the mode has it.
    pub(crate) floats: u8,
}

/// Why there is no instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Illegal,
    NotEmulated(&'static str),
}

type Decoded = Result<Inst, Refusal>;

/// The encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Sop2,
    Sopk,
    Sop1,
    Sopc,
    Sopp,
    Smem,
    Vop2,
    Vop1,
    Vopc,
    Vop3,
    Vop3p,
    Ds,
    Flat,
    Global,
    Scratch,
    Buffer,
}

impl Format {
    /// The encoding of the instruction that begins with this word, if there is one.
    pub(crate) fn of(word: u32) -> Option<Self> {
        Some(match word >> 26 {
            0b110000 => Self::Smem,
            0b110100 if word >> 23 == 0b1_1010_0111 => Self::Vop3p,
            0b110100 => Self::Vop3,
            0b110110 => Self::Ds,
            0b110111 => match word >> 14 & 3 {
                0 => Self::Flat,
                1 => Self::Scratch,
                2 => Self::Global,
                _ => return None,
            },
            0b111000 => Self::Buffer,
            0b110001.. => return None,
            0b100000.. => match word >> 23 & 0xff {
                0x7d => Self::Sop1,
                0x7e => Self::Sopc,
                0x7f => Self::Sopp,
                0x60..=0x7c => Self::Sopk,
                _ => Self::Sop2,
            },
            _ => match word >> 25 {
                0x3e => Self::Vopc,
                0x3f => Self::Vop1,
                _ => Self::Vop2,
            },
        })
    }

    fn opcode(self, word: u32) -> u32 {
        match self {
            Self::Sop2 => word >> 23 & 0x7f,
            Self::Sopk => word >> 23 & 0x1f,
            Self::Sop1 => word >> 8 & 0xff,
            Self::Sopc | Self::Sopp => word >> 16 & 0x7f,
            Self::Smem => word >> 18 & 0xff,
            Self::Vop2 => word >> 25 & 0x3f,
            Self::Vop1 => word >> 9 & 0xff,
            Self::Vopc | Self::Ds => word >> 17 & 0xff,
            Self::Vop3 => word >> 16 & 0x3ff,
            Self::Vop3p => word >> 16 & 0x7f,
            Self::Flat | Self::Global | Self::Scratch | Self::Buffer => word >> 18 & 0x7f,
        }
    }

    fn table(self) -> Table {
        match self {
            Self::Sop2 => ops::SOP2,
            Self::Sopk => ops::SOPK,
            Self::Sop1 => ops::SOP1,
            Self::Sopc => ops::SOPC,
            Self::Sopp => ops::SOPP,
            Self::Smem => ops::SMEM,
            Self::Vop2 => ops::VOP2,
            Self::Vop1 => ops::VOP1,
            Self::Vopc => ops::COMPARE,
            Self::Vop3 => ops::VOP3,
            Self::Vop3p => ops::VOP3P,
            Self::Ds => ops::DS,
            Self::Flat => ops::FLAT,
            Self::Global => ops::GLOBAL,
            Self::Scratch => ops::SCRATCH,
            Self::Buffer => ops::BUFFER,
        }
    }
}

/// All encodings, in the order of their numbers.
const FORMATS: [Format; 16] = [
    Format::Sop2,
    Format::Sopk,
    Format::Sop1,
    Format::Sopc,
    Format::Sopp,
    Format::Smem,
    Format::Vop2,
    Format::Vop1,
    Format::Vopc,
    Format::Vop3,
    Format::Vop3p,
    Format::Ds,
    Format::Flat,
    Format::Global,
    Format::Scratch,
    Format::Buffer,
];

/// For each encoding, what each opcode is.
static INDEX: LazyLock<Vec<Vec<Option<&'static Op>>>> = LazyLock::new(|| {
    let mut index: Vec<_> = FORMATS.iter().map(|format| listed(format.table())).collect();
    // The long encoding has the instructions of the short ones, too.
    for (format, first) in [(Format::Vopc, 0), (Format::Vop2, 0x100), (Format::Vop1, 0x140)] {
        let short = index[format as usize].clone();
        let long = &mut index[Format::Vop3 as usize];
        for (to, from) in long[first..].iter_mut().zip(short) {
            *to = to.or(from.filter(|op| !ONLY_SHORT.contains(&op.1)));
        }
    }
    index
});

/// Instructions that the long encoding does not have.
const ONLY_SHORT: [&str; 8] = [
    "v_accvgpr_mov_b32",
    "v_fmaak_f32",
    "v_fmamk_f32",
    "v_madak_f16",
    "v_madmk_f16",
    "v_pk_fmac_f16",
    "v_readfirstlane_b32",
    "v_swap_b32",
];

fn listed(table: Table) -> Vec<Option<&'static Op>> {
    let mut list = vec![None; 1024];
    for op in table.iter().copied().flatten() {
        list[usize::from(op.0)] = Some(op);
    }
    list
}

/// True if another word belongs to the instruction that begins with this one.
pub(crate) fn is_long(format: Format, word: u32) -> bool {
    let opcode = format.opcode(word);
    let (first, second) = (word & 0xff, word >> 8 & 0xff);
    match format {
        Format::Sop2 | Format::Sopc => {
            first == 255 || second == 255 && !(format == Format::Sopc && opcode == 17)
        }
        Format::Sop1 => first == 255,
        Format::Sopk => opcode == 20,
        Format::Sopp => false,
        Format::Vop2 if matches!(opcode, 23 | 24 | 36 | 37) => true,
        Format::Vop1 | Format::Vop2 | Format::Vopc => matches!(word & 0x1ff, 249 | 250 | 255),
        _ => true,
    }
}

/// Decodes an instruction of one or two words; of one, the second does not matter.
pub(crate) fn decode(words: [u32; 2], limits: &Limits) -> Decoded {
    let format = Format::of(words[0]).ok_or(Refusal::Illegal)?;
    let opcode = format.opcode(words[0]);
    let found = INDEX[format as usize].get(opcode as usize).copied().flatten();
    let Op(_, name, run) = found.ok_or(Refusal::Illegal)?;
    let decoder = Decoder { format, opcode, words, limits };
    let mut inst = decoder.blank(name, *run);
    match format {
        Format::Sop2 | Format::Sop1 | Format::Sopc | Format::Sopk | Format::Sopp => {
            decoder.scalar(&mut inst)?;
        }
        Format::Smem => decoder.scalar_memory(&mut inst),
        Format::Vop1 | Format::Vop2 | Format::Vopc => decoder.short_vector(&mut inst)?,
        Format::Vop3 => decoder.long_vector(&mut inst)?,
        Format::Vop3p => decoder.packed(&mut inst)?,
        Format::Ds => decoder.shared(&mut inst)?,
        Format::Flat | Format::Global | Format::Scratch => decoder.flat(&mut inst)?,
        Format::Buffer => decoder.buffer(&mut inst)?,
    }
    inst.is_plain = inst.neg == 0
        && inst.abs == 0
        && inst.op_sel == 0
        && inst.omod == 0
        && !inst.clamp
        && inst.extra == Extra::None
        && inst.bits & KEEPS_HALF == 0;
    if inst.is_vector && !allows(limits.floats, name) {
        return Err(Refusal::NotEmulated("arithmetic with this rounding or flushing"));
    }
    Ok(inst)
}

/// True if this instruction computes in a way that is emulated: to the nearest number, the even one
/// of two, without flushing.
fn allows(floats: u8, name: &str) -> bool {
    let rest =
        |rounding: u8, flushing: u8| floats >> rounding & 3 != 0 || floats >> flushing & 3 != 3;
    let has = |part: &str| name.contains(part);
    let (is_single, is_other) = (has("f32"), has("f16") || has("f64"));
    !(is_single && rest(0, 4) || is_other && rest(2, 6))
}

struct Decoder<'a> {
    format: Format,
    opcode: u32,
    words: [u32; 2],
    limits: &'a Limits,
}

impl Decoder<'_> {
    fn blank(&self, name: &'static str, run: crate::inst::Run) -> Inst {
        let is_long = is_long(self.format, self.words[0]);
        Inst {
            run,
            name,
            size: if is_long { 8 } else { 4 },
            is_vector: false,
            is_plain: true,
            dst: 0,
            sdst: VCC as u8,
            src: [128; 3],
            literal: self.words[1],
            imm: 0,
            segment: Segment::Global,
            neg: 0,
            abs: 0,
            op_sel: 0,
            op_sel_hi: 0,
            omod: 0,
            clamp: false,
            extra: Extra::None,
            bits: (u64::from(self.words[0]) | u64::from(self.words[1]) << 32) & !KEEPS_HALF,
        }
    }

    /// Bits of the instruction, counted from the first word.
    fn bits(&self, first: u32, count: u32) -> u32 {
        let all = u64::from(self.words[0]) | u64::from(self.words[1]) << 32;
        (all >> first) as u32 & (u32::MAX >> (32 - count))
    }

    fn row(&self, register: u32, is_accumulator: bool) -> Result<u16, Refusal> {
        let first = if is_accumulator { self.limits.accumulators } else { 0 };
        let row = first + register as usize;
        if row < self.limits.rows { Ok(row as u16) } else { Err(Refusal::Illegal) }
    }

    /// An operand: 256 and more are vector registers.
    fn operand(&self, code: u32, is_accumulator: bool) -> Result<u16, Refusal> {
        match code {
            0..=208 | 235..=238 | 240..=248 | 251..=253 | 255 => Ok(code as u16),
            256..=511 => Ok(256 + self.row(code - 256, is_accumulator)?),
            254 => Err(Refusal::NotEmulated("lds_direct")),
            _ => Err(Refusal::Illegal),
        }
    }

    fn scalar(&self, inst: &mut Inst) -> Result<(), Refusal> {
        inst.dst = self.bits(16, 7) as u16;
        inst.imm = i32::from(self.bits(0, 16) as i16);
        let sources = match self.format {
            Format::Sop2 | Format::Sopc => 2,
            Format::Sop1 => 1,
            _ => 0,
        };
        if self.format == Format::Sopc && self.opcode == 17 {
            inst.src = [self.operand(self.bits(0, 8), false)?, self.bits(8, 8) as u16, 128];
            return Ok(());
        }
        for n in 0..sources {
            inst.src[n as usize] = self.operand(self.bits(8 * n, 8), false)?;
        }
        Ok(())
    }

    fn scalar_memory(&self, inst: &mut Inst) {
        inst.dst = self.bits(6, 7) as u16;
        inst.imm = (self.bits(32, 21) << 11) as i32 >> 11;
    }

    fn short_vector(&self, inst: &mut Inst) -> Result<(), Refusal> {
        inst.is_vector = true;
        let first = self.bits(0, 9);
        let mut second = 256 + self.bits(9, 8);
        inst.src[0] = match first {
            249 => {
                if self.bits(63, 1) == 1 {
                    second -= 256;
                }
                self.sdwa(inst)?
            }
            250 => self.dpp(inst)?,
            _ => self.operand(first, false)?,
        };
        if self.format != Format::Vop1 {
            inst.src[1] = self.operand(second, false)?;
        }
        if self.format != Format::Vopc {
            self.short_result(inst, self.bits(17, 8))?;
        }
        Ok(())
    }

    /// The result of an instruction with one or two operands, and its third operand.
    fn short_result(&self, inst: &mut Inst, register: u32) -> Result<(), Refusal> {
        let is_first_lane = self.format == Format::Vop1 && self.opcode == 2;
        let is_accumulator = self.format == Format::Vop1 && self.opcode == 82;
        if is_first_lane {
            inst.dst = scalar_register(register)?;
            return Ok(());
        }
        inst.dst = self.row(register, is_accumulator)?;
        if is_accumulator {
            inst.src[0] = self.operand(self.bits(0, 9), true)?;
        }
        if self.format != Format::Vop2 {
            return Ok(());
        }
        inst.src[2] = match self.opcode {
            0 | 28..=30 => VCC as u16,
            24 | 37 => 255,
            23 | 36 => std::mem::replace(&mut inst.src[1], 255),
            _ => 256 + inst.dst,
        };
        Ok(())
    }

    fn sdwa(&self, inst: &mut Inst) -> Result<u16, Refusal> {
        inst.extra = Extra::Sdwa(self.words[1]);
        inst.neg = (self.bits(52, 1) | self.bits(60, 1) << 1) as u8;
        inst.abs = (self.bits(53, 1) | self.bits(61, 1) << 1) as u8;
        if self.format == Format::Vopc {
            if self.bits(47, 1) == 1 {
                inst.sdst = self.bits(40, 7) as u8;
            }
        } else {
            inst.clamp = self.bits(45, 1) == 1;
            inst.omod = self.bits(46, 2) as u8;
        }
        let is_scalar = self.bits(55, 1) == 1;
        self.operand(self.bits(32, 8) + if is_scalar { 0 } else { 256 }, false)
    }

    fn dpp(&self, inst: &mut Inst) -> Result<u16, Refusal> {
        if self.format == Format::Vopc || !is_dpp_control(self.bits(40, 9)) {
            return Err(Refusal::Illegal);
        }
        inst.extra = Extra::Dpp(self.words[1]);
        inst.neg = (self.bits(52, 1) | self.bits(54, 1) << 1) as u8;
        inst.abs = (self.bits(53, 1) | self.bits(55, 1) << 1) as u8;
        self.operand(256 + self.bits(32, 8), false)
    }

    fn sources(&self, inst: &mut Inst, accumulators: [bool; 3]) -> Result<(), Refusal> {
        for (n, is_accumulator) in (0..).zip(accumulators) {
            let code = self.bits(32 + 9 * n, 9);
            if code == 255 {
                return Err(Refusal::Illegal);
            }
            inst.src[n as usize] = self.operand(code, is_accumulator)?;
        }
        Ok(())
    }

    fn long_vector(&self, inst: &mut Inst) -> Result<(), Refusal> {
        inst.is_vector = true;
        self.sources(inst, [false; 3])?;
        inst.clamp = self.bits(15, 1) == 1;
        inst.omod = self.bits(59, 2) as u8;
        inst.neg = self.bits(61, 3) as u8;
        let register = self.bits(0, 8);
        match self.opcode {
            // These have a mask as a second result.
            0x119..=0x11e | 480 | 481 | 488 | 489 => inst.sdst = self.bits(8, 7) as u8,
            _ => {
                inst.abs = self.bits(8, 3) as u8;
                inst.op_sel = self.bits(11, 4) as u8;
            }
        }
        match self.opcode {
            0..=0xff => {
                inst.sdst = scalar_register(register)? as u8;
                // It clamps nothing.
                inst.clamp = false;
            }
            649 => inst.dst = scalar_register(register)?,
            _ => inst.dst = self.row(register, false)?,
        }
        match self.opcode {
            0x100 | 0x11c..=0x11e if inst.src[2] >= 128 => return Err(Refusal::Illegal),
            0x100 | 0x11c..=0x11e => {}
            0x100..=0x13f => inst.src[2] = 256 + inst.dst,
            _ => {}
        }
        // Of the 16 bits' instructions, only these leave the other half.
        if matches!(self.opcode, 500..=508 | 515..=519 | 670 | 671) || inst.op_sel >> 3 == 1 {
            inst.bits |= KEEPS_HALF;
        }
        Ok(())
    }

    fn packed(&self, inst: &mut Inst) -> Result<(), Refusal> {
        inst.is_vector = true;
        let is_matrix = self.opcode >= 62;
        let (acc_cd, acc) = (is_matrix && self.bits(15, 1) == 1, self.bits(59, 2));
        let has = |n: u32| is_matrix && acc >> n & 1 == 1;
        match self.opcode {
            88 => {
                self.sources(inst, [true, false, false])?;
                inst.dst = self.row(self.bits(0, 8), false)?;
            }
            89 => {
                // Its bits for accumulators say nothing.
                self.sources(inst, [false; 3])?;
                inst.dst = self.row(self.bits(0, 8), true)?;
            }
            _ => {
                self.sources(inst, [has(0), has(1), acc_cd])?;
                inst.dst = self.row(self.bits(0, 8), acc_cd)?;
            }
        }
        if is_matrix {
            inst.neg = self.bits(61, 3) as u8;
            return Ok(());
        }
        inst.clamp = self.bits(15, 1) == 1;
        inst.extra = Extra::Packed;
        inst.neg = self.bits(61, 3) as u8;
        inst.abs = self.bits(8, 3) as u8;
        inst.op_sel = self.bits(11, 3) as u8;
        inst.op_sel_hi = (self.bits(59, 2) | self.bits(14, 1) << 2) as u8;
        Ok(())
    }

    fn shared(&self, inst: &mut Inst) -> Result<(), Refusal> {
        if self.bits(16, 1) == 1 {
            return Err(Refusal::NotEmulated("the global data share"));
        }
        let is_accumulator = self.bits(25, 1) == 1;
        inst.imm = self.bits(0, 16) as i32;
        inst.src[0] = 256 + self.row(self.bits(32, 8), false)?;
        inst.src[1] = 256 + self.row(self.bits(40, 8), is_accumulator)?;
        inst.src[2] = 256 + self.row(self.bits(48, 8), is_accumulator)?;
        inst.dst = self.row(self.bits(56, 8), is_accumulator)?;
        Ok(())
    }

    fn flat(&self, inst: &mut Inst) -> Result<(), Refusal> {
        let is_accumulator = self.bits(55, 1) == 1;
        let offset = self.bits(0, 13);
        (inst.segment, inst.imm) = match self.format {
            Format::Flat => (Segment::Flat, (offset & 0xfff) as i32),
            Format::Scratch => (Segment::Scratch, (offset << 19) as i32 >> 19),
            _ => (Segment::Global, (offset << 19) as i32 >> 19),
        };
        inst.src[0] = 256 + self.row(self.bits(32, 8), false)?;
        inst.src[1] = 256 + self.row(self.bits(40, 8), is_accumulator)?;
        inst.dst = self.row(self.bits(56, 8), is_accumulator)?;
        inst.sdst = self.bits(48, 7) as u8;
        Ok(())
    }

    fn buffer(&self, inst: &mut Inst) -> Result<(), Refusal> {
        if self.bits(16, 1) == 1 {
            return Err(Refusal::NotEmulated("a buffer load to the local data share"));
        }
        inst.segment = Segment::Buffer;
        inst.imm = self.bits(0, 12) as i32;
        inst.src[0] = 256 + self.row(self.bits(32, 8), false)?;
        inst.dst = self.row(self.bits(40, 8), self.bits(55, 1) == 1)?;
        inst.src[1] = 256 + inst.dst;
        inst.sdst = 4 * self.bits(48, 5) as u8;
        inst.src[2] = self.operand(self.bits(56, 8), false)?;
        Ok(())
    }
}

fn scalar_register(register: u32) -> Result<u16, Refusal> {
    if register < 128 { Ok(register as u16) } else { Err(Refusal::Illegal) }
}

#[cfg(test)]
mod tests;
