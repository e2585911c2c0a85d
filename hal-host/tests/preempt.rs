//! Lv2 and Lv3.
#![allow(unsafe_code, reason = "promises that commands are interruptible")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Spin, all_ok, device, hold, launch, open, push, release, retire, step, until};
use xsched_core::hal::{Checked, Contract, Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Level, Step};
use xsched_core::rng::SplitMix64;
use xsched_hal_host::{HostCommand, HostConfig, HostDevice};

/// Long enough to show what should not happen, mostly; never too short for a test to pass.
const A_WHILE: Duration = Duration::from_millis(30);

#[test]
fn a_deactivated_queue_finishes_what_runs_and_starts_nothing() {
    let mut queue = open(&device(1));
    assert_eq!(queue.preempt.level(), Level::Interrupt);
    let (spin, list) = (Spin::new(), Arc::default());
    launch(&mut queue.submit, 0, &spin.command());
    launch(&mut queue.submit, 1, &push(&list, 1));
    spin.until_running();
    step(&mut queue.preempt, Step::Deactivate);
    spin.until_running();
    spin.end();
    retire(&mut queue.retire, 0);
    std::thread::sleep(A_WHILE);
    assert!(list.lock().unwrap().is_empty());
    step(&mut queue.preempt, Step::Reactivate);
    retire(&mut queue.retire, 1);
    assert_eq!(*list.lock().unwrap(), [1]);
}

#[test]
fn an_interrupted_command_yields_its_unit_and_continues_later() {
    let device = device(1);
    let (mut low, mut high) = (open(&device), open(&device));
    let (spin, list) = (Spin::new(), Arc::default());
    launch(&mut low.submit, 0, &spin.command());
    spin.until_running();
    for round in 0..20 {
        hold(&mut low.preempt);
        let stopped_at = spin.counts();
        for n in 0..10 {
            launch(&mut high.submit, round * 10 + n, &push(&list, n));
        }
        retire(&mut high.retire, round * 10 + 9);
        assert_eq!(spin.counts(), stopped_at);
        release(&mut low.preempt);
        spin.until_running();
    }
    assert_eq!(low.retire.poll_retired().unwrap(), None);
    spin.end();
    assert!(all_ok(&retire(&mut low.retire, 0)));
    assert_eq!(list.lock().unwrap().len(), 200);
}

#[test]
fn a_restored_command_waits_for_a_unit() {
    let device = device(1);
    let (mut low, mut high) = (open(&device), open(&device));
    let (spin, busy) = (Spin::new(), Spin::new());
    launch(&mut low.submit, 0, &spin.command());
    spin.until_running();
    hold(&mut low.preempt);
    launch(&mut high.submit, 0, &busy.command());
    busy.until_running();
    let stopped_at = spin.counts();
    release(&mut low.preempt);
    busy.until_running();
    assert_eq!(spin.counts(), stopped_at);
    // Held again while it waits, it does not go on when the unit is free.
    hold(&mut low.preempt);
    busy.end();
    retire(&mut high.retire, 0);
    std::thread::sleep(A_WHILE);
    assert_eq!(spin.counts(), stopped_at);
    release(&mut low.preempt);
    spin.until_running();
    spin.end();
    retire(&mut low.retire, 0);
}

#[test]
fn a_command_that_may_not_be_stopped_finishes_first() {
    let mut queue = open(&device(1));
    let (spin, list) = (Spin::new(), Arc::default());
    launch(&mut queue.submit, 0, &spin.stubborn());
    launch(&mut queue.submit, 1, &push(&list, 1));
    spin.until_running();
    assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Later));
    assert_eq!(queue.preempt.poll_step(), Ok(None));
    spin.until_running();
    spin.end();
    until("step", || queue.preempt.poll_step().unwrap() == Some(StepDone::Now(None)));
    assert_eq!(queue.preempt.poll_step(), Ok(None));
    retire(&mut queue.retire, 0);
    // Not deactivated, but nothing starts before the restore either.
    std::thread::sleep(A_WHILE);
    assert!(list.lock().unwrap().is_empty());
    step(&mut queue.preempt, Step::Restore);
    retire(&mut queue.retire, 1);
}

#[test]
fn an_interrupt_in_the_background_can_be_taken_back() {
    // No time to wait, so most stops are on their way when they are taken back.
    let config = HostConfig::default().with_stop_wait(Duration::ZERO);
    let mut queue = open(&HostDevice::new(config).unwrap());
    let spin = Spin::new();
    launch(&mut queue.submit, 0, &spin.command());
    for _ in 0..500 {
        let _: StepDone = queue.preempt.step(Step::Interrupt).unwrap();
        step(&mut queue.preempt, Step::Restore);
    }
    spin.until_running();
    hold(&mut queue.preempt);
    let stopped_at = spin.counts();
    std::thread::sleep(A_WHILE);
    assert_eq!(spin.counts(), stopped_at);
    release(&mut queue.preempt);
    spin.end();
    retire(&mut queue.retire, 0);
}

#[test]
fn stopped_time_is_not_busy_time() {
    let device = device(1);
    let mut queue = open(&device);
    let spin = Spin::new();
    let start = Instant::now();
    launch(&mut queue.submit, 0, &spin.command());
    spin.until_running();
    hold(&mut queue.preempt);
    let stop = Instant::now();
    std::thread::sleep(10 * A_WHILE);
    let stopped = stop.elapsed();
    release(&mut queue.preempt);
    spin.until_running();
    spin.end();
    let busy: u64 = retire(&mut queue.retire, 0).iter().map(|r| r.busy.as_ns()).sum();
    assert!(busy > 0);
    assert!(u128::from(busy) + stopped.as_nanos() <= start.elapsed().as_nanos());
}

/// Adds 1 to what its argument points to, after a short computation.
fn add_one(counter: u64, rounds: u64) {
    let mut value = counter;
    for _ in 0..rounds {
        value = std::hint::black_box(value.wrapping_mul(31));
    }
    // SAFETY: the tests pass the address of an atomic that outlives the command.
    let counter = unsafe { AtomicU64::from_ptr(counter as *mut u64) };
    counter.fetch_add(1, Ordering::Relaxed);
}

fn adding(counter: &AtomicU64, rounds: u64) -> HostCommand {
    let command = HostCommand::function(add_one, counter.as_ptr() as u64, rounds);
    // SAFETY: it computes and adds; the caller waits for it before the counter goes away.
    unsafe { command.interruptible() }
}

#[test]
fn ten_thousand_random_interrupts_lose_and_repeat_nothing() {
    let device = device(1);
    let (mut low, mut high) = (open(&device), open(&device));
    let counters: [AtomicU64; 2] = Default::default();
    let mut rng = SplitMix64::new(7);
    let (mut launched, mut retired) = ([0u64; 2], [0u64; 2]);
    for _ in 0..10_000 {
        for (n, queue) in [&mut low, &mut high].into_iter().enumerate() {
            if launched[n] - retired[n] < 64 {
                let command = adding(&counters[n], rng.below(4000));
                launch(&mut queue.submit, launched[n], &command);
                launched[n] += 1;
            }
            while let Some(answer) = queue.retire.poll_retired().unwrap() {
                retired[n] = answer.upto.count();
            }
        }
        for _ in 0..rng.below(2000) {
            std::hint::spin_loop();
        }
        match rng.below(3) {
            0 => {
                hold(&mut low.preempt);
                release(&mut low.preempt);
            }
            1 => {
                step(&mut low.preempt, Step::Interrupt);
                let done = counters[0].load(Ordering::Relaxed);
                (0..rng.below(500)).for_each(|_| std::hint::spin_loop());
                assert_eq!(counters[0].load(Ordering::Relaxed), done);
                step(&mut low.preempt, Step::Restore);
            }
            _ => {
                step(&mut high.preempt, Step::Interrupt);
                step(&mut high.preempt, Step::Restore);
            }
        }
    }
    for (n, queue) in [&mut low, &mut high].into_iter().enumerate() {
        if retired[n] < launched[n] {
            assert!(all_ok(&retire(&mut queue.retire, launched[n] - 1)));
        }
        assert_eq!(counters[n].load(Ordering::Relaxed), launched[n]);
    }
}

#[test]
fn signals_cut_no_later_command_short() {
    let mut queue = open(&device(1));
    let (counter, cut) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&cut);
    let sleep = HostCommand::new(move || {
        let span = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
        // SAFETY: the span is valid, and the rest is not asked for.
        let result = unsafe { libc::nanosleep(&raw const span, std::ptr::null_mut()) };
        seen.fetch_add(u64::from(result != 0), Ordering::Relaxed);
    });
    for n in 0..1000 {
        launch(&mut queue.submit, 2 * n, &adding(&counter, 500));
        launch(&mut queue.submit, 2 * n + 1, &sleep);
        let _: StepDone = queue.preempt.step(Step::Interrupt).unwrap();
        step(&mut queue.preempt, Step::Restore);
        retire(&mut queue.retire, 2 * n + 1);
    }
    assert_eq!(cut.load(Ordering::Relaxed), 0);
    assert_eq!(counter.load(Ordering::Relaxed), 1000);
}

#[test]
fn the_contract_between_queue_and_device_is_kept() {
    let device = device(1);
    let (queue, contract) = (open(&device), Contract::default());
    let mut submit = Checked::new(queue.submit, &contract);
    let mut half = Checked::new(queue.retire, &contract);
    let mut preempt = Checked::new(queue.preempt, &contract);
    let counter = AtomicU64::new(0);
    for n in 0..500 {
        submit.launch(CmdId(2 * n), &adding(&counter, 1000), false).unwrap();
        submit.launch(CmdId(2 * n + 1), &adding(&counter, 1000), n % 2 == 0).unwrap();
        hold(&mut preempt);
        release(&mut preempt);
        submit.fence(CmdId(2 * n + 1)).unwrap();
        retire(&mut half, 2 * n + 1);
    }
    assert_eq!((contract.violations(), contract.first()), (0, None));
    assert_eq!(counter.load(Ordering::Relaxed), 1000);
}

#[test]
fn a_stop_leaves_errno_alone_and_other_signals_go_elsewhere() {
    static HANDLED_BY: AtomicU64 = AtomicU64::new(0);
    extern "C" fn note(_: libc::c_int) {
        // SAFETY: a system call without arguments.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        HANDLED_BY.store(thread as u64, Ordering::Relaxed);
    }
    let mut queue = open(&device(1));
    let (spin, own) = (Spin::new(), Arc::new(AtomicU64::new(0)));
    let (inside, id) = (Arc::clone(&spin), Arc::clone(&own));
    let command = HostCommand::new(move || {
        // SAFETY: a system call without arguments, and this thread's `errno`.
        let errno = unsafe {
            id.store(libc::syscall(libc::SYS_gettid) as u64, Ordering::Relaxed);
            *libc::__errno_location() = 1234;
            libc::__errno_location()
        };
        // SAFETY: still this thread.
        while !inside.end.load(Ordering::Relaxed) && unsafe { errno.read_volatile() } == 1234 {
            inside.count.fetch_add(1, Ordering::Relaxed);
        }
    });
    // SAFETY: it makes one system call and computes.
    launch(&mut queue.submit, 0, &unsafe { command.interruptible() });
    spin.until_running();
    // SAFETY: a handler that makes one system call and stores a number.
    unsafe { libc::signal(libc::SIGUSR1, note as extern "C" fn(libc::c_int) as usize) };
    for _ in 0..20 {
        hold(&mut queue.preempt);
        release(&mut queue.preempt);
        // Would end here if it saw another `errno`.
        spin.until_running();
        HANDLED_BY.store(0, Ordering::Relaxed);
        // SAFETY: the signal has a handler.
        unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
        until("handled", || HANDLED_BY.load(Ordering::Relaxed) != 0);
        assert_ne!(HANDLED_BY.load(Ordering::Relaxed), own.load(Ordering::Relaxed));
    }
    spin.end();
    retire(&mut queue.retire, 0);
}
