//! Busy commands: as much work as was asked for, however often they are stopped.

#![allow(unsafe_code, reason = "the shared code promises that commands are interruptible")]

mod common;

use std::sync::Arc;

use common::{device, hold, launch, open, release, retire, until};
use xsched_hal_host::{Busy, Witness};

#[test]
fn a_stop_does_not_shorten_the_work() {
    let witness = Arc::new(Witness::default());
    let command = Busy::calibrate().witnessed(20_000_000, &witness);
    let mut queue = open(&device(1));
    launch(&mut queue.submit, 0, &command);
    for _ in 0..3 {
        let before = witness.stamps();
        until("progress", || witness.stamps() > before || !witness.is_inside());
        hold(&mut queue.preempt);
        let at = (witness.stamps(), witness.last_ns());
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!((witness.stamps(), witness.last_ns()), at, "it ran while it was stopped");
        witness.arm();
        release(&mut queue.preempt);
    }
    retire(&mut queue.retire, 0);
    assert_eq!((witness.stamps(), witness.is_inside()), (20_000, false));
    assert!(Busy::calibrate().command(1).is_interruptible());
}
