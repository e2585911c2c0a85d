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
/// number of iterations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// No function of a program has an address with the upper bit.
    function: NonZeroUsize,
    data: usize,
}

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    /// Calls a function that launches something.
    Launch(Launch, usize),
    /// Calls a function on the thread of the host device's queue.
    Run(Launch, usize),
    /// Keeps the host device busy for so many iterations of its loop.
    Compute(u64),
}

/// What marks functions for the device's thread.
const ON_DEVICE: NonZeroUsize = match NonZeroUsize::new(!(usize::MAX >> 1)) {
    Some(bit) => bit,
    None => NonZeroUsize::MIN,
};

fn address(function: Launch) -> NonZeroUsize {
    // A function's address is never null.
    NonZeroUsize::new((function as *const ()).expose_provenance()).unwrap_or(ON_DEVICE)
}

/// A callback of a thread that waits until it was called, or never will be.
#[derive(Debug)]
pub(crate) struct Awaited {
    function: Launch,
    data: *mut c_void,
    kind: u32,
    reach: Reach,
}

impl Awaited {
    /// Commands of a kind take about equally long.
    pub(crate) const fn new(function: Launch, data: *mut c_void, kind: u32) -> Self {
        Self { function, data, kind, reach: Reach::Ring }
    }

    /// It goes into these hardware queues.
    pub(crate) const fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// # Safety
    /// As of the callback; `data` is where this is.
    unsafe extern "C" fn call(hwq: HwQueueHandle, data: *mut c_void) -> XResultValue {
        // SAFETY: as the caller promises.
        let this = unsafe { &*data.cast::<Self>() };
        // SAFETY: as the caller promises.
        unsafe { (this.function)(hwq, this.data) }
    }
}

/// The kind of a command, where 0 is any, and which hardware queues it goes into. To be asked
/// before it is launched.
pub(crate) fn kind_of(does: Does) -> (u32, Reach) {
    let Does::Launch(function, data) = does else { return (0, Reach::Ring) };
    if !std::ptr::fn_addr_eq(function, Awaited::call as Launch) {
        return (0, Reach::Ring);
    }
    let awaited: *const Awaited = std::ptr::with_exposed_provenance(data);
    // SAFETY: what has this callback was made from one that lives until it was called.
    unsafe { ((*awaited).kind, (*awaited).reach) }
}

impl Command {
    /// Calls a function that launches something, while a thread waits for that.
    pub(crate) fn awaited(awaited: &Awaited) -> Self {
        Self::callback(Awaited::call, std::ptr::from_ref(awaited).cast_mut().cast())
    }

    /// Calls a function that launches something.
    pub(crate) fn callback(function: Launch, data: *mut c_void) -> Self {
        Self { function: address(function), data: data.expose_provenance() }
    }

    /// Calls a function on the thread of the host device's queue.
    pub(crate) fn on_device(function: Launch, data: *mut c_void) -> Self {
        Self { function: address(function) | ON_DEVICE, data: data.expose_provenance() }
    }

    /// Takes so many iterations on the host device.
    pub(crate) fn compute(iterations: u64) -> Self {
        Self { function: ON_DEVICE, data: usize::try_from(iterations).unwrap_or(usize::MAX) }
    }

    /// What it does.
    pub(crate) fn does(&self) -> Does {
        if self.function == ON_DEVICE {
            return Does::Compute(self.data as u64);
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

    /// Whether only the host device can do it.
    pub(crate) fn is_for_host(&self) -> bool {
        self.function.get() & ON_DEVICE.get() != 0
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

/// Calls a callback.
pub(crate) fn call(function: Launch, hwq: HwQueueHandle, data: usize) -> XResultValue {
    let data = std::ptr::with_exposed_provenance_mut(data);
    let before = INSIDE.get();
    let here = forks();
    // In the child of a fork within a callback, that is the parent's.
    let depth = if before.0 == here { before.1 } else { 0 };
    INSIDE.set((here, depth + 1));
    // SAFETY: the program that made the command promised that the function can be called with this
    // data, once, on any thread.
    let code = unsafe { function(hwq, data) };
    INSIDE.set(before);
    code
}

/// Whether this thread is in a callback, where it must not wait for queues.
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
    fn an_awaited_callback_has_a_kind_and_is_called_with_its_own_data() {
        // SAFETY: it is given a number that nothing else uses.
        unsafe extern "C" fn add(_: HwQueueHandle, data: *mut c_void) -> XResultValue {
            // SAFETY: as above.
            unsafe { *data.cast::<u32>() += 1 };
            0
        }
        let mut count = 0_u32;
        let awaited = Awaited::new(add, (&raw mut count).cast(), 77);
        let does = Command::awaited(&awaited).does();
        assert_eq!(kind_of(does), (77, Reach::Ring));
        let Does::Launch(function, data) = does else { panic!("it launches") };
        call(function, 0, data);
        assert_eq!(count, 1);
        let plain = Command::callback(add, (&raw mut count).cast());
        assert_eq!(kind_of(plain.does()), (0, Reach::Ring));
        let spread = Awaited::new(add, (&raw mut count).cast(), 78).reaching(Reach::All);
        assert_eq!(kind_of(Command::awaited(&spread).does()), (78, Reach::All));
    }
}
