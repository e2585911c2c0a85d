//! Answers that CUDA and HIP share.

use std::fmt::Debug;

macro_rules! codes {
    ($($name:ident = $number:literal, $error:literal, $text:literal;)+) => {
        $(#[doc = concat!($text, ".")]
          pub const $name: u32 = $number;)+

        /// Each answer's number, its name in CUDA, and what it says.
        pub const ALL: &[(u32, &str, &str)] = &[$(($number, $error, $text)),+];
    };
}

codes! {
    SUCCESS = 0, "CUDA_SUCCESS", "no error";
    INVALID_VALUE = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error";
    INVALID_CONFIGURATION = 9, "CUDA_ERROR_UNKNOWN", "invalid configuration";
    NO_DEVICE = 100, "CUDA_ERROR_NO_DEVICE", "no device is detected";
    INVALID_DEVICE = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    INVALID_IMAGE = 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    NO_BINARY = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for this device";
    INVALID_PTX = 218, "CUDA_ERROR_INVALID_PTX", "a PTX compilation failed";
    FILE_NOT_FOUND = 301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    INVALID_HANDLE = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "CUDA_ERROR_ILLEGAL_STATE", "not allowed in the current state";
    LOSSY_QUERY = 402, "CUDA_ERROR_LOSSY_QUERY", "the answer has no room for data of edges";
    NOT_FOUND = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "CUDA_ERROR_NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access happened";
    TOO_LARGE = 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources for a launch";
    PRIMARY_ACTIVE = 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "the primary context is active";
    CONTEXT_DESTROYED = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is destroyed";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        "part or all of the memory is registered already";
    HOST_MEMORY_NOT_REGISTERED = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        "the memory is not registered";
    ILLEGAL_INSTRUCTION = 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "an illegal instruction was carried out";
    LAUNCH_FAILURE = 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure";
    NOT_PERMITTED = 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NOT_SUPPORTED = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "not permitted when a stream is captured";
    STREAM_CAPTURE_INVALIDATED = 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        "the capture failed before";
    STREAM_CAPTURE_MERGE = 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
        "two captures would become one";
    STREAM_CAPTURE_UNMATCHED = 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        "the capture did not begin in this stream";
    STREAM_CAPTURE_UNJOINED = 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        "the capture has a fork that was not joined";
    STREAM_CAPTURE_ISOLATION = 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        "the capture would depend on what is not captured";
    STREAM_CAPTURE_IMPLICIT = 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        "the legacy stream would wait for a captured one";
    CAPTURED_EVENT = 907, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture";
    STREAM_CAPTURE_WRONG_THREAD = 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        "the capture began on another thread";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
        "the graph cannot be updated so";
    UNKNOWN = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

/// Answer of a call: nothing worth mentioning, or a code that is not 0.
pub type Answer<T = ()> = Result<T, u32>;

/// Fails with an error unless something holds.
///
/// # Errors
/// The error.
pub fn ensure(holds: bool, error: impl Into<u32> + Debug) -> Answer {
    if holds { Ok(()) } else { Err(error.into()) }
}
