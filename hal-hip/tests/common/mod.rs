//! The emulated runtime, and commands for it.
#![allow(dead_code, reason = "each test uses a part")]

use std::env;
use std::ffi::{CString, c_char, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use xsched_conformance::{Note, Work};
use xsched_hal_hip::{Arguments, HipApi, HipConfig, HipFunction, HipLibrary, HipModule};
use xsched_hal_hip::{HipNative, HipStream, LIBRARY_VARIABLE, Rings};
use xsched_hal_stream::StreamApi;

/// A kernel of the emulated runtime.
type Kernel = extern "C" fn(*const u8) -> u32;

/// The emulated runtime's library. Cargo builds it because these tests depend on its crate, and
/// puts it where it puts the tests.
pub(crate) fn path() -> PathBuf {
    if let Some(named) = env::var_os(LIBRARY_VARIABLE) {
        return named.into();
    }
    let test = env::current_exe().expect("tests are programs");
    let folder = test.parent().expect("programs are in folders");
    folder.join("libxsched_hip_emulated.so")
}

/// The emulated runtime, with as many devices as there can be.
pub(crate) fn library() -> Arc<HipLibrary> {
    static LIBRARY: OnceLock<Arc<HipLibrary>> = OnceLock::new();
    let load = || {
        // SAFETY: it has HIP's interface.
        let library = unsafe { HipLibrary::open(path().as_os_str()) };
        Control::get().set_devices(256);
        library.expect("the emulated runtime")
    };
    Arc::clone(LIBRARY.get_or_init(load))
}

/// A device that no other test of this process has.
pub(crate) fn device() -> HipApi {
    open(Rings::Own)
}

/// A device that no other test of this process has, with streams of this kind.
pub(crate) fn open(rings: Rings) -> HipApi {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let device = NEXT.fetch_add(1, Ordering::Relaxed);
    HipApi::with_library(library(), HipConfig { device, rings }).expect("a device")
}

/// Opens the device once more.
pub(crate) fn again(device: u32) -> HipApi {
    HipApi::with_library(library(), HipConfig { device, rings: Rings::Own }).expect("a device")
}

/// The functions that HIP does not have.
pub(crate) struct Control {
    register: unsafe extern "C" fn(*const c_char, Kernel, *const usize, usize) -> u32,
    devices: unsafe extern "C" fn(u32) -> u32,
    fail: unsafe extern "C" fn(*const c_char, u32, u32) -> u32,
    lose: unsafe extern "C" fn(u32, u32) -> u32,
    capture: unsafe extern "C" fn(*mut c_void, u32) -> u32,
    in_flight: unsafe extern "C" fn(*mut c_void, *mut u64) -> u32,
    handles: unsafe extern "C" fn(*mut usize) -> u32,
    unseen_ends: unsafe extern "C" fn(*mut u64) -> u32,
}

impl Control {
    pub(crate) fn get() -> &'static Self {
        static CONTROL: OnceLock<Control> = OnceLock::new();
        CONTROL.get_or_init(|| {
            // SAFETY: it is the emulated runtime, and its functions are those of its documentation.
            unsafe {
                let library = libloading::Library::new(path()).expect("the emulated runtime");
                let library = Box::leak(Box::new(library));
                Self {
                    register: *library.get("xsched_emulated_register\0").expect("a control"),
                    devices: *library.get("xsched_emulated_devices\0").expect("a control"),
                    fail: *library.get("xsched_emulated_fail\0").expect("a control"),
                    lose: *library.get("xsched_emulated_lose\0").expect("a control"),
                    capture: *library.get("xsched_emulated_capture\0").expect("a control"),
                    in_flight: *library.get("xsched_emulated_in_flight\0").expect("a control"),
                    handles: *library.get("xsched_emulated_handles\0").expect("a control"),
                    unseen_ends: *library.get("xsched_emulated_unseen_ends\0").expect("a control"),
                }
            }
        })
    }

    pub(crate) fn register(&self, name: &str, kernel: Kernel, sizes: &[usize]) {
        let name = CString::new(name).expect("a name");
        // SAFETY: the name ends with zero, and there are `sizes.len()` sizes.
        let code = unsafe { (self.register)(name.as_ptr(), kernel, sizes.as_ptr(), sizes.len()) };
        assert_eq!(code, 0);
    }

    pub(crate) fn set_devices(&self, count: u32) {
        // SAFETY: it takes any number.
        assert_eq!(unsafe { (self.devices)(count) }, 0);
    }

    /// Has the next `times` calls of this name fail, by whatever test.
    pub(crate) fn fail(&self, call: &str, code: u32, times: u32) {
        let call = CString::new(call).expect("a name");
        // SAFETY: the name ends with zero.
        assert_eq!(unsafe { (self.fail)(call.as_ptr(), code, times) }, 0);
    }

    pub(crate) fn lose(&self, api: &HipApi, code: u32) {
        // SAFETY: it takes any number.
        assert_eq!(unsafe { (self.lose)(api.device(), code) }, 0);
    }

    pub(crate) fn capture(&self, stream: HipStream, status: u32) {
        // SAFETY: handles are checked.
        assert_eq!(unsafe { (self.capture)(stream.as_raw(), status) }, 0);
    }

    pub(crate) fn in_flight(&self, stream: HipStream) -> u64 {
        let mut count = 0;
        // SAFETY: handles are checked, and the number may be written to.
        assert_eq!(unsafe { (self.in_flight)(stream.as_raw(), &raw mut count) }, 0);
        count
    }

    pub(crate) fn unseen_ends(&self) -> u64 {
        let mut count = 0;
        // SAFETY: the number may be written to.
        assert_eq!(unsafe { (self.unseen_ends)(&raw mut count) }, 0);
        count
    }

    pub(crate) fn handles(&self) -> usize {
        let mut count = 0;
        // SAFETY: the number may be written to.
        assert_eq!(unsafe { (self.handles)(&raw mut count) }, 0);
        count
    }
}

/// Arguments of the kernel that takes a time.
struct Timed {
    ns: u64,
    note: Note,
}

extern "C" fn empty(_: *const u8) -> u32 {
    0
}

/// Ends with the code that is its argument.
extern "C" fn fail(block: *const u8) -> u32 {
    // SAFETY: it is known with one argument of 4 bytes.
    unsafe { block.cast::<u32>().read() }
}

extern "C" fn run(block: *const u8) -> u32 {
    // SAFETY: it is known with one argument of 8 bytes, which is this address.
    let timed = unsafe { &*block.cast::<*const Timed>().read() };
    timed.note.run_for(timed.ns, || false);
    0
}

/// Waits for the word that its second argument leads to to be at least the first, and adds one.
extern "C" fn add(block: *const u8) -> u32 {
    // SAFETY: it is known with arguments of 4 and 8 bytes; the second one is a word's address.
    let (ms, word) = unsafe {
        let word = block.add(8).cast::<*const AtomicU32>().read();
        (block.cast::<u32>().read(), &*word)
    };
    std::thread::sleep(Duration::from_millis(ms.into()));
    word.fetch_add(1, Ordering::AcqRel);
    0
}

/// Kernels that do what the suite for backends asks for, loaded on a device.
pub(crate) struct Kernels {
    empty: HipFunction,
    run: HipFunction,
    fail: HipFunction,
    add: HipFunction,
}

impl Kernels {
    pub(crate) fn load(api: &HipApi) -> Self {
        let control = Control::get();
        control.register("empty", empty, &[]);
        control.register("run", run, &[8]);
        control.register("fail", fail, &[4]);
        control.register("add", add, &[4, 8]);
        // SAFETY: it is what the emulated runtime takes.
        let module = unsafe { HipModule::load(api, xsched_hip_emulated::IMAGE) };
        let module = module.expect("a module");
        let function = |name| module.function(name).expect("a kernel");
        Self {
            empty: function("empty"),
            run: function("run"),
            fail: function("fail"),
            add: function("add"),
        }
    }

    /// A command that does what the suite for backends asks for.
    pub(crate) fn command(&self, work: Work) -> HipNative {
        let arguments = Arguments::new();
        match work {
            Work::Empty => kernel(&self.empty, arguments),
            Work::Timed { ns, note } => {
                // Leaked, because nothing here tells when the device is done with it.
                let timed: *const Timed = Box::leak(Box::new(Timed { ns, note }));
                kernel(&self.run, arguments.with(timed).expect("one fits"))
            }
            Work::Failing => kernel(&self.fail, arguments.with(719_u32).expect("one fits")),
        }
    }

    /// A command that takes `ms` milliseconds and then counts.
    pub(crate) fn add(&self, ms: u32, word: &'static AtomicU32) -> HipNative {
        let word: *const AtomicU32 = word;
        let arguments = Arguments::new().with(ms).and_then(|all| all.with(word));
        kernel(&self.add, arguments.expect("two fit"))
    }

    /// A command that counts, launched as one whose blocks wait for each other.
    pub(crate) fn together(&self, word: &'static AtomicU32) -> HipNative {
        let word: *const AtomicU32 = word;
        let arguments = Arguments::new().with(0_u32).and_then(|all| all.with(word));
        let arguments = arguments.expect("two fit");
        // SAFETY: the kernel takes these arguments, and the word lives for ever.
        unsafe { HipNative::cooperative_kernel(&self.add, [1; 3], [64, 1, 1], 0, arguments) }
    }

    /// As [`Kernels::add`], with the arguments as a block.
    pub(crate) fn add_by_block(&self, ms: u32, word: &'static AtomicU32) -> HipNative {
        let word: *const AtomicU32 = word;
        let mut block = [0; 16];
        block[..4].copy_from_slice(&ms.to_ne_bytes());
        block[8..].copy_from_slice(&word.expose_provenance().to_ne_bytes());
        // SAFETY: that is how the kernel takes them, and the word lives for ever.
        unsafe { HipNative::kernel_with_block(&self.add, [1; 3], [64, 1, 1], 0, Arc::new(block)) }
    }
}

fn kernel(function: &HipFunction, arguments: Arguments) -> HipNative {
    // SAFETY: the kernels above take these arguments, and what they lead to lives for ever.
    unsafe { HipNative::kernel(function, [1; 3], [64, 1, 1], 0, arguments) }
}

/// A word that lives for ever.
pub(crate) fn counter() -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(0)))
}

pub(crate) fn launch(api: &HipApi, command: &HipNative, stream: HipStream) {
    let _entered = api.enter().expect("the device becomes current");
    // SAFETY: the stream is alive, and so is what the commands here need.
    unsafe { api.launch_native(command, stream) }.expect("a launch");
}

/// Waits until something holds, for at most ten seconds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited for too long: {what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Watches for a while that something holds.
pub(crate) fn throughout(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        assert!(holds(), "{what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}
