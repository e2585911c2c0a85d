//! HIP's functions, by their own names.

mod devices;
mod events;
mod graphs;
mod kernels;
mod memory;
mod streams;

use std::ffi::{CStr, c_char};

use crate::code::{Answer, INVALID_VALUE};

/// An out-parameter. HIP's caller promises that it can be written to, if not null.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: it came through HIP's interface, whose callers promise that it can be written to.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// A text of the caller's that ends with zero, as HIP's caller promises, if not null.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Answer<String> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: it came through HIP's interface, whose callers promise that it ends with zero.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| INVALID_VALUE)
    }
}

/// Exports functions under their names. Each first answers the error that a test injected, if one
/// was, and then what its body says.
macro_rules! exports {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)+) => {$(
        // SAFETY: the name is HIP's or our own, and this library defines it once.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> u32 {
            let body = || -> $crate::code::Answer { $body };
            let answer = $crate::runtime::runtime().demanded(stringify!($name));
            answer.and_then(|()| body()).err().unwrap_or($crate::code::SUCCESS)
        }
    )+};
}
pub(crate) use exports;
