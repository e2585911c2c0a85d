//! The driver's functions, found at run time.
//!
//! A table of our own, since generated bindings panic where a symbol is missing, and a missing
//! symbol is an answer here. `tests/abi.rs` compares every entry with such bindings.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use xsched_hal_process::environment::variable;
use xsched_hal_process::loader::{Library, RTLD_LAZY};

/// `CUresult`.
pub type CuResult = c_int;
/// `CUdevice`.
pub type CuDevice = c_int;
/// `CUdeviceptr`.
pub type CuDevicePtr = u64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub *mut c_void);

        // SAFETY: the driver's handles may be used on any thread.
        unsafe impl Send for $name {}
        // SAFETY: see above.
        unsafe impl Sync for $name {}

        impl $name {
            /// No handle.
            pub const NULL: Self = Self(std::ptr::null_mut());
        }
    )*};
}

handles! {
    /// `CUcontext`.
    CuContext,
    /// `CUstream`.
    CuStream,
    /// `CUevent`.
    CuEvent,
    /// `CUmodule`.
    CuModule,
    /// `CUfunction`.
    CuFunction,
    /// `CUgraph`.
    CuGraph,
    /// `CUgraphNode`.
    CuGraphNode,
    /// `CUgraphExec`.
    CuGraphExec,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[derive(Debug)]
#[repr(C)]
pub struct KernelNodeParams {
    /// The kernel, if `kernel` is null.
    pub function: CuFunction,
    /// Blocks in x, y and z.
    pub grid: [c_uint; 3],
    /// Threads of a block in x, y and z.
    pub block: [c_uint; 3],
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: c_uint,
    /// Pointers to the parameters, if `extra` is null.
    pub parameters: *mut *mut c_void,
    /// The parameters in one piece, as for a launch.
    pub extra: *mut *mut c_void,
    /// Null: a `CUkernel` instead of the function.
    pub kernel: *mut c_void,
    /// The context, or null for the current one.
    pub context: CuContext,
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[derive(Debug)]
#[repr(C)]
pub struct BatchMemOpParams {
    /// The context.
    pub context: CuContext,
    /// Number of operations.
    pub count: c_uint,
    /// The operations.
    pub operations: *const MemOp,
    /// 0.
    pub flags: c_uint,
}

/// `CUgraphEdgeData`: which part of a node another one waits for, and how. All zero for one that
/// begins when the other has ended; others may begin before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct EdgeData {
    /// Part of the first node that is waited for.
    pub from_port: u8,
    /// Part of the second node that waits.
    pub to_port: u8,
    /// `CUgraphDependencyType`.
    pub kind: u8,
    /// 0.
    pub rest: [u8; 5],
}

/// `CUstreamBatchMemOpParams`, of which only waits are used: a union of 48 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MemOp {
    /// Operation of the node: [`MEM_OP_WAIT_32`].
    pub operation: c_uint,
    /// The word.
    pub address: CuDevicePtr,
    /// The value, of which the lower half counts.
    pub value: u64,
    /// How it is compared.
    pub flags: c_uint,
    /// Not used.
    pub alias: CuDevicePtr,
    /// The rest of the union.
    pub rest: u64,
}

/// `CUlaunchAttributeValue`, a union of 64 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AttributeValue {
    /// Bytes of the handle.
    pub words: [u64; 8],
}

/// `CUDA_SUCCESS`.
pub const SUCCESS: CuResult = 0;
/// `CUDA_ERROR_NOT_READY`.
pub const NOT_READY: CuResult = 600;
/// `CU_STREAM_MEM_OP_WAIT_VALUE_32`.
pub const MEM_OP_WAIT_32: c_uint = 1;
/// `CU_STREAM_WAIT_VALUE_GEQ`: the difference of the two, as a number with a sign, is not below 0.
pub const WAIT_REACHED: c_uint = 0;
/// `CU_STREAM_WRITE_VALUE_DEFAULT`: behind everything that the stream wrote before.
pub const WRITE_BEHIND: c_uint = 0;
/// `CU_STREAM_WAIT_VALUE_EQ`.
pub const WAIT_EQUAL: c_uint = 1;
/// `CUgraphNodeType`: kernels, copies, fills, host functions and child graphs are 0 to 4.
pub const NODE_CHILD: c_int = 4;
/// A function of the host's.
pub const NODE_HOST: c_int = 3;
/// An empty node.
pub const NODE_EMPTY: c_int = 5;
/// A wait for an event.
pub const NODE_WAIT_EVENT: c_int = 6;
/// A record of an event.
pub const NODE_RECORD_EVENT: c_int = 7;
/// Stream memory operations.
pub const NODE_MEM_OP: c_int = 12;
/// `CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE`.
pub const KERNEL_DEVICE_UPDATABLE: c_int = 13;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
pub const INSTANTIATE_AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`.
pub const INSTANTIATE_UPLOAD: u64 = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`.
pub const INSTANTIATE_NODE_PRIORITY: u64 = 8;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;
/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`.
pub const EVENT_DEFAULT: c_uint = 0;
/// `CU_EVENT_DISABLE_TIMING`.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
pub const HOST_ALLOC: c_uint = 1 | 2;
/// `CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP`.
pub const HOST_REGISTER: c_uint = 1 | 2;
/// `CU_STREAM_LEGACY`.
pub const STREAM_LEGACY: CuStream = CuStream(std::ptr::without_provenance_mut(1));
/// `CU_STREAM_PER_THREAD`.
pub const STREAM_PER_THREAD: CuStream = CuStream(std::ptr::without_provenance_mut(2));
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const ATTRIBUTE_UNITS: c_int = 16;
/// `CU_DEVICE_ATTRIBUTE_CLOCK_RATE`, in kHz.
pub const ATTRIBUTE_CLOCK: c_int = 13;
/// `CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS`, of the `_v2` operations.
pub const ATTRIBUTE_MEM_OPS: c_int = 122;
/// `CU_DEVICE_ATTRIBUTE_MPS_ENABLED`.
pub const ATTRIBUTE_MPS: c_int = 133;
/// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE`, `CU_LAUNCH_PARAM_END`.
pub const LAUNCH_PARAMS: [usize; 3] = [1, 2, 0];

macro_rules! table {
    (
        required { $($name:ident = $symbol:literal ($($arg:ty),*);)* }
        optional { $($oname:ident = $osymbol:literal ($($oarg:ty),*);)* }
    ) => {
        /// The driver's functions, under their own names without `cu` and suffixes.
        #[derive(Debug)]
        pub struct Table {
            /// The name under which the library was found.
            pub library: String,
            $(#[doc = concat!("`", $symbol, "`")]
              pub $name: unsafe extern "C" fn($($arg),*) -> CuResult,)*
            $(#[doc = concat!("`", $osymbol, "`, if the driver has it.")]
              pub $oname: Option<unsafe extern "C" fn($($oarg),*) -> CuResult>,)*
        }

        impl Table {
            fn find(name: &str, library: Library) -> Result<Self, LoadError> {
                Ok(Self {
                    library: name.to_owned(),
                    // SAFETY: the symbol has this signature in every version of the driver.
                    $($name: unsafe { symbol(name, library, $symbol)? },)*
                    // SAFETY: see above.
                    $($oname: unsafe { symbol(name, library, $osymbol).ok() },)*
                })
            }

            /// Every function: its name here, and the symbol it is looked for by.
            pub const SYMBOLS: &[(&str, &str)] = &[
                $((stringify!($name), $symbol),)*
                $((stringify!($oname), $osymbol),)*
            ];
        }
    };
}

table! {
    required {
        init = "cuInit" (c_uint);
        driver_version = "cuDriverGetVersion" (*mut c_int);
        device_count = "cuDeviceGetCount" (*mut c_int);
        device_get = "cuDeviceGet" (*mut CuDevice, c_int);
        device_name = "cuDeviceGetName" (*mut c_char, c_int, CuDevice);
        device_attribute = "cuDeviceGetAttribute" (*mut c_int, c_int, CuDevice);
        device_pci = "cuDeviceGetPCIBusId" (*mut c_char, c_int, CuDevice);
        primary_retain = "cuDevicePrimaryCtxRetain" (*mut CuContext, CuDevice);
        primary_release = "cuDevicePrimaryCtxRelease_v2" (CuDevice);
        ctx_current = "cuCtxGetCurrent" (*mut CuContext);
        ctx_device = "cuCtxGetDevice" (*mut CuDevice);
        ctx_push = "cuCtxPushCurrent_v2" (CuContext);
        ctx_pop = "cuCtxPopCurrent_v2" (*mut CuContext);
        ctx_priorities = "cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int);
        ctx_synchronize = "cuCtxSynchronize" ();
        stream_create = "cuStreamCreateWithPriority" (*mut CuStream, c_uint, c_int);
        stream_destroy = "cuStreamDestroy_v2" (CuStream);
        stream_flags = "cuStreamGetFlags" (CuStream, *mut c_uint);
        stream_capturing = "cuStreamIsCapturing" (CuStream, *mut c_int);
        stream_query = "cuStreamQuery" (CuStream);
        stream_synchronize = "cuStreamSynchronize" (CuStream);
        event_create = "cuEventCreate" (*mut CuEvent, c_uint);
        event_destroy = "cuEventDestroy_v2" (CuEvent);
        event_record = "cuEventRecord" (CuEvent, CuStream);
        event_query = "cuEventQuery" (CuEvent);
        event_elapsed = "cuEventElapsedTime" (*mut f32, CuEvent, CuEvent);
        host_alloc = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
        host_device_pointer = "cuMemHostGetDevicePointer_v2"
            (*mut CuDevicePtr, *mut c_void, c_uint);
        host_free = "cuMemFreeHost" (*mut c_void);
        host_register = "cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
        host_unregister = "cuMemHostUnregister" (*mut c_void);
        mem_alloc = "cuMemAlloc_v2" (*mut CuDevicePtr, usize);
        mem_free = "cuMemFree_v2" (CuDevicePtr);
        copy = "cuMemcpyAsync" (CuDevicePtr, CuDevicePtr, usize, CuStream);
        fill = "cuMemsetD32Async" (CuDevicePtr, c_uint, usize, CuStream);
        module_load = "cuModuleLoadData" (*mut CuModule, *const c_void);
        module_function = "cuModuleGetFunction" (*mut CuFunction, CuModule, *const c_char);
        launch = "cuLaunchKernel" (CuFunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint,
            c_uint, CuStream, *mut *mut c_void, *mut *mut c_void);
        error_name = "cuGetErrorName" (CuResult, *mut *const c_char);
        error_text = "cuGetErrorString" (CuResult, *mut *const c_char);
    }
    optional {
        primary_state = "cuDevicePrimaryCtxGetState" (CuDevice, *mut c_uint, *mut c_int);
        stream_context = "cuStreamGetCtx" (CuStream, *mut CuContext);
        capture_mode = "cuThreadExchangeStreamCaptureMode" (*mut c_int);
        event_wait = "cuStreamWaitEvent" (CuStream, CuEvent, c_uint);
        stream_wait = "cuStreamWaitValue32_v2" (CuStream, CuDevicePtr, u32, c_uint);
        stream_write = "cuStreamWriteValue32_v2" (CuStream, CuDevicePtr, u32, c_uint);
        function_load = "cuFuncLoad" (CuFunction);
        capture_begin = "cuStreamBeginCapture_v2" (CuStream, c_int);
        capture_end = "cuStreamEndCapture" (CuStream, *mut CuGraph);
        graph_create = "cuGraphCreate" (*mut CuGraph, c_uint);
        graph_kernel = "cuGraphAddKernelNode_v2"
            (*mut CuGraphNode, CuGraph, *const CuGraphNode, usize, *const KernelNodeParams);
        graph_clone = "cuGraphClone" (*mut CuGraph, CuGraph);
        graph_destroy = "cuGraphDestroy" (CuGraph);
        graph_node_kind = "cuGraphNodeGetType" (CuGraphNode, *mut c_int);
        graph_kernel_attribute = "cuGraphKernelNodeGetAttribute"
            (CuGraphNode, c_int, *mut AttributeValue);
        graph_nodes = "cuGraphGetNodes" (CuGraph, *mut CuGraphNode, *mut usize);
        graph_edges = "cuGraphGetEdges" (CuGraph, *mut CuGraphNode, *mut CuGraphNode, *mut usize);
        graph_edges_data = "cuGraphGetEdges_v2"
            (CuGraph, *mut CuGraphNode, *mut CuGraphNode, *mut EdgeData, *mut usize);
        graph_depend = "cuGraphAddDependencies"
            (CuGraph, *const CuGraphNode, *const CuGraphNode, usize);
        graph_free_edges = "cuGraphRemoveDependencies"
            (CuGraph, *const CuGraphNode, *const CuGraphNode, usize);
        graph_free_edges_data = "cuGraphRemoveDependencies_v2"
            (CuGraph, *const CuGraphNode, *const CuGraphNode, *const EdgeData, usize);
        graph_mem_op = "cuGraphAddBatchMemOpNode"
            (*mut CuGraphNode, CuGraph, *const CuGraphNode, usize, *const BatchMemOpParams);
        graph_instantiate = "cuGraphInstantiateWithFlags"
            (*mut CuGraphExec, CuGraph, c_ulonglong);
        graph_launch = "cuGraphLaunch" (CuGraphExec, CuStream);
        graph_exec_destroy = "cuGraphExecDestroy" (CuGraphExec);
    }
}

/// # Safety
/// The symbol is of type `T`.
unsafe fn symbol<T: Copy>(
    name: &str,
    library: Library,
    symbol: &'static str,
) -> Result<T, LoadError> {
    // SAFETY: as promised by the caller.
    let found = unsafe { library.function::<T>(symbol) };
    found.ok_or_else(|| LoadError::Symbol { library: name.to_owned(), symbol })
}

/// Why there is no driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No library.
    #[error(
        "no CUDA driver ({tried}); {}",
        if *chosen { "correct or unset XSCHED_CUDA_LIB" }
        else { "install it, or name it in XSCHED_CUDA_LIB" }
    )]
    Library {
        /// Names that were tried, and the answers of the system.
        tried: String,
        /// `XSCHED_CUDA_LIB` named it.
        chosen: bool,
    },
    /// The library lacks a function.
    #[error("{library} lacks {symbol}; it is no CUDA driver, or one older than 12.0: update it")]
    Symbol {
        /// The library.
        library: String,
        /// The function.
        symbol: &'static str,
    },
}

/// Libraries that are tried, unless `XSCHED_CUDA_LIB` names one.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

static TABLE: OnceLock<Result<Table, LoadError>> = OnceLock::new();

/// The driver, loaded once and never unloaded.
///
/// # Errors
/// If there is no library, or it lacks a function.
pub fn load() -> Result<&'static Table, LoadError> {
    let chosen = || variable("XSCHED_CUDA_LIB")?.into_string().ok();
    TABLE.get_or_init(|| open(chosen())).as_ref().map_err(Clone::clone)
}

/// Loads the driver from this file, whatever the environment says: for interposers, which have its
/// name themselves. If a driver was loaded before, that stays.
///
/// # Errors
/// If it cannot be opened, or lacks a function.
pub fn load_from(path: &str) -> Result<&'static Table, LoadError> {
    TABLE.get_or_init(|| open(Some(path.to_owned()))).as_ref().map_err(Clone::clone)
}

fn open(chosen: Option<String>) -> Result<Table, LoadError> {
    let names = match &chosen {
        Some(name) => vec![name.as_str()],
        None => NAMES.to_vec(),
    };
    let mut complaints = Vec::new();
    for name in names {
        // SAFETY: the user who installs a driver, or names a library, answers for what it does when
        // it is loaded.
        match unsafe { Library::open(name.as_ref(), RTLD_LAZY) } {
            // It stays open: the driver does not bear being unloaded.
            Ok(library) => return Table::find(name, library),
            Err(error) => complaints.push(format!("{name}: {error}")),
        }
    }
    Err(LoadError::Library { tried: complaints.join("; "), chosen: chosen.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let error = open(Some("/nowhere/libcuda.so".to_owned())).map(|_| ()).unwrap_err();
        assert!(matches!(error, LoadError::Library { chosen: true, .. }), "{error}");
        assert!(error.to_string().contains("/nowhere/libcuda.so"), "{error}");
    }

    #[test]
    fn a_library_that_is_no_driver_lacks_a_symbol() {
        let error = open(Some("libc.so.6".to_owned())).map(|_| ()).unwrap_err();
        let LoadError::Symbol { symbol, .. } = error else { panic!("{error}") };
        assert_eq!(symbol, "cuInit");
    }
}
