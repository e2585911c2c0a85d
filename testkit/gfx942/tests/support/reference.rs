//! Results of the kernels of `kernels/arithmetic.hip`, computed on the processor.

use half::f16;

/// A result. What is not a number equals all others of its kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Bits(u64),
    F32(f32),
    F64(f64),
    F16(f16),
    F32s([f32; 2]),
    F16s([f16; 2]),
    /// About this number of 32, or of 64, bits.
    Near32(f64),
    Near64(f64),
}

use Value::{Bits, F16, F16s, F32, F32s, F64, Near32, Near64};

fn same32(found: u32, expected: f32) -> bool {
    found == expected.to_bits() || f32::from_bits(found).is_nan() && expected.is_nan()
}

fn same16(found: u16, expected: f16) -> bool {
    found == expected.to_bits() || f16::from_bits(found).is_nan() && expected.is_nan()
}

fn near(found: f64, expected: f64, relative: f64) -> bool {
    found == expected || (found - expected).abs() <= expected.abs() * relative + 1e-7
}

impl Value {
    pub(crate) fn is(self, found: u64) -> bool {
        match self {
            Bits(bits) => found == bits,
            F32(value) => found >> 32 == 0 && same32(found as u32, value),
            F64(value) => {
                found == value.to_bits() || f64::from_bits(found).is_nan() && value.is_nan()
            }
            F16(value) => found >> 16 == 0 && same16(found as u16, value),
            F32s([low, high]) => same32(found as u32, low) && same32((found >> 32) as u32, high),
            F16s([low, high]) => {
                found >> 32 == 0 && same16(found as u16, low) && same16((found >> 16) as u16, high)
            }
            Near32(value) => near(f64::from(f32::from_bits(found as u32)), value, 1e-6),
            Near64(value) => near(f64::from_bits(found), value, 1e-7),
        }
    }
}

fn bit(value: bool) -> Value {
    Bits(value.into())
}

fn int(value: i32) -> Value {
    Bits(u64::from(value as u32))
}

fn word(value: u32) -> Value {
    Bits(value.into())
}

/// Of two zeros, -0 is the smaller one; what is not a number loses.
fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a || a == b && b.is_sign_negative() { b } else { a }
}

fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b > a || a == b && b.is_sign_positive() { b } else { a }
}

/// `x * 2^exponent`, rounded once.
fn ldexp(x: f64, exponent: i32) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let normal = if x.is_subnormal() { x * 2_f64.powi(60) } else { x };
    let own =
        (normal.to_bits() >> 52 & 0x7ff) as i32 - 1023 - if x.is_subnormal() { 60 } else { 0 };
    let digits = f64::from_bits(normal.to_bits() & !(0x7ff << 52) | 1023 << 52);
    match own + exponent {
        1024.. => digits * f64::INFINITY,
        target @ -1022..1024 => digits * 2_f64.powi(target),
        target => digits * f64::MIN_POSITIVE * 2_f64.powi((target + 1022).max(-200)),
    }
}

pub(crate) fn k_f32(a: u64, b: u64, c: u64) -> Vec<Value> {
    let [x, y, z] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
    let (lesser, greater) = (min(x.into(), y.into()) as f32, max(x.into(), y.into()) as f32);
    let scaled = ldexp(x.into(), (b % 300) as i32 - 150) as f32;
    vec![
        F32(x + y),
        F32(x - y),
        F32(x * y),
        F32(x / y),
        F32(x.mul_add(y, z)),
        F32(x.abs().sqrt()),
        F32(x.floor()),
        F32(x.ceil()),
        F32(x.trunc()),
        F32(x.round_ties_even()),
        F32(lesser),
        F32(greater),
        bit(x < y),
        bit(x >= y),
        bit(x == y),
        bit(x.is_nan()),
        bit(x.is_infinite()),
        F32(-y.abs()),
        F32(if x < y { z } else { x }),
        F32(x.copysign(y)),
        F32(1.0 / x),
        F64(x.into()),
        F16(f16::from_f32(x)),
        F32s([x + z, y + x]),
        F32s([x * z, y * x]),
        F32s([x.mul_add(z, y), y.mul_add(x, z)]),
        F32(scaled),
    ]
}

pub(crate) fn k_f64(a: u64, b: u64, c: u64) -> Vec<Value> {
    let [x, y, z] = [a, b, c].map(f64::from_bits);
    vec![
        F64(x + y),
        F64(x - y),
        F64(x * y),
        F64(x / y),
        F64(x.mul_add(y, z)),
        F64(x.abs().sqrt()),
        F64(x.floor()),
        F64(x.ceil()),
        F64(x.trunc()),
        F64(x.round_ties_even()),
        F64(min(x, y)),
        F64(max(x, y)),
        bit(x < y),
        bit(x != y),
        bit(x.is_nan()),
        F64(if x < y { z } else { -x }),
        F32(x as f32),
        F64(ldexp(x, (b % 2400) as i32 - 1200)),
        F64(x.copysign(y)),
        F64(1.0 / x),
    ]
}

pub(crate) fn k_f16(a: u64, b: u64, c: u64) -> Vec<Value> {
    let [h, k, l] = [a, b, c].map(|bits| f16::from_bits(bits as u16));
    let [x, y, z] = [h, k, l].map(f64::from);
    let r = f16::from_f64;
    let fma = |a: f64, b: f64, c: f64| r(a.mul_add(b, c));
    let single = (x as f32).mul_add(y as f32, z as f32);
    vec![
        F16(r(x + y)),
        F16(r(x - y)),
        F16(r(x * y)),
        F16(r(x / y)),
        F16(fma(x, y, z)),
        F32(x as f32),
        F64(x),
        bit(x < y),
        F16(r(x.floor())),
        F16(r(max(x, y))),
        F16s([r(x + z), r(y + x)]),
        F16s([r(x * z), r(y * x)]),
        F16s([fma(x, z, y), fma(y, x, z)]),
        F16s([r(x - z), r(y - x)]),
        F16s([r(max(x, z)), r(max(y, x))]),
        F16s([r(f64::from(r(y * z)) + y), r(f64::from(r(x * x)) + z)]),
        F32(single),
    ]
}

pub(crate) fn k_convert(a: u64, b: u64, _: u64) -> Vec<Value> {
    let (x, y) = (a as i32 as f32 / 7.0, b as i64 as f64 / 7.0);
    vec![
        int(x as i32),
        word(x.abs() as u32),
        Bits(x as i64 as u64),
        Bits(x.abs() as u64),
        Bits(y as i64 as u64),
        Bits(y.abs() as u64),
        int((y / 4_294_967_296.0) as i32),
        F32(a as i32 as f32),
        F32(a as u32 as f32),
        F32(a as i64 as f32),
        F32(a as f32),
        F64(a as i64 as f64),
        F64(a as f64),
        F64(f64::from(a as i32)),
        F32(f32::from((a >> 8) as u8)),
        F16(f16::from_f64(f64::from(a as i16))),
        word((a % 1000) as u32),
        F32(f32::from(a as i8)),
    ]
}

fn pair(value: u32) -> [i16; 2] {
    [value as i16, (value >> 16) as i16]
}

fn pairs(a: u32, b: u32, f: impl Fn(i16, i16) -> i16) -> Value {
    let ([a, c], [b, d]) = (pair(a), pair(b));
    word(u32::from(f(a, b) as u16) | u32::from(f(c, d) as u16) << 16)
}

pub(crate) fn k_integer(a: u64, b: u64, c: u64) -> Vec<Value> {
    let mut all = divisions(a, b, c);
    all.extend(wide_integers(a, b, c));
    all.extend(narrow_integers(a as u32, b as u32 | 1, c as u32));
    all.push(bit(a < b));
    all.push(bit((a as i64) < b as i64));
    all.push(bit((a as u16) < c as u16));
    all.push(bit(a as i16 >= c as i16));
    // Those of 64 bits between those of 32.
    all.insert(22, Bits((a as i64).min(c as i64) as u64));
    all.insert(29, Bits(a.wrapping_add(b.wrapping_mul(c))));
    all.insert(30, Bits(a.wrapping_sub(b).wrapping_sub(c)));
    all
}

fn divisions(a: u64, b: u64, c: u64) -> Vec<Value> {
    let (x, y) = (a as u32, b as u32 | 1);
    let (s, t) = (a as i32 >> (c & 31), y as i32 | 1);
    let t = if t == -1 { 3 } else { t };
    let d = b >> (c & 63) | 1;
    let e = if d as i64 == -1 { 5 } else { d as i64 };
    vec![
        word(x / y),
        word(x % y),
        int(s.wrapping_div(t)),
        int(s.wrapping_rem(t)),
        Bits(a / d),
        Bits(a % d),
        Bits((a as i64).wrapping_div(e) as u64),
        Bits((a as i64).wrapping_rem(e) as u64),
    ]
}

fn wide_integers(a: u64, b: u64, c: u64) -> Vec<Value> {
    let (x, y) = (a as u32, b as u32 | 1);
    vec![
        Bits(u64::from(x) * u64::from(y)),
        Bits(((u128::from(a) * u128::from(b)) >> 64) as u64),
        Bits(((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64),
        Bits(a << (c & 63)),
        Bits((a as i64 >> (c & 63)) as u64),
        word(a.count_ones()),
        word((x | 1).leading_zeros()),
        word((b | 1 << 63).trailing_zeros()),
        word(x.reverse_bits()),
        Bits(a.swap_bytes()),
    ]
}

fn narrow_integers(x: u32, y: u32, z: u32) -> Vec<Value> {
    vec![
        word(x.rotate_left(z & 31)),
        word(x.saturating_add(z)),
        int((x as i32).saturating_sub(z as i32)),
        int((x as i32).max(z as i32)),
        int(i32::from(x as i16) * i32::from(z as i16)),
        word((x.wrapping_add(z) & 0xff) + (x >> 24)),
        word((x & 0xff_ffff).wrapping_mul(z & 0xff_ffff).wrapping_add(y)),
        word(x >> 7 & 0x1ff),
        int((x << 5) as i32 >> 20),
        word(x & z | !x & y),
        pairs(x, z, i16::wrapping_add),
        pairs(x, z, i16::wrapping_mul),
        pairs(x, z, i16::max),
        pairs(x, z, |a, b| a << (b & 15)),
        int((x as i32 | 1).wrapping_abs()),
        word(x.wrapping_mul(7).wrapping_add(y << 3).wrapping_add(z << 2 | 1)),
    ]
}

pub(crate) fn k_near(a: u64, _: u64, _: u64) -> Vec<Value> {
    let single = (a as i32 as f32).abs() / 65536.0;
    let x = f64::from(single);
    let turns = f64::from(single / 512.0) * std::f64::consts::TAU;
    let (exponent, mantissa) = if x == 0.0 {
        (0, 0.0)
    } else {
        let exponent = x.log2().floor() as i32 + 1;
        (exponent, x / 2_f64.powi(exponent))
    };
    vec![
        Near32(1.0 / x),
        Near32(1.0 / x.sqrt()),
        Near32(x.sqrt()),
        Near32(x.log2()),
        Near32(f64::from(single / 512.0).exp2()),
        Near32(turns.sin()),
        Near32(turns.cos()),
        Near32(x.fract()),
        Near32(mantissa),
        int(exponent),
        Near32(x.clamp(1000.0, 2000.0)),
        Near64(1.0 / x),
        Near64(1.0 / x.sqrt()),
    ]
}

pub(crate) fn k_scratch(a: u64, b: u64, c: u64, first: u64) -> Vec<Value> {
    let mut words: Vec<u64> = (1..=24).map(|n| a.wrapping_mul(n).wrapping_add(b)).collect();
    let mut small: Vec<u8> = (0..40).map(|n| (c >> (n % 8)) as u8).collect();
    for n in 0..100 {
        let at = ((words[n % 24] >> 7) % 24) as usize;
        words[at] ^= words[(at + n) % 24].wrapping_add(small[at].into());
        let byte = &mut small[(words[at] as u32 % 40) as usize];
        *byte = byte.wrapping_add(n as u8);
    }
    let all = words.into_iter().chain(small.into_iter().map(u64::from));
    let sum = all.fold(0_u64, |sum, word| sum.wrapping_mul(31).wrapping_add(word));
    let mut v = [a as u32, b as u32, c as u32, 1, 2, 3, 4, 5];
    let at = (first as u32 % 8) as usize;
    v[at] = (a >> 32) as u32;
    vec![Bits(sum), word(v[(at + 3) % 8].wrapping_add(v[at])), word(v[(c % 8) as usize])]
}

pub(crate) fn k_call(a: u64, b: u64, c: u64) -> Vec<Value> {
    let (mut n, mut steps) = (a % 1000 + 1, 0);
    while n != 1 && steps < 50 {
        n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
        steps += 1;
    }
    let fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21][(b % 9) as usize];
    let last = if c & 1 == 1 {
        a.wrapping_mul(2).wrapping_add(1)
    } else {
        a.wrapping_mul(3).wrapping_add(2)
    };
    vec![Bits(n), Bits(steps), Bits(fibonacci), Bits(last)]
}
