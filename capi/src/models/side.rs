//! The claim on a command's callback, between the device's thread, which calls it, and the call
//! that submitted the command, whose data ends when that call returns.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};

use super::harness::{explore, join, long, start};
use crate::side::Side;

/// The data of a command's callback.
#[derive(Clone, Default)]
struct Data {
    is_gone: Arc<AtomicBool>,
}

impl Data {
    /// The callback: it looks at its data when it starts and when it ends.
    fn use_it(&self) -> i32 {
        for _ in 0..2 {
            assert!(!self.is_gone.load(Ordering::SeqCst), "a callback runs without its data");
        }
        0
    }

    /// Steps of the program once the call that submitted the command has returned.
    fn end(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

/// A call that waits for a launch returns once the callback has run, and not before.
#[test]
fn a_launch_is_waited_for() {
    explore("side::a_launch_is_waited_for", 6, || {
        let (side, data) = (Arc::new(Side::new(1, true)), Data::default());
        let commands = if long() { 2 } else { 1 };
        let device = (Arc::clone(&side), data.clone());
        let device = start(move || {
            let (side, data) = device;
            for number in 0..commands {
                assert_eq!(side.run(number, || data.use_it()), 0, "it was not called");
                side.note_launch(number);
            }
        });
        side.wait_launched(commands - 1, || false);
        data.end();
        join(device);
    });
}

/// A call whose command is over returns, and no callback runs any more: the command was not called,
/// or its callback has ended.
#[test]
fn a_command_that_is_over() {
    explore("side::a_command_that_is_over", 6, || {
        let (side, data) = (Arc::new(Side::new(1, true)), Data::default());
        let device = (Arc::clone(&side), data.clone());
        let device = start(move || {
            let (side, data) = device;
            side.run(0, || data.use_it());
        });
        side.wait_launched(0, || true);
        data.end();
        join(device);
    });
}

/// Two calls whose commands are over return, whichever of them gives up first, and neither's
/// callback runs any more.
#[test]
fn two_commands_that_are_over() {
    explore("side::two_commands_that_are_over", 3, || {
        let (side, data) = (Arc::new(Side::new(1, true)), [Data::default(), Data::default()]);
        let device = (Arc::clone(&side), data.clone());
        let device = start(move || {
            let (side, data) = device;
            for (number, data) in (0..).zip(&data) {
                side.run(number, || data.use_it());
            }
        });
        let [first, second] = data;
        let other = Arc::clone(&side);
        let other = start(move || {
            other.wait_launched(1, || true);
            second.end();
        });
        side.wait_launched(0, || true);
        first.end();
        join(other);
        join(device);
    });
}
