//! Atomics of bursts. With `--cfg loom` they are those of the models in `models`.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence};

use crate::burst::BurstState;

#[cfg(not(loom))]
mod states {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::BurstState;

    /// States that no stream has.
    static KEPT: Mutex<Vec<&'static BurstState>> = Mutex::new(Vec::new());
    /// Looks before the thread gives its processor away, and before it sleeps: a launch takes some
    /// microseconds unless it waits for the device.
    const SPINS: u32 = 64;
    const YIELDS: u32 = 128;
    const SLEEP: Duration = Duration::from_micros(50);

    pub(crate) fn kept() -> Option<&'static BurstState> {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(crate) fn keep(state: &'static BurstState) {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(state);
    }

    /// Waits a moment, longer each time.
    pub(crate) fn pause(times: &mut u32) {
        *times += 1;
        match *times {
            0..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(SLEEP),
        }
    }
}

#[cfg(loom)]
mod states {
    use super::BurstState;

    pub(crate) const fn kept() -> Option<&'static BurstState> {
        None
    }

    pub(crate) const fn keep(_: &'static BurstState) {}

    pub(crate) fn pause(_: &mut u32) {
        loom::thread::yield_now();
    }
}

pub(crate) use states::{keep, kept, pause};
