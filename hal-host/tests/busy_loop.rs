//! Busy loops: as much work as was asked for, however often they are stopped.

#![allow(unsafe_code, reason = "promises that commands are interruptible")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{device, hold, launch, open, release, retire, until};
use xsched_hal_host::{BusyLoop, HostCommand};

/// Pieces of work in a command.
const PIECES: u64 = 20_000;

#[test]
fn a_stop_does_not_shorten_the_work() {
    let busy = BusyLoop::calibrate();
    let each = busy.command(1_000);
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let command = HostCommand::new(move || {
        for _ in 0..PIECES {
            each.call();
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    // SAFETY: it computes and counts in an atomic that lives as long as the command.
    let command = unsafe { command.interruptible() };
    let mut queue = open(&device(1));
    launch(&mut queue.submit, 0, &command);
    let done = || done.load(Ordering::Relaxed);
    for _ in 0..3 {
        let before = done();
        until("progress", || done() > before || done() == PIECES);
        hold(&mut queue.preempt);
        let at = done();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(done(), at, "it ran while it was stopped");
        release(&mut queue.preempt);
    }
    retire(&mut queue.retire, 0);
    assert_eq!(done(), PIECES);
    assert!(busy.command(1).is_interruptible());
}
