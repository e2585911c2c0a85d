//! Rings that are queues of an emulated kernel driver, which can stop them in the middle of a
//! kernel.
//!
//! Only with `XSCHED_EMULATED_KFD=1`, and if `/dev/kfd` opens and shows its page: then each ring
//! has a queue there, made on the thread that makes the ring, through the C library's `ioctl`. What
//! a ring runs follows the queue's slot in the page: nothing starts while the queue is not active,
//! and a kernel that runs is stopped by a signal, wherever it is, until the queue is active again.
//! So kernels must hold no lock and make no call that breaks when it is interrupted.
//!
//! As ROCm's runtime does it, this one tells the driver that it is there (`RUNTIME_ENABLE`) before
//! it makes a queue, and that it is not any more when the program ends. A debugger of queues
//! depends on the first, and must not make the second wait.
//!
//! The page is that of `xsched-kfd-emulated`, which documents it.

use std::cell::Cell;
use std::ffi::{c_int, c_ulong, c_void};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, ptr, thread};

use xsched_emulated_device::Units;
use xsched_emulated_device::code::{Answer, OUT_OF_MEMORY};
use xsched_emulated_device::ring::Leave;

/// Says that rings are to be queues.
const VARIABLE: &str = "XSCHED_EMULATED_KFD";
const CREATE_QUEUE: c_ulong = 0xc060_4b02;
const DESTROY_QUEUE: c_ulong = 0xc008_4b03;
const RUNTIME_ENABLE: c_ulong = 0xc010_4b25;
/// The mode that enables, in the argument's third word.
const MODE_ENABLE: u32 = 1;
/// AQL packets, as HIP's queues are.
const KIND: u32 = 2;
const PRIORITY: u32 = 7;
/// Bytes of a ring, and what it is aligned to.
const RING_BYTES: u32 = 1 << 16;
/// Bytes of the area for saved waves, which is never written to.
const SAVE_BYTES: u32 = 0x00ba_6000;
/// Queues in the page.
const QUEUES_MAX: usize = 1_024;
/// The signal that stops a kernel, from the first that the C library leaves free. Not the one that
/// the host device takes.
const SIGNAL_OFFSET: c_int = 9;
/// Values of a slot's first word.
const ACTIVE: u32 = 1;
const RESET: u32 = 2;
/// How often a stopped kernel looks for a free unit before it goes on, in nanoseconds.
const UNIT_NS: i64 = 30_000;

/// A queue's slot in the page.
#[repr(C)]
#[derive(Debug)]
struct Slot {
    active: AtomicU32,
    running: AtomicU32,
    thread: AtomicU32,
    signal: AtomicU32,
    /// Fields of a device that saves waves.
    _saved: [AtomicU32; 4],
}

/// The driver's file and its page.
#[derive(Debug)]
struct Driver {
    file: c_int,
    slots: *const Slot,
    gpus: Vec<u32>,
}

// SAFETY: the slots are atomics in shared memory that is never unmapped.
unsafe impl Sync for Driver {}
// SAFETY: as above.
unsafe impl Send for Driver {}

static DRIVER: LazyLock<Option<Driver>> = LazyLock::new(|| {
    let is_on = env::var(VARIABLE).is_ok_and(|value| value.trim() == "1");
    if is_on { Driver::open() } else { None }
});

/// Opens the driver, if rings are to be queues, and tells it that there is a runtime. To be called
/// when the runtime is initialised.
pub(crate) fn start() {
    LazyLock::force(&DRIVER);
}

/// Handler at the end of the program.
extern "C" fn end() {
    // It was opened, or this would not have been registered.
    if let Some(driver) = &*DRIVER {
        driver.set_runtime(0);
    }
}

/// The argument of `CREATE_QUEUE`.
#[repr(C)]
#[derive(Debug, Default)]
struct Create {
    ring_base: u64,
    write_pointer: u64,
    read_pointer: u64,
    doorbell: u64,
    ring_bytes: u32,
    gpu_id: u32,
    kind: u32,
    percentage: u32,
    priority: u32,
    id: u32,
    eop: [u64; 2],
    save_area: u64,
    save_bytes: u32,
    control_stack_bytes: u32,
    engine: [u32; 2],
}

impl Driver {
    fn open() -> Option<Self> {
        install_handler()?;
        // SAFETY: the path ends in a zero.
        let file = unsafe { libc::open(c"/dev/kfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        let (bytes, protection) =
            (QUEUES_MAX * size_of::<Slot>(), libc::PROT_READ | libc::PROT_WRITE);
        let shared = libc::MAP_SHARED;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let page = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, shared, file, 0) };
        if file < 0 || page == libc::MAP_FAILED {
            return None;
        }
        let driver = Self { file, slots: page.cast_const().cast(), gpus: gpus() };
        if driver.gpus.is_empty() {
            return None;
        }
        // Where it is refused, by an older driver for one, there is no debugging and all else is as
        // it was.
        if driver.set_runtime(MODE_ENABLE) {
            // SAFETY: the function may be called at any time; where the C library has no room for
            // it, the driver finds out by the process's end.
            unsafe { libc::atexit(end) };
        }
        Some(driver)
    }

    /// Tells the driver that there is a runtime, or that there is none any more. False if that is
    /// refused.
    fn set_runtime(&self, mode: u32) -> bool {
        // An address for debuggers, the mode, and what the driver can do, which it writes.
        let mut argument = [0, 0, mode, 0];
        self.call(RUNTIME_ENABLE, argument.as_mut_ptr().cast())
    }

    fn call(&self, request: c_ulong, argument: *mut c_void) -> bool {
        // SAFETY: the argument is the request's, and lives until the call returns. Not a raw system
        // call, so that a library that watches `ioctl` sees it.
        unsafe { libc::ioctl(self.file, request, argument) == 0 }
    }
}

/// The GPUs, in the order of their nodes.
fn gpus() -> Vec<u32> {
    let folder = "/sys/class/kfd/kfd/topology/nodes";
    let id = |node: u32| {
        let text = fs::read_to_string(format!("{folder}/{node}/gpu_id")).ok()?;
        text.trim().parse::<u32>().ok()
    };
    (0..64).map_while(id).filter(|id| *id != 0).collect()
}

/// A ring's queue. It is destroyed when this is dropped.
#[derive(Debug)]
pub(crate) struct Queue {
    driver: &'static Driver,
    slot: &'static Slot,
    id: u32,
    /// The ring's memory, of which only the address matters.
    _ring: Box<[Aligned]>,
    /// How many commands were put into the ring, where the driver was told that it is.
    written: Box<AtomicU64>,
    /// How long its kernels were stopped, in nanoseconds.
    stopped_ns: AtomicU64,
    /// The unit that a kernel of it has, while it has one.
    units: &'static Units,
}

/// A page.
#[repr(align(4096))]
#[derive(Clone, Debug)]
struct Aligned(#[expect(dead_code, reason = "only its address matters")] [u8; 4_096]);

thread_local! {
    /// The queue whose kernel this thread runs, or null. Constant and without a destructor, so that
    /// the handler may read it.
    static CURRENT: Cell<*const Queue> = const { Cell::new(ptr::null()) };
}

/// For how long the kernel that this thread runs was stopped so far, in nanoseconds.
pub(crate) fn stopped_ns() -> u64 {
    // SAFETY: a pointer that is not null was put there by `run`, for as long as the queue lives.
    let queue = unsafe { CURRENT.get().as_ref() };
    queue.map_or(0, |queue| queue.stopped_ns.load(Ordering::Relaxed))
}

impl Queue {
    /// A queue for a ring of a device. `Ok(None)` without a driver.
    ///
    /// # Errors
    /// If the driver makes none.
    pub(crate) fn create(ordinal: u32, units: &'static Units) -> Answer<Option<Box<dyn Leave>>> {
        let Some(driver) = &*DRIVER else { return Ok(None) };
        let ring = vec![Aligned([0; 4_096]); RING_BYTES as usize / 4_096].into_boxed_slice();
        let place = ring.as_ptr().expose_provenance() as u64;
        let written = Box::<AtomicU64>::default();
        let mut create = Create {
            ring_base: place,
            write_pointer: written.as_ptr().expose_provenance() as u64,
            read_pointer: place,
            ring_bytes: RING_BYTES,
            gpu_id: driver.gpus[ordinal as usize % driver.gpus.len()],
            kind: KIND,
            percentage: 100,
            priority: PRIORITY,
            save_bytes: SAVE_BYTES,
            ..Create::default()
        };
        if !driver.call(CREATE_QUEUE, (&raw mut create).cast()) {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: the page has a slot for each id, and is never unmapped.
        let slot = unsafe { &*driver.slots.add(create.id as usize % QUEUES_MAX) };
        let stopped_ns = AtomicU64::new(0);
        let id = create.id;
        Ok(Some(Box::new(Self { driver, slot, id, _ring: ring, written, stopped_ns, units })))
    }

    fn is_active(&self) -> bool {
        self.slot.active.load(Ordering::SeqCst) == ACTIVE
    }

    /// True if the GPU was reset under it: nothing of it ever runs again.
    pub(crate) fn was_reset(&self) -> bool {
        self.slot.active.load(Ordering::SeqCst) == RESET
    }

    /// Sleeps while the queue is not active. May return early.
    fn sleep(&self) {
        let word = self.slot.active.as_ptr();
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        // SAFETY: the word and the timeout live as long as the call; the word is shared with the
        // driver, so this is no private futex.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 0, &raw const timeout);
        }
    }

    /// The signal handler: stops while the queue is not active, and frees the unit for other
    /// queues. Atomics, the clock, and system calls alone.
    fn on_signal(&self) {
        if self.is_active() {
            return;
        }
        let since = now_ns();
        self.units.put_back();
        loop {
            self.slot.running.store(0, Ordering::SeqCst);
            while !self.is_active() && !self.was_reset() {
                self.sleep();
            }
            self.units.take(sleep_for_a_unit);
            self.slot.running.store(1, Ordering::SeqCst);
            // A kernel whose queue was reset runs to its end: what it does is lost anyway.
            if self.is_active() || self.was_reset() {
                break;
            }
            self.units.put_back();
        }
        self.stopped_ns.fetch_add(now_ns().saturating_sub(since), Ordering::Relaxed);
    }
}

impl Leave for Queue {
    /// The calling thread carries the ring's commands out from now on.
    fn take(&self) {
        mask(libc::SIG_BLOCK);
        // SAFETY: the call takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        self.slot.signal.store(signal().cast_unsigned(), Ordering::SeqCst);
        self.slot.thread.store(thread.cast_unsigned(), Ordering::SeqCst);
    }

    fn note_written(&self) {
        self.written.fetch_add(1, Ordering::Release);
    }

    /// Waits until something of the queue may start. False if nothing ever will.
    fn enter(&self) -> bool {
        while !self.is_active() {
            if self.was_reset() {
                return false;
            }
            self.sleep();
        }
        true
    }

    /// Runs something short: once it has started it is not stopped. False if it was not run, and
    /// never will be.
    fn run_short(&self, body: &mut dyn FnMut()) -> bool {
        loop {
            if !self.enter() {
                return false;
            }
            self.slot.running.store(1, Ordering::SeqCst);
            // Between the look and the store the driver may have seen that nothing runs.
            if self.is_active() {
                break;
            }
            self.slot.running.store(0, Ordering::SeqCst);
        }
        body();
        self.slot.running.store(0, Ordering::SeqCst);
        true
    }

    /// Runs a kernel, which may be stopped anywhere. `None` if it was not run, and never will be.
    fn run(&self, kernel: &dyn Fn() -> u32) -> Option<u32> {
        loop {
            if !self.enter() {
                return None;
            }
            self.units.take(|| thread::sleep(Duration::from_nanos(UNIT_NS.cast_unsigned())));
            self.slot.running.store(1, Ordering::SeqCst);
            if self.is_active() {
                break;
            }
            self.slot.running.store(0, Ordering::SeqCst);
            self.units.put_back();
        }
        CURRENT.set(self);
        self.stopped_ns.store(0, Ordering::Relaxed);
        mask(libc::SIG_UNBLOCK);
        let code = kernel();
        mask(libc::SIG_BLOCK);
        CURRENT.set(ptr::null());
        self.slot.running.store(0, Ordering::SeqCst);
        self.units.put_back();
        Some(code)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.slot.thread.store(0, Ordering::SeqCst);
        let mut argument = [self.id, 0];
        // A queue that cannot be destroyed goes with the process.
        let _ = self.driver.call(DESTROY_QUEUE, argument.as_mut_ptr().cast());
    }
}

fn signal() -> c_int {
    libc::SIGRTMIN() + SIGNAL_OFFSET
}

fn mask(how: c_int) {
    // SAFETY: integers, for which zero is valid.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set may be written to, and the signal exists.
    unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal());
        libc::pthread_sigmask(how, &raw const set, ptr::null_mut());
    }
}

/// Sleeps until the next look for a free unit, in a handler too.
fn sleep_for_a_unit() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: UNIT_NS };
    // SAFETY: the time lives as long as the call, and the remaining time is not requested.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// The monotonic clock, in a handler too.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written to, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

extern "C" fn handler(_: c_int) {
    // SAFETY: the address of this thread's `errno` is valid as long as the thread is.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    let queue = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: a pointer that is not null was put there by `run`, for as long as the queue lives.
    if let Some(queue) = unsafe { queue.as_ref() } {
        queue.on_signal();
    }
    *errno = before;
}

/// `None` if the program already uses the signal.
fn install_handler() -> Option<()> {
    // SAFETY: zero is valid in all fields: the default action, no flags, an empty mask.
    let (mut action, mut there): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let handler: extern "C" fn(c_int) = handler;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `there` may be written to; nothing is installed yet.
    let asked = unsafe { libc::sigaction(signal(), ptr::null(), &raw mut there) };
    if asked != 0 || there.sa_sigaction != libc::SIG_DFL {
        return None;
    }
    // SAFETY: the handler does only what a handler may: atomics, a constant thread local, `errno`,
    // the clock and system calls.
    let done = unsafe { libc::sigaction(signal(), &raw const action, ptr::null_mut()) };
    (done == 0).then_some(())
}
