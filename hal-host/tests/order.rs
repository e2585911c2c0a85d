//! Commands without preemption: order, turns, failures, limits, and being told.
#![allow(unsafe_code, reason = "promises that commands are interruptible")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};

use common::{all_ok, device, launch, open, push, retire, until};
use xsched_core::fault::Fault;
use xsched_core::hal::{HalError, Retire, Submit};
use xsched_core::id::CmdId;
use xsched_core::queue::Outcome;
use xsched_hal_host::{HostCommand, HostConfig, HostDevice, HostError};

#[test]
fn commands_run_once_and_in_order() {
    let mut queue = open(&device(2));
    let list = Arc::default();
    let mut retired = 0;
    for n in 0..2000 {
        while queue.submit.launch(CmdId(n), &push(&list, n), n % 7 == 0).is_err() {
            queue.submit.fence(CmdId(n - 1)).unwrap();
            std::thread::yield_now();
        }
        if let Some(answer) = queue.retire.poll_retired().unwrap() {
            assert!(answer.upto.count() > retired && answer.upto.0 <= n);
            retired = answer.upto.count();
        }
    }
    queue.submit.fence(CmdId(1999)).unwrap();
    assert!(all_ok(&retire(&mut queue.retire, 1999)));
    assert_eq!(*list.lock().unwrap(), (0..2000).collect::<Vec<_>>());
}

#[test]
fn only_fenced_completions_are_seen() {
    let mut queue = open(&device(1));
    let ran = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ran);
    let command = HostCommand::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    queue.submit.launch(CmdId(0), &command, true).unwrap();
    queue.submit.launch(CmdId(1), &command, false).unwrap();
    retire(&mut queue.retire, 0);
    until("both ran", || ran.load(Ordering::Relaxed) == 2);
    // Behind another one, so that the second has surely ended when it runs.
    queue.submit.launch(CmdId(2), &command, false).unwrap();
    until("all ran", || ran.load(Ordering::Relaxed) == 3);
    assert_eq!(queue.retire.poll_retired().unwrap(), None);
    queue.submit.fence(CmdId(2)).unwrap();
    retire(&mut queue.retire, 2);
}

#[test]
fn queues_take_turns_on_a_compute_unit() {
    let device = device(1);
    let (mut a, mut b, mut gate) = (open(&device), open(&device), open(&device));
    // While the gate has the unit, both queues fill up.
    let (open_gate, closed) = mpsc::channel();
    let closed = Mutex::new(closed);
    let wait = HostCommand::new(move || closed.lock().unwrap().recv().unwrap());
    launch(&mut gate.submit, 0, &wait);
    let list = Arc::default();
    for n in 0..50 {
        launch(&mut a.submit, n, &push(&list, 0));
        launch(&mut b.submit, n, &push(&list, 1));
    }
    open_gate.send(()).unwrap();
    retire(&mut a.retire, 49);
    retire(&mut b.retire, 49);
    let turns = list.lock().unwrap();
    assert!(turns.chunks(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
}

#[test]
fn as_many_commands_run_at_once_as_there_are_units() {
    let device = device(2);
    let (mut a, mut b) = (open(&device), open(&device));
    let barrier = Arc::new(std::sync::Barrier::new(2));
    let meet = HostCommand::new(move || {
        barrier.wait();
    });
    launch(&mut a.submit, 0, &meet);
    launch(&mut b.submit, 0, &meet);
    retire(&mut a.retire, 0);
    retire(&mut b.retire, 0);
}

#[test]
fn a_panic_fails_its_command_alone() {
    let mut queue = open(&device(1));
    let list = Arc::default();
    let fail = HostCommand::function(|a, b| panic!("on purpose: {a} {b}"), 1, 2);
    for n in 0..10 {
        let ok = push(&list, n);
        queue.submit.launch(CmdId(n), if n % 5 == 2 { &fail } else { &ok }, n == 9).unwrap();
    }
    let answers = retire(&mut queue.retire, 9);
    let failed = |n| Outcome::Failed { from: CmdId(n), fault: Fault::Panicked };
    let expected = [(2, failed(2)), (7, failed(7)), (9, Outcome::Ok)];
    assert_eq!(answers.iter().map(|a| (a.upto.0, a.outcome)).collect::<Vec<_>>(), expected);
    assert_eq!(*list.lock().unwrap(), [0, 1, 3, 4, 5, 6, 8, 9]);
}

#[test]
fn a_payload_that_panics_when_dropped_is_survived() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose: dropped");
        }
    }
    let mut queue = open(&device(1));
    launch(&mut queue.submit, 0, &HostCommand::new(|| std::panic::panic_any(Bomb)));
    launch(&mut queue.submit, 1, &HostCommand::new(|| {}));
    assert!(!all_ok(&retire(&mut queue.retire, 1)));
}

#[test]
fn a_full_ring_is_an_error() {
    let config = HostConfig::default().with_entries_max(4);
    let mut queue = open(&HostDevice::new(config).unwrap());
    let spin = common::Spin::new();
    launch(&mut queue.submit, 0, &spin.stubborn());
    spin.until_running();
    let nothing = HostCommand::new(|| {});
    for n in 1..=4 {
        launch(&mut queue.submit, n, &nothing);
    }
    let error = queue.submit.launch(CmdId(5), &nothing, true).unwrap_err();
    assert!(matches!(error, HostError::Full { entries_max: 4 }));
    assert_eq!(error.kind(), Fault::Launch);
    spin.end();
    retire(&mut queue.retire, 4);
    launch(&mut queue.submit, 5, &nothing);
    retire(&mut queue.retire, 5);
}

#[test]
fn a_senseless_configuration_is_an_error() {
    let with = |config| HostDevice::new(config).unwrap_err();
    let config = HostConfig::default();
    let error = with(config.with_compute_units(0));
    assert!(matches!(error, HostError::NoComputeUnits));
    let error = with(config.with_entries_max(3));
    assert!(matches!(error, HostError::FewEntries { entries_max: 3 }));
    let error = with(config.with_signal_offset(1000));
    assert!(matches!(error, HostError::NoSuchSignal { offset: 1000, .. }));
}

#[test]
fn a_signal_with_another_handler_is_an_error() {
    let config = HostConfig::default().with_signal_offset(3);
    let signal = libc::SIGRTMIN() + 3;
    // SAFETY: ignores a signal that is never sent.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
    let error = HostDevice::new(config).unwrap_err();
    assert!(matches!(error, HostError::SignalTaken { offset: 3, .. }), "{error}");
    assert!(error.to_string().contains("signal_offset"));
    // SAFETY: as before.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    HostDevice::new(config).unwrap();
    // The second device finds the handler of the first.
    HostDevice::new(config).unwrap();
}

struct Unpark(std::thread::Thread, AtomicU64);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

#[test]
fn no_wake_up_is_lost() {
    let mut queue = open(&device(1));
    let nothing = HostCommand::new(|| {});
    for n in 0..5000 {
        let unpark = Arc::new(Unpark(std::thread::current(), AtomicU64::new(0)));
        let waker = Waker::from(Arc::clone(&unpark));
        // Before the launch, while it runs, or after its end.
        if n % 3 == 0 {
            assert!(queue.retire.wake_on_retire(&waker));
        }
        launch(&mut queue.submit, n, &nothing);
        if n % 3 == 1 {
            assert!(queue.retire.wake_on_retire(&waker));
        } else if n % 3 == 2 {
            (0..n % 200).for_each(|_| std::hint::spin_loop());
            assert!(queue.retire.wake_on_retire(&waker));
        }
        let start = std::time::Instant::now();
        while unpark.1.load(Ordering::SeqCst) == 0 {
            // A token that an earlier round left behind ends a park early.
            std::thread::park_timeout(std::time::Duration::from_secs(60));
            assert!(start.elapsed().as_secs() < 60, "lost at {n}");
        }
        assert_eq!(queue.retire.poll_retired().unwrap().map(|r| r.upto), Some(CmdId(n)));
    }
}

#[test]
fn a_fence_behind_the_end_wakes() {
    let queue = &mut open(&device(1));
    let (sent, ran) = mpsc::channel();
    let command = HostCommand::new(move || sent.send(()).unwrap());
    queue.submit.launch(CmdId(0), &command, false).unwrap();
    ran.recv().unwrap();
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicU64::new(0)));
    assert!(queue.retire.wake_on_retire(&Waker::from(Arc::clone(&unpark))));
    queue.submit.fence(CmdId(0)).unwrap();
    until("woken", || unpark.1.load(Ordering::SeqCst) == 1);
    retire(&mut queue.retire, 0);
}
