//! HIP's C interface, as far as it is used here.
//!
//! Only functions whose signatures are the same from HIP 5.2 to 7: `hipGetDeviceProperties` is not
//! among them, because the structure it fills changed its size under the same name. Handles are
//! pointers to something opaque. `testkit/hip-abi-check` compares all of this, when it is compiled,
//! with the bindings that other projects generated from AMD's headers.
#![expect(non_snake_case, reason = "HIP's own names")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use xsched_hal_process::loader::Library;

/// `hipError_t`: 0 is success.
pub type Code = c_uint;
/// `hipStream_t`, `hipEvent_t`, `hipModule_t`, `hipFunction_t`, `hipGraph_t` or `hipGraphExec_t`.
pub type Handle = *mut c_void;
/// `hipStreamCallback_t`.
pub type StreamCallback = Option<unsafe extern "C" fn(Handle, Code, *mut c_void)>;

/// `hipSuccess`.
pub const SUCCESS: Code = 0;
/// `hipErrorInvalidValue`.
pub const INVALID_VALUE: Code = 1;
/// `hipErrorOutOfMemory`.
pub const OUT_OF_MEMORY: Code = 2;
/// `hipErrorNotInitialized`.
pub const NOT_INITIALIZED: Code = 3;
/// `hipErrorDeinitialized`.
pub const DEINITIALIZED: Code = 4;
/// `hipErrorInvalidConfiguration`.
pub const INVALID_CONFIGURATION: Code = 9;
/// `hipErrorInvalidDevicePointer`.
pub const INVALID_DEVICE_POINTER: Code = 17;
/// `hipErrorInvalidMemcpyDirection`.
pub const INVALID_MEMCPY_DIRECTION: Code = 21;
/// `hipErrorPriorLaunchFailure`.
pub const PRIOR_LAUNCH_FAILURE: Code = 53;
/// `hipErrorInvalidDeviceFunction`.
pub const INVALID_DEVICE_FUNCTION: Code = 98;
/// `hipErrorNoDevice`.
pub const NO_DEVICE: Code = 100;
/// `hipErrorInvalidDevice`.
pub const INVALID_DEVICE: Code = 101;
/// `hipErrorInvalidImage`.
pub const INVALID_IMAGE: Code = 200;
/// `hipErrorInvalidContext`.
pub const INVALID_CONTEXT: Code = 201;
/// `hipErrorNoBinaryForGpu`.
pub const NO_BINARY_FOR_GPU: Code = 209;
/// `hipErrorECCNotCorrectable`.
pub const ECC_NOT_CORRECTABLE: Code = 214;
/// `hipErrorOperatingSystem`.
pub const OPERATING_SYSTEM: Code = 304;
/// `hipErrorInvalidHandle`.
pub const INVALID_HANDLE: Code = 400;
/// `hipErrorIllegalState`.
pub const ILLEGAL_STATE: Code = 401;
/// `hipErrorNotFound`.
pub const NOT_FOUND: Code = 500;
/// `hipErrorNotReady`.
pub const NOT_READY: Code = 600;
/// `hipErrorIllegalAddress`.
pub const ILLEGAL_ADDRESS: Code = 700;
/// `hipErrorLaunchOutOfResources`.
pub const LAUNCH_OUT_OF_RESOURCES: Code = 701;
/// `hipErrorLaunchTimeOut`.
pub const LAUNCH_TIMED_OUT: Code = 702;
/// `hipErrorContextIsDestroyed`.
pub const CONTEXT_IS_DESTROYED: Code = 709;
/// `hipErrorAssert`.
pub const ASSERT: Code = 710;
/// `hipErrorHostMemoryAlreadyRegistered`.
pub const HOST_MEMORY_ALREADY_REGISTERED: Code = 712;
/// `hipErrorHostMemoryNotRegistered`.
pub const HOST_MEMORY_NOT_REGISTERED: Code = 713;
/// `hipErrorLaunchFailure`.
pub const LAUNCH_FAILURE: Code = 719;
/// `hipErrorNotSupported`.
pub const NOT_SUPPORTED: Code = 801;
/// `hipErrorStreamCaptureUnsupported`, the first of those about captures.
pub const STREAM_CAPTURE_UNSUPPORTED: Code = 900;
/// `hipErrorStreamCaptureWrongThread`, the last of those about captures.
pub const STREAM_CAPTURE_WRONG_THREAD: Code = 908;
/// `hipErrorUnknown`.
pub const UNKNOWN: Code = 999;

/// `hipDeviceAttributeMultiprocessorCount`.
pub const ATTRIBUTE_MULTIPROCESSOR_COUNT: c_uint = 63;

/// `hipStreamNonBlocking`: it does not wait for the legacy default stream.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipStreamLegacy`, as a number. 0 is the default stream too.
pub const STREAM_LEGACY: usize = 1;
/// `hipStreamPerThread`, as a number.
pub const STREAM_PER_THREAD: usize = 2;
/// `hipStreamCaptureStatusNone`.
pub const CAPTURE_NONE: c_uint = 0;
/// `hipStreamCaptureModeThreadLocal`: what other threads do does not disturb it.
pub const CAPTURE_THREAD_LOCAL: c_uint = 1;
/// `hipStreamWaitValueEq`.
pub const WAIT_EQUAL: c_uint = 1;
/// `hipEventDefault`: it takes the time.
pub const EVENT_DEFAULT: c_uint = 0;

/// `hipHostMallocPortable`.
pub const HOST_MALLOC_PORTABLE: c_uint = 1;
/// `hipHostMallocMapped`.
pub const HOST_MALLOC_MAPPED: c_uint = 2;
/// `hipHostMallocCoherent`.
pub const HOST_MALLOC_COHERENT: c_uint = 0x4000_0000;
/// `hipHostMallocNonCoherent`.
pub const HOST_MALLOC_NON_COHERENT: c_uint = 0x8000_0000;
/// `hipHostRegisterPortable`.
pub const HOST_REGISTER_PORTABLE: c_uint = 1;
/// `hipHostRegisterMapped`.
pub const HOST_REGISTER_MAPPED: c_uint = 2;
/// `hipDeviceMallocFinegrained`.
pub const MALLOC_FINE_GRAINED: c_uint = 1;
/// `hipMallocSignalMemory`.
pub const MALLOC_SIGNAL: c_uint = 2;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, as a number.
pub const LAUNCH_PARAM_BUFFER_POINTER: usize = 1;
/// `HIP_LAUNCH_PARAM_BUFFER_SIZE`, as a number.
pub const LAUNCH_PARAM_BUFFER_SIZE: usize = 2;
/// `HIP_LAUNCH_PARAM_END`, as a number.
pub const LAUNCH_PARAM_END: usize = 3;

/// `hipMemcpyHostToHost`.
pub const MEMCPY_HOST_TO_HOST: c_uint = 0;
/// `hipMemcpyHostToDevice`.
pub const MEMCPY_HOST_TO_DEVICE: c_uint = 1;
/// `hipMemcpyDeviceToHost`.
pub const MEMCPY_DEVICE_TO_HOST: c_uint = 2;
/// `hipMemcpyDeviceToDevice`.
pub const MEMCPY_DEVICE_TO_DEVICE: c_uint = 3;
/// `hipMemcpyDefault`: the runtime finds out by the addresses.
pub const MEMCPY_DEFAULT: c_uint = 4;

/// A structure of function pointers, and how to fill it.
macro_rules! table {
    (
        required { $(fn $name:ident($($arg:ident: $type:ty),* $(,)?);)+ }
        optional { $(fn $maybe:ident($($maybe_arg:ident: $maybe_type:ty),* $(,)?);)+ }
    ) => {
        /// HIP's functions that are used, by their own names.
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "HIP documents its functions")]
        pub struct Table {
            $(pub $name: unsafe extern "C" fn($($arg: $type),*) -> Code,)+
            $(pub $maybe: Option<unsafe extern "C" fn($($maybe_arg: $maybe_type),*) -> Code>,)+
        }

        impl Table {
            /// The functions without which nothing works.
            pub const REQUIRED: &[&str] = &[$(stringify!($name)),+];
            /// The functions that older versions may lack.
            pub const OPTIONAL: &[&str] = &[$(stringify!($maybe)),+];

            /// Looks all functions up.
            ///
            /// # Errors
            /// The name of the first one that is required and not there.
            ///
            /// # Safety
            /// The library is HIP's runtime or has functions of the same names and signatures.
            pub(crate) unsafe fn resolve(
                library: Library,
            ) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the type is the one that HIP declares; the caller promises that
                        // the library keeps to that. It is never unloaded.
                        let symbol = unsafe { library.function(stringify!($name)) };
                        symbol.ok_or(stringify!($name))?
                    },)+
                    $($maybe: {
                        // SAFETY: see above.
                        unsafe { library.function(stringify!($maybe)) }
                    },)+
                })
            }
        }
    };
}

table! {
    required {
        fn hipRuntimeGetVersion(version: *mut c_int);
        fn hipGetDeviceCount(count: *mut c_int);
        fn hipGetDevice(device: *mut c_int);
        fn hipSetDevice(device: c_int);
        fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int);
        fn hipDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int);
        fn hipDeviceGetPCIBusId(id: *mut c_char, bytes: c_int, device: c_int);
        fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
        fn hipStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int);
        fn hipExtStreamCreateWithCUMask(stream: *mut Handle, words: u32, mask: *const u32);
        fn hipStreamDestroy(stream: Handle);
        fn hipStreamSynchronize(stream: Handle);
        fn hipStreamGetFlags(stream: Handle, flags: *mut c_uint);
        fn hipStreamIsCapturing(stream: Handle, status: *mut c_uint);
        fn hipEventCreateWithFlags(event: *mut Handle, flags: c_uint);
        fn hipEventDestroy(event: Handle);
        fn hipEventRecord(event: Handle, stream: Handle);
        fn hipEventQuery(event: Handle);
        fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle);
        fn hipMalloc(memory: *mut *mut c_void, bytes: usize);
        fn hipFree(memory: *mut c_void);
        fn hipHostMalloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
        fn hipHostFree(memory: *mut c_void);
        fn hipHostRegister(memory: *mut c_void, bytes: usize, flags: c_uint);
        fn hipHostUnregister(memory: *mut c_void);
        fn hipHostGetDevicePointer(
            device: *mut *mut c_void,
            host: *mut c_void,
            flags: c_uint,
        );
        fn hipMemcpyAsync(
            to: *mut c_void,
            from: *const c_void,
            bytes: usize,
            kind: c_uint,
            stream: Handle,
        );
        fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: Handle);
        fn hipModuleLoadData(module: *mut Handle, image: *const c_void);
        fn hipModuleUnload(module: Handle);
        fn hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
        fn hipModuleLaunchKernel(
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: Handle,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        );
    }
    optional {
        fn hipExtMallocWithFlags(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
        fn hipStreamGetDevice(stream: Handle, device: *mut c_int);
        fn hipStreamWaitValue32(
            stream: Handle,
            word: *mut c_void,
            value: u32,
            flags: c_uint,
            mask: u32,
        );
        fn hipStreamWriteValue32(stream: Handle, word: *mut c_void, value: u32, flags: c_uint);
        fn hipModuleLaunchCooperativeKernel(
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: Handle,
            parameters: *mut *mut c_void,
        );
        fn hipStreamAddCallback(
            stream: Handle,
            callback: StreamCallback,
            data: *mut c_void,
            flags: c_uint,
        );
        fn hipStreamBeginCapture(stream: Handle, mode: c_uint);
        fn hipStreamEndCapture(stream: Handle, graph: *mut Handle);
        fn hipThreadExchangeStreamCaptureMode(mode: *mut c_uint);
        fn hipGraphInstantiate(
            exec: *mut Handle,
            graph: Handle,
            failed: *mut Handle,
            log: *mut c_char,
            log_bytes: usize,
        );
        fn hipGraphLaunch(exec: Handle, stream: Handle);
        fn hipGraphDestroy(graph: Handle);
        fn hipGraphExecDestroy(exec: Handle);
    }
}
