//! The C library's `ioctl`, as this library has it.

use std::ffi::{c_int, c_ulong, c_void};
use std::mem::transmute;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xsched_hal_kfd::preloaded::{ENDS_QUEUE, ENDS_RUNTIME, WatchedQueue};
use xsched_hal_kfd::uapi::{
    self, CreateQueue88, DestroyQueue, MODE_ENABLE, RuntimeEnable, UpdateQueue,
};
use xsched_hal_process::loader;

use crate::table::{lock, this_thread};

/// The byte that all of the driver's calls have.
const MAGIC: c_ulong = 0x4b;
/// `CREATE_PROCESS`, from KFD 1.19.
const CREATE_PROCESS: c_ulong = 0x4b27;

type Ioctl = unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int;

/// Locked while an update is under way, so that a suspension can wait until none is. Updates
/// wait for each other in the driver anyway.
static UPDATING: Mutex<()> = Mutex::new(());

fn updating() -> MutexGuard<'static, ()> {
    UPDATING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets whether the owner's updates of a queue are held back.
pub(crate) fn hold(id: u32, held: bool) -> Option<WatchedQueue> {
    let _none = updating();
    lock().hold(id, held)
}

/// The next `ioctl` in the order of libraries: the C library's, or another preloaded one's.
///
/// # Safety
/// As the C library's.
unsafe fn next(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // Looking it up each time costs a tenth of a microsecond.
    let Some(found) = loader::next(c"ioctl") else {
        // SAFETY: the caller's promise is the system call's.
        return unsafe { libc::syscall(libc::SYS_ioctl, descriptor, request, argument) } as c_int;
    };
    // SAFETY: it is `ioctl`; a function that takes more arguments than are declared here is called
    // in the same way on all machines with this driver.
    let ioctl: Ioctl = unsafe { transmute(found) };
    // SAFETY: passed on.
    unsafe { ioctl(descriptor, request, argument) }
}

/// The C library's `ioctl`, which notes what calls to the driver do.
///
/// # Safety
/// As the C library's.
// SAFETY: it stands in for the C library's function of this name, and does what that does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(
    descriptor: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    let is_ours = (request >> 8) & 0xff == MAGIC && !argument.is_null();
    let number = u32::try_from(request).unwrap_or(0);
    // SAFETY: passed on in all cases. The size in the request is the argument's, and was compared.
    unsafe {
        if is_ours && number == uapi::UPDATE_QUEUE.request {
            update(descriptor, request, argument)
        } else if is_ours && number == uapi::DESTROY_QUEUE.request {
            destroy(descriptor, request, argument)
        } else if is_ours && number == uapi::RUNTIME_ENABLE.request {
            enable(descriptor, request, argument)
        } else if is_ours && is_create(number) {
            create(descriptor, request, argument)
        } else {
            if request & 0xffff == CREATE_PROCESS {
                lock().has_secondary_process = true;
            }
            next(descriptor, request, argument)
        }
    }
}

const fn is_create(number: u32) -> bool {
    number == uapi::CREATE_QUEUE.request || number == uapi::CREATE_QUEUE_88.request
}

/// Runs `work` and restores `errno` afterwards.
fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: it is this thread's.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it is valid as long as the thread is.
    let before = unsafe { *place };
    let answer = work();
    // SAFETY: see above.
    unsafe { *place = before };
    answer
}

/// # Safety
/// The argument is the call's.
unsafe fn create(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let answer = unsafe { next(descriptor, request, argument) };
    if answer == 0 {
        // SAFETY: it starts with these 88 bytes, and the driver has just filled them in.
        let made = unsafe { argument.cast::<CreateQueue88>().read_unaligned() };
        keeping_errno(|| lock().create(&made, this_thread()));
    }
    answer
}

/// # Safety
/// The argument is the call's.
unsafe fn destroy(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: it is the call's.
    let id = unsafe { argument.cast::<DestroyQueue>().read_unaligned() }.queue_id;
    let (known, on_end) = keeping_errno(|| {
        let mut table = lock();
        table.ends(id);
        (table.get(id), table.on_end)
    });
    // Whether it is suspended is not known here: a debugger does not say so.
    if let Some(end) = on_end {
        keeping_errno(|| end(ENDS_QUEUE, id));
    }
    // SAFETY: passed on.
    let answer = unsafe { next(descriptor, request, argument) };
    if let (0, Some(queue)) = (answer, known) {
        keeping_errno(|| lock().destroy(id, queue.created));
    }
    answer
}

/// # Safety
/// The argument is the call's.
unsafe fn enable(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: it is the call's.
    let mode = unsafe { argument.cast::<RuntimeEnable>().read_unaligned() }.mode;
    if mode & MODE_ENABLE == 0 {
        let on_end = keeping_errno(|| lock().on_end);
        if let Some(end) = on_end {
            keeping_errno(|| end(ENDS_RUNTIME, 0));
        }
    }
    // SAFETY: passed on.
    unsafe { next(descriptor, request, argument) }
}

/// # Safety
/// The argument is the call's.
unsafe fn update(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: it is the call's.
    let wanted = unsafe { argument.cast::<UpdateQueue>().read_unaligned() };
    let (_turn, held_back) = keeping_errno(|| {
        let turn = updating();
        let active = wanted.percentage & 0xff > 0;
        (turn, active && lock().is_held(wanted.queue_id))
    });
    let mut sent = wanted;
    if held_back {
        sent.percentage &= !0xff;
    }
    // SAFETY: the copy is what the call takes.
    let answer = unsafe { next(descriptor, request, (&raw mut sent).cast()) };
    if answer == 0 {
        keeping_errno(|| lock().update(&wanted, held_back));
    }
    answer
}
