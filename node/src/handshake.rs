//! How a scheduler in another process and calls of this one agree whether gates are closed.
//!
//! The device waits until a gate's word is zero. A scheduler that holds a queue apart from the
//! process's others sets its bit there, and a call that waits for the whole device has to clear it
//! meanwhile. So the scheduler also says in the page's header which holds there are, and the
//! process whether such a call is made. While one is made the scheduler sets no bit; at the end of
//! the call the process sets those of the holds that there are by then.

use crate::words::{OWNER_BIT, PageWord};

/// Attempts of a scheduler to close gates while calls begin and end, which a process could do
/// without end. The next renewal tries again.
const CLOSE_ATTEMPTS: usize = 4;

/// The words of a page that a hold and a call of the process change.
#[derive(Debug)]
pub(crate) struct HoldHandshake<'a, P, G> {
    /// The bits of the holders.
    pub(crate) held: &'a P,
    /// Not 0 while a call of the process has the gates open.
    pub(crate) open_calls: &'a P,
    pub(crate) gates: G,
}

impl<'a, P: PageWord + 'a, G: Iterator<Item = &'a P> + Clone> HoldHandshake<'_, P, G> {
    fn set(&self, bits: u32) {
        // Nearly always closed when a hold is renewed, and then there is nothing to write.
        self.gates.clone().filter(|gate| gate.get() & bits != bits).for_each(|gate| gate.set(bits));
    }

    fn clear(&self, bits: u32) {
        self.gates.clone().for_each(|gate| gate.clear(bits));
    }

    /// A holder closes the gates, now or with the end of the call that has them open.
    pub(crate) fn close(&self, bit: u32) {
        self.held.set(bit);
        for _ in 0..CLOSE_ATTEMPTS {
            P::fence();
            if self.open_calls.get() != 0 {
                return;
            }
            self.set(bit);
            P::fence();
            if self.open_calls.get() == 0 {
                return;
            }
            self.clear(bit);
        }
    }

    /// Holders open the gates.
    pub(crate) fn release(&self, bits: u32) {
        self.held.clear(bits);
        P::fence();
        self.clear(bits);
    }

    /// The scheduler ends what another process holds directly, also if that was closing gates when
    /// it was done before. False if nothing was held so.
    pub(crate) fn end_direct(&self, bit: u32) -> bool {
        let is_set = |word: &P| word.get() & bit != 0;
        let is_held = is_set(self.held) || self.gates.clone().any(is_set);
        if is_held {
            self.release(bit);
        }
        is_held
    }

    /// A call of the process opens the gates.
    pub(crate) fn begin_call(&self) {
        self.open_calls.set(1);
        P::fence();
        self.clear(!OWNER_BIT);
    }

    /// The call has ended.
    pub(crate) fn end_call(&self) {
        self.open_calls.clear(1);
        P::fence();
        let mut held = self.held.get() & !OWNER_BIT;
        while held != 0 {
            self.set(held);
            P::fence();
            let now = self.held.get() & !OWNER_BIT;
            if now == held {
                return;
            }
            self.clear(held & !now);
            P::fence();
            held = self.held.get() & !OWNER_BIT;
        }
    }
}
