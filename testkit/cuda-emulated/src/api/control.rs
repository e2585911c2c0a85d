//! Functions that CUDA does not have, for tests.

use xsched_emulated_device::c::Text;

use crate::driver::{Object, counted, driver};

/// A name, or nothing if it is null.
fn name(text: &Text) -> Option<String> {
    (!text.is_null()).then(|| text.get().unwrap_or_default())
}

// SAFETY: the name is our own, and this library defines it once.
#[unsafe(no_mangle)]
extern "C" fn cuEmulatedLaunches(kernel: Text) -> u64 {
    counted(&driver().launches, name(&kernel).as_deref())
}

// SAFETY: the name is our own, and this library defines it once.
#[unsafe(no_mangle)]
extern "C" fn cuEmulatedCalls(function: Text) -> u64 {
    counted(&driver().calls, name(&function).as_deref())
}

// SAFETY: the name is our own, and this library defines it once.
#[unsafe(no_mangle)]
extern "C" fn cuEmulatedHandles() -> u64 {
    let counts = |object: &Object| {
        !matches!(object, Object::Context(_) | Object::Function(_) | Object::Kernel(_))
    };
    driver().objects.count(counts) as u64
}
