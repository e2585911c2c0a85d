//! Interposers that are preloaded, by functions that they export.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use xsched_hal_hip::loaded;

/// The function by which an interposer hears of XQueues that the program makes: the stream, and the
/// XQueue, or 0 before there is one. 1 if the interposer hands launches into the stream over.
type Adopt = unsafe extern "C" fn(*mut c_void, u64) -> c_int;

/// The interposer of a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interposer {
    Cuda,
    Hip,
}

impl Interposer {
    const ALL: [Self; 2] = [Self::Cuda, Self::Hip];

    /// Returns whether one of any vendor is preloaded.
    pub(crate) fn is_preloaded() -> bool {
        Self::ALL.iter().any(|one| one.function().is_some())
    }

    /// Has it hand over what is launched into a stream to the XQueue that the program has made for
    /// it, or if `xq` is 0 is about to make, whatever the environment says. It also says where the
    /// driver is: without that, CUDA's interposer, which has the driver's name, would be taken for
    /// the driver. False if launches are not handed over.
    pub(crate) fn adopt(self, stream: usize, xq: u64) -> bool {
        let stream = std::ptr::with_exposed_provenance_mut(stream);
        // SAFETY: any stream and number may be given.
        self.function().is_some_and(|adopt| unsafe { adopt(stream, xq) } != 0)
    }

    fn function(self) -> Option<Adopt> {
        static OF_CUDA: OnceLock<Option<Adopt>> = OnceLock::new();
        static OF_HIP: OnceLock<Option<Adopt>> = OnceLock::new();
        let (function, name): (_, &CStr) = match self {
            Self::Cuda => (&OF_CUDA, c"xsched_shim_cuda_adopt"),
            Self::Hip => (&OF_HIP, c"xsched_shim_hip_adopt"),
        };
        *function.get_or_init(|| {
            let symbol = loaded::symbol(name, std::ptr::null())?;
            // SAFETY: only the interposer exports this name, with this signature.
            Some(unsafe { std::mem::transmute::<*mut c_void, Adopt>(symbol.address) })
        })
    }
}
