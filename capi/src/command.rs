//! Commands as the C API has them.

use std::cell::Cell;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU16, Ordering};

use xsched_hal_stream::Reach;

use crate::types::{HwQueueHandle, XResultValue};

/// A callback.
pub(crate) type Launch =
    unsafe extern "C" fn(hwq: HwQueueHandle, data: *mut c_void) -> XResultValue;

/// A command. Two words, since queues have thousands of them. The upper bit of the first says that
/// the rest of it is a function for the device's thread; alone it says that the second word is a
/// number of iterations, and all bits, that it has a kind and a reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// No function of a program has an address with the upper bit.
    function: NonZeroUsize,
    data: usize,
}

/// Work of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    /// Calls a function that launches something.
    Launch(Launch, usize),
    /// Calls a function on the thread of the host device's queue.
    Run(Launch, usize),
    /// Keeps the host device busy for this number of iterations of its loop.
    Compute(u64),
    /// Nothing: the thread that submitted it launches something. Commands of a kind take about
    /// equally long; 0 is any.
    CallerLaunches { kind: u32, reach: Reach },
}

/// Marks functions for the device's thread.
const ON_DEVICE: NonZeroUsize = match NonZeroUsize::new(!(usize::MAX >> 1)) {
    Some(bit) => bit,
    None => NonZeroUsize::MIN,
};

/// Marks launches of the thread that submits them. No function has this address.
const OF_CALLER: NonZeroUsize = NonZeroUsize::MAX;
/// The lowest bit of a launch's reach, above its kind.
const REACH: u32 = u32::BITS;

fn address(function: Launch) -> NonZeroUsize {
    // A function's address is never null.
    NonZeroUsize::new((function as *const ()).expose_provenance()).unwrap_or(ON_DEVICE)
}

impl Command {
    /// The thread that submits it launches something by itself.
    pub(crate) fn of_caller(kind: u32, reach: Reach) -> Self {
        let reach = match reach {
            Reach::Ring => 0,
            Reach::Copies => 1,
            Reach::All => 2,
        };
        Self { function: OF_CALLER, data: reach << REACH | kind as usize }
    }

    /// Calls a function that launches something.
    pub(crate) fn callback(function: Launch, data: *mut c_void) -> Self {
        Self { function: address(function), data: data.expose_provenance() }
    }

    /// Calls a function on the thread of the host device's queue.
    pub(crate) fn on_device(function: Launch, data: *mut c_void) -> Self {
        Self { function: address(function) | ON_DEVICE, data: data.expose_provenance() }
    }

    /// Takes `iterations` iterations on the host device.
    pub(crate) fn compute(iterations: u64) -> Self {
        Self { function: ON_DEVICE, data: usize::try_from(iterations).unwrap_or(usize::MAX) }
    }

    /// Work of the command.
    pub(crate) fn does(&self) -> Does {
        if self.function == ON_DEVICE {
            return Does::Compute(self.data as u64);
        }
        if self.function == OF_CALLER {
            let reach = match self.data >> REACH {
                0 => Reach::Ring,
                1 => Reach::Copies,
                _ => Reach::All,
            };
            return Does::CallerLaunches { kind: self.data as u32, reach };
        }
        let address = self.function.get() & !ON_DEVICE.get();
        let function: *const () = std::ptr::with_exposed_provenance(address);
        // SAFETY: it is not alone with the mark, so it was a function of this type when the command
        // was made.
        let function = unsafe { std::mem::transmute::<*const (), Launch>(function) };
        if self.is_for_host() {
            Does::Run(function, self.data)
        } else {
            Does::Launch(function, self.data)
        }
    }

    /// Returns whether only the host device can do the work.
    pub(crate) fn is_for_host(&self) -> bool {
        self.function.get() & ON_DEVICE.get() != 0 && self.function != OF_CALLER
    }

    /// As two words, for a table that is to be small.
    pub(crate) fn to_words(self) -> (usize, usize) {
        (self.function.get(), self.data)
    }

    /// The command of these words. `None` if the first is 0.
    ///
    /// # Safety
    /// They are from [`Command::to_words`].
    pub(crate) unsafe fn from_words(function: usize, data: usize) -> Option<Self> {
        Some(Self { function: NonZeroUsize::new(function)?, data })
    }
}

/// Forks that led to this process.
static FORKS: AtomicU16 = AtomicU16::new(0);

/// How many forks led to this process, as far as they were seen.
pub(crate) fn forks() -> u16 {
    FORKS.load(Ordering::Relaxed)
}

/// After a fork, in the child: this thread is in none of its parent's callbacks.
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

thread_local! {
    /// Callbacks that this thread is in, after how many forks.
    static INSIDE: Cell<(u16, u32)> = const { Cell::new((0, 0)) };
}

/// Marks this thread as in a callback, or in a launch of its own, until this is dropped.
#[derive(Debug)]
pub(crate) struct InsideCallback {
    before: (u16, u32),
}

impl InsideCallback {
    pub(crate) fn enter() -> Self {
        let before = INSIDE.get();
        let here = forks();
        // In the child of a fork within a callback, that is the parent's.
        let depth = if before.0 == here { before.1 } else { 0 };
        INSIDE.set((here, depth + 1));
        Self { before }
    }
}

impl Drop for InsideCallback {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// Calls a callback.
pub(crate) fn call(function: Launch, hwq: HwQueueHandle, data: usize) -> XResultValue {
    let data = std::ptr::with_exposed_provenance_mut(data);
    let _inside = InsideCallback::enter();
    // SAFETY: the program that made the command promised that the function can be called with this
    // data, once, on any thread.
    unsafe { function(hwq, data) }
}

/// Returns whether this thread is in a callback, where it must not wait for queues.
pub(crate) fn is_inside_callback() -> bool {
    INSIDE.try_with(Cell::get).is_ok_and(|(after, depth)| depth > 0 && after == forks())
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
        let back = unsafe { Command::from_words(function, data) }.expect("not null");
        let Does::Launch(function, data) = back.does() else { panic!("a callback") };
        assert!(!is_inside_callback());
        assert_eq!(call(function, 3, data), 107);
        assert!(!is_inside_callback());
        assert!(!command.is_for_host());
        assert!(matches!(Command::compute(77).does(), Does::Compute(77)));
        let command = Command::on_device(sum, std::ptr::without_provenance_mut(4));
        let Does::Run(function, data) = command.does() else { panic!("on the device") };
        assert_eq!(call(function, 3, data), 107);
        assert!(command.is_for_host() && Command::compute(0).is_for_host());
    }

    #[test]
    fn a_launch_of_the_caller_s_has_its_kind_and_reach() {
        for (kind, of) in [(0, Reach::Ring), (77, Reach::Copies), (u32::MAX, Reach::All)] {
            let command = Command::of_caller(kind, of);
            let does = command.does();
            let Does::CallerLaunches { kind: back, reach } = does else { panic!("{does:?}") };
            assert_eq!((back, reach), (kind, of));
            assert!(!command.is_for_host());
        }
    }
}
