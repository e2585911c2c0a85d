//! Keeping panics of users' code, of policies and of backends from unwinding through the runtime's
//! threads.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The work panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Result of the work, unless it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        // The payload's destructor may panic as well, and so may that panic's payload.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
        Panicked
    })
}

/// Result of the work; a panic in it is logged.
pub(crate) fn contain<T>(what: &str, work: impl FnOnce() -> T) -> Option<T> {
    let result = caught(work).ok();
    if result.is_none() {
        tracing::error!("{what} panicked");
    }
    result
}

/// Drops a command; a panic in its destructor is logged.
pub(crate) fn drop_command<C>(command: C) {
    if std::mem::needs_drop::<C>() {
        contain("the destructor of a command", || drop(command));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Grenade;

    impl Drop for Grenade {
        fn drop(&mut self) {
            std::panic::panic_any(Self);
        }
    }

    #[test]
    fn a_panic_whose_payload_panics_is_contained() {
        struct Once;
        impl Drop for Once {
            fn drop(&mut self) {
                panic!("from a payload");
            }
        }
        assert_eq!(caught(|| std::panic::panic_any(Once)), Err(Panicked));
        assert_eq!(contain("the test", || std::panic::panic_any(Grenade)), None::<()>);
        assert_eq!(contain("the test", || 7), Some(7));
    }
}
