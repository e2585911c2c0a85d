//! AQL packets by hand, without a runtime or a driver.
#![allow(unsafe_code)]

mod support;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use support::{
    ARGUMENTS, BASE, DATA, KERNEL, MAILBOX, READ_POINTER, RING, SIGNAL, Ticks, dispatch, drain,
    engine, memory, packet, put_kernel, put_packets, put_signal, sum, value,
};
use xsched_gfx942::{Config, Memory};
use xsched_gpu_emulated::{Engine, Failure, Kind, Map, Step, View};

const OTHER: u64 = SIGNAL + 0x100;

#[test]
fn a_kernel_is_carried_out_and_its_signal_is_told() {
    let map = memory();
    let view = View::new(&map);
    put_kernel(&view, 1_000);
    put_signal(&view, SIGNAL, 2, 17);
    put_packets(&view, &[dispatch(100)]);
    let mut queue = engine(Kind::Aql, &view);
    assert_eq!(drain(&mut queue, &view, 0), Ok(Step::Idle));
    for item in 0..100 {
        let stored = view.read_u32(DATA + u64::from(item) * 4);
        assert_eq!(stored, Ok(sum(item, 1_000)), "{item}");
    }
    assert_eq!(view.read_u32(DATA + 400), Ok(0));
    assert_eq!((value(&view, SIGNAL), view.read_u64(MAILBOX)), (1, Ok(17)));
    assert_eq!(view.take_interrupts(), [17]);
    let [start, end] = [32, 40].map(|at| view.read_u64(SIGNAL + at).expect("there"));
    assert!(start > 0 && end > start, "{start} {end}");
    assert_eq!(view.read_u64(READ_POINTER), Ok(1));
    assert_eq!(view.read_u32(RING).map(|header| header & 0xff), Ok(1));
}

#[test]
fn nothing_runs_before_the_doorbell_or_the_header() {
    let map = memory();
    let view = View::new(&map);
    put_signal(&view, SIGNAL, 1, 0);
    let mut barrier = packet(3, &[(56, SIGNAL)]);
    barrier[0] = 1;
    put_packets(&view, &[barrier]);
    let mut queue = engine(Kind::Aql, &view);
    assert_eq!(drain(&mut queue, &view, 0), Ok(Step::Idle));
    view.write_u32(RING, 3).expect("there");
    assert_eq!(drain(&mut queue, &view, u64::MAX), Ok(Step::Idle));
    assert_eq!(value(&view, SIGNAL), 1);
    assert_eq!(drain(&mut queue, &view, 0), Ok(Step::Idle));
    assert_eq!(value(&view, SIGNAL), 0);
}

#[test]
fn barriers_wait_for_all_or_one_of_their_signals() {
    // Type, values of the two signals, whether it is over.
    let cases = [(3, 0, 1, false), (3, 0, 0, true), (5, 1, 1, false), (5, 1, 0, true)];
    for (kind, first, second, is_over) in cases {
        let map = memory();
        let view = View::new(&map);
        put_signal(&view, SIGNAL, 1, 0);
        put_signal(&view, OTHER, first, 0);
        put_signal(&view, OTHER + 0x100, second, 0);
        let fields = [(8, OTHER), (40, OTHER + 0x100), (56, SIGNAL)];
        put_packets(&view, &[packet(kind, &fields)]);
        let mut queue = engine(Kind::Aql, &view);
        let end = if is_over { Step::Idle } else { Step::Waits };
        assert_eq!(drain(&mut queue, &view, 0), Ok(end), "{kind} {first} {second}");
        assert_eq!(value(&view, SIGNAL), u64::from(!is_over), "{kind} {first} {second}");
    }
}

#[test]
fn a_barrier_compares_a_value() {
    // Condition, the signal's value, the one wanted, the mask, whether it is over.
    let minus = u64::MAX;
    let cases = [
        (0, 5, 5, minus, true),
        (0, 5, 6, minus, false),
        (0, 0x15, 5, 0xf, true),
        (1, 5, 6, minus, true),
        (2, minus, 0, minus, true),
        (2, 0, 0, minus, false),
        (3, 0, minus, minus, true),
        (3, minus, 0, minus, false),
    ];
    for (condition, has, wanted, mask, is_over) in cases {
        let map = memory();
        let view = View::new(&map);
        put_signal(&view, OTHER, has, 0);
        let fields = [(8, OTHER), (16, wanted), (24, mask), (32, condition)];
        put_packets(&view, &[packet(2 << 16, &fields)]);
        let mut queue = engine(Kind::Aql, &view);
        let end = if is_over { Step::Idle } else { Step::Waits };
        assert_eq!(drain(&mut queue, &view, 0), Ok(end), "{condition} {has:#x} {wanted:#x}");
    }
}

/// Why a queue with one packet stops.
fn failure(packet: [u8; 64]) -> Failure {
    let map = memory();
    let view = View::new(&map);
    put_kernel(&view, 1);
    put_packets(&view, &[packet]);
    drain(&mut engine(Kind::Aql, &view), &view, 0).expect_err("it cannot be carried out")
}

#[test]
fn wrong_packets_stop_the_queue_with_the_drivers_codes() {
    let mut empty = dispatch(64);
    empty[4] = 0;
    let nowhere = |at: usize, address: u64| {
        let mut packet = dispatch(64);
        packet[at..at + 8].copy_from_slice(&address.to_le_bytes());
        packet
    };
    let cases = [
        ("a reserved type", packet(9, &[]), 19),
        ("an agent dispatch", packet(4, &[]), 20),
        ("an unknown vendor packet", packet(7 << 16, &[]), 23),
        ("an unknown condition", packet(2 << 16, &[(8, SIGNAL), (32, 9)]), 23),
        ("an indirect buffer that is none", packet(1 << 16, &[]), 23),
        ("no workgroup", empty, 16),
        ("no kernel", nowhere(32, 0), 5),
        ("a kernel at the end of memory", nowhere(32, u64::MAX - 3), 5),
        ("a signal at no address", nowhere(56, 8), 5),
        ("a barrier's signal at no address", packet(3, &[(8, 64)]), 5),
        ("no arguments", nowhere(40, 0), 5),
    ];
    for (what, packet, code) in cases {
        let failure = failure(packet);
        assert_eq!(failure.code(), code, "{what}: {failure}");
    }
    let map = memory();
    let view = View::new(&map);
    put_kernel(&view, 1);
    view.write_u32(KERNEL + 64, u32::MAX).expect("there");
    put_packets(&view, &[dispatch(64)]);
    let illegal = drain(&mut engine(Kind::Aql, &view), &view, 0).expect_err("no instruction");
    assert_eq!(illegal.code(), 4, "{illegal}");
    assert!(failure(nowhere(40, 0)).fault().is_some_and(|fault| !fault.is_write));
}

#[test]
fn an_image_continues_where_the_kernel_was() {
    let map = memory();
    let view = View::new(&map);
    put_kernel(&view, 20_000);
    put_signal(&view, SIGNAL, 1, 0);
    put_packets(&view, &[dispatch(64)]);
    let (mut queue, clock) = (engine(Kind::Aql, &view), Ticks::default());
    let mut images = 0;
    while value(&view, SIGNAL) != 0 {
        for _ in 0..7 {
            queue.step(&view, &clock, 0).expect("it goes on");
        }
        let mut image = Vec::new();
        queue.save(&mut image);
        drop(queue);
        images += 1;
        let (ring, config) = (support::ring(), Config::default());
        queue = Engine::restore(Kind::Aql, ring, config, &image, &view).expect("as saved");
    }
    assert!(images > 10, "{images}");
    for item in 0..64 {
        let stored = view.read_u32(DATA + u64::from(item) * 4);
        assert_eq!(stored, Ok(sum(item, 20_000)), "{item}");
    }
}

#[test]
fn memory_that_is_gone_is_a_fault() {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), 4_096, protection, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    let mut map = Map::new();
    // SAFETY: it is mapped, and then as a whole out of reach.
    unsafe { map.insert(BASE, 4_096, place.cast()) };
    let view = View::new(&map);
    view.write_u64(BASE, 5).expect("there");
    assert_eq!(view.update_u64(BASE, &mut |value| value + 1), Ok(5));
    assert_eq!(view.update_u32(BASE, &mut |value| value * 2), Ok(6));
    assert_eq!(view.read_u32(BASE), Ok(12));
    xsched_gpu_emulated::notice_faults();
    // SAFETY: nothing but the view uses it. It stays reserved: other tests map memory meanwhile,
    // and would get this place if it were free.
    unsafe { libc::mprotect(place, 4_096, libc::PROT_NONE) };
    let mut bytes = [0; 24];
    assert!(view.read(BASE, &mut bytes).is_err() && view.write(BASE + 1, &bytes).is_err());
    assert!(view.read_u32(BASE).is_err() && view.read_u64(BASE + 8).is_err());
    assert!(view.write_u32(BASE, 1).is_err() && view.write_u64(BASE, 1).is_err());
    assert!(view.update_u32(BASE, &mut |value| value).is_err());
    assert!(view.update_u64(BASE, &mut |value| value).is_err());
}

#[test]
fn no_packet_ends_the_process() {
    let mut random = Pcg64Mcg::seed_from_u64(22);
    for round in 0..3_000 {
        let map = memory();
        let view = View::new(&map);
        put_kernel(&view, 3);
        let mut packet: [u8; 64] = random.random();
        // Half of them are something, and name what is there.
        if round % 2 == 0 {
            packet[0] = random.random_range(0..6);
            packet[2] = random.random_range(0..4);
            for at in (8..64).step_by(8) {
                let places = [0, SIGNAL, KERNEL, ARGUMENTS, DATA, BASE, u64::MAX - 8];
                let place = places[random.random_range(0..places.len())];
                packet[at..at + 8].copy_from_slice(&place.to_le_bytes());
            }
        }
        put_packets(&view, &[packet]);
        let (mut queue, clock) = (engine(Kind::Aql, &view), Ticks::default());
        for _ in 0..20 {
            if queue.step(&view, &clock, 0).is_err() {
                break;
            }
        }
    }
}
