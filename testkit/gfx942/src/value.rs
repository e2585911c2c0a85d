//! Types of operands and results.

use crate::float::{f16_bits, f16_value};

/// Type of an operand or a result of one lane.
pub(crate) trait Value: Copy {
    /// How many registers it takes, 1 or 2.
    const WORDS: usize = 1;
    /// True if it is half of a register.
    const IS_HALF: bool = false;
    const IS_FLOAT: bool = false;

    fn of(low: u32, high: u32) -> Self;
    fn bits(self) -> (u32, u32);

    /// The constant that the operand 240 + `n` stands for.
    fn constant(n: usize) -> Self {
        Self::of(f32_constant(n).to_bits(), 0)
    }

    /// Returns the value that the literal in an instruction stands for.
    fn literal(bits: u32) -> Self {
        Self::of(bits, 0)
    }

    /// Multiplied by what `omod` says, and clamped.
    fn adjust(self, omod: u8, clamp: bool) -> Self {
        let _ = (omod, clamp);
        self
    }
}

/// A number of 16 bits. It is held so that sums and products of two are exact, and rounded when it
/// is written.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Half(pub(crate) f64);

/// A number of the upper 16 bits of an `f32`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bf16(pub(crate) f32);

fn f32_constant(n: usize) -> f32 {
    let inverse = f32::from_bits(0x3e22_f983);
    [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, inverse].get(n).copied().unwrap_or_default()
}

fn f64_constant(n: usize) -> f64 {
    let inverse = f64::from_bits(0x3fc4_5f30_6dc9_c882);
    if n == 8 { inverse } else { f64::from(f32_constant(n)) }
}

fn factor(omod: u8) -> f32 {
    [1.0, 2.0, 4.0, 0.5].get(usize::from(omod)).copied().unwrap_or(1.0)
}

macro_rules! integers {
    ($($t:ty, $of:expr, $bits:expr, $words:expr, $half:expr, $literal:expr;)*) => { $(
        impl Value for $t {
            const WORDS: usize = $words;
            const IS_HALF: bool = $half;
            #[inline(always)]
            fn of(low: u32, high: u32) -> Self {
                let of: fn(u32, u32) -> Self = $of;
                of(low, high)
            }
            #[inline(always)]
            fn bits(self) -> (u32, u32) {
                let bits: fn(Self) -> (u32, u32) = $bits;
                bits(self)
            }
            fn constant(n: usize) -> Self {
                if $words == 2 {
                    let bits = f64_constant(n).to_bits();
                    Self::of(bits as u32, (bits >> 32) as u32)
                } else if $half {
                    Self::of(u32::from(f16_bits(f64_constant(n))), 0)
                } else {
                    Self::of(f32_constant(n).to_bits(), 0)
                }
            }
            fn literal(bits: u32) -> Self {
                let literal: fn(u32) -> (u32, u32) = $literal;
                let (low, high) = literal(bits);
                Self::of(low, high)
            }
        }
    )* };
}

integers! {
    u32, |low, _| low, |v| (v, 0), 1, false, |l| (l, 0);
    i32, |low, _| low as i32, |v| (v as u32, 0), 1, false, |l| (l, 0);
    u16, |low, _| low as u16, |v| (u32::from(v), 0), 1, true, |l| (l, 0);
    i16, |low, _| low as i16, |v| (u32::from(v as u16), 0), 1, true, |l| (l, 0);
    u64, |low, high| u64::from(low) | u64::from(high) << 32, |v| (v as u32, (v >> 32) as u32),
        2, false, |l| (l, 0);
    i64, |low, high| (u64::from(low) | u64::from(high) << 32) as i64,
        |v| (v as u32, (v >> 32) as u32), 2, false, |l| (l, (l as i32 >> 31) as u32);
    [u16; 2], |low, _| [low as u16, (low >> 16) as u16],
        |v| (u32::from(v[0]) | u32::from(v[1]) << 16, 0), 1, false, |l| (l, 0);
    [i16; 2], |low, _| [low as i16, (low >> 16) as i16],
        |v| (u32::from(v[0] as u16) | u32::from(v[1] as u16) << 16, 0), 1, false, |l| (l, 0);
}

impl Value for f32 {
    const IS_FLOAT: bool = true;
    #[inline(always)]
    fn of(low: u32, _: u32) -> Self {
        Self::from_bits(low)
    }
    #[inline(always)]
    fn bits(self) -> (u32, u32) {
        (self.to_bits(), 0)
    }
    fn adjust(self, omod: u8, clamp: bool) -> Self {
        let scaled = self * factor(omod);
        if clamp { unit(f64::from(scaled)) as Self } else { scaled }
    }
}

impl Value for f64 {
    const WORDS: usize = 2;
    const IS_FLOAT: bool = true;
    #[inline(always)]
    fn of(low: u32, high: u32) -> Self {
        Self::from_bits(u64::from(low) | u64::from(high) << 32)
    }
    #[inline(always)]
    fn bits(self) -> (u32, u32) {
        (self.to_bits() as u32, (self.to_bits() >> 32) as u32)
    }
    fn constant(n: usize) -> Self {
        f64_constant(n)
    }
    fn literal(bits: u32) -> Self {
        Self::of(0, bits)
    }
    fn adjust(self, omod: u8, clamp: bool) -> Self {
        let scaled = self * Self::from(factor(omod));
        if clamp { unit(scaled) } else { scaled }
    }
}

impl Value for Half {
    const IS_HALF: bool = true;
    const IS_FLOAT: bool = true;
    fn of(low: u32, _: u32) -> Self {
        Self(f16_value(low as u16))
    }
    fn bits(self) -> (u32, u32) {
        (u32::from(f16_bits(self.0)), 0)
    }
    fn constant(n: usize) -> Self {
        Self(f16_value(f16_bits(f64_constant(n))))
    }
    fn adjust(self, omod: u8, clamp: bool) -> Self {
        let rounded = f16_value(f16_bits(self.0));
        let scaled = rounded * f64::from(factor(omod));
        Self(if clamp { unit(scaled) } else { scaled })
    }
}

/// Two numbers of 16 bits in a register.
impl Value for [Half; 2] {
    const IS_FLOAT: bool = true;
    fn of(low: u32, _: u32) -> Self {
        [Half::of(low, 0), Half::of(low >> 16, 0)]
    }
    fn bits(self) -> (u32, u32) {
        (self[0].bits().0 | self[1].bits().0 << 16, 0)
    }
    fn constant(n: usize) -> Self {
        [Half::constant(n), Half(0.0)]
    }
    fn adjust(self, omod: u8, clamp: bool) -> Self {
        self.map(|half| half.adjust(omod, clamp))
    }
}

/// Two numbers in a pair of registers.
impl Value for [f32; 2] {
    const WORDS: usize = 2;
    const IS_FLOAT: bool = true;
    fn of(low: u32, high: u32) -> Self {
        [f32::from_bits(low), f32::from_bits(high)]
    }
    fn bits(self) -> (u32, u32) {
        (self[0].to_bits(), self[1].to_bits())
    }
    fn constant(n: usize) -> Self {
        [f32_constant(n); 2]
    }
    fn literal(bits: u32) -> Self {
        [f32::from_bits(bits); 2]
    }
    fn adjust(self, omod: u8, clamp: bool) -> Self {
        self.map(|value| value.adjust(omod, clamp))
    }
}

impl Value for Bf16 {
    const IS_HALF: bool = true;
    const IS_FLOAT: bool = true;
    fn of(low: u32, _: u32) -> Self {
        Self(f32::from_bits(low << 16))
    }
    fn bits(self) -> (u32, u32) {
        (u32::from(crate::float::bf16_bits(self.0)), 0)
    }
}

/// Between 0 and 1. What is not a number becomes 0, as the mode has it that compilers choose.
fn unit(value: f64) -> f64 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}
