//! The GPUs of this process: which memory they reach, and a thread for each queue.

use std::collections::HashMap;
use std::ffi::{c_int, c_ulong, c_void};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use xsched_gfx942::Config;
use xsched_kfd_emulated::control;
use xsched_kfd_emulated::page::{Slot, doorbell_offset};

use crate::access::Map;
use crate::engine::{Kind, Ring};
use crate::failure::Failure;
use crate::guarded;
use crate::hardware::{Queue, Report};

const SET_EVENT: c_ulong = 0x4008_4b0a;
const APERTURES: c_ulong = 0xc010_4b14;
/// Bytes of an entry of `GET_PROCESS_APERTURES_NEW`, and GPUs that are looked at.
const APERTURE_BYTES: usize = 56;
const GPUS_MAX: usize = 64;
/// Kinds of buffers that are not pieces of the file.
const USERPTR: u32 = 1 << 2;
const DOORBELL: u32 = 1 << 3;
const MMIO_REMAP: u32 = 1 << 4;
/// A page of the hardware's, behind the doorbells.
const REMAP_BYTES: u64 = 4_096;
/// A queue's kind in the interface: AQL packets, or not.
const KIND_AQL: u32 = 2;
const KIND_PM4: u32 = 0;
/// Workgroups of a kernel that a compute unit has at once, at most.
const WORKGROUPS: usize = 16;
/// Says on standard error why queues stop for good.
const LOG: &str = "XSCHED_GPU_LOG";

/// One GPU.
#[derive(Debug)]
struct Gpu {
    id: u32,
    shared_base: u64,
    private_base: u64,
    map: RwLock<Map>,
}

/// A buffer, and where it is in this process.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: u64,
    bytes: u64,
    place: usize,
    /// Our own mapping, to be ended.
    is_ours: bool,
}

#[derive(Debug)]
struct Running {
    slot: &'static Slot,
    quits: &'static AtomicBool,
    thread: JoinHandle<()>,
}

/// The GPUs of a process. It stays for as long as the process does.
#[derive(Debug)]
pub(crate) struct Device {
    process: i32,
    driver: c_int,
    memory: c_int,
    page: usize,
    gpus: Vec<Gpu>,
    buffers: Mutex<HashMap<u64, Buffer>>,
    queues: Mutex<HashMap<u32, Running>>,
    logs: bool,
}

static DEVICE: AtomicPtr<Device> = AtomicPtr::new(ptr::null_mut());

/// The GPUs of this process; a child of it has none of its parent's, and gets its own.
///
/// # Errors
/// If there is no emulated driver.
pub(crate) fn device() -> io::Result<&'static Device> {
    // SAFETY: the call takes nothing and cannot fail.
    let process = unsafe { libc::getpid() };
    let there = DEVICE.load(Ordering::SeqCst);
    // SAFETY: it is null, or a device that is never freed.
    if let Some(device) = unsafe { there.as_ref() }
        && device.process == process
    {
        return Ok(device);
    }
    let fresh = Box::into_raw(Box::new(Device::open(process)?));
    let placed = DEVICE.compare_exchange(there, fresh, Ordering::SeqCst, Ordering::SeqCst);
    // One that another thread was faster with leaks, with two files; that is once in a process.
    let device = placed.map_or_else(|other| other, |_| fresh);
    // SAFETY: as above.
    Ok(unsafe { &*device })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(path: &std::ffi::CStr) -> io::Result<c_int> {
    // SAFETY: the path ends in a zero.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if file < 0 { Err(io::Error::last_os_error()) } else { Ok(file) }
}

/// Maps a piece of a file that others write to as well.
fn map(file: c_int, offset: u64, bytes: u64) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let offset = offset.cast_signed();
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let place =
        unsafe { libc::mmap(ptr::null_mut(), bytes as usize, protection, flags, file, offset) };
    if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(place.cast()) }
}

/// An argument of a call, by the offsets of its fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument(*const u8);

impl Argument {
    /// # Safety
    /// The bytes of the call's argument may be read there, as long as this is used.
    pub(crate) const unsafe fn new(argument: *const c_void) -> Self {
        Self(argument.cast())
    }

    /// The first 8 bytes: a buffer's handle.
    pub(crate) fn handle(self) -> u64 {
        self.u64(0)
    }

    fn u32(self, at: usize) -> u32 {
        // SAFETY: within the call's argument, as promised.
        unsafe { self.0.add(at).cast::<u32>().read_unaligned() }
    }

    fn u64(self, at: usize) -> u64 {
        // SAFETY: within the call's argument, as promised.
        unsafe { self.0.add(at).cast::<u64>().read_unaligned() }
    }
}

/// The GPUs that the driver has, in its order, which is that of their doorbells.
fn gpus(driver: c_int) -> io::Result<Vec<Gpu>> {
    let mut entries = [0_u8; APERTURE_BYTES * GPUS_MAX];
    let mut argument = [0_u64; 2];
    // First how many, then which.
    for room in [None, Some(())] {
        argument[0] = entries.as_mut_ptr().expose_provenance() as u64;
        if room.is_none() {
            argument[1] = 0;
        }
        argument[1] = argument[1].min(GPUS_MAX as u64);
        let place = argument.as_mut_ptr();
        // SAFETY: the argument is the call's, and has room for this many entries.
        if unsafe { libc::syscall(libc::SYS_ioctl, driver, APERTURES, place) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let count = argument[1] as usize;
    let (chunks, _) = entries.as_chunks::<APERTURE_BYTES>();
    let gpu = |entry: &[u8; APERTURE_BYTES]| {
        // SAFETY: the entry has this many bytes.
        let entry = unsafe { Argument::new(entry.as_ptr().cast()) };
        let (shared_base, private_base) = (entry.u64(0), entry.u64(16));
        Gpu { id: entry.u32(48), shared_base, private_base, map: RwLock::new(Map::new()) }
    };
    Ok(chunks.iter().take(count).map(gpu).collect())
}

impl Device {
    fn open(process: i32) -> io::Result<Self> {
        guarded::install();
        let driver = open(c"/dev/kfd")?;
        let gpus = gpus(driver)?;
        let memory = open(c"/dev/dri/renderD128")?;
        let page = map(driver, 0, doorbell_offset(gpus.len()) + REMAP_BYTES)?;
        Ok(Self {
            process,
            driver,
            memory,
            page: page.expose_provenance(),
            gpus,
            buffers: Mutex::default(),
            queues: Mutex::default(),
            logs: std::env::var_os(LOG).is_some(),
        })
    }

    fn gpu(&self, id: u32) -> Option<(usize, &Gpu)> {
        self.gpus.iter().enumerate().find(|(_, gpu)| gpu.id == id)
    }

    fn in_page(&self, offset: u64) -> usize {
        self.page + offset as usize
    }

    /// Memory was allocated.
    pub(crate) fn allocated(&self, argument: Argument) -> io::Result<()> {
        let (address, bytes) = (argument.u64(0), argument.u64(8).next_multiple_of(4_096));
        let (handle, offset) = (argument.u64(16), argument.u64(24));
        let (gpu, flags) = (argument.u32(32), argument.u32(36));
        let place = if flags & USERPTR != 0 {
            offset as usize
        } else if flags & DOORBELL != 0 {
            let number = self.gpu(gpu).map_or(0, |(number, _)| number);
            self.in_page(doorbell_offset(number))
        } else if flags & MMIO_REMAP != 0 {
            self.in_page(doorbell_offset(self.gpus.len()))
        } else {
            map(self.memory, offset, bytes)?.expose_provenance()
        };
        let is_ours = flags & (USERPTR | DOORBELL | MMIO_REMAP) == 0;
        let buffer = Buffer { address, bytes, place, is_ours };
        lock(&self.buffers).insert(handle, buffer);
        Ok(())
    }

    /// Memory was freed: no GPU reaches it any more.
    pub(crate) fn freed(&self, handle: u64) {
        let Some(buffer) = lock(&self.buffers).remove(&handle) else { return };
        for gpu in &self.gpus {
            self.change(gpu, |map| map.remove(buffer.address));
        }
        if buffer.is_ours {
            let place = ptr::with_exposed_provenance_mut::<u8>(buffer.place);
            // SAFETY: our own mapping, which no range names any more.
            unsafe { libc::munmap(place.cast(), buffer.bytes as usize) };
        }
    }

    /// Changes what a GPU reaches. Waits until nothing uses it as it was.
    #[expect(clippy::unused_self, reason = "the GPU is this device's")]
    fn change(&self, gpu: &Gpu, body: impl FnOnce(&mut Map)) {
        body(&mut gpu.map.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// GPUs reach memory now, or not any more.
    ///
    /// # Safety
    /// The argument is that of a call that succeeded.
    pub(crate) unsafe fn mapped(&self, argument: Argument, maps: bool) {
        let Some(buffer) = lock(&self.buffers).get(&argument.u64(0)).copied() else { return };
        let ids = ptr::with_exposed_provenance::<c_void>(argument.u64(8) as usize);
        for number in 0..argument.u32(16) as usize {
            // SAFETY: the driver has read this many ids there.
            let id = unsafe { Argument::new(ids) }.u32(number * 4);
            let Some((_, gpu)) = self.gpu(id) else { continue };
            let place = ptr::with_exposed_provenance_mut(buffer.place);
            self.change(gpu, |map| match maps {
                // SAFETY: our own mapping, which ends after the range; or the program's memory,
                // of which it is noticed if it is gone.
                true => unsafe { map.insert(buffer.address, buffer.bytes, place) },
                false => map.remove(buffer.address),
            });
        }
    }

    /// Maps a piece of the devices' memory into this process.
    pub(crate) fn piece(&self, offset: u64, bytes: u64) -> io::Result<*mut u8> {
        map(self.memory, offset, bytes)
    }

    /// All GPUs reach memory now that a program maps by itself, or not any more (null).
    ///
    /// # Safety
    /// The place stays mapped for this many bytes until the range is taken away.
    pub(crate) unsafe fn reach(&self, address: u64, bytes: u64, place: *mut u8) {
        for gpu in &self.gpus {
            self.change(gpu, |map| match place.is_null() {
                // SAFETY: the caller's promise.
                false => unsafe { map.insert(address, bytes, place) },
                true => map.remove(address),
            });
        }
    }

    /// A queue was made.
    pub(crate) fn created(&'static self, argument: Argument) -> io::Result<()> {
        let (id, kind) = (argument.u32(52), argument.u32(40));
        let Some((number, gpu)) = self.gpu(argument.u32(36)) else { return Ok(()) };
        let kind = match kind {
            KIND_AQL => Kind::Aql,
            // Commands of the command processor's own are not carried out.
            KIND_PM4 => return Ok(()),
            _ => Kind::Sdma,
        };
        let doorbell = self.in_page(doorbell_offset(number) + u64::from(id) * 8);
        // SAFETY: it is in the mapping, aligned, and only used as an atomic.
        let doorbell: &AtomicU64 =
            unsafe { AtomicU64::from_ptr(ptr::with_exposed_provenance_mut(doorbell)) };
        doorbell.store(if kind == Kind::Aql { u64::MAX } else { 0 }, Ordering::SeqCst);
        let slot = ptr::with_exposed_provenance::<Slot>(self.page);
        // SAFETY: the page has a slot for each id, and stays mapped.
        let slot = unsafe { &*slot.add(id as usize) };
        let quits: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let queue = Queue {
            slot,
            doorbell,
            map: &gpu.map,
            kind,
            ring: Ring {
                base: argument.u64(0),
                bytes: argument.u32(32).into(),
                write_pointer: argument.u64(8),
                read_pointer: argument.u64(16),
            },
            save_area: (argument.u64(72), argument.u32(80)),
            control_bytes: argument.u32(84),
            config: Config {
                shared_base: gpu.shared_base,
                private_base: gpu.private_base,
                workgroups_max: WORKGROUPS,
                ..Config::default()
            },
            quits,
            report: Driver { device: self, id, gpu: gpu.id },
        };
        let thread = without_signals(|| {
            std::thread::Builder::new().name(format!("gpu queue {id}")).spawn(move || queue.run())
        })?;
        lock(&self.queues).insert(id, Running { slot, quits, thread });
        Ok(())
    }

    /// A queue is about to be destroyed: its thread ends.
    pub(crate) fn end_queue(&self, id: u32) {
        let running = lock(&self.queues).remove(&id);
        let Some(Running { slot, quits, thread }) = running else { return };
        quits.store(true, Ordering::SeqCst);
        slot.wake();
        // A thread that panicked has ended as well.
        let _ = thread.join();
    }
}

/// Runs `body` with all signals blocked that a program may handle, so that a thread that it starts
/// has them blocked as well.
fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: integers, for which zero is valid.
    let (mut set, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both sets may be written to.
    unsafe {
        libc::sigfillset(&raw mut set);
        // These come from the thread itself.
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
            libc::sigdelset(&raw mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
    }
    let result = body();
    // SAFETY: it is the set from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    result
}

/// How a queue reaches the driver.
#[derive(Debug)]
struct Driver {
    device: &'static Device,
    id: u32,
    gpu: u32,
}

impl Report for Driver {
    fn interrupt(&self, event: u32) {
        let argument = [event, 0];
        // SAFETY: the argument is the call's. A number that is no event's is refused.
        unsafe {
            libc::syscall(libc::SYS_ioctl, self.device.driver, SET_EVENT, argument.as_ptr());
        }
    }

    fn stopped(&self, failure: &Failure) -> bool {
        let process = self.device.process;
        if self.device.logs {
            eprintln!("gpu: process {process}, queue {}: {failure}", self.id);
        }
        let line = format!("raise {process} {} {}", self.id, failure.code());
        let told = control::send(&line).is_ok_and(|told| told == "runtime");
        let Some(fault) = failure.fault() else { return told };
        let (address, writes) = (fault.address, u32::from(fault.is_write));
        let line = format!("fault {process} {} {address} {writes}", self.gpu);
        // A runtime that has an event for wrong addresses is told by that alone.
        let events = control::send(&line).ok().and_then(|events| events.parse::<u32>().ok());
        told && events.unwrap_or(0) == 0
    }
}
