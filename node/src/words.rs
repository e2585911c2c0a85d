//! Words of a page. In models they are loom's.

use std::sync::atomic::{AtomicU32, Ordering};

/// The bit of a gate that belongs to the process that owns the stream. All other bits belong to
/// schedulers in other processes. The device waits until every bit is clear.
pub const OWNER_BIT: u32 = 1;

/// A word of a page that two processes read and write.
pub(crate) trait PageWord {
    /// Adds to the word, wrapping around, and answers the value before.
    fn add(&self, by: u32) -> u32;
    fn get(&self) -> u32;
    fn put(&self, value: u32);
    fn set(&self, bits: u32);
    fn clear(&self, bits: u32);
    /// Of two threads that each write one word and then read the other's, one sees the other's.
    fn fence();
}

macro_rules! page_word {
    ($kind:ty, $fence:path) => {
        impl PageWord for $kind {
            fn add(&self, by: u32) -> u32 {
                self.fetch_add(by, Ordering::SeqCst)
            }
            fn get(&self) -> u32 {
                self.load(Ordering::SeqCst)
            }
            fn put(&self, value: u32) {
                self.store(value, Ordering::SeqCst);
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

page_word!(AtomicU32, std::sync::atomic::fence);
#[cfg(all(test, loom))]
page_word!(loom::sync::atomic::AtomicU32, loom::sync::atomic::fence);
