//! Compares what this crate declares of CUDA's driver with bindings that another project generated
//! from its headers. If it compiles, all functions and structures agree; its tests say that none
//! was left out, and compare numbers. It needs no driver.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

use cudarc::driver::sys;
use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_cuda::CudaError;
use xsched_hal_cuda::table::{
    self, AttributeValue, BatchMemOpParams, CuContext, CuEvent, CuFunction, CuGraph, CuGraphExec,
    CuGraphNode, CuModule, CuStream, EdgeData, KernelNodeParams, MemOp, Table,
};

/// Types that a C compiler passes in the same way.
trait Same<T> {}
/// Types that a pointer may lead to where another declaration has `T`.
trait SameBehind<T> {}

macro_rules! same {
    ($($ours:ty, $theirs:ty;)+) => {$(
        impl Same<$theirs> for $ours {}
        impl SameBehind<$theirs> for $ours {}
        const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());
        const _: () = assert!(align_of::<$ours>() == align_of::<$theirs>());
    )+};
}

same! {
    u32, u32;
    i32, i32;
    u64, u64;
    f32, f32;
    usize, usize;
    // Handles, which are transparent around a pointer here.
    CuContext, sys::CUcontext;
    CuStream, sys::CUstream;
    CuEvent, sys::CUevent;
    CuModule, sys::CUmodule;
    CuFunction, sys::CUfunction;
    CuGraph, sys::CUgraph;
    CuGraphNode, sys::CUgraphNode;
    CuGraphExec, sys::CUgraphExec;
    // What is an enumeration there: none has negative values, so the sign does not matter.
    c_int, sys::CUresult;
    c_int, sys::CUdevice_attribute;
    c_int, sys::CUstreamCaptureMode;
    c_int, sys::CUstreamCaptureStatus;
    c_int, sys::CUgraphNodeType;
    c_int, sys::CUlaunchAttributeID;
    AttributeValue, sys::CUlaunchAttributeValue;
}

impl SameBehind<Self> for c_char {}
impl SameBehind<Self> for c_void {}
/// By what is asserted of their layouts below.
impl SameBehind<sys::CUDA_KERNEL_NODE_PARAMS_v2> for KernelNodeParams {}
impl SameBehind<sys::CUgraphEdgeData> for EdgeData {}
impl SameBehind<sys::CUDA_BATCH_MEM_OP_NODE_PARAMS> for BatchMemOpParams {}
impl<O: SameBehind<T>, T> Same<*mut T> for *mut O {}
impl<O: SameBehind<T>, T> Same<*const T> for *const O {}
impl<O: SameBehind<T>, T> SameBehind<*mut T> for *mut O {}
impl<O: SameBehind<T>, T> SameBehind<*const T> for *const O {}

/// Functions that are called in the same way.
trait SameFunction<T> {}

macro_rules! functions {
    ($(($($ours:ident $theirs:ident),*))+) => {$(
        impl<R, S, $($ours, $theirs),*> SameFunction<unsafe fn($($theirs),*) -> S>
            for unsafe extern "C" fn($($ours),*) -> R
        where
            R: Same<S>,
            $($ours: Same<$theirs>),*
        {
        }
    )+};
}

functions! {
    ()
    (A1 B1)
    (A1 B1, A2 B2)
    (A1 B1, A2 B2, A3 B3)
    (A1 B1, A2 B2, A3 B3, A4 B4)
    (A1 B1, A2 B2, A3 B3, A4 B4, A5 B5)
    (A1 B1, A2 B2, A3 B3, A4 B4, A5 B5, A6 B6, A7 B7, A8 B8, A9 B9, A10 B10, A11 B11)
}

/// Compiles if a function of the table is declared like another one.
fn same<O: SameFunction<T>, T>(_: fn(&Table) -> O, _: T) {}
/// As [`same`], for a function that may be missing.
fn same_if_there<O: SameFunction<T>, T>(_: fn(&Table) -> Option<O>, _: T) {}

/// Compares functions, and says which.
macro_rules! compare {
    (
        required { $($field:ident = $symbol:ident($($arg:tt)*);)+ }
        optional { $($maybe:ident = $maybe_symbol:ident($($maybe_arg:tt)*);)+ }
    ) => {{
        $(same(|t: &Table| t.$field, sys::$symbol as unsafe fn($($arg)*) -> _);)+
        $(same_if_there(
            |t: &Table| t.$maybe,
            sys::$maybe_symbol as unsafe fn($($maybe_arg)*) -> _,
        );)+
        [
            $((stringify!($field), stringify!($symbol)),)+
            $((stringify!($maybe), stringify!($maybe_symbol)),)+
        ]
    }};
}

#[test]
fn functions_are_declared_the_same() {
    let compared = compare! {
        required {
            init = cuInit(_);
            driver_version = cuDriverGetVersion(_);
            device_count = cuDeviceGetCount(_);
            device_get = cuDeviceGet(_, _);
            device_name = cuDeviceGetName(_, _, _);
            device_attribute = cuDeviceGetAttribute(_, _, _);
            device_pci = cuDeviceGetPCIBusId(_, _, _);
            primary_retain = cuDevicePrimaryCtxRetain(_, _);
            primary_release = cuDevicePrimaryCtxRelease_v2(_);
            ctx_current = cuCtxGetCurrent(_);
            ctx_device = cuCtxGetDevice(_);
            ctx_push = cuCtxPushCurrent_v2(_);
            ctx_pop = cuCtxPopCurrent_v2(_);
            ctx_priorities = cuCtxGetStreamPriorityRange(_, _);
            ctx_synchronize = cuCtxSynchronize();
            stream_create = cuStreamCreateWithPriority(_, _, _);
            stream_destroy = cuStreamDestroy_v2(_);
            stream_flags = cuStreamGetFlags(_, _);
            stream_capturing = cuStreamIsCapturing(_, _);
            stream_query = cuStreamQuery(_);
            stream_synchronize = cuStreamSynchronize(_);
            event_create = cuEventCreate(_, _);
            event_destroy = cuEventDestroy_v2(_);
            event_record = cuEventRecord(_, _);
            event_query = cuEventQuery(_);
            event_elapsed = cuEventElapsedTime(_, _, _);
            host_alloc = cuMemHostAlloc(_, _, _);
            host_device_pointer = cuMemHostGetDevicePointer_v2(_, _, _);
            host_free = cuMemFreeHost(_);
            host_register = cuMemHostRegister_v2(_, _, _);
            host_unregister = cuMemHostUnregister(_);
            mem_alloc = cuMemAlloc_v2(_, _);
            mem_free = cuMemFree_v2(_);
            copy = cuMemcpyAsync(_, _, _, _);
            fill = cuMemsetD32Async(_, _, _, _);
            module_load = cuModuleLoadData(_, _);
            module_function = cuModuleGetFunction(_, _, _);
            launch = cuLaunchKernel(_, _, _, _, _, _, _, _, _, _, _);
            error_name = cuGetErrorName(_, _);
            error_text = cuGetErrorString(_, _);
        }
        optional {
            primary_state = cuDevicePrimaryCtxGetState(_, _, _);
            stream_context = cuStreamGetCtx(_, _);
            capture_mode = cuThreadExchangeStreamCaptureMode(_);
            event_wait = cuStreamWaitEvent(_, _, _);
            stream_wait = cuStreamWaitValue32_v2(_, _, _, _);
            stream_write = cuStreamWriteValue32_v2(_, _, _, _);
            function_load = cuFuncLoad(_);
            capture_begin = cuStreamBeginCapture_v2(_, _);
            capture_end = cuStreamEndCapture(_, _);
            graph_create = cuGraphCreate(_, _);
            graph_kernel = cuGraphAddKernelNode_v2(_, _, _, _, _);
            graph_clone = cuGraphClone(_, _); graph_destroy = cuGraphDestroy(_);
            graph_node_kind = cuGraphNodeGetType(_, _);
            graph_kernel_attribute = cuGraphKernelNodeGetAttribute(_, _, _);
            graph_nodes = cuGraphGetNodes(_, _, _); graph_edges = cuGraphGetEdges(_, _, _, _);
            graph_edges_data = cuGraphGetEdges_v2(_, _, _, _, _);
            graph_depend = cuGraphAddDependencies(_, _, _, _);
            graph_free_edges = cuGraphRemoveDependencies(_, _, _, _);
            graph_free_edges_data = cuGraphRemoveDependencies_v2(_, _, _, _, _);
            graph_mem_op = cuGraphAddBatchMemOpNode(_, _, _, _, _);
            graph_instantiate = cuGraphInstantiateWithFlags(_, _, _);
            graph_launch = cuGraphLaunch(_, _);
            graph_exec_destroy = cuGraphExecDestroy(_);
        }
    };
    assert_eq!(compared, Table::SYMBOLS);
}

/// Compares sizes and the places of fields.
macro_rules! layout {
    ($ours:ty, $theirs:ty: $($field:ident $their_field:ident),+) => {
        const _: () = {
            assert!(size_of::<$ours>() == size_of::<$theirs>());
            assert!(align_of::<$ours>() == align_of::<$theirs>());
            $(assert!(offset_of!($ours, $field) == offset_of!($theirs, $their_field));)+
        };
    };
}

layout!(
    BatchMemOpParams, sys::CUDA_BATCH_MEM_OP_NODE_PARAMS:
    context ctx, count count, operations paramArray, flags flags
);

layout!(
    KernelNodeParams, sys::CUDA_KERNEL_NODE_PARAMS_v2:
    function func, grid gridDimX, block blockDimX, shared_bytes sharedMemBytes,
    parameters kernelParams, extra extra, kernel kern, context ctx
);

/// Three numbers in a row.
const _: () = {
    type Theirs = sys::CUDA_KERNEL_NODE_PARAMS_v2;
    assert!(offset_of!(Theirs, gridDimY) == offset_of!(KernelNodeParams, grid) + 4);
    assert!(offset_of!(Theirs, gridDimZ) == offset_of!(KernelNodeParams, grid) + 8);
    assert!(offset_of!(Theirs, blockDimY) == offset_of!(KernelNodeParams, block) + 4);
    assert!(offset_of!(Theirs, blockDimZ) == offset_of!(KernelNodeParams, block) + 8);
};

type Wait = sys::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st;

/// The union, by its member for waits.
const _: () = {
    assert!(size_of::<MemOp>() == size_of::<sys::CUstreamBatchMemOpParams>());
    assert!(align_of::<MemOp>() == align_of::<sys::CUstreamBatchMemOpParams>());
    assert!(offset_of!(sys::CUstreamBatchMemOpParams, waitValue) == 0);
    assert!(offset_of!(MemOp, operation) == offset_of!(Wait, operation));
    assert!(offset_of!(MemOp, address) == offset_of!(Wait, address));
    assert!(offset_of!(MemOp, value) == offset_of!(Wait, __bindgen_anon_1));
    assert!(offset_of!(MemOp, flags) == offset_of!(Wait, flags));
    assert!(offset_of!(MemOp, alias) == offset_of!(Wait, alias));
    assert!(offset_of!(MemOp, rest) == size_of::<Wait>());
};

/// Compares numbers, by the name here and what it is there.
macro_rules! constants {
    ($($ours:ident $theirs:expr;)+) => {$(
        const _: () = assert!(table::$ours as u32 == $theirs as u32);
    )+};
}

constants! {
    SUCCESS sys::CUresult::CUDA_SUCCESS;
    NOT_READY sys::CUresult::CUDA_ERROR_NOT_READY;
    MEM_OP_WAIT_32 sys::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32;
    WAIT_REACHED sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ;
    WRITE_BEHIND sys::CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT;
    WAIT_EQUAL sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ;
    NODE_HOST sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST;
    NODE_CHILD sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
    NODE_EMPTY sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    NODE_WAIT_EVENT sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    NODE_RECORD_EVENT sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    NODE_MEM_OP sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    INSTANTIATE_UPLOAD sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0;
    INSTANTIATE_NODE_PRIORITY
        sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0;
    KERNEL_DEVICE_UPDATABLE
        sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
    CAPTURE_THREAD_LOCAL sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    STREAM_NON_BLOCKING sys::CUstream_flags::CU_STREAM_NON_BLOCKING;
    EVENT_DEFAULT sys::CUevent_flags::CU_EVENT_DEFAULT;
    HOST_ALLOC (sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP);
    HOST_REGISTER (sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP);
    ATTRIBUTE_UNITS sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    ATTRIBUTE_CLOCK sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
    ATTRIBUTE_MPS sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MPS_ENABLED;
    ATTRIBUTE_MEM_OPS
        sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;
}

const _: () = {
    let [pointer, size, end] = table::LAUNCH_PARAMS;
    assert!(pointer == sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize);
    assert!(size == sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize);
    assert!(end == sys::CU_LAUNCH_PARAM_END_AS_INT as usize);
};

/// Casts of numbers in the headers, which no bindings have: repeated here.
#[test]
fn the_default_streams_are_numbers() {
    assert_eq!((table::STREAM_LEGACY.0.addr(), table::STREAM_PER_THREAD.0.addr()), (1, 2));
}

#[test]
fn errors_are_of_the_kind_that_their_names_say() {
    use sys::CUresult as Code;
    let lost = [
        Code::CUDA_ERROR_DEINITIALIZED,
        Code::CUDA_ERROR_DEVICE_UNAVAILABLE,
        Code::CUDA_ERROR_ECC_UNCORRECTABLE,
        Code::CUDA_ERROR_NVLINK_UNCORRECTABLE,
        Code::CUDA_ERROR_CONTAINED,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS,
        Code::CUDA_ERROR_LAUNCH_TIMEOUT,
        Code::CUDA_ERROR_CONTEXT_IS_DESTROYED,
        Code::CUDA_ERROR_ASSERT,
        Code::CUDA_ERROR_HARDWARE_STACK_ERROR,
        Code::CUDA_ERROR_ILLEGAL_INSTRUCTION,
        Code::CUDA_ERROR_MISALIGNED_ADDRESS,
        Code::CUDA_ERROR_INVALID_ADDRESS_SPACE,
        Code::CUDA_ERROR_INVALID_PC,
        Code::CUDA_ERROR_LAUNCH_FAILED,
        Code::CUDA_ERROR_TENSOR_MEMORY_LEAK,
        Code::CUDA_ERROR_UNKNOWN,
    ];
    let lost = lost.map(|code| code as c_int);
    let not_permitted = Code::CUDA_ERROR_NOT_PERMITTED as c_int;
    let not_supported = [
        // CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, of CUDA 13.
        36,
        Code::CUDA_ERROR_NO_BINARY_FOR_GPU as c_int,
        Code::CUDA_ERROR_NOT_SUPPORTED as c_int,
    ];
    for code in 1..=1_000 {
        let expected = match code {
            _ if lost.contains(&code) => Fault::DeviceLost,
            _ if code == not_permitted => Fault::NotPermitted,
            _ if not_supported.contains(&code) => Fault::NotSupported,
            _ => Fault::Launch,
        };
        let error =
            CudaError::Call { call: "a call", code, name: String::new(), text: String::new() };
        assert_eq!(error.kind(), expected, "{code}");
    }
}
