//! What there is once per process: devices, handles, kernels, and errors on demand.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::code::{Answer, INVALID_HANDLE, NO_DEVICE};
use crate::device::Device;
use crate::event::Event;
use crate::memory::Memory;
use crate::ring::{Kernel, Work};
use crate::stream::Stream;

/// Devices that there can be.
pub(crate) const DEVICES_MAX: u32 = 256;

/// A kernel that was made known.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) kernel: Kernel,
    /// The sizes of its arguments in bytes.
    pub(crate) sizes: Arc<[usize]>,
}

/// A function of a module.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) device: &'static Device,
    pub(crate) known: Known,
    /// Its module's handle.
    module: usize,
}

/// A captured row of commands.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) device: &'static Device,
    pub(crate) row: Arc<[Work]>,
}

/// What a handle stands for.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Stream(Arc<Stream>),
    Event(Arc<Event>),
    Module(&'static Device),
    Function(Function),
    Graph(Arc<Captured>),
    Exec(Arc<Captured>),
}

#[derive(Debug)]
pub(crate) struct Runtime {
    devices: Vec<Device>,
    visible: AtomicU32,
    pub(crate) memory: Memory,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// Handles given out. None is used twice.
    handles: usize,
    objects: HashMap<usize, Object>,
    kernels: HashMap<String, Known>,
    /// Errors on demand: by the call, the answer and how often.
    failures: HashMap<String, (u32, u32)>,
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    crate::kfd::start();
    Runtime {
        devices: (0..DEVICES_MAX).map(Device::new).collect(),
        visible: AtomicU32::new(1),
        memory: Memory::default(),
        tables: Mutex::default(),
    }
});

/// The runtime, which the first call of any of HIP's functions initialises.
pub(crate) fn runtime() -> &'static Runtime {
    &RUNTIME
}

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

impl Runtime {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn visible(&self) -> u32 {
        self.visible.load(Ordering::Acquire)
    }

    pub(crate) fn set_visible(&self, count: u32) {
        self.visible.store(count.min(DEVICES_MAX), Ordering::Release);
    }

    /// A device by its number.
    pub(crate) fn device(&'static self, ordinal: u32) -> Option<&'static Device> {
        self.devices.get(ordinal as usize).filter(|_| ordinal < self.visible())
    }

    /// The thread's device.
    pub(crate) fn current(&'static self) -> Answer<&'static Device> {
        self.device(CURRENT.get()).ok_or(NO_DEVICE)
    }

    pub(crate) fn set_current(&self, ordinal: u32) {
        CURRENT.set(ordinal);
    }

    /// Gives an object a handle.
    pub(crate) fn add(&self, object: Object) -> usize {
        let mut tables = self.tables();
        tables.handles += 1;
        let handle = 0x4000_0000 + tables.handles * 64;
        tables.objects.insert(handle, object);
        handle
    }

    pub(crate) fn object(&self, handle: usize) -> Answer<Object> {
        self.tables().objects.get(&handle).cloned().ok_or(INVALID_HANDLE)
    }

    /// Forgets a handle, and a module's functions with it.
    pub(crate) fn forget(&self, handle: usize) {
        let mut tables = self.tables();
        tables.objects.remove(&handle);
        tables.objects.retain(|_, object| match object {
            Object::Function(function) => function.module != handle,
            _ => true,
        });
    }

    /// Handles of streams, events, modules and graphs.
    pub(crate) fn handles(&self) -> usize {
        let tables = self.tables();
        let counts = |object: &&Object| !matches!(object, Object::Function(_));
        tables.objects.values().filter(counts).count()
    }

    /// A stream by its handle; 0 and 1 are the current device's default stream.
    pub(crate) fn stream(&'static self, handle: usize) -> Answer<Arc<Stream>> {
        if handle <= 1 {
            return self.current()?.default_stream();
        }
        match self.object(handle)? {
            Object::Stream(stream) => Ok(stream),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn event(&self, handle: usize) -> Answer<Arc<Event>> {
        match self.object(handle)? {
            Object::Event(event) => Ok(event),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn module(&self, handle: usize) -> Answer<&'static Device> {
        match self.object(handle)? {
            Object::Module(device) => Ok(device),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn function(&self, handle: usize) -> Answer<Function> {
        match self.object(handle)? {
            Object::Function(function) => Ok(function),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn graph(&self, handle: usize) -> Answer<Arc<Captured>> {
        match self.object(handle)? {
            Object::Graph(graph) => Ok(graph),
            _ => Err(INVALID_HANDLE),
        }
    }

    pub(crate) fn exec(&self, handle: usize) -> Answer<Arc<Captured>> {
        match self.object(handle)? {
            Object::Exec(exec) => Ok(exec),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// A handle for a kernel of a module.
    pub(crate) fn add_function(
        &self,
        device: &'static Device,
        module: usize,
        name: &str,
    ) -> Option<usize> {
        let registered = self.tables().kernels.get(name).cloned();
        let known =
            registered.or_else(|| crate::spin::known(name)).or_else(|| crate::work::known(name))?;
        Some(self.add(Object::Function(Function { device, known, module })))
    }

    pub(crate) fn add_kernel(&self, name: String, known: Known) {
        self.tables().kernels.insert(name, known);
    }

    /// A kernel by its function.
    pub(crate) fn kernel_at(&self, address: usize) -> Option<Known> {
        let tables = self.tables();
        tables.kernels.values().find(|known| known.kernel as usize == address).cloned()
    }

    pub(crate) fn fail(&self, call: String, code: u32, times: u32) {
        self.tables().failures.insert(call, (code, times));
    }

    /// The error that a test has injected, if the call is to fail.
    pub(crate) fn demanded(&self, call: &str) -> Answer {
        let mut tables = self.tables();
        let Some((code, times)) = tables.failures.get_mut(call) else { return Ok(()) };
        if *times == 0 {
            return Ok(());
        }
        *times -= 1;
        Err(*code)
    }
}
