//! CUDA's own commands.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use crate::error::CudaError;
use crate::table::{CuDevicePtr, CuFunction, CuGraphExec, CuStream};

/// Bytes of parameters that a [`CudaKernel`] has room for.
pub const PARAMETERS_MAX: usize = 64;

/// A kernel with its grid and parameters.
#[derive(Clone, Copy)]
pub struct CudaKernel {
    pub(crate) function: CuFunction,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    parameters: Parameters,
}

#[derive(Clone, Copy)]
#[repr(align(16))]
struct Parameters {
    bytes: [u8; PARAMETERS_MAX],
    used: usize,
}

impl fmt::Debug for CudaKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("CudaKernel");
        out.field("function", &self.function).field("grid", &self.grid);
        out.field("block", &self.block).finish_non_exhaustive()
    }
}

impl CudaKernel {
    /// A kernel without parameters.
    ///
    /// # Safety
    /// The function belongs to the device's context, its module stays loaded, and running it with
    /// the parameters that are added harms nothing.
    #[must_use]
    pub const unsafe fn new(function: CuFunction, grid: [u32; 3], block: [u32; 3]) -> Self {
        let parameters = Parameters { bytes: [0; PARAMETERS_MAX], used: 0 };
        Self { function, grid, block, shared_bytes: 0, parameters }
    }

    /// Dynamic shared memory, in bytes.
    #[must_use]
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Adds a parameter, aligned as C does it.
    ///
    /// # Errors
    /// [`CudaError::LongParameters`].
    pub fn parameter<T: Copy>(mut self, value: T) -> Result<Self, CudaError> {
        let at = self.parameters.used.next_multiple_of(align_of::<T>());
        let end = at + size_of::<T>();
        if end > PARAMETERS_MAX || align_of::<T>() > 16 {
            return Err(CudaError::LongParameters { bytes: end, max: PARAMETERS_MAX });
        }
        // SAFETY: it fits, and the place is aligned since the buffer is aligned to 16.
        unsafe { self.parameters.bytes.as_mut_ptr().add(at).cast::<T>().write(value) };
        self.parameters.used = end;
        Ok(self)
    }

    pub(crate) const fn parameters(&self) -> (*const c_void, usize) {
        (self.parameters.bytes.as_ptr().cast(), self.parameters.used)
    }
}

/// Something that launches itself, such as an executable graph with gates.
pub(crate) trait Executable: fmt::Debug + Send + Sync {
    /// Launches it.
    ///
    /// # Safety
    /// The stream is alive and of the same context, which is current.
    unsafe fn launch(&self, stream: CuStream) -> Result<(), CudaError>;
}

/// A command that is launched without a closure: a kernel, a graph, a copy or a fill.
///
/// Its pointers and handles are alive until it has run. The caller of the unsafe function that made
/// it promised so: [`CudaKernel::new`], or one of those below.
#[derive(Clone, Debug)]
pub struct CudaCommand(pub(crate) Body);

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Kernel(CudaKernel),
    Copy { to: CuDevicePtr, from: CuDevicePtr, bytes: usize },
    Fill { to: CuDevicePtr, value: u32, words: usize },
    Graph(CuGraphExec),
    Exec(Arc<dyn Executable>),
}

impl CudaCommand {
    /// A kernel.
    #[must_use]
    pub const fn kernel(kernel: CudaKernel) -> Self {
        Self(Body::Kernel(kernel))
    }

    /// A copy, `cuMemcpyAsync`.
    ///
    /// # Safety
    /// Both areas are alive until it has run, and used by nothing else meanwhile. Host memory is
    /// page-locked, or the launch blocks.
    #[must_use]
    pub const unsafe fn copy(to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> Self {
        Self(Body::Copy { to, from, bytes })
    }

    /// Fills 32-bit words, `cuMemsetD32Async`.
    ///
    /// # Safety
    /// The area is alive until it has run, and used by nothing else meanwhile.
    #[must_use]
    pub const unsafe fn fill(to: CuDevicePtr, value: u32, words: usize) -> Self {
        Self(Body::Fill { to, value, words })
    }

    /// An executable graph of the caller's, as one command. It is launched on one thread at a time,
    /// as long as no other queue or thread gets it.
    ///
    /// # Safety
    /// The command belongs to the device's context and is alive until it has run, as is what it
    /// uses.
    #[must_use]
    pub const unsafe fn graph(graph: CuGraphExec) -> Self {
        Self(Body::Graph(graph))
    }
}
