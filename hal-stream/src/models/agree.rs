//! Holds of another process, and calls of this one that open them for a while.

use std::sync::Arc;

use loom::sync::atomic::AtomicU32;

use super::harness::{explore, join, start};
use crate::agree::{Agreed, Bits};

const BIT: u32 = 2;

/// The numbers of a page.
struct Page {
    held: AtomicU32,
    open: AtomicU32,
    word: AtomicU32,
}

impl Page {
    fn new() -> Arc<Self> {
        let zero = || AtomicU32::new(0);
        Arc::new(Self { held: zero(), open: zero(), word: zero() })
    }

    fn agreed(&self) -> Agreed<'_, AtomicU32, std::iter::Once<&AtomicU32>> {
        Agreed { held: &self.held, open: &self.open, words: std::iter::once(&self.word) }
    }
}

/// What counts in the end is whether a call is made still, and otherwise whether a hold is there.
fn call_beside(
    name: &'static str,
    ends: bool,
    wanted: u32,
    hold: impl Fn(&Page) + Copy + Send + Sync + 'static,
) {
    explore(name, 3, move || {
        let page = Page::new();
        page.agreed().close(BIT);
        let holder = {
            let page = Arc::clone(&page);
            start(move || hold(&page))
        };
        page.agreed().begin_call();
        if ends {
            page.agreed().end_call();
        }
        join(holder);
        assert_eq!(page.word.get(), wanted, "the gate is not as it should be in the end");
    });
}

/// A call is made while a holder opens and closes again.
#[test]
fn a_call_during_holds() {
    call_beside("agree::a_call_during_holds", true, BIT, |page| {
        page.agreed().release(BIT);
        page.agreed().close(BIT);
    });
}

/// A call is made while a hold ends.
#[test]
fn a_call_at_the_end_of_a_hold() {
    call_beside("agree::a_call_at_the_end_of_a_hold", true, 0, |page| page.agreed().release(BIT));
}

/// A call begins, and goes on, while a hold ends and begins again.
#[test]
fn a_call_that_goes_on() {
    call_beside("agree::a_call_that_goes_on", false, 0, |page| {
        page.agreed().release(BIT);
        page.agreed().close(BIT);
    });
}

/// The first hold begins while calls are made.
#[test]
fn a_hold_that_begins_during_a_call() {
    explore("agree::a_hold_that_begins_during_a_call", 3, || {
        let page = Page::new();
        let holder = {
            let page = Arc::clone(&page);
            start(move || page.agreed().close(BIT))
        };
        for _ in 0..2 {
            page.agreed().begin_call();
            page.agreed().end_call();
        }
        join(holder);
        assert_eq!(page.word.get(), BIT, "the gate is not as it should be in the end");
    });
}
