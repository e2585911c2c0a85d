//! Rings of the emulated HIP runtime as queues of the emulated driver, with real system calls: what
//! the driver says is suspended has stopped, in the middle of a kernel.
#![allow(unsafe_code)]

mod support;

use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libloading::{Library, Symbol};
use rustix::io::Errno;
use support::Process;
use xsched_hal_kfd::uapi::{self, Operation};
use xsched_hal_kfd::{Kfd, Versioned};
use xsched_kfd_emulated::control;
use xsched_kfd_emulated::page::{PAGE_BYTES, Slot};
use xsched_kfd_emulated::system::{Options, enter};

const NEW: u64 = 1 << 30;

/// True if this is the program on the emulated driver. Elsewhere it is run, and has to succeed.
fn inside(test: &str) -> bool {
    inside_with(test, &Options::default())
}

fn inside_with(test: &str, options: &Options) -> bool {
    let report = enter(options, ["--exact", test, "--nocapture", "--test-threads=1"]);
    match report.expect("the emulated driver") {
        None => true,
        Some(report) => {
            assert!(report.status.success(), "{test} ended with {}", report.status);
            assert_eq!(report.unmodelled, []);
            false
        }
    }
}

/// Counter of a test kernel, and the word that ends it.
#[derive(Debug, Default)]
struct Work {
    progress: AtomicU64,
    ends: AtomicU32,
    done: AtomicU32,
}

extern "C" fn count(block: *const u8) -> u32 {
    // SAFETY: it is known with one argument, the address of work that lives for ever.
    let work = unsafe { &*block.cast::<*const Work>().read() };
    while work.ends.load(Ordering::SeqCst) == 0 {
        work.progress.fetch_add(1, Ordering::SeqCst);
        std::hint::spin_loop();
    }
    work.done.store(1, Ordering::SeqCst);
    0
}

/// The emulated HIP runtime.
struct Hip {
    library: Library,
    function: *mut c_void,
}

impl Hip {
    fn open() -> Self {
        let test = std::env::current_exe().expect("a program");
        let file = test.with_file_name("libxsched_hip_emulated.so");
        // SAFETY: the library's start does nothing that could go wrong.
        let library = unsafe { Library::new(file) }.expect("the emulated runtime");
        let mut hip = Self { library, function: std::ptr::null_mut() };
        let (name, sizes) = (CString::new("count").expect("a name"), [8_usize]);
        let kernel: extern "C" fn(*const u8) -> u32 = count;
        let register = "xsched_emulated_register";
        // SAFETY: that is how the function is documented.
        let code = unsafe {
            hip.get::<unsafe extern "C" fn(_, _, _, _) -> u32>(register)(
                name.as_ptr(),
                kernel,
                sizes.as_ptr(),
                1_usize,
            )
        };
        assert_eq!(code, 0);
        let mut module: *mut c_void = std::ptr::null_mut();
        // SAFETY: that is HIP's interface, and the places may be written to.
        let codes = unsafe {
            let load: Symbol<'_, unsafe extern "C" fn(_, _) -> u32> = hip.get("hipModuleLoadData");
            let find: Symbol<'_, unsafe extern "C" fn(_, _, _) -> u32> =
                hip.get("hipModuleGetFunction");
            let loaded = load(&raw mut module, xsched_hip_emulated::IMAGE.as_ptr());
            (loaded, find(&raw mut hip.function, module, name.as_ptr()))
        };
        assert_eq!(codes, (0, 0));
        hip
    }

    /// # Safety
    /// The type is the function's.
    unsafe fn get<T>(&self, name: &str) -> Symbol<'_, T> {
        // SAFETY: passed on.
        unsafe { self.library.get(name) }.expect("a function")
    }

    /// A stream with a ring of its own.
    fn stream(&self) -> *mut c_void {
        let (mut stream, mask): (*mut c_void, _) = (std::ptr::null_mut(), [u32::MAX]);
        // SAFETY: that is HIP's interface, and the place may be written to.
        let code = unsafe {
            let create: Symbol<'_, unsafe extern "C" fn(_, _, _) -> u32> =
                self.get("hipExtStreamCreateWithCUMask");
            create(&raw mut stream, 1_u32, mask.as_ptr())
        };
        assert_eq!(code, 0);
        stream
    }

    fn destroy(&self, stream: *mut c_void) {
        // SAFETY: that is HIP's interface, and the stream is alive.
        let code = unsafe {
            let destroy: Symbol<'_, unsafe extern "C" fn(_) -> u32> = self.get("hipStreamDestroy");
            destroy(stream)
        };
        assert_eq!(code, 0);
    }

    /// Starts work on a stream.
    fn launch(&self, stream: *mut c_void) -> &'static Work {
        let work: &'static Work = Box::leak(Box::default());
        let address: *const Work = work;
        let mut arguments = [(&raw const address).cast_mut().cast::<c_void>()];
        type Launch = unsafe extern "C" fn(
            *mut c_void,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            *mut c_void,
            *mut *mut c_void,
            *mut *mut c_void,
        ) -> u32;
        // SAFETY: that is HIP's interface; the argument is copied before the call returns.
        let code = unsafe {
            let launch: Symbol<'_, Launch> = self.get("hipModuleLaunchKernel");
            let none = std::ptr::null_mut();
            launch(self.function, 1, 1, 1, 1, 1, 1, 0, stream, arguments.as_mut_ptr(), none)
        };
        assert_eq!(code, 0);
        work
    }
}

impl Work {
    fn progress(&self) -> u64 {
        self.progress.load(Ordering::SeqCst)
    }

    fn end(&self) {
        self.ends.store(1, Ordering::SeqCst);
        until("the kernel ends", || self.done.load(Ordering::SeqCst) == 1);
    }

    fn goes_on(&self) {
        let before = self.progress();
        until("the kernel goes on", || self.progress() > before);
    }

    /// Nothing of it happens for some time.
    fn stands_still(&self) {
        let before = self.progress();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(self.progress(), before);
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited for too long: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn driver() -> Process<Kfd> {
    Process(Versioned::open().expect("the emulated driver"))
}

fn word(answer: &str, name: &str) -> u64 {
    let mut words = answer.split_whitespace();
    words.find(|word| *word == name).expect("a name");
    words.next().expect("a value").parse().expect("a number")
}

/// The ring of a queue, as the driver knows it.
fn ring(process: &Process<Kfd>, id: u32) -> (u64, u32) {
    let mut entries = [uapi::QueueSnapshotEntry::default(); 8];
    let mut snapshot = uapi::QueueSnapshot {
        exceptions: NEW,
        entries: entries.as_mut_ptr().expose_provenance() as u64,
        count: 8,
        entry_size: 64,
    };
    let pid = std::process::id();
    process.trap(pid, Operation::GetQueueSnapshot, &mut snapshot).expect("attached");
    let entry = entries.iter().find(|entry| entry.queue_id == id && entry.ring_size > 0);
    entry.map(|entry| (entry.ring_base, entry.ring_size)).expect("the queue")
}

fn update(
    process: &Process<Kfd>,
    id: u32,
    ring: (u64, u32),
    percentage: u32,
) -> Result<u32, Errno> {
    let (ring_base, ring_size) = ring;
    let mut argument =
        uapi::UpdateQueue { ring_base, queue_id: id, ring_size, percentage, priority: 7 };
    process.call(&uapi::UPDATE_QUEUE, &mut argument)
}

#[test]
fn a_ring_stops_and_goes_on_in_the_middle_of_a_kernel() {
    if !inside("a_ring_stops_and_goes_on_in_the_middle_of_a_kernel") {
        return;
    }
    let (process, pid) = (driver(), std::process::id());
    process.runtime(1).expect("no queues yet");
    process.attach(pid).expect("an open file");
    let hip = Hip::open();
    let (first, second) = (hip.stream(), hip.stream());
    let rings = [ring(&process, 0), ring(&process, 1)];
    assert_ne!(rings[0], rings[1]);
    let victim = hip.launch(first);
    victim.goes_on();
    for _ in 0..20 {
        assert_eq!(update(&process, 0, rings[0], 0), Ok(0));
        victim.stands_still();
        // The unit is free meanwhile.
        let other = hip.launch(second);
        other.goes_on();
        other.end();
        assert_eq!(update(&process, 0, rings[0], 100), Ok(0));
        victim.goes_on();
    }
    // The same by way of the debugger, both at once; the second has not started yet.
    assert_eq!(process.suspend(pid, &mut [0, 1]), Ok(2));
    let waiting = hip.launch(second);
    victim.stands_still();
    waiting.stands_still();
    assert_eq!(waiting.progress(), 0);
    assert_eq!(process.resume(pid, &mut [0, 1]), Ok(2));
    // There is one unit, which either may get first.
    waiting.ends.store(1, Ordering::SeqCst);
    victim.end();
    waiting.end();
    process.detach(pid).expect("attached");
    hip.destroy(first);
    hip.destroy(second);
    until("the queues are gone", || {
        control::send(&format!("queues {pid}")).expect("ids").is_empty()
    });
}

/// The page of this process, as the code that runs queues sees it.
fn page(file: &std::fs::File) -> &'static [Slot] {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let (null, protection) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a fresh mapping, which is never ended.
    let start = unsafe { mmap(null, PAGE_BYTES, protection, MapFlags::SHARED, file, 0) };
    let slots: *const Slot = start.expect("the page").cast_const().cast();
    // SAFETY: the mapping has this many slots, and zeros are valid.
    unsafe { std::slice::from_raw_parts(slots, PAGE_BYTES / size_of::<Slot>()) }
}

#[test]
fn what_does_not_stop_ends_in_a_reset() {
    let options = Options { preemption_timeout_ms: 100, ..Options::default() };
    if !inside_with("what_does_not_stop_ends_in_a_reset", &options) {
        return;
    }
    let mut open = std::fs::OpenOptions::new();
    let file = open.read(true).write(true).open("/dev/kfd").expect("the emulated driver");
    let slots = page(&file);
    let process = driver();
    process.create().expect("room");
    assert_eq!(slots[0].active.load(Ordering::SeqCst), 1);
    // Something runs, and no thread would take a signal.
    slots[0].running.store(1, Ordering::SeqCst);
    assert_eq!(process.update(0, 0), Err(Errno::TIME));
    assert_eq!(slots[0].active.load(Ordering::SeqCst), 2);
    assert_eq!(process.update(0, 0), Err(Errno::ACCESS));
}

#[test]
fn calls_that_block_go_on_when_they_can() {
    if !inside("calls_that_block_go_on_when_they_can") {
        return;
    }
    let (process, pid) = (driver(), std::process::id());
    process.runtime(1).expect("no queues yet");
    process.attach(pid).expect("an open file");
    process.create().expect("room");
    process.snapshot(pid, NEW).expect("attached");
    assert_eq!(process.suspend(pid, &mut [0]), Ok(1));
    let destroying = std::thread::spawn(|| driver().destroy(0));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!destroying.is_finished());
    // The end of the runtime lets everything go, and waits for the debugger itself.
    let disabling = std::thread::spawn(|| driver().runtime(0));
    assert_eq!(destroying.join().expect("no panic"), Ok(0));
    assert_eq!(process.resume(pid, &mut [0]), Err(Errno::PERM), "there is no runtime");
    assert_eq!(process.detach(pid), Ok(0));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!disabling.is_finished());
    process.attach(pid).expect("no other debugger is attached");
    let mut event =
        uapi::SendRuntimeEvent { exceptions: 1 << 47, ..uapi::SendRuntimeEvent::default() };
    assert_eq!(process.trap(pid, Operation::SendRuntimeEvent, &mut event), Ok(0));
    assert_eq!(disabling.join().expect("no panic"), Ok(0));
}

#[test]
fn sysfs_shows_what_there_is() {
    if !inside("sysfs_shows_what_there_is") {
        return;
    }
    let pid = std::process::id();
    let queues = format!("/sys/class/kfd/kfd/proc/{pid}/queues");
    assert!(!std::path::Path::new(&queues).exists());
    let process = driver();
    process.create().expect("room");
    let ids = std::fs::read_dir(&queues).expect("a folder");
    let ids: Vec<_> = ids.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(ids, ["0"]);
    let read = |name: &str| std::fs::read_to_string(name).expect("a file");
    assert_eq!(read(&format!("{queues}/0/gpuid")).trim(), support::GPU.to_string());
    assert_eq!(read(&format!("{queues}/0/type")).trim(), "0");
    let node = "/sys/class/kfd/kfd/topology/nodes/1";
    assert!(read(&format!("{node}/properties")).contains("gfx_target_version 90402\n"));
    assert_eq!(read("/sys/module/amdgpu/parameters/cwsr_enable").trim(), "1");
    assert!(std::fs::metadata("/dev/kfd").is_ok());
    // What is not the driver's is as it was.
    assert!(read("/proc/self/status").contains("Pid:"));
    process.destroy(0).expect("there");
    assert!(!std::path::Path::new(&format!("{queues}/0")).exists());
}

#[test]
fn faults_come_on_demand() {
    if !inside("faults_come_on_demand") {
        return;
    }
    let process = driver();
    process.create().expect("room");
    assert_eq!(control::send("timeout 0").expect("a GPU"), "ok");
    assert_eq!(process.update(0, 0), Err(Errno::TIME));
    assert_eq!(process.create(), Err(Errno::IO));
    let node = control::send("node 0").expect("a GPU");
    assert_eq!((word(&node, "resets"), word(&node, "resetting")), (1, 1));
    control::send("reset 0 end").expect("a GPU");
    assert_eq!(process.update(0, 0), Err(Errno::ACCESS));
    assert_eq!(process.destroy(0), Ok(0));
    assert_eq!(process.create(), Ok(0));
    assert!(control::send("nonsense").is_err());
}

#[test]
fn nothing_stays_suspended_when_a_debugger_dies() {
    const NAME: &str = "nothing_stays_suspended_when_a_debugger_dies";
    if let Ok(target) = std::env::var("XSCHED_TARGET") {
        debugger_that_dies(target.parse().expect("a number"));
    }
    if !inside(NAME) {
        return;
    }
    let (process, pid) = (driver(), std::process::id());
    process.runtime(1).expect("no queues yet");
    process.create().expect("room");
    // Any process may trace this one, where the kernel has a say in that.
    // SAFETY: the call takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    let mut command = std::process::Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", NAME]).env("XSCHED_TARGET", pid.to_string());
    let mut child = command.spawn().expect("a child");
    let queue = || control::send(&format!("queue {pid} 0")).expect("a queue");
    until("it is suspended", || word(&queue(), "suspended") == 1);
    child.kill().expect("alive");
    child.wait().expect("dead");
    until("it goes on", || word(&queue(), "active") == 1);
    assert_eq!(word(&queue(), "suspended"), 0);
}

/// The other process of the test above: suspends, and waits to be killed.
fn debugger_that_dies(target: i32) -> ! {
    let process = driver();
    // SAFETY: the operation touches no memory of this process.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, target, 0_usize, 0_usize) };
    assert_eq!(seized, 0, "{}", std::io::Error::last_os_error());
    process.attach(target.cast_unsigned()).expect("traced");
    process.snapshot(target.cast_unsigned(), NEW).expect("attached");
    process.suspend(target.cast_unsigned(), &mut [0]).expect("attached");
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
