//! The registers of a wave.

use crate::inst::Inst;
use crate::value::Value;

/// Lanes of a wave.
pub(crate) const LANES: usize = 64;
/// A vector register.
pub(crate) type Row = [u32; LANES];
/// Rows behind the last one that a wave has, so that operands of several rows that begin in a row
/// that it has end in one that is there.
pub(crate) const SPARE_ROWS: usize = 32;
/// Scalar registers, with those that have names, and some behind for operands of several.
pub(crate) const SCALARS: usize = 128 + 16;

pub(crate) const VCC: usize = 106;
pub(crate) const M0: usize = 124;
pub(crate) const EXEC: usize = 126;
/// The bit of the mode that turns indexing of vector registers on.
pub(crate) const INDEXED: u32 = 1 << 27;

/// State of a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Sleeping: it has executed `s_sleep`, and has had no turn since.
    Sleeps,
    /// Waiting at a barrier.
    Waits,
    Ended,
}

/// A wave.
#[derive(Debug, Clone)]
pub(crate) struct Wave {
    pub(crate) pc: u64,
    pub(crate) state: State,
    pub(crate) scc: bool,
    pub(crate) mode: u32,
    /// Scalar registers by the numbers that instructions encode them with, `vcc`, `m0` and `exec`
    /// among them.
    pub(crate) s: [u32; SCALARS],
    /// Vector registers and behind them the accumulators.
    pub(crate) v: Vec<Row>,
    /// The scratch memory of each lane, one behind the other.
    pub(crate) scratch: Vec<u8>,
    /// Where the local data share and scratch memory are in flat addresses.
    pub(crate) bases: [u64; 2],
}

/// For each byte of `exec`, the rows' words that are written.
static MASKS: [[u32; 8]; 256] = {
    let mut masks = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            masks[byte][bit] = if byte >> bit & 1 == 1 { u32::MAX } else { 0 };
            bit += 1;
        }
        byte += 1;
    }
    masks
};

impl Wave {
    pub(crate) fn exec(&self) -> u64 {
        self.pair(EXEC)
    }

    pub(crate) fn vcc(&self) -> u64 {
        self.pair(VCC)
    }

    /// Two scalar registers.
    #[inline]
    pub(crate) fn pair(&self, at: usize) -> u64 {
        u64::from(self.s[at]) | u64::from(self.s[at + 1]) << 32
    }

    #[inline]
    pub(crate) fn set_pair(&mut self, at: usize, value: u64) {
        (self.s[at], self.s[at + 1]) = (value as u32, (value >> 32) as u32);
    }

    /// The first active lane, or 0.
    pub(crate) fn first_lane(&self) -> usize {
        let exec = self.exec();
        if exec == 0 { 0 } else { exec.trailing_zeros() as usize }
    }

    /// Writes the lanes of a row that the mask has.
    #[inline]
    pub(crate) fn write_row(&mut self, row: usize, values: &Row, mask: u64) {
        let to = &mut self.v[row];
        if mask == u64::MAX {
            *to = *values;
            return;
        }
        let masks = mask.to_le_bytes().map(|byte| &MASKS[usize::from(byte)]);
        for ((to, from), mask) in to.chunks_exact_mut(8).zip(values.chunks_exact(8)).zip(masks) {
            for lane in 0..8 {
                to[lane] = to[lane] & !mask[lane] | from[lane] & mask[lane];
            }
        }
    }

    /// Operand `n`, which is not a vector register, as one or two words.
    #[inline]
    pub(crate) fn scalar<T: Value>(&self, inst: &Inst, n: usize) -> T {
        let code = usize::from(inst.src[n]);
        if code < 128 {
            let high = if T::WORDS == 2 { self.s[code + 1] } else { 0 };
            return T::of(self.s[code], high);
        }
        self.constant(inst, code)
    }

    fn constant<T: Value>(&self, inst: &Inst, code: usize) -> T {
        let number = code as i64;
        let wide = |value: u64| T::of(value as u32, (value >> 32) as u32);
        match code {
            128..=192 => wide((number - 128) as u64),
            193..=208 => wide((192 - number) as u64),
            235 => wide(self.bases[0]),
            236 => wide(self.bases[0] | 0xffff_ffff),
            237 => wide(self.bases[1]),
            238 => wide(self.bases[1] | 0xffff_ffff),
            240..=248 => T::constant(code - 240),
            251 => wide(u64::from(self.vcc() == 0)),
            252 => wide(u64::from(self.exec() == 0)),
            253 => wide(u64::from(self.scc)),
            255 => T::literal(inst.literal),
            _ => wide(0),
        }
    }

    /// The row of a vector operand.
    #[inline]
    pub(crate) fn row(&self, inst: &Inst, n: usize) -> Option<&Row> {
        usize::from(inst.src[n]).checked_sub(256).map(|row| &self.v[row])
    }

    /// Branches by the immediate of the instruction, which counts words.
    pub(crate) fn branch(&mut self, inst: &Inst) {
        self.pc = self.pc.wrapping_add_signed(i64::from(inst.imm) * 4);
    }
}
