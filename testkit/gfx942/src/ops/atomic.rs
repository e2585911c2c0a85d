//! Results of atomics, from the old value and the data.

use crate::float::Float;
use crate::value::{Bf16, Half, Value};

/// The new value, of the old one, the data, and the further data of those that have two.
pub(crate) type Change = fn(u64, u64, u64) -> u64;

pub(crate) fn swap(_: u64, data: u64, _: u64) -> u64 {
    data
}

pub(crate) fn add(old: u64, data: u64, _: u64) -> u64 {
    old.wrapping_add(data)
}

pub(crate) fn sub(old: u64, data: u64, _: u64) -> u64 {
    old.wrapping_sub(data)
}

pub(crate) fn reverse_sub(old: u64, data: u64, _: u64) -> u64 {
    data.wrapping_sub(old)
}

pub(crate) fn min_i32(old: u64, data: u64, _: u64) -> u64 {
    u64::from((old as i32).min(data as i32) as u32)
}

pub(crate) fn max_i32(old: u64, data: u64, _: u64) -> u64 {
    u64::from((old as i32).max(data as i32) as u32)
}

pub(crate) fn min_i64(old: u64, data: u64, _: u64) -> u64 {
    (old as i64).min(data as i64) as u64
}

pub(crate) fn max_i64(old: u64, data: u64, _: u64) -> u64 {
    (old as i64).max(data as i64) as u64
}

pub(crate) fn min_u(old: u64, data: u64, _: u64) -> u64 {
    old.min(data)
}

pub(crate) fn max_u(old: u64, data: u64, _: u64) -> u64 {
    old.max(data)
}

pub(crate) fn and(old: u64, data: u64, _: u64) -> u64 {
    old & data
}

pub(crate) fn or(old: u64, data: u64, _: u64) -> u64 {
    old | data
}

pub(crate) fn xor(old: u64, data: u64, _: u64) -> u64 {
    old ^ data
}

/// Up to the data, and then from 0 again.
pub(crate) fn inc(old: u64, data: u64, _: u64) -> u64 {
    if old >= data { 0 } else { old + 1 }
}

/// Down to 0, and then from the data again.
pub(crate) fn dec(old: u64, data: u64, _: u64) -> u64 {
    if old == 0 || old > data { data } else { old - 1 }
}

/// The data if the old value is the other data.
pub(crate) fn swap_if_equal(old: u64, data: u64, expected: u64) -> u64 {
    if old == expected { data } else { old }
}

/// The other data if the old value is the data.
pub(crate) fn store_if_equal(old: u64, expected: u64, data: u64) -> u64 {
    if old == expected { data } else { old }
}

pub(crate) fn store_if_equal_f32(old: u64, expected: u64, data: u64) -> u64 {
    let value = |bits: u64| f32::from_bits(bits as u32);
    if value(old) == value(expected) { data } else { old }
}

pub(crate) fn store_if_equal_f64(old: u64, expected: u64, data: u64) -> u64 {
    if f64::from_bits(old) == f64::from_bits(expected) { data } else { old }
}

pub(crate) fn mask_or(old: u64, mask: u64, data: u64) -> u64 {
    old & !mask | data
}

pub(crate) fn wrap(old: u64, data: u64, other: u64) -> u64 {
    if old >= data { old - data } else { old.wrapping_add(other) }
}

fn f32s(old: u64, data: u64, f: fn(f32, f32) -> f32) -> u64 {
    u64::from(f(f32::from_bits(old as u32), f32::from_bits(data as u32)).to_bits())
}

pub(crate) fn add_f32(old: u64, data: u64, _: u64) -> u64 {
    f32s(old, data, |a, b| a + b)
}

pub(crate) fn min_f32(old: u64, data: u64, _: u64) -> u64 {
    f32s(old, data, Float::least)
}

pub(crate) fn max_f32(old: u64, data: u64, _: u64) -> u64 {
    f32s(old, data, Float::greatest)
}

fn f64s(old: u64, data: u64, f: fn(f64, f64) -> f64) -> u64 {
    f(f64::from_bits(old), f64::from_bits(data)).to_bits()
}

pub(crate) fn add_f64(old: u64, data: u64, _: u64) -> u64 {
    f64s(old, data, |a, b| a + b)
}

pub(crate) fn min_f64(old: u64, data: u64, _: u64) -> u64 {
    f64s(old, data, Float::least)
}

pub(crate) fn max_f64(old: u64, data: u64, _: u64) -> u64 {
    f64s(old, data, Float::greatest)
}

pub(crate) fn add_pair_f16(old: u64, data: u64, _: u64) -> u64 {
    let pair = |bits: u64| <[Half; 2]>::of(bits as u32, 0);
    let (a, b) = (pair(old), pair(data));
    u64::from([0, 1].map(|n| Half(a[n].0 + b[n].0)).bits().0)
}

pub(crate) fn add_pair_bf16(old: u64, data: u64, _: u64) -> u64 {
    let sum = |shift: u32| {
        let value = |bits: u64| Bf16::of((bits >> shift) as u32, 0).0;
        u64::from(Bf16(value(old) + value(data)).bits().0) << shift
    };
    sum(0) | sum(16)
}
