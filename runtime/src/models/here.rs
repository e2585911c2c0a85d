//! Commands that only the threads may launch that submitted them.

use xsched_core::level::Level;

use super::{Bench, explore, join, start};
use crate::queue::Api;
use crate::workers::pump_round;

/// What a thread launches itself. The board learns the name of the thread that does.
fn launch_here(bench: &Bench, name: u64) {
    let thread = loom::thread::current().id();
    bench.board.expect(name, thread);
    let cmd = bench.queue.launch_here(name, None).expect("there is room");
    bench.submitted.lock().expect("no thread panics").push((cmd, name));
    assert!(bench.board.was_launched(name), "it returned before the launch");
}

/// A thread's command is launched by that thread and before its call returns, though the queue is
/// held and resumed meanwhile, and other threads look for something to launch.
#[test]
fn a_hold_meets_a_launch_on_the_calling_thread() {
    explore("here::a_hold_meets_a_launch_on_the_calling_thread", 3, || {
        let bench = Bench::new(4);
        let other = bench.clone();
        let user = start(move || {
            other.queue.suspend(Level::Block);
            other.queue.resume(false);
        });
        let pump = bench.start_pump();
        launch_here(&bench, 0);
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
    explore("here::two_threads_launch_into_a_full_window", 3, || {
        let bench = Bench::new(1);
        let device = bench.start_device(2);
        let other = bench.clone();
        let thread = start(move || launch_here(&other, 1));
        launch_here(&bench, 0);
        join(thread);
        join(device);
        bench.end_without_reaper();
        while pump_round(bench.workers.pump_list(), &mut Vec::new()) {}
        bench.assert_launched();
    });
}

/// What a resume drops is not launched, and its thread gets on.
#[test]
fn a_launch_on_the_calling_thread_is_dropped() {
    explore("here::a_launch_on_the_calling_thread_is_dropped", 2, || {
        let bench = Bench::new(4);
        bench.queue.suspend(Level::Block);
        let other = bench.clone();
        let user = start(move || other.queue.resume(true));
        bench.board.expect(0, loom::thread::current().id());
        let cmd = bench.queue.launch_here(0, None).expect("there is room");
        join(user);
        bench.end_without_reaper();
        while pump_round(bench.workers.pump_list(), &mut Vec::new()) {}
        assert_eq!(cmd.0, 0, "it was taken");
    });
}
