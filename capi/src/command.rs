//! Commands as the C API has them.

use std::cell::Cell;
use std::ffi::c_void;

use crate::types::{HwQueueHandle, XResultValue};

/// A callback.
pub(crate) type Launch =
    unsafe extern "C" fn(hwq: HwQueueHandle, data: *mut c_void) -> XResultValue;

/// A command. Two words, since queues have thousands of them: a time is a function of its own with
/// nanoseconds as its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    function: Launch,
    data: usize,
}

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    /// Calls a function that launches something.
    Call(Launch, usize),
    /// Keeps the host device busy for so many nanoseconds.
    Time(u64),
}

/// Stands for commands that take a time, and is never called.
// SAFETY: it does nothing.
#[inline(never)]
unsafe extern "C" fn takes_a_time(hwq: HwQueueHandle, _: *mut c_void) -> XResultValue {
    // Not the same code as some other function, whose address it could otherwise share.
    XResultValue::from(hwq == u64::MAX) + 0x7ead
}

/// The function that stands for times, as all of this crate know it. A function as such may have
/// another address in each part of the crate that is compiled by itself.
static TAKES_A_TIME: Launch = takes_a_time;

impl Command {
    /// Calls a function that launches something.
    pub(crate) fn callback(function: Launch, data: *mut c_void) -> Self {
        Self { function, data: data.expose_provenance() }
    }

    /// Takes so many nanoseconds on the host device.
    pub(crate) fn timed(ns: u64) -> Self {
        let data = usize::try_from(ns).unwrap_or(usize::MAX);
        Self { function: TAKES_A_TIME, data }
    }

    pub(crate) fn does(&self) -> Does {
        if std::ptr::fn_addr_eq(self.function, TAKES_A_TIME) {
            Does::Time(self.data as u64)
        } else {
            Does::Call(self.function, self.data)
        }
    }

    /// As two words, for a table that is to be small.
    pub(crate) fn to_words(self) -> (usize, usize) {
        ((self.function as *const ()).expose_provenance(), self.data)
    }

    /// The command of these words.
    ///
    /// # Safety
    /// They are from [`Command::to_words`].
    pub(crate) unsafe fn from_words(function: usize, data: usize) -> Self {
        let function: *const () = std::ptr::with_exposed_provenance(function);
        // SAFETY: it was a function of this type, as the caller promises.
        let function = unsafe { std::mem::transmute::<*const (), Launch>(function) };
        Self { function, data }
    }
}

thread_local! {
    /// Callbacks that this thread is in.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Calls a callback.
pub(crate) fn call(function: Launch, hwq: HwQueueHandle, data: usize) -> XResultValue {
    let data = std::ptr::with_exposed_provenance_mut(data);
    INSIDE.with(|inside| inside.set(inside.get() + 1));
    // SAFETY: the program that made the command promised that the function can be called with this
    // data, once, on any thread.
    let code = unsafe { function(hwq, data) };
    INSIDE.with(|inside| inside.set(inside.get() - 1));
    code
}

/// Whether this thread is in a callback, where it must not wait for queues.
pub(crate) fn is_inside_callback() -> bool {
    INSIDE.try_with(Cell::get).unwrap_or(0) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: it only looks at its arguments.
    unsafe extern "C" fn sum(hwq: HwQueueHandle, data: *mut c_void) -> XResultValue {
        (hwq as usize + data.addr()) as XResultValue + i32::from(is_inside_callback()) * 100
    }

    #[test]
    fn a_command_is_two_words_and_comes_back_from_them() {
        assert_eq!(size_of::<Option<Command>>(), 16);
        let command = Command::callback(sum, std::ptr::without_provenance_mut(4));
        let (function, data) = command.to_words();
        // SAFETY: they are from just there.
        let back = unsafe { Command::from_words(function, data) };
        let Does::Call(function, data) = back.does() else { panic!("a callback") };
        assert!(!is_inside_callback());
        assert_eq!(call(function, 3, data), 107);
        assert!(!is_inside_callback());
        assert!(matches!(Command::timed(77).does(), Does::Time(77)));
    }
}
