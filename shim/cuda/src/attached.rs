//! The program's references to contexts beyond the one that each begins with. `cuCtxAttach` adds
//! one, and `cuCtxDetach` ends the context with the last.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use xsched_shim_engine::{Address, Code, engine};

/// Numbers of these references, by contexts.
static REFERENCES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

fn references() -> MutexGuard<'static, HashMap<usize, usize>> {
    REFERENCES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(context: Address) {
    *references().entry(context.addr()).or_default() += 1;
}

/// Takes one away, if there is any.
fn remove(context: Address) -> bool {
    let mut references = references();
    let Some(count) = references.get_mut(&context.addr()) else { return false };
    *count -= 1;
    if *count == 0 {
        references.remove(&context.addr());
    }
    true
}

/// Adds a reference to the current context by what `next` does, which writes the context.
///
/// # Safety
/// As of the driver's function.
pub(crate) unsafe fn attach(context: *mut Address, next: impl FnOnce() -> Code) -> Code {
    let code = next();
    // A child of a fork does not wait for a thread of its parent.
    if code == 0 && !context.is_null() && engine::is_on() {
        // SAFETY: the driver has written it.
        add(unsafe { context.read() });
    }
    code
}

/// Takes a reference away by what `next` does, or if it is the last, ends the context by `end`.
pub(crate) fn detach<N: FnOnce() -> Code>(
    context: Address,
    next: N,
    end: impl FnOnce(Address, N) -> Code,
) -> Code {
    if !engine::is_on() || !remove(context) {
        return end(context, next);
    }
    let code = next();
    if code != 0 {
        add(context);
    }
    code
}

/// A context ends, however many references there are.
pub(crate) fn forget(context: Address) {
    if engine::is_on() {
        references().remove(&context.addr());
    }
}
