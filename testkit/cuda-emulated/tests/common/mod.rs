//! A driver for tests, and short words for its calls: the emulated one, or that which
//! `XSCHED_CUDA_LIB` names, such as `libcuda.so.1` on a machine with a GPU.
#![allow(dead_code, reason = "each test uses a part")]

use std::env;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use cudarc::driver::sys::{self, CUresult as Code};
use sys::{CUcontext, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream};

/// Calls a function of the driver's; fails unless it succeeds.
macro_rules! ok {
    ($function:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: what the arguments lead to is alive, which is all that the driver asks for.
        let code = unsafe { $crate::common::sys::$function($($arg),*) };
        assert_eq!(code, $crate::common::Code::CUDA_SUCCESS, stringify!($function));
    }};
}

/// Calls a function of the driver's. What it answers, without what all names begin with.
macro_rules! answer {
    ($function:ident($($arg:expr),* $(,)?)) => {{
        // SAFETY: as in `ok!`, or the driver is the emulated one, which checks handles.
        let code = unsafe { $crate::common::sys::$function($($arg),*) };
        format!("{code:?}").replace("CUDA_ERROR_", "")
    }};
}

/// Value that a function of the driver's writes to its first argument.
macro_rules! made {
    ($function:ident($($arg:expr),* $(,)?)) => {{
        let mut value = std::mem::MaybeUninit::zeroed();
        $crate::common::ok!($function(value.as_mut_ptr(), $($arg),*));
        // SAFETY: zeros, or what the driver wrote.
        unsafe { value.assume_init() }
    }};
}
pub(crate) use {answer, made, ok};

/// The driver. `true` if it is the emulated one.
pub(crate) fn start() -> bool {
    static IS_EMULATED: OnceLock<bool> = OnceLock::new();
    *IS_EMULATED.get_or_init(|| {
        let named = env::var_os("XSCHED_CUDA_LIB");
        let is_emulated = named.is_none();
        let path = named.unwrap_or_else(|| xsched_cuda_emulated::path().expect("a path").into());
        // From now on it is what `libcuda.so.1` is for the whole process, by its own name.
        // SAFETY: it is a driver.
        std::mem::forget(unsafe { libloading::Library::new(path) }.expect("a driver"));
        ok!(cuInit(0));
        is_emulated
    })
}

/// A number that the emulated driver counts, by a name.
pub(crate) fn counted(function: &str, name: &CStr) -> u64 {
    start();
    // SAFETY: the function is one of the emulated driver's own, and takes a name.
    unsafe {
        let library = libloading::Library::new("libcuda.so.1").expect("it is loaded");
        let count: libloading::Symbol<'_, unsafe extern "C" fn(*const i8) -> u64> =
            library.get(function).expect("the emulated driver");
        count(name.as_ptr())
    }
}

/// A context of this test's own, current on this thread.
pub(crate) struct Context(pub(crate) CUcontext);

impl Context {
    pub(crate) fn new() -> Self {
        start();
        Self(made!(cuCtxCreate_v2(0, 0)))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is this one's. A context that was lost may refuse.
        let _ = unsafe { sys::cuCtxDestroy_v2(self.0) };
    }
}

pub(crate) const LEGACY: CUstream = null_mut();

pub(crate) fn stream(flags: u32) -> CUstream {
    made!(cuStreamCreate(flags))
}

pub(crate) fn event() -> CUevent {
    made!(cuEventCreate(0))
}

/// Device memory of this many words.
pub(crate) fn memory(words: usize) -> CUdeviceptr {
    made!(cuMemAlloc_v2(words * 4))
}

/// A word of host memory that streams may wait for: its address on the device, and itself.
pub(crate) fn word() -> (CUdeviceptr, &'static AtomicU32) {
    let host: *mut c_void = made!(cuMemHostAlloc(8, 3));
    let word = host.cast::<AtomicU32>();
    // SAFETY: 8 bytes, which are never given back.
    let word = unsafe {
        word.cast::<u64>().write(0);
        &*word
    };
    (made!(cuMemHostGetDevicePointer_v2(host, 0)), word)
}

/// Words that are read back.
pub(crate) fn read(from: CUdeviceptr, words: usize) -> Vec<u32> {
    let mut values = vec![0_u32; words];
    ok!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), from, words * 4));
    values
}

/// A kernel of the emulated driver's PTX, or of the spin kernels'.
pub(crate) fn kernel(name: &CStr) -> CUfunction {
    let is_spin = name.to_bytes().starts_with(b"xs_");
    let text = if is_spin { xsched_cuda_emulated::SPIN_PTX } else { xsched_cuda_emulated::PTX };
    let module: CUmodule = made!(cuModuleLoadData(text.as_ptr().cast()));
    made!(cuModuleGetFunction(module, name.as_ptr()))
}

/// Launches a kernel with one block of this many threads.
pub(crate) fn launch(
    kernel: CUfunction,
    threads: u32,
    stream: CUstream,
    parameters: &mut [*mut c_void],
) {
    let parameters = parameters.as_mut_ptr();
    ok!(cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, parameters, null_mut()));
}

/// Launches `fill`.
pub(crate) fn fill(stream: CUstream, mut to: CUdeviceptr, mut value: u32) {
    let mut one = 1_u32;
    let parameters = &mut [(&raw mut to).cast(), (&raw mut value).cast(), (&raw mut one).cast()];
    launch(kernel(c"fill"), 32, stream, parameters);
}

/// A stream that waits for a word to become 1.
pub(crate) fn held(stream: CUstream) -> &'static AtomicU32 {
    let (address, word) = word();
    ok!(cuStreamWaitValue32_v2(stream, address, 1, 1));
    word
}

pub(crate) fn release(word: &AtomicU32) {
    word.store(1, Ordering::SeqCst);
}

/// True if a stream has something to do.
pub(crate) fn is_busy(stream: CUstream) -> bool {
    match answer!(cuStreamQuery(stream)).as_str() {
        "NOT_READY" => true,
        "CUDA_SUCCESS" => false,
        other => panic!("{other}"),
    }
}

/// Waits until something holds, for at most ten seconds.
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited for too long");
        std::thread::sleep(Duration::from_micros(100));
    }
}

pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
