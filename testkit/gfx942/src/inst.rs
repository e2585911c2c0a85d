//! Decoded instructions, and what handlers of instructions work with.

use crate::wave::Wave;
use crate::{Clock, Fault, Memory, Space};

/// Handler of an instruction. The program counter points behind it already.
pub(crate) type Run = fn(&mut Wave, &Inst, &mut Env<'_>) -> Outcome;
/// `Ok`, or why the wave does not go on with the next instruction now.
pub(crate) type Outcome = Result<(), Stop>;

/// A line of a table of opcodes: the number, the name, what it does.
#[derive(Debug)]
pub(crate) struct Op(pub(crate) u16, pub(crate) &'static str, pub(crate) Run);

/// Why a wave does not go on with the next instruction now.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The wave has ended.
    End,
    /// The wave waits for the other waves of its workgroup.
    Barrier,
    /// The wave sleeps, and lets others run.
    Sleep,
    /// The instructions in memory may have changed.
    ForgetCode,
    Fault(Fault),
    OutOfRange(Space, u64),
    NotEmulated(&'static str),
    Illegal,
    Trap(u8),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Environment of a wave besides its registers.
pub(crate) struct Env<'a> {
    pub(crate) memory: &'a dyn Memory,
    pub(crate) clock: &'a dyn Clock,
    /// The local data share of its workgroup.
    pub(crate) lds: &'a mut [u8],
}

/// Encoding that changes how operands of vector instructions are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extra {
    None,
    /// Parts of registers, by these fields of the second word.
    Sdwa(u32),
    /// Values of other lanes in operand 0, by these fields of the second word.
    Dpp(u32),
    /// Two values in one operand.
    Packed,
}

/// How an address is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segment {
    Flat,
    Global,
    Scratch,
    Buffer,
}

/// A decoded instruction.
#[derive(Debug, Clone)]
pub(crate) struct Inst {
    pub(crate) run: Run,
    pub(crate) name: &'static str,
    /// Bytes, 4 or 8.
    pub(crate) size: u8,
    /// True if it is a vector instruction, to which indexing of registers applies.
    pub(crate) is_vector: bool,
    /// True if operands are read and the result is written as they are.
    pub(crate) is_plain: bool,
    /// A scalar register, or a row of the vector registers.
    pub(crate) dst: u16,
    /// The scalar registers for a carry or a comparison.
    pub(crate) sdst: u8,
    /// Operands: below 256 as the instruction encodes them, above as 256 and the row of the vector
    /// registers.
    pub(crate) src: [u16; 3],
    pub(crate) literal: u32,
    /// An immediate, or an offset.
    pub(crate) imm: i32,
    pub(crate) segment: Segment,
    /// Operands whose sign changes; of packed ones, of the lower value.
    pub(crate) neg: u8,
    /// Operands that become positive; of packed ones, those whose upper value's sign changes.
    pub(crate) abs: u8,
    /// Operands, and as bit 3 the result, that are the upper half.
    pub(crate) op_sel: u8,
    /// Of packed operands, those whose upper value is the upper half.
    pub(crate) op_sel_hi: u8,
    pub(crate) omod: u8,
    pub(crate) clamp: bool,
    pub(crate) extra: Extra,
    /// Fields that only some instructions have, as they are encoded.
    pub(crate) bits: u64,
}
