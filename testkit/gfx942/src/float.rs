//! Arithmetic that the processor does not have, or has otherwise.

/// The value of a number of 16 bits.
pub(crate) fn f16_value(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    match bits >> 10 & 0x1f {
        0 => sign * fraction * power(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        // The payload stays, and with it whether it signals.
        31 => f64::from_bits(
            u64::from(bits >> 15) << 63 | 0x7ff << 52 | u64::from(bits & 0x3ff) << 42,
        ),
        exponent => sign * (1024.0 + fraction) * power(i32::from(exponent) - 25),
    }
}

/// The number of 16 bits that is nearest, the even one of two.
pub(crate) fn f16_bits(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 48 & 0x8000) as u16;
    if value.is_nan() {
        return sign | 0x7e00 | (bits >> 42 & 0x1ff) as u16;
    }
    let size = value.abs();
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    if size < power(-14) {
        // A multiple of the smallest number; 1024 of them are the smallest normal one.
        return sign | (size * power(24)).round_ties_even() as u16;
    }
    let bits = size.to_bits();
    let kept = bits >> 42;
    let rest = bits & ((1 << 42) - 1);
    let up = rest > 1 << 41 || rest == 1 << 41 && kept & 1 == 1;
    // A carry out of the fraction makes the exponent one more, as it should.
    sign | (kept + u64::from(up) - ((1023 - 15) << 10)) as u16
}

/// The upper 16 bits of the nearest number.
pub(crate) fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// A power of 2 whose exponent is that of a normal number.
pub(crate) fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(exponent.clamp(-1022, 1023))) as u64) << 52)
}

/// `a * b + c`, where the product is exact, so that rounding it to fewer digits rounds the exact
/// result.
pub(crate) fn fma_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum;
    }
    // What the sum lost.
    let other = sum - product;
    let lost = (product - (sum - other)) + (c - other);
    if lost == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // The last bit says that there is more, on the side where it is.
    let away = (lost > 0.0) == (sum > 0.0);
    f64::from_bits(if away { sum.to_bits() | 1 } else { sum.to_bits() - 1 })
}

/// Operations that exist for several lengths of numbers.
pub(crate) trait Float: Copy + PartialOrd {
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
    fn is_signaling(self) -> bool;
    /// Returns the number, not signaling.
    fn quiet(self) -> Self;
    fn is_negative(self) -> bool;
    fn is_subnormal(self) -> bool;
    /// The smaller one; what is not a number loses, unless it signals.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        match chosen(self, other) {
            Some(value) => value,
            None if self < other || self == other && self.is_negative() => self,
            None => other,
        }
    }
    /// The greater one; what is not a number loses, unless it signals.
    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        match chosen(self, other) {
            Some(value) => value,
            None if self > other || self == other && !self.is_negative() => self,
            None => other,
        }
    }
    /// The one in the middle of three.
    fn middle(self, b: Self, c: Self) -> Self {
        let is_nan = |value: Self| value.to_f64().is_nan();
        if is_nan(self) || is_nan(b) || is_nan(c) {
            return self.least(b).least(c);
        }
        self.least(b).greatest(self.greatest(b).least(c))
    }
    /// Returns the one of the ten classes that it is of, as a bit.
    fn class(self) -> u32 {
        let value = self.to_f64();
        let n = match value {
            _ if value.is_nan() => return if self.is_signaling() { 1 } else { 2 },
            _ if value.is_infinite() => 0,
            _ if value == 0.0 => 3,
            _ if self.is_subnormal() => 2,
            _ => 1,
        };
        if self.is_negative() { 1 << (2 + n) } else { 1 << (9 - n) }
    }
}

/// The result if one of them is not a number.
#[inline(always)]
fn chosen<T: Float>(a: T, b: T) -> Option<T> {
    #[expect(clippy::eq_op, reason = "what is not a number does not equal itself")]
    let (is_a, is_b) = (a == a, b == b);
    match (is_a, is_b) {
        (true, true) => None,
        _ if !is_a && a.is_signaling() => Some(a.quiet()),
        _ if !is_b && b.is_signaling() => Some(b.quiet()),
        (false, _) => Some(b),
        (true, false) => Some(a),
    }
}

impl Float for f32 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn from_f64(value: f64) -> Self {
        value as Self
    }
    fn is_signaling(self) -> bool {
        self.is_nan() && self.to_bits() >> 22 & 1 == 0
    }
    fn quiet(self) -> Self {
        Self::from_bits(self.to_bits() | 1 << 22)
    }
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }
    fn is_subnormal(self) -> bool {
        self.is_subnormal()
    }
}

impl Float for f64 {
    fn to_f64(self) -> f64 {
        self
    }
    fn from_f64(value: f64) -> Self {
        value
    }
    fn is_signaling(self) -> bool {
        self.is_nan() && self.to_bits() >> 51 & 1 == 0
    }
    fn quiet(self) -> Self {
        Self::from_bits(self.to_bits() | 1 << 51)
    }
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }
    fn is_subnormal(self) -> bool {
        self.is_subnormal()
    }
}

impl Float for crate::value::Half {
    fn to_f64(self) -> f64 {
        self.0
    }
    fn from_f64(value: f64) -> Self {
        Self(value)
    }
    fn is_signaling(self) -> bool {
        self.0.is_signaling()
    }
    fn quiet(self) -> Self {
        Self(self.0.quiet())
    }
    fn is_negative(self) -> bool {
        self.0.is_sign_negative()
    }
    fn is_subnormal(self) -> bool {
        self.0 != 0.0 && self.0.abs() < power(-14)
    }
}

/// `value * 2^exponent`, rounded once.
pub(crate) fn ldexp(value: f64, exponent: i32) -> f64 {
    let (fraction, own) = frexp(value);
    if fraction == 0.0 || !fraction.is_finite() {
        return value;
    }
    match exponent.saturating_add(own) {
        1025.. => fraction * f64::INFINITY,
        target @ -1021..=1024 => fraction * 2.0 * power(target - 1),
        // The first product is exact.
        target @ -1200..-1021 => fraction * power(target + 200) * power(-200),
        _ => fraction * 0.0,
    }
}

/// The fraction, from 0.5 to 1, and the exponent. Of 0, infinities and what is not a number,
/// itself.
pub(crate) fn frexp(value: f64) -> (f64, i32) {
    if value == 0.0 || !value.is_finite() {
        return (value, 0);
    }
    let (scaled, less) = if value.is_subnormal() { (value * power(54), 54) } else { (value, 0) };
    let bits = scaled.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022 - less;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent)
}

/// The fraction above the next lower whole number, less than 1.
pub(crate) fn fract(value: f64, below_one: f64) -> f64 {
    if value.is_infinite() { f64::NAN } else { (value - value.floor()).min(below_one) }
}
