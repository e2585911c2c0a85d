//! Priorities, deadlines, laxity and windows.

use xsched_core::hint::Hints;
use xsched_core::id::ProcessId;

use super::checks;
use super::chpf::Chpf;
use super::{Asked, caught, kept};

#[test]
fn queues_that_must_not_execute_do_not() {
    let words = "must not execute ran 100 of 100";
    caught("hpf", checks::no_execute, words);
    caught("hhpf", checks::no_execute, words);
    caught("chpf", checks::no_execute, words);
    let ours = ["hpf", "hhpf", "chpf", "edf", "kedf", "lax", "awf", "up", "wfq", "cfs"];
    kept(&ours, checks::no_execute);
}

#[test]
fn deadlines_do_not_hold_queues_of_other_devices() {
    caught("kedf", checks::deadlines_are_per_device, "device 1 ran 0.0 %");
    kept(&["edf", "kedf"], checks::deadlines_are_per_device);
}

#[test]
fn idle_queues_take_no_places() {
    caught("kedf", checks::places_are_for_the_ready, "ran 0.0 %");
    kept(&["edf", "kedf"], checks::places_are_for_the_ready);
}

#[test]
fn laxity_does_not_hold_queues_of_other_devices() {
    caught("lax", checks::laxity_is_per_device, "device 1 ran 0.0 %");
    kept(&["lax"], checks::laxity_is_per_device);
}

#[test]
fn windows_do_not_hold_queues_of_other_devices() {
    caught("awf", checks::windows_are_per_device, "device 1 ran 0.0 %");
    kept(&["awf"], checks::windows_are_per_device);
}

#[test]
fn hints_end_with_their_queue() {
    let words = "the hint of a queue that is gone counts";
    for name in ["hpf", "hhpf"] {
        caught(name, checks::priorities_end, words);
        kept(&[name], checks::priorities_end);
    }
    caught("kedf", checks::deadlines_end, words);
    kept(&["edf", "kedf"], checks::deadlines_end);
    caught("lax", checks::laxities_end, words);
    kept(&["lax"], checks::laxities_end);
}

#[test]
fn the_active_window_ends_with_its_queue() {
    caught("awf", checks::windows_end, "ran 0.0 %");
    kept(&["awf"], checks::windows_end);
}

/// Text of the kernel about the scheduling of a process.
fn file(prio: i16) -> String {
    format!("name (7, #threads: 1)\npolicy    :    0\nprio      :    {prio}\n")
}

/// Hints with the priority of the submitting thread, as our policy is told it.
fn thread(priority: i16) -> Hints {
    let mut hints = Hints::default();
    hints.set_cpu_priority(priority).expect("in range");
    hints
}

#[test]
fn real_time_priorities_are_ranked_as_the_kernel_does() {
    // SCHED_FIFO at 90 and at 10: the kernel counts down from 99.
    let policy = Chpf { files: [(ProcessId(1), file(9)), (ProcessId(2), file(89))].into() };
    let found = checks::first_process_goes_first(Box::new(Asked(policy)), [Hints::default(); 2]);
    assert_eq!(found, Err("the less urgent process ran for 100 of 100 steps".to_owned()));
    let hints = [thread(190), thread(110)];
    kept(&["chpf"], |policy| checks::first_process_goes_first(policy, hints));
}

#[test]
fn unknown_processes_do_not_go_before_ordinary_ones() {
    let policy = Chpf { files: [(ProcessId(1), file(110))].into() };
    let found = checks::first_process_goes_first(Box::new(Asked(policy)), [Hints::default(); 2]);
    assert_eq!(found, Err("the less urgent process ran for 100 of 100 steps".to_owned()));
    // Nice -10, and nothing known.
    let hints = [thread(10), Hints::default()];
    kept(&["chpf"], |policy| checks::first_process_goes_first(policy, hints));
}
