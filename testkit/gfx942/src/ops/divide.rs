//! The steps of a division.

use crate::float::{Float, fma_odd, frexp, ldexp};

/// Operations that scale and correct the numbers of a division of one length.
pub(crate) trait Divide: Float {
    /// The exponents of the smallest and of the greatest normal number.
    const EXPONENTS: [i32; 2];
    /// By how many powers of 2 numbers are scaled.
    const STEP: i32;
    /// Quotients from this power of 2 on are close to an overflow.
    const NEAR_OVERFLOW: i32;
    /// Numerators up to this power of 2 lose digits.
    const TINY: i32;
    const NAN: Self;

    /// `(self * b + c) * 2^exponent`, rounded once.
    fn fma_scaled(self, b: Self, c: Self, exponent: i32) -> Self;

    /// The exponent as the number's bits have it.
    fn exponent(self) -> i32 {
        (frexp(self.to_f64()).1 - 1).max(Self::EXPONENTS[0] - 1)
    }

    fn scaled(self, exponent: i32) -> Self {
        Self::from_f64(ldexp(self.to_f64(), exponent))
    }

    fn with_sign(self, is_negative: bool) -> Self {
        let size = self.to_f64().abs();
        Self::from_f64(if is_negative { -size } else { size })
    }
}

impl Divide for f32 {
    const EXPONENTS: [i32; 2] = [-126, 127];
    const STEP: i32 = 64;
    const NEAR_OVERFLOW: i32 = 96;
    const TINY: i32 = 23 - 127;
    const NAN: Self = Self::NAN;

    fn fma_scaled(self, b: Self, c: Self, exponent: i32) -> Self {
        ldexp(fma_odd(self.into(), b.into(), c.into()), exponent) as Self
    }
}

impl Divide for f64 {
    const EXPONENTS: [i32; 2] = [-1022, 1023];
    const STEP: i32 = 128;
    const NEAR_OVERFLOW: i32 = 768;
    const TINY: i32 = 53 - 1023;
    const NAN: Self = Self::NAN;

    fn fma_scaled(self, b: Self, c: Self, exponent: i32) -> Self {
        let value = self.mul_add(b, c);
        let (fraction, own) = frexp(value);
        if !value.is_finite() || value == 0.0 || own + exponent > -1022 {
            return ldexp(value, exponent);
        }
        // Whether the exact result is further from 0 than the rounded one.
        let product = self * b;
        let sum = product + c;
        let other = sum - product;
        let lost = (product - (sum - other)) + (c - other) + self.mul_add(b, -product);
        let rest = ((sum - value) + lost) * value.signum();
        let digits = (fraction.abs() * crate::float::power(53)) as u64;
        let exact = (digits * 4).wrapping_add_signed(i64::from(rest > 0.0) - i64::from(rest < 0.0));
        // The last digit counts for 2^-1074.
        let shift = (-1074 - (own + exponent - 53) + 2).min(63);
        let (kept, half) = (exact >> shift, 1 << (shift - 1));
        let below = exact & ((1 << shift) - 1);
        let up = below > half || below == half && kept & 1 == 1;
        Self::from_bits(value.to_bits() & 1 << 63 | (kept + u64::from(up)))
    }
}

/// `value`, which is the denominator or the numerator, scaled so that no step of the division
/// overflows or loses digits, and whether the last step has to scale the result back.
pub(crate) fn scale<T: Divide>(value: T, denominator: T, numerator: T) -> (T, bool) {
    let same = |a: T, b: T| a.to_f64().to_bits() == b.to_f64().to_bits();
    let only = |other: T, step: i32| if same(value, other) { value.scaled(step) } else { value };
    let [least, _] = T::EXPONENTS;
    if denominator.to_f64() == 0.0 || numerator.to_f64() == 0.0 {
        return (T::NAN, false);
    }
    let (d, n) = (denominator.exponent(), numerator.exponent());
    let fraction = |value: T| frexp(value.to_f64()).0.abs();
    let borrow = i32::from(fraction(numerator) < fraction(denominator));
    let is_small = n - d - borrow < least;
    let inverse_is_small = -d < least || -d == least && fraction(denominator) > 0.5;
    if n - d >= T::NEAR_OVERFLOW {
        (only(denominator, T::STEP), true)
    } else if denominator.is_subnormal() {
        (value.scaled(T::STEP), false)
    } else if inverse_is_small && is_small {
        (only(denominator, -T::STEP), true)
    } else if inverse_is_small {
        (value.scaled(-T::STEP), false)
    } else if is_small {
        (only(numerator, T::STEP), true)
    } else if n <= T::TINY {
        (value.scaled(T::STEP), false)
    } else {
        (value, false)
    }
}

/// The last step of a division, whose result is scaled back where [`scale`] said so.
pub(crate) fn last<T: Divide>(a: T, b: T, c: T, is_scaled: bool) -> T {
    // Away from where scaling has brought the quotient.
    let step = if c.exponent() > 0 { T::STEP } else { -T::STEP };
    a.fma_scaled(b, c, if is_scaled { step } else { 0 })
}

/// The quotient, with the special cases corrected.
pub(crate) fn fix_up<T: Divide>(quotient: T, denominator: T, numerator: T) -> T {
    let (d, n) = (denominator.to_f64(), numerator.to_f64());
    let is_negative = denominator.is_negative() != numerator.is_negative();
    let infinite = T::from_f64(f64::INFINITY).with_sign(is_negative);
    let zero = T::from_f64(0.0).with_sign(is_negative);
    match (n, d) {
        _ if n.is_nan() => numerator.quiet(),
        _ if d.is_nan() => denominator.quiet(),
        (0.0, 0.0) => T::NAN,
        _ if d.is_infinite() && n.is_infinite() => T::NAN,
        _ if d == 0.0 || n.is_infinite() => infinite,
        _ if d.is_infinite() || n == 0.0 => zero,
        _ if quotient.to_f64().is_nan() => infinite,
        _ => quotient.with_sign(is_negative),
    }
}
