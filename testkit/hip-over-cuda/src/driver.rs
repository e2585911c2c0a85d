//! CUDA's driver: its functions, and the context of each device.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::{LazyLock, Mutex, PoisonError};

/// An answer that is not 0, in numbers that CUDA and HIP share.
pub(crate) type Answer<T = ()> = Result<T, u32>;
/// CUDA's address of device memory.
pub(crate) type Address = u64;
/// A handle of CUDA's.
pub(crate) type Handle = *mut c_void;

pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const NO_DEVICE: u32 = 100;
pub(crate) const LAUNCH_FAILURE: u32 = 719;
pub(crate) const NOT_SUPPORTED: u32 = 801;

/// The answer of a call. CUDA tells more ways apart in which a kernel can fail.
pub(crate) const fn answer(code: u32) -> Answer {
    match code {
        0 => Ok(()),
        714..=718 => Err(LAUNCH_FAILURE),
        code => Err(code),
    }
}

macro_rules! functions {
    (
        required { $(fn $name:ident = $symbol:literal ($($arg:ty),*);)+ }
        optional { $(fn $maybe:ident = $maybe_symbol:literal ($($maybe_arg:ty),*);)+ }
    ) => {
        /// CUDA's functions.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> u32,)+
            $(pub(crate) $maybe: Option<unsafe extern "C" fn($($maybe_arg),*) -> u32>,)+
        }

        impl Functions {
            fn resolve(library: &libloading::Library) -> Option<Self> {
                Some(Self {
                    $($name: {
                        // SAFETY: the type is the one that CUDA declares. The library is never
                        // unloaded.
                        let symbol = unsafe { library.get(concat!($symbol, "\0")) };
                        *symbol.ok()?
                    },)+
                    $($maybe: {
                        // SAFETY: see above.
                        let symbol = unsafe { library.get(concat!($maybe_symbol, "\0")) };
                        symbol.ok().map(|symbol| *symbol)
                    },)+
                })
            }
        }
    };
}

functions! {
    required {
        fn init = "cuInit" (c_uint);
        fn version = "cuDriverGetVersion" (*mut c_int);
        fn count = "cuDeviceGetCount" (*mut c_int);
        fn attribute = "cuDeviceGetAttribute" (*mut c_int, c_uint, c_int);
        fn name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
        fn pci = "cuDeviceGetPCIBusId" (*mut c_char, c_int, c_int);
        fn retain = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
        fn set_current = "cuCtxSetCurrent" (Handle);
        fn priorities = "cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int);
        fn stream_create = "cuStreamCreateWithPriority" (*mut Handle, c_uint, c_int);
        fn stream_destroy = "cuStreamDestroy_v2" (Handle);
        fn stream_synchronize = "cuStreamSynchronize" (Handle);
        fn stream_flags = "cuStreamGetFlags" (Handle, *mut c_uint);
        fn stream_context = "cuStreamGetCtx" (Handle, *mut Handle);
        fn stream_capturing = "cuStreamIsCapturing" (Handle, *mut c_uint);
        fn event_create = "cuEventCreate" (*mut Handle, c_uint);
        fn event_destroy = "cuEventDestroy_v2" (Handle);
        fn event_record = "cuEventRecord" (Handle, Handle);
        fn event_query = "cuEventQuery" (Handle);
        fn event_elapsed = "cuEventElapsedTime" (*mut f32, Handle, Handle);
        fn allocate = "cuMemAlloc_v2" (*mut Address, usize);
        fn free = "cuMemFree_v2" (Address);
        fn host_allocate = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
        fn host_free = "cuMemFreeHost" (*mut c_void);
        fn host_register = "cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
        fn host_unregister = "cuMemHostUnregister" (*mut c_void);
        fn host_address = "cuMemHostGetDevicePointer_v2" (*mut Address, *mut c_void, c_uint);
        fn synchronize = "cuCtxSynchronize" ();
        fn copy_now = "cuMemcpy" (Address, Address, usize);
        fn copy = "cuMemcpyAsync" (Address, Address, usize, Handle);
        fn fill = "cuMemsetD8Async" (Address, u8, usize, Handle);
        fn module_load = "cuModuleLoadData" (*mut Handle, *const c_void);
        fn module_unload = "cuModuleUnload" (Handle);
        fn module_function = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
        fn launch = "cuLaunchKernel" (
            Handle,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            Handle,
            *mut *mut c_void,
            *mut *mut c_void
        );
    }
    optional {
        // The one without a number refuses unless a setting of the kernel module says otherwise.
        fn wait_value = "cuStreamWaitValue32_v2" (Handle, Address, u32, c_uint);
        fn write_value = "cuStreamWriteValue32_v2" (Handle, Address, u32, c_uint);
        fn function_load = "cuFuncLoad" (Handle);
        fn launch_together = "cuLaunchCooperativeKernel" (
            Handle,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            Handle,
            *mut *mut c_void
        );
        fn capture_mode = "cuThreadExchangeStreamCaptureMode" (*mut c_uint);
        fn capture_begin = "cuStreamBeginCapture_v2" (Handle, c_uint);
        fn capture_end = "cuStreamEndCapture" (Handle, *mut Handle);
        fn graph_instantiate = "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
        fn graph_launch = "cuGraphLaunch" (Handle, Handle);
        fn graph_destroy = "cuGraphDestroy" (Handle);
        fn graph_exec_destroy = "cuGraphExecDestroy" (Handle);
    }
}

/// The driver, and the context of each device that was used.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) functions: Functions,
    /// Addresses, by the devices' numbers.
    contexts: Mutex<HashMap<c_int, usize>>,
    _library: ManuallyDrop<libloading::Library>,
}

static DRIVER: LazyLock<Option<Driver>> = LazyLock::new(|| {
    // SAFETY: loading CUDA's driver has no effect but that.
    let library = ManuallyDrop::new(unsafe { libloading::Library::new("libcuda.so.1") }.ok()?);
    let functions = Functions::resolve(&library)?;
    // SAFETY: 0 is what it takes.
    let code = unsafe { (functions.init)(0) };
    (code == 0).then(|| Driver { functions, contexts: Mutex::default(), _library: library })
});

thread_local! {
    /// The thread's device, once a context is current.
    static CURRENT: Cell<Option<c_int>> = const { Cell::new(None) };
}

/// The driver, if there is one that works.
pub(crate) fn driver() -> Answer<&'static Driver> {
    DRIVER.as_ref().ok_or(NO_DEVICE)
}

/// The driver's functions, with a context current on this thread: the first device's if no other
/// one was chosen.
pub(crate) fn entered() -> Answer<&'static Functions> {
    let driver = driver()?;
    if CURRENT.get().is_none() {
        driver.make_current(0)?;
    }
    Ok(&driver.functions)
}

/// The thread's device.
pub(crate) fn current() -> c_int {
    CURRENT.get().unwrap_or_default()
}

impl Driver {
    pub(crate) fn make_current(&self, device: c_int) -> Answer {
        let context = self.context(device)?;
        // SAFETY: the context was retained and is never released.
        answer(unsafe { (self.functions.set_current)(context) })?;
        CURRENT.set(Some(device));
        Ok(())
    }

    fn context(&self, device: c_int) -> Answer<Handle> {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.get(&device) {
            return Ok(ptr::with_exposed_provenance_mut(*context));
        }
        let mut context: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to; a device that is not there is an error.
        answer(unsafe { (self.functions.retain)(&raw mut context, device) })?;
        contexts.insert(device, context.expose_provenance());
        Ok(context)
    }

    /// The device whose context this is.
    pub(crate) fn device_of(&self, context: Handle) -> Option<c_int> {
        let contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut devices = contexts.iter();
        devices.find(|(_, known)| **known == context.addr()).map(|(device, _)| *device)
    }
}
