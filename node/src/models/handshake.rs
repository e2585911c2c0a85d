//! Holds of another process, and calls of this one that open them for a while.

use std::sync::Arc;

use loom::sync::atomic::AtomicU32;

use super::harness::{explore, join, start};
use crate::handshake::HoldHandshake;
use crate::words::PageWord;

const BIT: u32 = 2;
const DIRECT: u32 = 4;

/// The numbers of a page.
struct Page {
    held: AtomicU32,
    open_calls: AtomicU32,
    gate: AtomicU32,
}

impl Page {
    fn new() -> Arc<Self> {
        let zero = || AtomicU32::new(0);
        Arc::new(Self { held: zero(), open_calls: zero(), gate: zero() })
    }

    fn handshake(&self) -> HoldHandshake<'_, AtomicU32, std::iter::Once<&AtomicU32>> {
        HoldHandshake {
            held: &self.held,
            open_calls: &self.open_calls,
            gates: std::iter::once(&self.gate),
        }
    }
}

/// Checks that in the end no call is made, or else that a hold is there.
fn call_beside(
    name: &'static str,
    ends: bool,
    wanted: u32,
    hold: impl Fn(&Page) + Copy + Send + Sync + 'static,
) {
    explore(name, 3, move || {
        let page = Page::new();
        page.handshake().close(BIT);
        let holder = {
            let page = Arc::clone(&page);
            start(move || hold(&page))
        };
        page.handshake().begin_call();
        if ends {
            page.handshake().end_call();
        }
        join(holder);
        assert_eq!(page.gate.get(), wanted, "the gate is not as it should be in the end");
    });
}

/// A call is made while a holder opens and closes again.
#[test]
fn a_call_during_holds() {
    call_beside("handshake::a_call_during_holds", true, BIT, |page| {
        page.handshake().release(BIT);
        page.handshake().close(BIT);
    });
}

/// A call is made while a hold ends.
#[test]
fn a_call_at_the_end_of_a_hold() {
    call_beside("handshake::a_call_at_the_end_of_a_hold", true, 0, |page| {
        page.handshake().release(BIT);
    });
}

/// A call begins, and goes on, while a hold ends and begins again.
#[test]
fn a_call_that_goes_on() {
    call_beside("handshake::a_call_that_goes_on", false, 0, |page| {
        page.handshake().release(BIT);
        page.handshake().close(BIT);
    });
}

/// A process holds this one directly while the scheduler, which holds it by now, ends direct holds
/// of before. The process rings after that, so there is another pass.
#[test]
fn a_direct_hold_beside_the_end_of_one_before() {
    explore("handshake::a_direct_hold_beside_the_end_of_one_before", 3, || {
        let page = Page::new();
        let process = {
            let page = Arc::clone(&page);
            start(move || page.handshake().close(DIRECT))
        };
        page.handshake().close(BIT);
        page.handshake().end_direct(DIRECT);
        join(process);
        page.handshake().end_direct(DIRECT);
        assert_eq!((page.held.get(), page.gate.get()), (BIT, BIT), "a direct hold has no end");
    });
}

/// A direct hold ends while a call is made.
#[test]
fn a_call_at_the_end_of_a_direct_hold() {
    call_beside("handshake::a_call_at_the_end_of_a_direct_hold", true, BIT, |page| {
        page.handshake().close(DIRECT);
        page.handshake().end_direct(DIRECT);
    });
}

/// The first hold begins while calls are made.
#[test]
fn a_hold_that_begins_during_a_call() {
    explore("handshake::a_hold_that_begins_during_a_call", 3, || {
        let page = Page::new();
        let holder = {
            let page = Arc::clone(&page);
            start(move || page.handshake().close(BIT))
        };
        for _ in 0..2 {
            page.handshake().begin_call();
            page.handshake().end_call();
        }
        join(holder);
        assert_eq!(page.gate.get(), BIT, "the gate is not as it should be in the end");
    });
}
