//! The program's references to the primary contexts of devices. The driver does not tell how many
//! there are, and a library may retain and release a context that the program goes on to use.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use xsched_shim_engine::{Code, real, streams};

use crate::vendor::primary_context;

/// For each device how often its primary context was retained and not released. Empty if the driver
/// does not say how many devices there are.
static REFERENCES: OnceLock<Box<[AtomicUsize]>> = OnceLock::new();

fn counted() -> Box<[AtomicUsize]> {
    let mut count = 0;
    let code = real!(c"cuDeviceGetCount", (&raw mut count): (*mut c_int));
    let count = if code == 0 { count } else { 0 };
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

fn of(all: &[AtomicUsize], device: c_int) -> Option<&AtomicUsize> {
    all.get(usize::try_from(device).ok()?)
}

/// Retains a device's primary context by what `next` does.
pub(crate) fn retain(device: c_int, next: impl FnOnce() -> Code) -> Code {
    let code = next();
    if code == 0
        && let Some(references) = of(REFERENCES.get_or_init(counted), device)
    {
        references.fetch_add(1, Ordering::AcqRel);
    }
    code
}

/// Releases a device's primary context by what `next` does. With the last reference, or where none
/// was counted, the context ends.
pub(crate) fn release(device: c_int, next: impl FnOnce() -> Code) -> Code {
    let references = REFERENCES.get().and_then(|all| of(all, device));
    let before = references.and_then(|references| {
        let one_less = |count: usize| count.checked_sub(1);
        references.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).ok()
    });
    let code = if before.is_none_or(|before| before == 1) {
        streams::release_context(primary_context(device), next)
    } else {
        next()
    };
    if code != 0
        && before.is_some()
        && let Some(references) = references
    {
        references.fetch_add(1, Ordering::AcqRel);
    }
    code
}
