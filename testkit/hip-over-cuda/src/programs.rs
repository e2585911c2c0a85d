//! Calls that compilers put into programs: constructors that make their kernels known, and launches
//! that are two calls.

use std::cell::RefCell;
use std::collections::HashMap;
use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fs;
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::driver::{Answer, Handle, INVALID_VALUE, answer, current, entered};

/// Names the file with the programs' kernels.
const KERNELS: &str = "HIP_OVER_CUDA_KERNELS";
/// `hipErrorNoBinaryForGpu`, `hipErrorInvalidDeviceFunction`.
const NO_BINARY: u32 = 209;
const INVALID_FUNCTION: u32 = 98;

/// HIP's `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Dim3 {
    x: c_uint,
    y: c_uint,
    z: c_uint,
}

/// The kernels of the programs.
#[derive(Debug, Default)]
struct Programs {
    /// Names, by the addresses of the functions that stand for them.
    names: HashMap<usize, CString>,
    /// Modules with all of them, by device.
    modules: HashMap<c_int, usize>,
    /// CUDA's functions, by device and address.
    functions: HashMap<(c_int, usize), usize>,
}

static PROGRAMS: LazyLock<Mutex<Programs>> = LazyLock::new(Mutex::default);

thread_local! {
    /// Configurations that wait for their launches.
    static PUSHED: RefCell<Vec<(Dim3, Dim3, usize, usize)>> = const { RefCell::new(Vec::new()) };
}

fn programs() -> MutexGuard<'static, Programs> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Programs {
    fn module(&mut self, device: c_int) -> Answer<Handle> {
        if let Some(module) = self.modules.get(&device) {
            return Ok(ptr::with_exposed_provenance_mut(*module));
        }
        let text = env::var_os(KERNELS).and_then(|file| fs::read(file).ok()).ok_or(NO_BINARY)?;
        let text = CString::new(text).map_err(|_| NO_BINARY)?;
        let mut module: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to, and the text ends with zero.
        answer(unsafe { (entered()?.module_load)(&raw mut module, text.as_ptr().cast()) })?;
        self.modules.insert(device, module.expose_provenance());
        Ok(module)
    }

    /// The function of the kernel that this function of the program stands for.
    fn function(&mut self, host: usize) -> Answer<Handle> {
        let device = current();
        if let Some(function) = self.functions.get(&(device, host)) {
            return Ok(ptr::with_exposed_provenance_mut(*function));
        }
        let module = self.module(device)?;
        let name = self.names.get(&host).ok_or(INVALID_FUNCTION)?;
        let (mut function, cuda): (Handle, _) = (ptr::null_mut(), entered()?);
        // SAFETY: the handle may be written to, the module is loaded, and the name ends with zero.
        answer(unsafe { (cuda.module_function)(&raw mut function, module, name.as_ptr()) })?;
        if let Some(load) = cuda.function_load {
            // SAFETY: CUDA has just written it.
            answer(unsafe { load(function) })?;
        }
        self.functions.insert((device, host), function.expose_provenance());
        Ok(function)
    }
}

// SAFETY: the name is HIP's, and this library defines it once.
#[unsafe(no_mangle)]
extern "C" fn __hipRegisterFatBinary(code: *mut c_void) -> *mut c_void {
    code
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn __hipUnregisterFatBinary(_modules: *mut c_void) {}

exports! {
    fn __hipRegisterFunction(
        _modules: *mut c_void,
        host: *const c_void,
        _device_function: *const c_char,
        name: *const c_char,
        _limit: c_uint,
        _thread: *mut c_void,
        _block: *mut c_void,
        _block_dim: *mut c_void,
        _grid_dim: *mut c_void,
        _size: *mut c_int,
    ) {
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the compiler gives a name that ends with zero.
        let name = unsafe { CStr::from_ptr(name) }.to_owned();
        programs().names.insert(host.addr(), name);
        Ok(())
    }

    fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, shared_bytes: usize, stream: Handle) {
        let stream = stream.expose_provenance();
        PUSHED.with_borrow_mut(|pushed| pushed.push((grid, block, shared_bytes, stream)));
        Ok(())
    }

    fn __hipPopCallConfiguration(
        grid: *mut Dim3,
        block: *mut Dim3,
        shared_bytes: *mut usize,
        stream: *mut Handle,
    ) {
        let last = PUSHED.with_borrow_mut(Vec::pop).ok_or(INVALID_VALUE)?;
        // SAFETY: what the compiler has made gives four places that may be written to.
        unsafe {
            grid.write(last.0);
            block.write(last.1);
            shared_bytes.write(last.2);
            stream.write(ptr::with_exposed_provenance_mut(last.3));
        }
        Ok(())
    }

    fn hipLaunchKernel(
        host: *const c_void,
        grid: Dim3,
        block: Dim3,
        parameters: *mut *mut c_void,
        shared_bytes: usize,
        stream: Handle,
    ) {
        let cuda = entered()?;
        let function = programs().function(host.addr())?;
        let shared = c_uint::try_from(shared_bytes).map_err(|_| INVALID_VALUE)?;
        // SAFETY: HIP's caller promises that the stream is alive, and that the arguments are those
        // of the kernel.
        answer(unsafe {
            (cuda.launch)(
                function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream,
                parameters, ptr::null_mut(),
            )
        })
    }
}
