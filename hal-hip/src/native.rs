//! Commands that are launched without a closure, and where kernels come from.

use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use crate::api::{HipApi, HipStream};
use crate::arguments::Arguments;
use crate::error::HipError;
use crate::graph::HipGraph;
use crate::library::HipLibrary;
use crate::raw;
use crate::raw::Handle;

/// A module of kernels that is loaded on a device, until the last clone and the last of its
/// functions are gone.
///
/// Load modules before anything is held: loading and unloading may wait for the device.
#[derive(Clone, Debug)]
pub struct HipModule(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    library: Arc<HipLibrary>,
    module: usize,
}

impl HipModule {
    /// Loads a code object, a bundle of them, or whatever else the runtime takes, on a device.
    ///
    /// # Errors
    /// If the runtime refuses it.
    ///
    /// # Safety
    /// It is complete and well-formed: the runtime learns its length from what is in it.
    pub unsafe fn load(api: &HipApi, image: &[u8]) -> Result<Self, HipError> {
        let _entered = api.enter_device()?;
        let library = Arc::clone(api.library());
        let mut module: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to; the caller promises that the image is one.
        let code =
            unsafe { (library.table().hipModuleLoadData)(&raw mut module, image.as_ptr().cast()) };
        HipError::check("hipModuleLoadData", code)?;
        Ok(Self(Arc::new(Loaded { library, module: module.expose_provenance() })))
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn function(&self, name: &str) -> Result<HipFunction, HipError> {
        let name = CString::new(name).map_err(|_| HipError::KernelName)?;
        let Loaded { library, module } = &*self.0;
        let mut function: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to, the module is loaded, and the name ends with zero.
        let code = unsafe {
            (library.table().hipModuleGetFunction)(
                &raw mut function,
                ptr::with_exposed_provenance_mut(*module),
                name.as_ptr(),
            )
        };
        HipError::check("hipModuleGetFunction", code)?;
        Ok(HipFunction {
            function: function.expose_provenance(),
            _module: Some(Arc::clone(&self.0)),
        })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let module = ptr::with_exposed_provenance_mut(self.module);
        // SAFETY: it was loaded, and nothing refers to it any more. There is nothing to be done
        // about an error.
        let _ = unsafe { (self.library.table().hipModuleUnload)(module) };
    }
}

/// A kernel. Keeps its module loaded.
#[derive(Clone, Debug)]
pub struct HipFunction {
    function: usize,
    _module: Option<Arc<Loaded>>,
}

impl HipFunction {
    /// A kernel that other code has loaded, by its `hipFunction_t`.
    ///
    /// # Safety
    /// It is one, and its module stays loaded as long as the answer, all its clones and all
    /// commands that were made with it.
    #[must_use]
    pub unsafe fn from_raw(function: Handle) -> Self {
        Self { function: function.expose_provenance(), _module: None }
    }
}

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
    /// Whatever the addresses say.
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

#[derive(Clone, Debug)]
enum Kind {
    Kernel { function: HipFunction, shape: Shape, arguments: Passed },
    Cooperative { function: HipFunction, shape: Shape, arguments: Box<Arguments> },
    Graph(HipGraph),
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
    /// A kernel in `grid` blocks of `block` work-items, with so many bytes of dynamic shared
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

    /// A graph as one command.
    #[must_use]
    pub const fn graph(graph: HipGraph) -> Self {
        Self(Kind::Graph(graph))
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
