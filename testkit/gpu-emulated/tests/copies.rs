//! Packets of the engines that copy memory, by hand.
#![allow(unsafe_code)]

mod support;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use support::{BASE, DATA, READ_POINTER, RING, RING_BYTES, Ticks, drain, engine, memory};
use xsched_gfx942::Memory;
use xsched_gpu_emulated::{Kind, Step, View};

const TO: u64 = DATA + 0x4000;

const fn low(address: u64) -> u32 {
    address as u32
}

const fn high(address: u64) -> u32 {
    (address >> 32) as u32
}

/// Writes words into the ring from a byte on, and carries them out.
fn carry_out(view: &View<'_>, start: u64, words: &[u32]) -> Result<Step, u32> {
    for (number, word) in (0..).zip(words) {
        let at = (start + number * 4) % RING_BYTES;
        view.write_u32(RING + at, *word).expect("there");
    }
    view.write_u64(READ_POINTER, start).expect("there");
    let end = start + words.len() as u64 * 4;
    let result = drain(&mut engine(Kind::Sdma, view), view, end);
    let result = result.map_err(|failure| failure.code());
    if result == Ok(Step::Idle) {
        assert_eq!(view.read_u64(READ_POINTER), Ok(end));
    }
    result
}

#[test]
fn memory_is_copied_filled_and_written() {
    let map = memory();
    let view = View::new(&map);
    let bytes: Vec<u8> = (0..5_000).map(|number| (number * 7 + number / 256) as u8).collect();
    view.write(DATA, &bytes).expect("there");
    let copy = [1, 4_999, 0, low(DATA), high(DATA), low(TO), high(TO)];
    // Once across the ring's end.
    for start in [0, RING_BYTES - 12] {
        view.write(TO, &[0; 5_001]).expect("there");
        assert_eq!(carry_out(&view, start, &copy), Ok(Step::Idle));
        let mut found = vec![1; 5_001];
        view.read(TO, &mut found).expect("there");
        assert_eq!((&found[..5_000], found[5_000]), (&bytes[..], 0));
    }
    let fill = [11 | 2 << 30, low(TO), high(TO), 0x1234_5678, 99];
    assert_eq!(carry_out(&view, 0, &fill), Ok(Step::Idle));
    assert_eq!(view.read_u32(TO + 96), Ok(0x1234_5678));
    assert_ne!(view.read_u32(TO + 100), Ok(0x1234_5678));
    let write = [2, low(TO), high(TO), 1, 0xaaaa, 0xbbbb];
    assert_eq!(carry_out(&view, 0, &write), Ok(Step::Idle));
    assert_eq!(view.read_u64(TO), Ok(0xbbbb_0000_aaaa));
}

#[test]
fn a_box_is_copied() {
    let map = memory();
    let view = View::new(&map);
    for number in 0..256 {
        view.write_u32(DATA + number * 4, number as u32).expect("there");
    }
    // Of words: 16 in a row and 4 rows in a slice there, 8 and 2 here; 3 × 2 × 2 from (1, 1, 0).
    let from = [1 | 1 << 16, 15 << 13, 63];
    let to = [0, 7 << 13, 15];
    let mut words = vec![1 | 4 << 8 | 2 << 29, low(DATA), high(DATA)];
    words.extend(from);
    words.extend([low(TO), high(TO)]);
    words.extend(to);
    words.extend([2 | 1 << 16, 1]);
    assert_eq!(carry_out(&view, 0, &words), Ok(Step::Idle));
    for (x, y, z) in [(0, 0, 0), (2, 1, 0), (1, 0, 1), (2, 1, 1)] {
        let found = view.read_u32(TO + (x + y * 8 + z * 16) * 4);
        assert_eq!(found, Ok((x + 1 + (y + 1) * 16 + z * 64) as u32), "{x} {y} {z}");
    }
}

#[test]
fn signals_are_told() {
    let map = memory();
    let view = View::new(&map);
    view.write_u64(DATA, 5).expect("there");
    let words = [
        10 | 47 << 25,
        low(DATA),
        high(DATA),
        u32::MAX,
        u32::MAX,
        0,
        0,
        0, // minus 1
        5,
        low(TO),
        high(TO),
        77, // a fence
        13 | 2 << 8,
        low(TO + 8),
        high(TO + 8), // the time
        8,
        0,
        0x8000_0000,
        0,
        0,
        0, // a flush that is not needed
        6,
        9, // an interrupt
        2 << 16,
        0,
        0, // nothing
        17 | 1 << 8,
        0,
        0,
        0,
        0, // caches
    ];
    assert_eq!(carry_out(&view, 0, &words), Ok(Step::Idle));
    assert_eq!((view.read_u64(DATA), view.read_u32(TO)), (Ok(4), Ok(77)));
    assert_ne!(view.read_u64(TO + 8), Ok(0));
    assert_eq!(view.take_interrupts(), [9]);
}

#[test]
fn a_queue_waits_for_a_word() {
    // Function, the word, what it is compared with, whether it is over; the mask is 0xff.
    let cases = [
        (1, 0x104, 5, true),
        (2, 5, 5, true),
        (3, 5, 5, true),
        (3, 6, 5, false),
        (4, 5, 5, false),
        (5, 4, 5, false),
        (6, 5, 5, false),
    ];
    for (function, word, wanted, is_over) in cases {
        let map = memory();
        let view = View::new(&map);
        view.write_u32(DATA, word).expect("there");
        let poll = [8 | function << 28 | 1 << 31, low(DATA), high(DATA), wanted, 0xff, 0];
        let end = if is_over { Step::Idle } else { Step::Waits };
        assert_eq!(carry_out(&view, 0, &poll), Ok(end), "{function} {word} {wanted}");
    }
}

#[test]
fn wrong_packets_stop_the_queue() {
    let map = memory();
    let view = View::new(&map);
    for (what, words, code) in [
        ("an unknown packet", [99, 0, 0, 0, 0, 0, 0], 20),
        ("an unknown atomic", [10 | 3 << 25, 0, 0, 0, 0, 0, 0], 20),
        ("a copy from nowhere", [1, 7, 0, 0, 0, low(TO), high(TO)], 5),
        ("a copy to nowhere", [1, 7, 0, low(DATA), high(DATA), 8, 0], 5),
        ("a copy over the end", [1, 0xf_ffff, 0, low(DATA), high(DATA), low(TO), high(TO)], 5),
    ] {
        assert_eq!(carry_out(&view, 0, &words), Err(code), "{what}");
    }
}

#[test]
fn no_packet_ends_the_process() {
    let mut random = Pcg64Mcg::seed_from_u64(23);
    let map = memory();
    let view = View::new(&map);
    for _ in 0..5_000 {
        let mut words: [u32; 16] = random.random();
        words[0] = words[0] & !0xff | random.random_range(0..20);
        // Addresses that are there, and small counts, now and then.
        for word in &mut words[1..] {
            if random.random() {
                *word = [low(DATA), high(BASE), 3, 0][random.random_range(0..4)];
            }
        }
        for (number, word) in (0..).zip(words) {
            view.write_u32(RING + number * 4, word).expect("there");
        }
        view.write_u64(READ_POINTER, 0).expect("there");
        let (mut queue, clock) = (engine(Kind::Sdma, &view), Ticks::default());
        for _ in 0..8 {
            if queue.step(&view, &clock, 64).is_err() {
                break;
            }
        }
    }
}
