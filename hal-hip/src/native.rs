//! Commands that are launched without a closure.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt::Debug;
use std::ptr;
use std::sync::Arc;

use xsched_hal_stream::Reach;

use crate::arguments::Arguments;
use crate::driver::HipStream;
use crate::error::HipError;
use crate::function::HipFunction;
use crate::library::HipLibrary;
use crate::raw;

/// From where to where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Within the host's memory.
    HostToHost,
    /// To the device.
    HostToDevice,
    /// From the device.
    DeviceToHost,
    /// Within the device's memory, or between devices.
    DeviceToDevice,
    /// As the addresses say.
    ByAddress,
}

impl Direction {
    const fn kind(self) -> c_uint {
        match self {
            Self::HostToHost => raw::MEMCPY_HOST_TO_HOST,
            Self::HostToDevice => raw::MEMCPY_HOST_TO_DEVICE,
            Self::DeviceToHost => raw::MEMCPY_DEVICE_TO_HOST,
            Self::DeviceToDevice => raw::MEMCPY_DEVICE_TO_DEVICE,
            Self::ByAddress => raw::MEMCPY_DEFAULT,
        }
    }
}

/// A command: a kernel, a graph, a fill or a copy. Launching it allocates nothing.
#[derive(Clone, Debug)]
pub struct HipNative(Kind);

/// Something that launches itself, such as a graph.
pub(crate) trait Executable: Debug + Send + Sync {
    /// Launches it.
    ///
    /// # Safety
    /// The stream is alive, and its device is that of this and current.
    unsafe fn launch(&self, library: &HipLibrary, stream: HipStream) -> Result<(), HipError>;

    /// Queues of the hardware that it goes into.
    fn reach(&self) -> Reach;
}

#[derive(Clone, Debug)]
enum Kind {
    Kernel { function: HipFunction, shape: Shape, arguments: Passed },
    Cooperative { function: HipFunction, shape: Shape, arguments: Box<Arguments> },
    Graph(Arc<dyn Executable>),
    Fill { to: usize, value: u8, bytes: usize },
    Copy { to: usize, from: usize, bytes: usize, direction: Direction },
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

/// How arguments reach the kernel.
#[derive(Clone, Debug)]
enum Passed {
    /// Each by its address.
    Inline(Box<Arguments>),
    /// As the block that the kernel sees.
    Packed(Arc<[u8]>),
}

impl HipNative {
    /// A kernel in `grid` blocks of `block` work-items, with these bytes of dynamic shared
    /// memory.
    ///
    /// # Safety
    /// Whenever it is launched, and until it has run: the arguments are those that the kernel
    /// takes, in number, size and order, and it may read and write where those that are addresses
    /// lead it.
    #[must_use]
    pub unsafe fn kernel(
        function: &HipFunction,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        arguments: Arguments,
    ) -> Self {
        let shape = Shape { grid, block, shared_bytes };
        let arguments = Passed::Inline(Box::new(arguments));
        Self(Kind::Kernel { function: function.clone(), shape, arguments })
    }

    /// As [`HipNative::kernel`], with the arguments as one block, laid out as the kernel sees them.
    ///
    /// # Safety
    /// As for [`HipNative::kernel`], and the block is laid out in that way.
    #[must_use]
    pub unsafe fn kernel_with_block(
        function: &HipFunction,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        arguments: Arc<[u8]>,
    ) -> Self {
        let shape = Shape { grid, block, shared_bytes };
        let arguments = Passed::Packed(arguments);
        Self(Kind::Kernel { function: function.clone(), shape, arguments })
    }

    /// As [`HipNative::kernel`], with all blocks on the device at once, so that they may wait for
    /// each other. The runtime refuses the launch if they do not fit, or if the device has no such
    /// launches. It carries them out in a hardware ring of its own, not in the stream's.
    ///
    /// # Safety
    /// As for [`HipNative::kernel`].
    #[must_use]
    pub unsafe fn cooperative_kernel(
        function: &HipFunction,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        arguments: Arguments,
    ) -> Self {
        let shape = Shape { grid, block, shared_bytes };
        let arguments = Box::new(arguments);
        Self(Kind::Cooperative { function: function.clone(), shape, arguments })
    }

    pub(crate) const fn executable(executable: Arc<dyn Executable>) -> Self {
        Self(Kind::Graph(executable))
    }

    /// Sets `bytes` bytes of the device's memory to `value`.
    ///
    /// # Safety
    /// Whenever it is launched, and until it has run, the memory may be written to.
    #[must_use]
    pub unsafe fn fill(to: *mut c_void, value: u8, bytes: usize) -> Self {
        Self(Kind::Fill { to: to.expose_provenance(), value, bytes })
    }

    /// Copies `bytes` bytes. Memory of the host should be page-locked (`hipHostMalloc`,
    /// `hipHostRegister`): the launch call may wait for other copies otherwise, or for the device.
    ///
    /// # Safety
    /// Whenever it is launched, and until it has run, the one may be read and the other written,
    /// and they are where `direction` says.
    #[must_use]
    pub unsafe fn copy(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        direction: Direction,
    ) -> Self {
        let (to, from) = (to.expose_provenance(), from.expose_provenance());
        Self(Kind::Copy { to, from, bytes, direction })
    }

    /// Queues of the hardware that it goes into. Fills are kernels.
    pub(crate) fn reach(&self) -> Reach {
        match &self.0 {
            Kind::Kernel { .. } | Kind::Fill { .. } => Reach::Ring,
            Kind::Copy { .. } => Reach::Copies,
            Kind::Cooperative { .. } => Reach::All,
            Kind::Graph(graph) => graph.reach(),
        }
    }

    /// Launches it.
    ///
    /// # Safety
    /// The stream is alive, and its device is the function's and current.
    pub(crate) unsafe fn launch(
        &self,
        library: &HipLibrary,
        stream: HipStream,
    ) -> Result<(), HipError> {
        let table = library.table();
        match &self.0 {
            Kind::Kernel { function, shape, arguments } => {
                // SAFETY: the caller promises what is asked for.
                unsafe { launch_kernel(library, function, *shape, arguments, stream) }
            }
            Kind::Cooperative { function, shape, arguments } => {
                // SAFETY: the caller promises what is asked for.
                unsafe { launch_together(library, function, *shape, arguments, stream) }
            }
            // SAFETY: the caller promises what is asked for.
            Kind::Graph(graph) => unsafe { graph.launch(library, stream) },
            Kind::Fill { to, value, bytes } => {
                let to = ptr::with_exposed_provenance_mut(*to);
                // SAFETY: the maker of the command promised that it may be written to.
                let code = unsafe {
                    (table.hipMemsetAsync)(to, c_int::from(*value), *bytes, stream.as_raw())
                };
                HipError::check("hipMemsetAsync", code)
            }
            Kind::Copy { to, from, bytes, direction } => {
                let to = ptr::with_exposed_provenance_mut(*to);
                let from = ptr::with_exposed_provenance(*from);
                let (kind, stream) = (direction.kind(), stream.as_raw());
                // SAFETY: the maker of the command promised that they may be written to and read.
                let code = unsafe { (table.hipMemcpyAsync)(to, from, *bytes, kind, stream) };
                HipError::check("hipMemcpyAsync", code)
            }
        }
    }
}

/// Launches a kernel. The runtime copies the arguments before it returns.
///
/// # Safety
/// The stream is alive, and its device is the function's and current.
unsafe fn launch_kernel(
    library: &HipLibrary,
    function: &HipFunction,
    shape: Shape,
    arguments: &Passed,
    stream: HipStream,
) -> Result<(), HipError> {
    let launch = |parameters: *mut *mut c_void, extra: *mut *mut c_void| {
        let function = ptr::with_exposed_provenance_mut(function.function);
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        let (shared, stream) = (shape.shared_bytes, stream.as_raw());
        let call = library.table().hipModuleLaunchKernel;
        // SAFETY: the function's module is loaded, the stream is alive, and the maker of the
        // command promised that the arguments are those of the kernel. One of the two ways to pass
        // them is null.
        unsafe { call(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra) }
    };
    let code = match arguments {
        Passed::Inline(arguments) => {
            let mut pointers = arguments.pointers();
            launch(pointers.as_mut_ptr(), ptr::null_mut())
        }
        Passed::Packed(block) => {
            let mut bytes = block.len();
            let mut extra: [*mut c_void; 5] = [
                ptr::without_provenance_mut(raw::LAUNCH_PARAM_BUFFER_POINTER),
                block.as_ptr().cast_mut().cast(),
                ptr::without_provenance_mut(raw::LAUNCH_PARAM_BUFFER_SIZE),
                (&raw mut bytes).cast(),
                ptr::without_provenance_mut(raw::LAUNCH_PARAM_END),
            ];
            launch(ptr::null_mut(), extra.as_mut_ptr())
        }
    };
    HipError::check("hipModuleLaunchKernel", code)
}

/// Launches a kernel with all blocks on the device at once.
///
/// # Safety
/// The stream is alive, and its device is the function's and current.
unsafe fn launch_together(
    library: &HipLibrary,
    function: &HipFunction,
    shape: Shape,
    arguments: &Arguments,
    stream: HipStream,
) -> Result<(), HipError> {
    let symbol = "hipModuleLaunchCooperativeKernel";
    let call = library.table().hipModuleLaunchCooperativeKernel;
    let call = call.ok_or(HipError::Lacks { symbol, what: "cooperative launches" })?;
    let function = ptr::with_exposed_provenance_mut(function.function);
    let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
    let mut pointers = arguments.pointers();
    let (shared, stream, parameters) = (shape.shared_bytes, stream.as_raw(), pointers.as_mut_ptr());
    // SAFETY: the function's module is loaded, the stream is alive, and the maker of the command
    // promised that the arguments are those of the kernel.
    let code = unsafe { call(function, gx, gy, gz, bx, by, bz, shared, stream, parameters) };
    HipError::check(symbol, code)
}
