//! AMD's own runtime on the emulated driver and GPU, if `XSCHED_ROCM` names the folder with its
//! libraries (`libamdhip64`, `libhsa-runtime64`, `libamd_comgr` and what they need).
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use libloading::Library;
use xsched_kfd_emulated::system::{Options, Report, run};
use xsched_kfd_emulated::{Config, Gpu};

/// The folder with AMD's libraries.
const FOLDER: &str = "XSCHED_ROCM";
/// In the environment of a program on the emulated driver: what it is to do.
const CASE: &str = "XSCHED_TEST_CASE";
/// The names by which the libraries look for each other, and how their files start.
const NAMES: [(&str, &str); 3] = [
    ("libamdhip64.so.7", "libamdhip64"),
    ("libhsa-runtime64.so.1", "libhsa-runtime64"),
    ("libamd_comgr.so.3", "libamd_comgr"),
];
/// Answer of HIP while something is under way.
const NOT_READY: i32 = 600;
/// Answer after a kernel used a wrong address.
const ILLEGAL_ADDRESS: i32 = 700;
const TO_DEVICE: i32 = 1;
const TO_HOST: i32 = 2;
const WITHIN: i32 = 3;

/// A folder in which the libraries have the names that they look for.
fn links(folder: &Path) -> tempfile::TempDir {
    let links = tempfile::tempdir().expect("a folder");
    for (name, start) in NAMES {
        let files = fs::read_dir(folder).expect("XSCHED_ROCM is a folder");
        let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
        let mut found: Vec<_> = names.filter(|file| file.starts_with(start)).collect();
        found.sort_unstable();
        let file = found.last().unwrap_or_else(|| panic!("{start} is not in {folder:?}"));
        symlink(folder.join(file), links.path().join(name)).expect("a link");
    }
    links
}

/// Runs a case on this many GPUs. `None` without the libraries.
fn on_emulator(case: &str, gpus: u32, change: impl Fn(&mut Gpu)) -> Option<Report> {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        eprintln!("NOT CHECKED: AMD's runtime; name the folder of its libraries in {FOLDER}");
        return None;
    };
    let links = links(&folder);
    let own = std::env::current_exe().expect("a path");
    let gpu = |number| {
        let mut gpu = Gpu::small(0x8c1f + number);
        change(&mut gpu);
        gpu
    };
    let config = Config { gpus: (0..gpus).map(gpu).collect(), ..Config::mi308x() };
    let hardware = Some(own.with_file_name("libxsched_gpu_emulated.so"));
    let options = Options { config, hardware, as_root: true, ..Options::default() };
    let paths = [links.path(), &folder].map(|path| path.display().to_string()).join(":");
    let mut command = Command::new(own);
    command.args(["--exact", "inside", "--ignored", "--nocapture"]);
    command.env(CASE, case).env("LD_LIBRARY_PATH", paths).env("XSCHED_GPU_LOG", "1");
    let report = run(&options, &mut command).expect("it is started");
    assert_eq!(report.unmodelled, [], "calls that are not emulated");
    Some(report)
}

#[track_caller]
fn passes(case: &str, gpus: u32, change: impl Fn(&mut Gpu)) {
    if let Some(report) = on_emulator(case, gpus, change) {
        assert!(report.status.success(), "{case}: {}", report.status);
    }
}

#[test]
fn memory_is_copied_and_set() {
    passes("copies", 1, |_| {});
}

#[test]
fn kernels_streams_events_and_graphs_work() {
    passes("kernels", 1, |_| {});
}

#[test]
fn results_are_right_after_a_thousand_pauses() {
    passes("pauses", 1, |_| {});
}

#[test]
fn work_is_right_after_ten_thousand_interrupts() {
    passes("work", 1, |_| {});
}

#[test]
fn several_gpus_of_several_dies_work() {
    passes("gpus", 2, |gpu| (gpu.xccs, gpu.compute_units) = (2, 4));
}

#[test]
fn several_processes_work_and_a_child_has_its_own_driver() {
    passes("processes", 1, |_| {});
}

#[test]
fn a_wrong_address_is_told_to_the_runtime() {
    passes("fault", 1, |_| {});
}

/// HIP, as C programs see it.
struct Hip(Library);

macro_rules! call {
    ($hip:expr, $name:ident($($argument:expr => $type:ty),*)) => {{
        // SAFETY: the signature is that of HIP 7, and the arguments are what it takes.
        unsafe {
            let name = stringify!($name);
            let function = $hip.0.get::<unsafe extern "C" fn($($type),*) -> i32>(name);
            function.expect(name)($($argument),*)
        }
    }};
}

macro_rules! good {
    ($hip:expr, $name:ident($($argument:expr => $type:ty),*)) => {
        assert_eq!(call!($hip, $name($($argument => $type),*)), 0, stringify!($name))
    };
}

type Place = *mut c_void;

impl Hip {
    fn load() -> Self {
        // SAFETY: what the library does when it is loaded needs nothing of us.
        let hip = Self(unsafe { Library::new("libamdhip64.so.7") }.expect("HIP"));
        good!(hip, hipInit(0 => u32));
        hip
    }

    fn allocate(&self, bytes: usize) -> Place {
        let mut place = std::ptr::null_mut();
        good!(self, hipMalloc(&raw mut place => *mut Place, bytes => usize));
        place
    }

    fn put(&self, to: Place, from: &[u8]) {
        let (place, bytes, kind) = (from.as_ptr().cast(), from.len(), TO_DEVICE);
        good!(self, hipMemcpy(to => Place, place => *const c_void, bytes => usize, kind => i32));
    }

    fn get(&self, from: Place, bytes: usize) -> Vec<u8> {
        let mut into = vec![0xee; bytes];
        let place = into.as_mut_ptr().cast();
        good!(self, hipMemcpy(place => Place, from => Place, bytes => usize, TO_HOST => i32));
        into
    }

    fn module(&self, path: &str) -> Place {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let code = fs::read(root.join(path)).expect("kernels");
        let (mut module, image) = (std::ptr::null_mut(), code.as_ptr().cast());
        good!(self, hipModuleLoadData(&raw mut module => *mut Place, image => *const c_void));
        module
    }

    fn function(&self, module: Place, name: &CStr) -> Place {
        let mut function = std::ptr::null_mut();
        let (place, name) = (&raw mut function, name.as_ptr());
        good!(self, hipModuleGetFunction(
            place => *mut Place, module => Place, name => *const libc::c_char));
        function
    }

    fn stream(&self) -> Place {
        let mut stream = std::ptr::null_mut();
        good!(self, hipStreamCreate(&raw mut stream => *mut Place));
        stream
    }

    fn event(&self) -> Place {
        let mut event = std::ptr::null_mut();
        good!(self, hipEventCreate(&raw mut event => *mut Place));
        event
    }
}

/// A kernel that counts: each launch adds one to each of its words.
struct Counter<'a> {
    hip: &'a Hip,
    function: Place,
    input: Place,
    words: Place,
}

/// Work-items of a launch, in workgroups of 64.
const ITEMS: u32 = 1_024;

impl<'a> Counter<'a> {
    fn new(hip: &'a Hip) -> Self {
        let module = hip.module("testkit/gfx942/kernels/arithmetic.O3.hsaco");
        let function = hip.function(module, c"k_grid");
        let (input, words) = (hip.allocate(16), hip.allocate(ITEMS as usize * 8));
        let sizes: Vec<u8> =
            [64 | 1 << 8 | 1 << 16, 0].into_iter().flat_map(u64::to_le_bytes).collect();
        hip.put(input, &sizes);
        hip.put(words, &[0; ITEMS as usize * 8]);
        Self { hip, function, input, words }
    }

    fn launch(&self, stream: Place) {
        let (mut input, mut words, mut count) = (self.input, self.words, u64::from(ITEMS));
        let mut arguments: [Place; 3] =
            [(&raw mut input).cast(), (&raw mut words).cast(), (&raw mut count).cast()];
        let (arguments, extra) = (arguments.as_mut_ptr(), std::ptr::null_mut());
        good!(self.hip, hipModuleLaunchKernel(
            self.function => Place, ITEMS / 64 => u32, 1 => u32, 1 => u32, 64 => u32, 1 => u32,
            1 => u32, 0 => u32, stream => Place, arguments => *mut Place, extra => *mut Place));
    }

    #[track_caller]
    fn check(&self, launches: u64) {
        let bytes = self.hip.get(self.words, ITEMS as usize * 8);
        let (words, _) = bytes.as_chunks::<8>();
        let wrong = words.iter().filter(|word| u64::from_le_bytes(**word) != launches).count();
        assert_eq!(wrong, 0, "of {ITEMS} words that should be {launches}");
    }
}

/// Part of the test that runs on the emulated driver.
#[test]
#[ignore = "the other tests run it, on the emulated driver"]
fn inside() {
    let case = std::env::var(CASE);
    // Before HIP, which starts threads.
    let children = if case.as_deref() == Ok("processes") { two_children() } else { Vec::new() };
    let hip = Hip::load();
    match case.as_deref() {
        Ok("copies") => copies(&hip),
        Ok("kernels" | "processes") => kernels(&hip),
        Ok("pauses") => pauses(&hip),
        Ok("work") => work(&hip),
        Ok("gpus") => several_gpus(&hip),
        // After it, nothing can be launched any more.
        Ok("fault") => return fault(&hip),
        case => panic!("not a case: {case:?}"),
    }
    let_signals_end(&hip, std::ptr::null_mut());
    for mut child in children {
        assert!(child.0.wait().expect("it ends").success());
    }
}

fn copies(hip: &Hip) {
    const BYTES: usize = 3 << 20;
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at * 31 + (at >> 9)) as u8).collect();
    let (one, two) = (hip.allocate(BYTES), hip.allocate(BYTES));
    for size in [1, 3, 64, 4_000, 4_097, 65_536, 1 << 20, BYTES] {
        hip.put(one, &bytes[..size]);
        good!(hip, hipMemcpy(two => Place, one => Place, size => usize, WITHIN => i32));
        assert!(hip.get(two, size) == bytes[..size], "{size}");
    }
    good!(hip, hipMemset(one => Place, 0x5a => i32, BYTES => usize));
    assert!(hip.get(one, BYTES).iter().all(|byte| *byte == 0x5a));
    let (stream, mut pinned) = (hip.stream(), std::ptr::null_mut());
    good!(hip, hipHostMalloc(&raw mut pinned => *mut Place, BYTES => usize, 0 => u32));
    // SAFETY: it was allocated just now, and nothing else uses it before the copies.
    let pinned_bytes = unsafe { std::slice::from_raw_parts_mut(pinned.cast::<u8>(), BYTES) };
    pinned_bytes.copy_from_slice(&bytes);
    good!(hip, hipMemcpyAsync(
        one => Place, pinned => Place, BYTES => usize, TO_DEVICE => i32, stream => Place));
    good!(hip, hipMemsetAsync(one => Place, 0 => i32, 16 => usize, stream => Place));
    good!(hip, hipMemcpyAsync(
        pinned => Place, one => Place, BYTES => usize, TO_HOST => i32, stream => Place));
    good!(hip, hipStreamSynchronize(stream => Place));
    assert!(pinned_bytes[..16] == [0; 16] && pinned_bytes[16..] == bytes[16..]);
    for place in [one, two] {
        good!(hip, hipFree(place => Place));
    }
}

fn kernels(hip: &Hip) {
    let counter = Counter::new(hip);
    counter.launch(std::ptr::null_mut());
    counter.check(1);
    let (stream, other) = (hip.stream(), hip.stream());
    let (start, end) = (hip.event(), hip.event());
    good!(hip, hipEventRecord(start => Place, stream => Place));
    (0..100).for_each(|_| counter.launch(stream));
    good!(hip, hipEventRecord(end => Place, stream => Place));
    good!(hip, hipStreamWaitEvent(other => Place, end => Place, 0 => u32));
    counter.launch(other);
    good!(hip, hipStreamSynchronize(other => Place));
    counter.check(102);
    let mut ms = -1.0_f32;
    good!(hip, hipEventElapsedTime(&raw mut ms => *mut f32, start => Place, end => Place));
    assert!(ms > 0.0 && ms < 60_000.0, "{ms}");
    masked(hip, &counter);
    counter.check(108);
    graph(hip, &counter, stream);
    counter.check(118);
    waits(hip, &counter, stream);
    counter.check(119);
    pool(hip, stream);
}

/// Streams with masks of compute units.
fn masked(hip: &Hip, counter: &Counter<'_>) {
    let (mask, event) = ([u32::MAX; 4], hip.event());
    for _ in 0..6 {
        let mut stream = std::ptr::null_mut();
        let place = &raw mut stream;
        good!(hip, hipExtStreamCreateWithCUMask(
            place => *mut Place, 1 => u32, mask.as_ptr() => *const u32));
        counter.launch(stream);
        good!(hip, hipEventRecord(event => Place, stream => Place));
        while call!(hip, hipEventQuery(event => Place)) == NOT_READY {
            thread::sleep(Duration::from_micros(100));
        }
        let_signals_end(hip, stream);
        good!(hip, hipStreamDestroy(stream => Place));
    }
}

/// Waits until HIP's thread for signals refers to nothing that has run: it calls back twice, one
/// call asked for after the other. HIP 7.2.3 hangs if that thread drops the last reference to a
/// stream with a mask, or to a graph while the process ends: see `endings.rs` and `signals.rs`.
fn let_signals_end(hip: &Hip, stream: Place) {
    good!(hip, hipStreamSynchronize(stream => Place));
    for _ in 0..2 {
        let (sender, called) = channel::<()>();
        let data = Box::into_raw(Box::new(sender)).cast();
        good!(hip, hipStreamAddCallback(
            std::ptr::null_mut() => Place, call => Callback, data => *mut c_void, 0 => u32));
        called.recv().expect("it calls");
    }
}

type Callback = unsafe extern "C" fn(Place, i32, *mut c_void);

/// Callback on HIP's thread for signals.
///
/// # Safety
/// The data is a boxed sender, and nothing else uses it.
unsafe extern "C" fn call(_: Place, _: i32, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let sender = unsafe { Box::from_raw(data.cast::<Sender<()>>()) };
    // Who waits is there until it is called.
    let _ = sender.send(());
}

/// Two launches as a graph, five times.
fn graph(hip: &Hip, counter: &Counter<'_>, stream: Place) {
    let (mut graph, mut ready) = (std::ptr::null_mut(), std::ptr::null_mut());
    good!(hip, hipStreamBeginCapture(stream => Place, 0 => i32));
    counter.launch(stream);
    counter.launch(stream);
    good!(hip, hipStreamEndCapture(stream => Place, &raw mut graph => *mut Place));
    let none = std::ptr::null_mut();
    good!(hip, hipGraphInstantiate(
        &raw mut ready => *mut Place, graph => Place, none => Place, none => Place, 0 => usize));
    for _ in 0..5 {
        good!(hip, hipGraphLaunch(ready => Place, stream => Place));
    }
    good!(hip, hipStreamSynchronize(stream => Place));
}

/// A stream that waits for a word, and writes one.
fn waits(hip: &Hip, counter: &Counter<'_>, stream: Place) {
    const SIGNAL_MEMORY: u32 = 2;
    let mut word = std::ptr::null_mut();
    let place = &raw mut word;
    good!(hip, hipExtMallocWithFlags(place => *mut Place, 8 => usize, SIGNAL_MEMORY => u32));
    // SAFETY: the memory was allocated just now, and is only used as an atomic.
    let value = unsafe { AtomicU32::from_ptr(word.cast()) };
    value.store(0, Ordering::SeqCst);
    good!(hip, hipStreamWaitValue32(
        stream => Place, word => Place, 7 => u32, 0 => u32, u32::MAX => u32));
    counter.launch(stream);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(call!(hip, hipStreamQuery(stream => Place)), NOT_READY);
    value.store(7, Ordering::SeqCst);
    good!(hip, hipStreamSynchronize(stream => Place));
    good!(hip, hipStreamWriteValue32(stream => Place, word => Place, 99 => u32, 0 => u32));
    good!(hip, hipStreamSynchronize(stream => Place));
    assert_eq!(value.load(Ordering::SeqCst), 99);
}

/// Memory of a stream's own, which the runtime maps by itself.
fn pool(hip: &Hip, stream: Place) {
    const BYTES: usize = 1 << 20;
    let (mut place, kind) = (std::ptr::null_mut(), TO_HOST);
    for value in [1, 2] {
        good!(hip, hipMallocAsync(&raw mut place => *mut Place, BYTES => usize, stream => Place));
        good!(hip, hipMemsetAsync(place => Place, value => i32, BYTES => usize, stream => Place));
        let mut bytes = vec![0_u8; BYTES];
        let to = bytes.as_mut_ptr().cast();
        good!(hip, hipMemcpyAsync(
            to => Place, place => Place, BYTES => usize, kind => i32, stream => Place));
        good!(hip, hipFreeAsync(place => Place, stream => Place));
        good!(hip, hipStreamSynchronize(stream => Place));
        assert!(bytes.iter().all(|byte| i32::from(*byte) == value));
    }
}

/// Kernels run while the driver takes all queues of the process away and brings them back.
fn pauses(hip: &Hip) {
    let counter = Counter::new(hip);
    let stream = hip.stream();
    let rounds = paused(1_000, || {
        (0..20).for_each(|_| counter.launch(stream));
        good!(hip, hipStreamSynchronize(stream => Place));
    });
    counter.check(20 * rounds);
}

/// Does something again and again while the driver pauses the process this often. Answers how often
/// it was done.
fn paused(pauses: u32, mut again: impl FnMut()) -> u64 {
    const CRIU_OP: libc::c_ulong = 0xc038_4b22;
    let (is_over, mut rounds) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let driver = fs::File::options().read(true).write(true).open("/dev/kfd");
            let driver = driver.expect("the driver");
            for number in 0..pauses {
                // Pause, and go on.
                for operation in [0_u32, 2] {
                    let mut argument = [0_u32; 14];
                    argument[12] = operation;
                    let place = argument.as_mut_ptr();
                    // SAFETY: the argument is the call's.
                    let done = unsafe { libc::ioctl(driver.as_raw_fd(), CRIU_OP, place) };
                    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
                    thread::sleep(Duration::from_micros(u64::from(number * 7 % 100)));
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
        while !is_over.load(Ordering::SeqCst) {
            again();
            rounds += 1;
        }
    });
    println!("{rounds} rounds, {pauses} pauses");
    rounds
}

/// The kernels of `lab/kernels/work.hip`, with rounds that take an interpreter some milliseconds.
const WORK: [(&CStr, u64); 7] = [
    (c"xs_work_alu", 4),
    (c"xs_work_lds", 4),
    (c"xs_work_mfma", 1),
    (c"xs_work_memory", 20),
    (c"xs_work_atomics", 20),
    (c"xs_work_barrier", 20),
    (c"xs_work_cooperative", 20),
];
/// Workgroups of a launch, of 256 work-items each, for which there are two words.
const BLOCKS: usize = 2;
const THREADS: usize = 256;

/// Each launch adds the same to the sums, also if it was interrupted at any instruction.
fn work(hip: &Hip) {
    let module = hip.module("lab/kernels/work.gfx942.hsaco");
    for (name, rounds) in WORK {
        let (function, stream) = (hip.function(module, name), hip.stream());
        let memory = vec![0; (BLOCKS * THREADS * 8 + 2) * 8];
        let sums = [0; BLOCKS * 16];
        let [memory_at, sums_at] = [&memory[..], &sums].map(|bytes| {
            let place = hip.allocate(bytes.len());
            hip.put(place, bytes);
            place
        });
        let launch = || {
            let mut values = [rounds, 0, 0, sums_at as u64, memory_at as u64];
            let mut arguments = values.each_mut().map(|value| (&raw mut *value).cast());
            let (arguments, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
            good!(hip, hipModuleLaunchKernel(
                function => Place, BLOCKS as u32 => u32, 1 => u32, 1 => u32,
                THREADS as u32 => u32, 1 => u32, 1 => u32, 0 => u32, stream => Place,
                arguments => *mut Place, none => *mut Place));
            good!(hip, hipStreamSynchronize(stream => Place));
        };
        let read = || {
            let bytes = hip.get(sums_at, sums.len());
            let (words, _) = bytes.as_chunks::<8>();
            words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>()
        };
        launch();
        let once = read();
        assert!(once.iter().skip(1).step_by(2).all(|count| *count == 1), "{once:?}");
        let launches = 1 + paused(1_500, launch);
        let expected: Vec<_> = once.iter().map(|word| word.wrapping_mul(launches)).collect();
        assert_eq!(read(), expected, "{name:?} after {launches} launches");
    }
}

fn several_gpus(hip: &Hip) {
    let mut count = 0;
    good!(hip, hipGetDeviceCount(&raw mut count => *mut i32));
    assert_eq!(count, 2);
    for device in 0..count {
        good!(hip, hipSetDevice(device => i32));
        let counter = Counter::new(hip);
        counter.launch(std::ptr::null_mut());
        counter.launch(hip.stream());
        good!(hip, hipDeviceSynchronize());
        counter.check(2);
    }
}

/// Two processes that use the GPU at the same time as this one.
fn two_children() -> Vec<Started> {
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["--exact", "inside", "--ignored"]).env(CASE, "kernels");
        Started(command.spawn().expect("it is started"))
    };
    (0..2).map(start).collect()
}

/// A child that does not outlive this test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
    }
}

fn fault(hip: &Hip) {
    let counter = Counter::new(hip);
    let wrong = Counter { words: std::ptr::without_provenance_mut(0x10_0000), ..counter };
    wrong.launch(std::ptr::null_mut());
    assert_eq!(call!(hip, hipDeviceSynchronize()), ILLEGAL_ADDRESS);
}
