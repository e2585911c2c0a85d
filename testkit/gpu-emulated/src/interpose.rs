//! The C library's `ioctl`, as this library has it.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::OnceLock;

use xsched_kfd_emulated::wire::nr;

use crate::device::{Argument, Device, device};
use crate::guarded;

/// The byte that all of the driver's calls have.
const MAGIC: c_ulong = 0x4b;

type Ioctl = unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int;

/// The next `ioctl` in the order of libraries: the C library's, or another preloaded one's.
///
/// # Safety
/// As the C library's.
unsafe fn next(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    static NEXT: OnceLock<Option<Ioctl>> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ioctl".as_ptr()) };
        // SAFETY: it is null, or `ioctl`; a function that takes more arguments than are declared
        // here is called in the same way on all machines with this driver.
        unsafe { std::mem::transmute::<*mut c_void, Option<Ioctl>>(found) }
    });
    match next {
        // SAFETY: passed on.
        Some(ioctl) => unsafe { ioctl(file, request, argument) },
        // SAFETY: the caller's promise is the system call's.
        None => unsafe { libc::syscall(libc::SYS_ioctl, file, request, argument) as c_int },
    }
}

/// True if the hardware has to know of a call.
const fn concerns(number: u8) -> bool {
    matches!(
        number,
        nr::CREATE_QUEUE
            | nr::ALLOC_MEMORY_OF_GPU
            | nr::FREE_MEMORY_OF_GPU
            | nr::MAP_MEMORY_TO_GPU
            | nr::UNMAP_MEMORY_FROM_GPU
    )
}

/// The C library's `ioctl`, which has the hardware follow what the driver was told.
///
/// # Safety
/// As the C library's.
// SAFETY: it stands in for the C library's function of this name, and does what that does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let number = (request & 0xff) as u8;
    // Older calls of terminals have the same byte, and no size.
    let is_ours = request >> 8 & 0xff == MAGIC && request >> 16 != 0 && !argument.is_null();
    if is_ours && number == nr::DESTROY_QUEUE {
        // SAFETY: it is the argument of this call.
        unsafe { end_queue(argument) };
    }
    // SAFETY: passed on.
    let answer = unsafe { next(file, request, argument) };
    if is_ours && answer == 0 && concerns(number) {
        // SAFETY: the driver has taken it for the argument of this call.
        unsafe { follow(number, argument) };
    }
    answer
}

/// Stops a queue before the driver is asked to destroy it: once it has answered, another thread's
/// queue may have the same number. The driver refuses no queue that there is.
///
/// # Safety
/// The argument is that of a call.
unsafe fn end_queue(argument: *mut c_void) {
    // SAFETY: a place that cannot be read is noticed.
    let Some(id) = (unsafe { guarded::read_u32(argument.cast()) }) else { return };
    // Without a device there is no queue.
    if let Ok(device) = device() {
        device.end_queue(id);
    }
}

/// # Safety
/// The argument is that of a call that succeeded.
unsafe fn follow(number: u8, argument: *mut c_void) {
    let followed = device().and_then(|device: &'static Device| {
        // SAFETY: the caller's promise.
        let argument = unsafe { Argument::new(argument) };
        match number {
            nr::CREATE_QUEUE => return device.created(argument),
            nr::ALLOC_MEMORY_OF_GPU => return device.allocated(argument),
            nr::FREE_MEMORY_OF_GPU => device.freed(argument.handle()),
            // SAFETY: the caller's promise.
            number => unsafe { device.mapped(argument, number == nr::MAP_MEMORY_TO_GPU) },
        }
        Ok(())
    });
    if let Err(error) = followed {
        eprintln!("gpu: the hardware cannot follow call {number:#04x}: {error}");
    }
}
