//! A queue's thread, its slot in the driver's page, and its save area.
#![allow(unsafe_code)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use support::{
    DATA, SAVE, SAVE_BYTES, SIGNAL, dispatch, memory, packet, put_kernel, put_packets, put_signal,
    ring, sum, value,
};
use xsched_gfx942::{Config, Memory};
use xsched_gpu_emulated::{Failure, Kind, Map, Queue, Report, View};
use xsched_kfd_emulated::page::Slot;

const CONTROL_BYTES: u32 = 0x1000;
/// Where the runtime's mask of exceptions is.
const EXCEPTIONS: u64 = DATA + 0x7000;
const EXCEPTION_EVENT: u32 = 33;

/// Reports of the queue.
#[derive(Debug, Default)]
struct Told {
    interrupts: Mutex<Vec<u32>>,
    failures: Mutex<Vec<Failure>>,
}

impl Report for &Told {
    fn interrupt(&self, event: u32) {
        self.interrupts.lock().expect("no panic").push(event);
    }

    fn stopped(&self, failure: &Failure) -> bool {
        self.failures.lock().expect("no panic").push(failure.clone());
        true
    }
}

/// Ends the queue's thread.
struct Quits<'a>(&'a AtomicBool);

impl Drop for Quits<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A queue on a thread, and what plays the driver.
#[derive(Debug)]
struct Machine {
    map: RwLock<Map>,
    slot: Slot,
    doorbell: AtomicU64,
    quits: AtomicBool,
    told: Told,
}

impl Machine {
    fn new() -> Self {
        let map = memory();
        let view = View::new(&map);
        view.write_u64(SAVE + 24, EXCEPTIONS).expect("there");
        view.write_u32(SAVE + 32, EXCEPTION_EVENT).expect("there");
        put_signal(&view, SIGNAL, 1, 0);
        drop(view);
        Self {
            map: RwLock::new(map),
            slot: Slot::default(),
            doorbell: AtomicU64::new(u64::MAX),
            quits: AtomicBool::new(false),
            told: Told::default(),
        }
    }

    /// Runs the queue while `body` does.
    fn run(&self, save_bytes: u32, body: impl FnOnce()) {
        let queue = Queue {
            slot: &self.slot,
            doorbell: &self.doorbell,
            map: &self.map,
            kind: Kind::Aql,
            ring: ring(),
            save_area: (SAVE, save_bytes),
            control_bytes: CONTROL_BYTES,
            config: Config::default(),
            quits: &self.quits,
            report: &self.told,
        };
        thread::scope(|scope| {
            // Also if `body` panics: the scope waits for the thread.
            let _quits = Quits(&self.quits);
            scope.spawn(move || queue.run());
            body();
        });
    }

    fn with<T>(&self, body: impl FnOnce(&View<'_>) -> T) -> T {
        body(&View::new(&self.map.read().expect("no panic")))
    }

    fn set(&self, active: u32) {
        self.slot.active.store(active, Ordering::SeqCst);
        let word = self.slot.active.as_ptr();
        // SAFETY: the word is only used as an address.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }

    fn resume(&self) {
        self.set(1);
    }

    /// As the driver does: it does not answer before nothing runs.
    fn suspend(&self) {
        self.set(0);
        self.until(|| self.slot.running.load(Ordering::SeqCst) == 0);
    }

    fn until(&self, is_done: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !is_done() {
            assert!(Instant::now() < end, "in time: {:?}", self.told);
            thread::sleep(Duration::from_micros(50));
        }
    }

    fn is_done(&self) -> bool {
        self.with(|view| value(view, SIGNAL)) == 0
    }

    fn failures(&self) -> Vec<u32> {
        self.told.failures.lock().expect("no panic").iter().map(Failure::code).collect()
    }
}

#[test]
fn results_are_right_after_many_stops() {
    let machine = Machine::new();
    machine.with(|view| {
        put_kernel(view, 2_000_000);
        put_packets(view, &[dispatch(64)]);
    });
    machine.doorbell.store(0, Ordering::SeqCst);
    let (mut stops, mut was_saved) = (0, false);
    machine.run(SAVE_BYTES, || {
        while !machine.is_done() {
            machine.resume();
            thread::sleep(Duration::from_micros(100));
            machine.suspend();
            stops += 1;
            // Nothing of the queue runs: the area stays as it is.
            let area = || {
                let mut area = vec![0; SAVE_BYTES as usize];
                machine.with(|view| view.read(SAVE, &mut area)).expect("there");
                area
            };
            let before = area();
            thread::sleep(Duration::from_micros(200));
            assert!(before == area(), "something ran while it was stopped");
            let saved = machine.slot.wave_bytes.load(Ordering::SeqCst);
            // On a busy machine the queue's thread may not have begun at the first stops.
            was_saved |= saved > 0;
            assert!(!was_saved || (40..SAVE_BYTES - CONTROL_BYTES).contains(&saved), "{saved}");
        }
    });
    assert!(stops > 20 && was_saved, "{stops}");
    assert!(machine.failures().is_empty(), "{:?}", machine.told);
    for item in 0..64 {
        let stored = machine.with(|view| view.read_u32(DATA + u64::from(item) * 4));
        assert_eq!(stored, Ok(sum(item, 2_000_000)), "{item} after {stops} stops");
    }
}

/// Result of a kernel whose save area changes while it is stopped.
fn changed_while_stopped(change: impl FnOnce(&View<'_>, u64)) -> Machine {
    let machine = Machine::new();
    machine.with(|view| {
        put_kernel(view, 2_000_000);
        put_packets(view, &[dispatch(64)]);
    });
    machine.doorbell.store(0, Ordering::SeqCst);
    machine.run(SAVE_BYTES, || {
        let mut bytes = 0;
        // Until the kernel has been started.
        while bytes < 1_000 {
            machine.resume();
            thread::sleep(Duration::from_millis(1));
            machine.suspend();
            bytes = machine.slot.wave_bytes.load(Ordering::SeqCst);
        }
        machine.with(|view| change(view, bytes.into()));
        machine.resume();
        machine.until(|| machine.is_done() || !machine.failures().is_empty());
        machine.suspend();
    });
    machine
}

#[test]
fn a_queue_goes_on_from_its_save_area_alone() {
    let start = SAVE + u64::from(CONTROL_BYTES);
    // Registers have no mark of their own: other values in them are other results.
    let machine = changed_while_stopped(|view, bytes| {
        let mut image = vec![0; bytes as usize];
        view.read(start, &mut image).expect("there");
        let half = image.len() / 2;
        image[half..].iter_mut().for_each(|byte| *byte ^= 0x55);
        view.write(start, &image).expect("there");
    });
    let is_right = |item: u32| {
        let stored = machine.with(|view| view.read_u32(DATA + u64::from(item) * 4));
        stored == Ok(sum(item, 2_000_000))
    };
    assert!(!machine.is_done() || !(0..64).all(is_right), "it was not restored from there");
    // The start has a mark.
    let machine = changed_while_stopped(|view, _| view.write_u64(start, 0).expect("there"));
    assert_eq!(machine.failures(), [30], "{:?}", machine.told);
    let mask = machine.with(|view| view.read_u64(EXCEPTIONS));
    assert_eq!(mask, Ok(1 << 29));
    assert_eq!(*machine.told.interrupts.lock().expect("no panic"), [EXCEPTION_EVENT]);
}

#[test]
fn waves_that_do_not_fit_stop_the_queue_for_good() {
    let machine = Machine::new();
    machine.with(|view| {
        put_kernel(view, 2_000_000);
        put_packets(view, &[dispatch(1_024)]);
    });
    machine.doorbell.store(0, Ordering::SeqCst);
    machine.run(CONTROL_BYTES + 256, || {
        machine.until(|| {
            machine.resume();
            thread::sleep(Duration::from_millis(1));
            machine.suspend();
            !machine.failures().is_empty()
        });
        machine.resume();
        thread::sleep(Duration::from_millis(5));
        machine.suspend();
    });
    assert_eq!(machine.failures(), [30], "{:?}", machine.told);
    assert!(!machine.is_done());
}

#[test]
fn a_barrier_waits_on_after_a_stop() {
    let other = SIGNAL + 0x100;
    let machine = Machine::new();
    machine.with(|view| {
        put_signal(view, other, 1, 0);
        put_packets(view, &[packet(3, &[(8, other), (56, SIGNAL)])]);
    });
    machine.doorbell.store(0, Ordering::SeqCst);
    machine.run(SAVE_BYTES, || {
        machine.resume();
        thread::sleep(Duration::from_millis(2));
        machine.suspend();
        machine.with(|view| view.write_u64(other + 8, 0)).expect("there");
        thread::sleep(Duration::from_millis(2));
        assert!(!machine.is_done(), "it is stopped");
        machine.resume();
        machine.until(|| machine.is_done());
        machine.suspend();
    });
    assert!(machine.failures().is_empty(), "{:?}", machine.told);
}
