//! A queue with packets that are written by hand, in memory of a test's own.
#![allow(dead_code, unsafe_code, reason = "each test uses a part")]

use std::sync::atomic::{AtomicU64, Ordering};

use xsched_gfx942::{Clock, Config, Memory};
use xsched_gpu_emulated::{Engine, Failure, Kind, Map, Ring, Step, View};

/// Where things are, by the GPU's addresses.
pub(crate) const BASE: u64 = 0x7_0000_0000;
pub(crate) const BYTES: u64 = 1 << 20;
pub(crate) const RING: u64 = BASE;
pub(crate) const RING_BYTES: u64 = 4_096;
pub(crate) const WRITE_POINTER: u64 = BASE + 0x1000;
pub(crate) const READ_POINTER: u64 = BASE + 0x1008;
pub(crate) const SIGNAL: u64 = BASE + 0x2000;
pub(crate) const MAILBOX: u64 = BASE + 0x3000;
pub(crate) const KERNEL: u64 = BASE + 0x4000;
pub(crate) const ARGUMENTS: u64 = BASE + 0x5000;
pub(crate) const DATA: u64 = BASE + 0x8000;
pub(crate) const SAVE: u64 = BASE + 0x40000;
pub(crate) const SAVE_BYTES: u32 = 0x90000;

/// A kernel: each work-item adds `3 + its number` this many times as the argument says, and stores
/// the sum. From assembly for gfx942.
const CODE: [u32; 15] = [
    0xc006_0080,
    0x0000_0000,
    0xc002_0100,
    0x0000_0008,
    0x7e02_0280,
    0xbf8c_c07f,
    0x6802_0283,
    0x6802_0101,
    0x8084_8104,
    0xbf07_8004,
    0xbf85_fffb,
    0x2404_0082,
    0xdc70_8000,
    0x0002_0102,
    0xbf81_0000,
];

/// A clock that counts calls.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(10, Ordering::Relaxed) + 10
    }
}

/// Memory of which the map knows.
pub(crate) fn memory() -> Map {
    let place = Box::leak(vec![0_u64; BYTES as usize / 8].into_boxed_slice());
    let mut map = Map::new();
    // SAFETY: it is never freed.
    unsafe { map.insert(BASE, BYTES, place.as_mut_ptr().cast()) };
    map
}

pub(crate) const fn ring() -> Ring {
    let (write_pointer, read_pointer) = (WRITE_POINTER, READ_POINTER);
    Ring { base: RING, bytes: RING_BYTES, write_pointer, read_pointer }
}

/// Puts the kernel there, which is to count this often.
pub(crate) fn put_kernel(view: &View<'_>, count: u32) {
    let mut descriptor = [0_u8; 64];
    descriptor[16..24].copy_from_slice(&64_u64.to_le_bytes());
    // Registers for vectors, and for scalars; one number of the work-item.
    descriptor[48..52].copy_from_slice(&0x00af_0080_u32.to_le_bytes());
    // The arguments' address in the first two scalar registers.
    descriptor[52..56].copy_from_slice(&(2_u32 << 1).to_le_bytes());
    descriptor[56..58].copy_from_slice(&8_u16.to_le_bytes());
    view.write(KERNEL, &descriptor).expect("there");
    let code: Vec<u8> = CODE.into_iter().flat_map(u32::to_le_bytes).collect();
    view.write(KERNEL + 64, &code).expect("there");
    view.write_u64(ARGUMENTS, DATA).expect("there");
    view.write_u32(ARGUMENTS + 8, count).expect("there");
}

/// Value that the kernel stores for a work-item.
pub(crate) const fn sum(item: u32, count: u32) -> u32 {
    (3 + item).wrapping_mul(count)
}

/// A packet of 64 bytes from fields: offset and value.
pub(crate) fn packet(header: u32, fields: &[(usize, u64)]) -> [u8; 64] {
    let mut packet = [0; 64];
    packet[..4].copy_from_slice(&header.to_le_bytes());
    for (at, value) in fields {
        let bytes = value.to_le_bytes();
        let end = (at + 8).min(64);
        packet[*at..end].copy_from_slice(&bytes[..end - at]);
    }
    packet
}

/// A dispatch of the kernel with this many work-items in one workgroup, and the signal.
pub(crate) fn dispatch(items: u32) -> [u8; 64] {
    let mut packet = packet(2 | 1 << 16, &[(32, KERNEL), (40, ARGUMENTS), (56, SIGNAL)]);
    packet[4..6].copy_from_slice(&(items as u16).to_le_bytes());
    packet[6] = 1;
    packet[8] = 1;
    packet[12..16].copy_from_slice(&items.to_le_bytes());
    packet[16] = 1;
    packet[20] = 1;
    packet
}

/// A signal of a value, with an event.
pub(crate) fn put_signal(view: &View<'_>, at: u64, value: u64, event: u32) {
    view.write_u64(at, 1).expect("there");
    view.write_u64(at + 8, value).expect("there");
    view.write_u64(at + 16, if event == 0 { 0 } else { MAILBOX }).expect("there");
    view.write_u32(at + 24, event).expect("there");
}

pub(crate) fn value(view: &View<'_>, signal: u64) -> u64 {
    view.read_u64(signal + 8).expect("there")
}

/// Puts packets into the ring, from the first place on.
pub(crate) fn put_packets(view: &View<'_>, packets: &[[u8; 64]]) {
    for number in 0..RING_BYTES / 64 {
        let packet = packets.get(number as usize).copied().unwrap_or_else(|| packet(1, &[]));
        view.write(RING + number * 64, &packet).expect("there");
    }
    view.write_u64(WRITE_POINTER, packets.len() as u64).expect("there");
    view.write_u64(READ_POINTER, 0).expect("there");
}

pub(crate) fn engine(kind: Kind, view: &View<'_>) -> Engine {
    Engine::new(kind, ring(), Config::default(), view).expect("there")
}

/// Steps until nothing is left to do, or it waits.
pub(crate) fn drain(engine: &mut Engine, view: &View<'_>, doorbell: u64) -> Result<Step, Failure> {
    let clock = Ticks::default();
    for _ in 0..1_000_000 {
        let step = engine.step(view, &clock, doorbell)?;
        if step != Step::Did {
            return Ok(step);
        }
    }
    panic!("it does not end");
}
