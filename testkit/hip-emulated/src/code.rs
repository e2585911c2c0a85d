//! HIP's answers.

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const INVALID_CONFIGURATION: u32 = 9;
pub(crate) const NO_DEVICE: u32 = 100;
pub(crate) const INVALID_DEVICE: u32 = 101;
pub(crate) const INVALID_IMAGE: u32 = 200;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const ILLEGAL_STATE: u32 = 401;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const HOST_MEMORY_ALREADY_REGISTERED: u32 = 712;
pub(crate) const HOST_MEMORY_NOT_REGISTERED: u32 = 713;
pub(crate) const LAUNCH_FAILURE: u32 = 719;
pub(crate) const STREAM_CAPTURE_UNSUPPORTED: u32 = 900;
pub(crate) const STREAM_CAPTURE_INVALIDATED: u32 = 901;

/// What a call does: nothing worth mentioning, or an answer that is not 0.
pub(crate) type Answer<T = ()> = Result<T, u32>;
