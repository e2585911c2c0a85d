//! All constants, compared when this is compiled. What is a cast of a number in HIP's headers, such
//! as `HIP_LAUNCH_PARAM_END`, is in none of the bindings.

use xsched_hal_hip::raw;

/// Compares numbers, by the name here and the name there.
macro_rules! same {
    ($($ours:ident $theirs:path;)+) => {$(const _: () = assert!(raw::$ours == $theirs as u32);)+};
}

mod cubecl {
    #![allow(clippy::unnecessary_cast, reason = "enumerations are constants here")]

    use cubecl_hip_sys as hip;

    use super::raw;

    same! {
        SUCCESS hip::hipError_t_hipSuccess;
        INVALID_VALUE hip::hipError_t_hipErrorInvalidValue;
        OUT_OF_MEMORY hip::hipError_t_hipErrorOutOfMemory;
        NOT_INITIALIZED hip::hipError_t_hipErrorNotInitialized;
        DEINITIALIZED hip::hipError_t_hipErrorDeinitialized;
        INVALID_CONFIGURATION hip::hipError_t_hipErrorInvalidConfiguration;
        INVALID_DEVICE_POINTER hip::hipError_t_hipErrorInvalidDevicePointer;
        INVALID_MEMCPY_DIRECTION hip::hipError_t_hipErrorInvalidMemcpyDirection;
        PRIOR_LAUNCH_FAILURE hip::hipError_t_hipErrorPriorLaunchFailure;
        INVALID_DEVICE_FUNCTION hip::hipError_t_hipErrorInvalidDeviceFunction;
        NO_DEVICE hip::hipError_t_hipErrorNoDevice;
        INVALID_DEVICE hip::hipError_t_hipErrorInvalidDevice;
        INVALID_IMAGE hip::hipError_t_hipErrorInvalidImage;
        INVALID_CONTEXT hip::hipError_t_hipErrorInvalidContext;
        NO_BINARY_FOR_GPU hip::hipError_t_hipErrorNoBinaryForGpu;
        ECC_NOT_CORRECTABLE hip::hipError_t_hipErrorECCNotCorrectable;
        OPERATING_SYSTEM hip::hipError_t_hipErrorOperatingSystem;
        INVALID_HANDLE hip::hipError_t_hipErrorInvalidHandle;
        ILLEGAL_STATE hip::hipError_t_hipErrorIllegalState;
        NOT_FOUND hip::hipError_t_hipErrorNotFound;
        NOT_READY hip::hipError_t_hipErrorNotReady;
        ILLEGAL_ADDRESS hip::hipError_t_hipErrorIllegalAddress;
        LAUNCH_OUT_OF_RESOURCES hip::hipError_t_hipErrorLaunchOutOfResources;
        LAUNCH_TIMED_OUT hip::hipError_t_hipErrorLaunchTimeOut;
        CONTEXT_IS_DESTROYED hip::hipError_t_hipErrorContextIsDestroyed;
        ASSERT hip::hipError_t_hipErrorAssert;
        HOST_MEMORY_ALREADY_REGISTERED hip::hipError_t_hipErrorHostMemoryAlreadyRegistered;
        HOST_MEMORY_NOT_REGISTERED hip::hipError_t_hipErrorHostMemoryNotRegistered;
        LAUNCH_FAILURE hip::hipError_t_hipErrorLaunchFailure;
        NOT_SUPPORTED hip::hipError_t_hipErrorNotSupported;
        STREAM_CAPTURE_UNSUPPORTED hip::hipError_t_hipErrorStreamCaptureUnsupported;
        STREAM_CAPTURE_WRONG_THREAD hip::hipError_t_hipErrorStreamCaptureWrongThread;
        UNKNOWN hip::hipError_t_hipErrorUnknown;
        ATTRIBUTE_MULTIPROCESSOR_COUNT
            hip::hipDeviceAttribute_t_hipDeviceAttributeMultiprocessorCount;
        CAPTURE_NONE hip::hipStreamCaptureStatus_hipStreamCaptureStatusNone;
        CAPTURE_THREAD_LOCAL hip::hipStreamCaptureMode_hipStreamCaptureModeThreadLocal;
        MEMCPY_HOST_TO_HOST hip::hipMemcpyKind_hipMemcpyHostToHost;
        MEMCPY_HOST_TO_DEVICE hip::hipMemcpyKind_hipMemcpyHostToDevice;
        MEMCPY_DEVICE_TO_HOST hip::hipMemcpyKind_hipMemcpyDeviceToHost;
        MEMCPY_DEVICE_TO_DEVICE hip::hipMemcpyKind_hipMemcpyDeviceToDevice;
        MEMCPY_DEFAULT hip::hipMemcpyKind_hipMemcpyDefault;
        STREAM_NON_BLOCKING hip::hipStreamNonBlocking;
        WAIT_EQUAL hip::hipStreamWaitValueEq;
        EVENT_DEFAULT hip::hipEventDefault;
        HOST_MALLOC_PORTABLE hip::hipHostMallocPortable;
        HOST_MALLOC_MAPPED hip::hipHostMallocMapped;
        HOST_MALLOC_COHERENT hip::hipHostMallocCoherent;
        HOST_MALLOC_NON_COHERENT hip::hipHostMallocNonCoherent;
        HOST_REGISTER_PORTABLE hip::hipHostRegisterPortable;
        HOST_REGISTER_MAPPED hip::hipHostRegisterMapped;
        MALLOC_SIGNAL hip::hipMallocSignalMemory;
        MALLOC_FINE_GRAINED hip::hipDeviceMallocFinegrained;
    }
}

#[cfg(feature = "check-hip-sys")]
mod hip_sys {
    #![allow(clippy::unnecessary_cast, reason = "some are enumerations and some are not")]

    use hip_sys::hiprt as hip;

    use super::raw;

    same! {
        SUCCESS hip::hipError_t::hipSuccess;
        INVALID_VALUE hip::hipError_t::hipErrorInvalidValue;
        OUT_OF_MEMORY hip::hipError_t::hipErrorOutOfMemory;
        NOT_INITIALIZED hip::hipError_t::hipErrorNotInitialized;
        DEINITIALIZED hip::hipError_t::hipErrorDeinitialized;
        INVALID_CONFIGURATION hip::hipError_t::hipErrorInvalidConfiguration;
        INVALID_DEVICE_POINTER hip::hipError_t::hipErrorInvalidDevicePointer;
        INVALID_MEMCPY_DIRECTION hip::hipError_t::hipErrorInvalidMemcpyDirection;
        PRIOR_LAUNCH_FAILURE hip::hipError_t::hipErrorPriorLaunchFailure;
        INVALID_DEVICE_FUNCTION hip::hipError_t::hipErrorInvalidDeviceFunction;
        NO_DEVICE hip::hipError_t::hipErrorNoDevice;
        INVALID_DEVICE hip::hipError_t::hipErrorInvalidDevice;
        INVALID_IMAGE hip::hipError_t::hipErrorInvalidImage;
        INVALID_CONTEXT hip::hipError_t::hipErrorInvalidContext;
        NO_BINARY_FOR_GPU hip::hipError_t::hipErrorNoBinaryForGpu;
        ECC_NOT_CORRECTABLE hip::hipError_t::hipErrorECCNotCorrectable;
        OPERATING_SYSTEM hip::hipError_t::hipErrorOperatingSystem;
        INVALID_HANDLE hip::hipError_t::hipErrorInvalidHandle;
        ILLEGAL_STATE hip::hipError_t::hipErrorIllegalState;
        NOT_FOUND hip::hipError_t::hipErrorNotFound;
        NOT_READY hip::hipError_t::hipErrorNotReady;
        ILLEGAL_ADDRESS hip::hipError_t::hipErrorIllegalAddress;
        LAUNCH_OUT_OF_RESOURCES hip::hipError_t::hipErrorLaunchOutOfResources;
        LAUNCH_TIMED_OUT hip::hipError_t::hipErrorLaunchTimeOut;
        CONTEXT_IS_DESTROYED hip::hipError_t::hipErrorContextIsDestroyed;
        ASSERT hip::hipError_t::hipErrorAssert;
        HOST_MEMORY_ALREADY_REGISTERED hip::hipError_t::hipErrorHostMemoryAlreadyRegistered;
        HOST_MEMORY_NOT_REGISTERED hip::hipError_t::hipErrorHostMemoryNotRegistered;
        LAUNCH_FAILURE hip::hipError_t::hipErrorLaunchFailure;
        NOT_SUPPORTED hip::hipError_t::hipErrorNotSupported;
        STREAM_CAPTURE_UNSUPPORTED hip::hipError_t::hipErrorStreamCaptureUnsupported;
        STREAM_CAPTURE_WRONG_THREAD hip::hipError_t::hipErrorStreamCaptureWrongThread;
        UNKNOWN hip::hipError_t::hipErrorUnknown;
        ATTRIBUTE_MULTIPROCESSOR_COUNT
            hip::hipDeviceAttribute_t::hipDeviceAttributeMultiprocessorCount;
        CAPTURE_NONE hip::hipStreamCaptureStatus::hipStreamCaptureStatusNone;
        CAPTURE_THREAD_LOCAL hip::hipStreamCaptureMode::hipStreamCaptureModeThreadLocal;
        MEMCPY_HOST_TO_HOST hip::hipMemcpyKind::hipMemcpyHostToHost;
        MEMCPY_HOST_TO_DEVICE hip::hipMemcpyKind::hipMemcpyHostToDevice;
        MEMCPY_DEVICE_TO_HOST hip::hipMemcpyKind::hipMemcpyDeviceToHost;
        MEMCPY_DEVICE_TO_DEVICE hip::hipMemcpyKind::hipMemcpyDeviceToDevice;
        MEMCPY_DEFAULT hip::hipMemcpyKind::hipMemcpyDefault;
        STREAM_NON_BLOCKING hip::hipStreamNonBlocking;
        WAIT_EQUAL hip::hipStreamWaitValueEq;
        EVENT_DEFAULT hip::hipEventDefault;
        HOST_MALLOC_PORTABLE hip::hipHostMallocPortable;
        HOST_MALLOC_MAPPED hip::hipHostMallocMapped;
        HOST_MALLOC_COHERENT hip::hipHostMallocCoherent;
        HOST_MALLOC_NON_COHERENT hip::hipHostMallocNonCoherent;
        HOST_REGISTER_PORTABLE hip::hipHostRegisterPortable;
        HOST_REGISTER_MAPPED hip::hipHostRegisterMapped;
        MALLOC_SIGNAL hip::hipMallocSignalMemory;
        MALLOC_FINE_GRAINED hip::hipDeviceMallocFinegrained;
    }
}
