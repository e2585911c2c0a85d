//! Commands that only the threads may launch that submitted them, from their begin to their end.

use xsched_core::level::Level;

use super::{Bench, explore, join, start};
use crate::queue::{Api, Begun};
use crate::workers::pump_round;

/// Begins what this thread launches by itself. The board learns the name of the thread that does.
fn begin(bench: &Bench, name: u64) -> Begun {
    bench.board.expect(name, loom::thread::current().id());
    bench.queue.begin_launch(name, None).expect("there is room")
}

/// Takes a command in hand.
fn in_hand(bench: &Bench, name: u64) {
    let Begun::InHand(cmd) = begin(bench, name) else { panic!("it is over") };
    bench.submitted.lock().expect("no thread panics").push((cmd, name));
    assert!(bench.board.was_launched(name), "it returned before its turn");
}

fn launch(bench: &Bench, name: u64) {
    in_hand(bench, name);
    bench.queue.end_launch(true);
}

/// A thread's command is its own to launch, in its turn, though the queue is held and resumed
/// meanwhile, and other threads look for something to launch.
#[test]
fn a_hold_meets_a_launch_on_the_calling_thread() {
    explore("begun::a_hold_meets_a_launch_on_the_calling_thread", 3, || {
        let bench = Bench::new(4);
        let other = bench.clone();
        let user = start(move || {
            other.queue.suspend(Level::Block);
            other.queue.resume(false);
        });
        let pump = bench.start_pump();
        launch(&bench, 0);
        join(user);
        bench.end_without_reaper();
        join(pump);
        bench.assert_launched();
    });
}

/// Two threads launch into a queue whose window has room for one: each launches its own, in the
/// order in which the queue took them.
#[test]
fn two_threads_launch_into_a_full_window() {
    explore("begun::two_threads_launch_into_a_full_window", 3, || {
        let bench = Bench::new(1);
        let device = bench.start_device(2);
        let other = bench.clone();
        let thread = start(move || launch(&other, 1));
        launch(&bench, 0);
        join(thread);
        join(device);
        bench.end_without_reaper();
        while pump_round(bench.workers.pump_list(), &mut Vec::new()) {}
        bench.assert_launched();
    });
}

/// Launches that a resume drops are not begun, and their thread gets on.
#[test]
fn a_launch_on_the_calling_thread_is_dropped() {
    explore("begun::a_launch_on_the_calling_thread_is_dropped", 2, || {
        let bench = Bench::new(4);
        bench.queue.suspend(Level::Block);
        let other = bench.clone();
        let user = start(move || other.queue.resume(true));
        if let Begun::InHand(cmd) = begin(&bench, 0) {
            assert_eq!(cmd.0, 0, "it was taken");
            bench.queue.end_launch(true);
        }
        join(user);
        bench.end_without_reaper();
        while pump_round(bench.workers.pump_list(), &mut Vec::new()) {}
    });
}

/// A thread that gives its launch up, as when it unwinds or ends, leaves the queue to others: those
/// that come meanwhile launch after it.
#[test]
fn a_launch_that_is_given_up() {
    explore("begun::a_launch_that_is_given_up", 3, || {
        let bench = Bench::new(4);
        in_hand(&bench, 0);
        let other = bench.clone();
        let thread = start(move || launch(&other, 1));
        bench.queue.end_launch(false);
        join(thread);
        bench.end_without_reaper();
        while pump_round(bench.workers.pump_list(), &mut Vec::new()) {}
        bench.assert_launched();
    });
}

/// While a launch is in hand, a command that another thread submits waits for its end, and then
/// does not wait for anything else.
#[test]
fn a_command_comes_while_a_launch_is_in_hand() {
    explore("begun::a_command_comes_while_a_launch_is_in_hand", 3, || {
        let bench = Bench::new(4);
        in_hand(&bench, 0);
        let other = bench.clone();
        let thread = start(move || {
            other.submit(1);
        });
        bench.queue.end_launch(true);
        join(thread);
        bench.end_without_reaper();
        while pump_round(bench.workers.pump_list(), &mut Vec::new()) {}
        bench.assert_launched();
    });
}
