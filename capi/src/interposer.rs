//! Interposers that are preloaded, by functions that they export.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use xsched_hal_hip::loaded;

/// The function by which an interposer hears of XQueues that the program makes: the stream, and the
/// XQueue, or 0 before there is one. 1 if the interposer hands launches into the stream over.
type Adopt = unsafe extern "C" fn(*mut c_void, u64) -> c_int;
/// The function by which it hears that such an XQueue is not there any more.
type Disown = unsafe extern "C" fn(u64);

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
        Self::ALL.iter().any(|one| one.functions().is_some())
    }

    /// Has it hand over what is launched into a stream to the XQueue that the program has made for
    /// it, or if `xq` is 0 is about to make, whatever the environment says. It also says where the
    /// driver is: without that, CUDA's interposer, which has the driver's name, would be taken for
    /// the driver. False if launches are not handed over.
    pub(crate) fn adopt(self, stream: usize, xq: u64) -> bool {
        let stream = std::ptr::with_exposed_provenance_mut(stream);
        // SAFETY: any stream and number may be given.
        self.functions().is_some_and(|(adopt, _)| unsafe { adopt(stream, xq) } != 0)
    }

    /// Tells it that an XQueue of the program's is not there any more.
    pub(crate) fn disown(self, xq: u64) {
        if let Some((_, disown)) = self.functions() {
            // SAFETY: any number may be given.
            unsafe { disown(xq) };
        }
    }

    fn functions(self) -> Option<(Adopt, Disown)> {
        static OF_CUDA: OnceLock<Option<(Adopt, Disown)>> = OnceLock::new();
        static OF_HIP: OnceLock<Option<(Adopt, Disown)>> = OnceLock::new();
        let (functions, adopt, disown): (_, &CStr, &CStr) = match self {
            Self::Cuda => (&OF_CUDA, c"xsched_shim_cuda_adopt", c"xsched_shim_cuda_disown"),
            Self::Hip => (&OF_HIP, c"xsched_shim_hip_adopt", c"xsched_shim_hip_disown"),
        };
        *functions.get_or_init(|| {
            let adopt = loaded::symbol(adopt, std::ptr::null())?.address;
            let disown = loaded::symbol(disown, std::ptr::null())?.address;
            // SAFETY: only the interposer exports this name, with this signature.
            let adopt = unsafe { std::mem::transmute::<*mut c_void, Adopt>(adopt) };
            // SAFETY: see above.
            Some((adopt, unsafe { std::mem::transmute::<*mut c_void, Disown>(disown) }))
        })
    }
}
