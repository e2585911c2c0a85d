//! Queues whose commands are launched by other threads than those that submit them.

use std::sync::Arc;
use std::time::Duration;

use xsched_core::id::QueueId;
use xsched_core::level::Level;

use super::{Bench, Board, ID, LauncherThread, explore, join, long, start};
use crate::queue::Api;
use crate::workers::{SharedLauncher, Tally, forget_turn, launcher_round, pump_round};

/// What is submitted is launched by the queue's own thread, in order and without a submitter's
/// help, also when the window is full; and that thread ends with the queue.
#[test]
fn a_queue_launches_by_itself() {
    explore("launcher::a_queue_launches_by_itself", 2, || {
        let commands = if long() { 3 } else { 2 };
        let thread = LauncherThread::new();
        let list = Arc::clone(thread.list());
        let board = Board::new(1, false);
        let bench = Bench::with_launcher(board, Duration::from_secs(1), Some(thread));
        let launcher = start(move || {
            let mut queues = Vec::new();
            while launcher_round(&list, &mut queues) {}
        });
        let device = bench.start_device(commands);
        let reaper = bench.start_reaper();
        for name in 0..commands {
            bench.submit(name);
        }
        let submitted = bench.submitted();
        let board = bench.close();
        join(device);
        join(reaper);
        join(launcher);
        board.assert_launched(submitted);
    });
}

fn start_shared(launcher: &Arc<SharedLauncher>) -> loom::thread::JoinHandle<()> {
    let launcher = Arc::clone(launcher);
    start(move || {
        let (mut queues, mut tally) = (Vec::new(), Tally::default());
        while launcher.round(&mut queues, &mut tally) {}
    })
}

/// What the pump was asked for, which may ask the launcher thread again. Both have ended.
fn launch_the_rest(bench: &Bench, launcher: &SharedLauncher) {
    let (mut queues, mut tally) = (Vec::new(), Tally::default());
    while pump_round(bench.workers.pump_list(), &mut queues)
        || launcher.round(&mut queues, &mut tally)
    {}
}

/// What a thread hands over that goes from one queue to another is launched in order, though the
/// thread never comes back; and the shared thread ends with the device's others.
#[test]
fn a_submitter_hands_over() {
    explore("launcher::a_submitter_hands_over", 3, || {
        let (first, launcher) = Bench::shared(ID, 4);
        let second = first.beside(QueueId::new(1, 1));
        let thread = start_shared(&launcher);
        for name in 0..if long() { 4 } else { 3 } {
            first.submit(name);
            second.submit(name);
        }
        first.end_without_reaper();
        join(thread);
        launch_the_rest(&first, &launcher);
        first.assert_launched();
        second.assert_launched();
    });
}

/// The window is full when a command is handed over: the shared thread looks for room, or the
/// reaper has it told.
#[test]
fn a_command_is_handed_over_to_a_full_window() {
    explore("launcher::a_command_is_handed_over_to_a_full_window", 1, || {
        let (bench, launcher) = Bench::shared(ID, 1);
        let thread = start_shared(&launcher);
        drop(launcher);
        let device = bench.start_device(2);
        let reaper = bench.start_reaper();
        let pump = bench.start_pump();
        for name in 0..2 {
            forget_turn();
            bench.submit(name);
        }
        let submitted = bench.submitted();
        let board = bench.close();
        join(device);
        join(reaper);
        join(thread);
        join(pump);
        board.assert_launched(submitted);
    });
}

/// What was handed over to a queue that is held by then is launched once it is resumed.
#[test]
fn a_hold_meets_what_was_handed_over() {
    explore("launcher::a_hold_meets_what_was_handed_over", 2, || {
        let (bench, launcher) = Bench::shared(ID, 4);
        let thread = start_shared(&launcher);
        let other = bench.clone();
        let user = start(move || {
            other.queue.suspend(Level::Block);
            other.queue.resume(false);
        });
        for name in 0..3 {
            forget_turn();
            bench.submit(name);
        }
        join(user);
        bench.end_without_reaper();
        join(thread);
        launch_the_rest(&bench, &launcher);
        bench.assert_launched();
    });
}

/// The shared launcher thread hangs in the launch of another queue: the pump launches what was
/// handed over.
#[test]
fn a_launcher_thread_that_does_not_come() {
    explore("launcher::a_launcher_thread_that_does_not_come", 2, || {
        let (bench, _) = Bench::shared(ID, 2);
        let device = bench.start_device(2);
        let reaper = bench.start_reaper();
        let pump = bench.start_pump();
        for name in 0..2 {
            forget_turn();
            bench.submit(name);
        }
        let submitted = bench.submitted();
        bench.workers.launcher_for(ID).expect("there is one").forget();
        let board = bench.close();
        join(device);
        join(pump);
        join(reaper);
        board.assert_launched(submitted);
    });
}
