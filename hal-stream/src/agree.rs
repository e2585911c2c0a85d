//! How a scheduler in another process and calls of this one agree whether gates are closed.
//!
//! The device waits until a gate's word is zero. A scheduler that holds a queue apart from the
//! process's others sets its bit there, and a call that waits for the whole device has to clear it
//! meanwhile. So the scheduler also says in the page's header what it holds, and the process
//! whether such a call is made. While one is made the scheduler sets no bit; at the end of the call
//! the process sets those of the holds that there are by then.

use std::sync::atomic::Ordering;

use crate::sync::OWN;

/// How often a scheduler looks again whether a call has begun or ended, which a process could do
/// without end. Its next renewal looks again.
const TRIES: usize = 4;

/// A number in a page. In models it is one of loom's.
pub(crate) trait Bits {
    fn get(&self) -> u32;
    fn set(&self, bits: u32);
    fn clear(&self, bits: u32);
    /// Of two threads that each write and then look, one sees what the other has written.
    fn fence();
}

macro_rules! bits {
    ($kind:ty, $fence:path) => {
        impl Bits for $kind {
            fn get(&self) -> u32 {
                self.load(Ordering::SeqCst)
            }
            fn set(&self, bits: u32) {
                self.fetch_or(bits, Ordering::SeqCst);
            }
            fn clear(&self, bits: u32) {
                self.fetch_and(!bits, Ordering::SeqCst);
            }
            fn fence() {
                $fence(Ordering::SeqCst);
            }
        }
    };
}

bits!(std::sync::atomic::AtomicU32, std::sync::atomic::fence);
#[cfg(loom)]
bits!(crate::sync::AtomicU32, crate::sync::fence);

/// The header of a page, and words of it.
#[derive(Debug)]
pub(crate) struct Agreed<'a, B, W> {
    /// The bits of those that hold.
    pub(crate) held: &'a B,
    /// Not 0 while a call of the process has the gates open.
    pub(crate) open: &'a B,
    pub(crate) words: W,
}

impl<'a, B: Bits + 'a, W: Iterator<Item = &'a B> + Clone> Agreed<'_, B, W> {
    fn set(&self, bits: u32) {
        // Nearly always closed when a hold is renewed, and then there is nothing to write.
        self.words.clone().filter(|word| word.get() & bits != bits).for_each(|word| word.set(bits));
    }

    fn clear(&self, bits: u32) {
        self.words.clone().for_each(|word| word.clear(bits));
    }

    /// A holder closes the gates, now or with the end of the call that has them open.
    pub(crate) fn close(&self, bit: u32) {
        self.held.set(bit);
        for _ in 0..TRIES {
            B::fence();
            if self.open.get() != 0 {
                return;
            }
            self.set(bit);
            B::fence();
            if self.open.get() == 0 {
                return;
            }
            self.clear(bit);
        }
    }

    /// A holder opens the gates.
    pub(crate) fn release(&self, bit: u32) {
        self.held.clear(bit);
        B::fence();
        self.clear(bit);
    }

    /// A call of the process opens the gates.
    pub(crate) fn begin_call(&self) {
        self.open.set(1);
        B::fence();
        self.clear(!OWN);
    }

    /// The call has ended.
    pub(crate) fn end_call(&self) {
        self.open.clear(1);
        B::fence();
        let mut held = self.held.get() & !OWN;
        while held != 0 {
            self.set(held);
            B::fence();
            let now = self.held.get() & !OWN;
            if now == held {
                return;
            }
            self.clear(held & !now);
            B::fence();
            held = self.held.get() & !OWN;
        }
    }
}
