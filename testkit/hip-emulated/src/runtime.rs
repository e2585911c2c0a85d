//! State of the process: devices, handles, kernels, and errors on demand.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::env;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use xsched_emulated_device::code::{Answer, INVALID_HANDLE, NO_DEVICE};
use xsched_emulated_device::{Device, Event, Handles, Kind, Memory, Place, Stream, Work, finders};

use crate::graph::{Captured, Executable};
use crate::kfd::Queue;

/// A kernel: gets the block of its arguments, and answers 0 or its error.
pub(crate) type Kernel = extern "C" fn(*const u8) -> u32;

/// Priorities: the least and the most urgent.
pub(crate) const PRIORITIES: (i32, i32) = (1, -1);

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
    /// Module's handle.
    module: usize,
}

/// Object behind a handle.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Stream(Arc<Stream>),
    Event(Arc<Event>),
    Module(&'static Device),
    Function(Function),
    Graph(Arc<Captured>),
    Exec(Arc<Executable>),
}

#[derive(Debug)]
pub(crate) struct Runtime {
    devices: Vec<Device>,
    visible: AtomicU32,
    pub(crate) memory: Memory,
    objects: Handles<Object>,
    tables: Mutex<Tables>,
    unseen_ends: AtomicU64,
}

#[derive(Debug, Default)]
struct Tables {
    kernels: HashMap<String, Known>,
    /// Errors on demand: by the call, the answer and how often.
    failures: HashMap<String, (u32, u32)>,
    /// The names of kernels by the functions that stand for them in programs.
    stubs: HashMap<usize, String>,
    /// How often functions were called.
    calls: HashMap<&'static str, u64>,
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    crate::kfd::start();
    let rings = env::var("GPU_MAX_HW_QUEUES").ok();
    let rings = rings.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(4).max(1);
    let visible = env::var("XSCHED_EMULATED_DEVICES").ok();
    let visible = visible.and_then(|text| text.trim().parse().ok()).unwrap_or(1);
    let devices = (0..DEVICES_MAX).map(|ordinal| Device::new(ordinal, rings, Queue::create));
    Runtime {
        devices: devices.collect(),
        visible: AtomicU32::new(visible.min(DEVICES_MAX)),
        memory: Memory::default(),
        objects: Handles::default(),
        tables: Mutex::default(),
        unseen_ends: AtomicU64::new(0),
    }
});

/// The runtime, which the first call of any of HIP's functions initialises.
pub(crate) fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// Launches something. Kernels, fills and copies can be captured, and of the rest only records of
/// events and waits for them, which go another way.
pub(crate) fn launch(stream: &Arc<Stream>, kind: Kind, work: Work) -> Answer {
    stream.device.check()?;
    if !matches!(kind, Kind::Kernel | Kind::Fill | Kind::Copy) {
        stream.check_not_captured()?;
    }
    stream.launch(kind, work)
}

thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(0) };
    /// Default streams of this thread, by their devices.
    static STREAMS: RefCell<HashMap<u32, PerThread>> = RefCell::new(HashMap::new());
}

/// `hipStreamPerThread`.
const PER_THREAD: usize = 2;

/// A thread's default stream, which ends with it.
#[derive(Debug)]
struct PerThread(Arc<Stream>);

impl Drop for PerThread {
    fn drop(&mut self) {
        self.0.device.close_stream(&self.0);
    }
}

/// The handle of a stream whose null is the default stream of the thread.
pub(crate) fn of_thread(stream: usize) -> usize {
    if stream == 0 { PER_THREAD } else { stream }
}

fn stream_of_thread(device: &'static Device) -> Answer<Arc<Stream>> {
    STREAMS.with_borrow_mut(|streams| match streams.entry(device.ordinal) {
        Entry::Occupied(there) => Ok(Arc::clone(&there.get().0)),
        Entry::Vacant(place) => {
            let made = device.open_stream(0, 0, Place::Shared)?;
            Ok(Arc::clone(&place.insert(PerThread(made)).0))
        }
    })
}

/// A kernel that this library has.
fn builtin(name: &str) -> Option<Known> {
    crate::spin::known(name).or_else(|| crate::work::known(name))
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
        self.objects.add(object)
    }

    /// Forgets a handle, and a module's functions with it.
    pub(crate) fn forget(&self, handle: usize) {
        self.objects.remove(handle);
        let keep = |object: &Object| !matches!(object, Object::Function(of) if of.module == handle);
        drop(self.objects.retain(keep));
    }

    /// Handles of streams, events, modules and graphs.
    pub(crate) fn handles(&self) -> usize {
        self.objects.count(|object| !matches!(object, Object::Function(_)))
    }

    /// A stream by its handle; 0 and 1 are the current device's default stream, 2 is the thread's.
    pub(crate) fn stream(&'static self, handle: usize) -> Answer<Arc<Stream>> {
        if handle <= 1 {
            return self.current()?.default_stream();
        }
        if handle == PER_THREAD {
            return stream_of_thread(self.current()?);
        }
        match self.objects.get(handle)? {
            Object::Stream(stream) => Ok(stream),
            _ => Err(INVALID_HANDLE),
        }
    }

    /// A stream is about to be destroyed. Counts one in a ring of its own of which the program does
    /// not know, by an event that it asked for, that the last command is done.
    pub(crate) fn note_end(&self, stream: &Stream) {
        if stream.has_own_ring && stream.seen() < stream.launched() {
            self.unseen_ends.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn unseen_ends(&self) -> u64 {
        self.unseen_ends.load(Ordering::Acquire)
    }

    /// A handle for a kernel of a module.
    pub(crate) fn add_function(
        &self,
        device: &'static Device,
        module: usize,
        name: &str,
    ) -> Option<usize> {
        let registered = self.tables().kernels.get(name).cloned();
        let known = registered.or_else(|| builtin(name))?;
        Some(self.add(Object::Function(Function { device, known, module })))
    }

    pub(crate) fn add_kernel(&self, name: String, known: Known) {
        self.tables().kernels.insert(name, known);
    }

    /// A kernel by its function.
    pub(crate) fn kernel_at(&self, address: usize) -> Option<Known> {
        let tables = self.tables();
        let name = tables.stubs.get(&address);
        let known =
            name.and_then(|name| tables.kernels.get(name).cloned().or_else(|| builtin(name)));
        let of_itself = || tables.kernels.values().find(|known| known.kernel as usize == address);
        known.or_else(|| of_itself().cloned())
    }

    /// A function of a program stands for the kernel of this name.
    pub(crate) fn add_stub(&self, host: usize, name: String) {
        self.tables().stubs.insert(host, name);
    }

    /// Counts a call.
    pub(crate) fn count(&self, call: &'static str) {
        *self.tables().calls.entry(call).or_default() += 1;
    }

    pub(crate) fn calls(&self, call: &str) -> u64 {
        self.tables().calls.get(call).copied().unwrap_or(0)
    }

    /// Ends what a device has, once it has run.
    pub(crate) fn reset(&self, device: &'static Device) {
        device.synchronize();
        let of = |object: &Object| match object {
            Object::Stream(stream) => stream.device.ordinal,
            Object::Event(event) => event.device.ordinal,
            Object::Module(module) => module.ordinal,
            Object::Function(function) => function.device.ordinal,
            Object::Graph(graph) => graph.device.ordinal,
            Object::Exec(exec) => exec.device().ordinal,
        };
        for object in self.objects.retain(|object| of(object) != device.ordinal) {
            if let Object::Stream(stream) = object {
                device.close_stream(&stream);
            }
        }
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

finders! {
    Runtime:
    event, Event, Arc<Event>;
    module, Module, &'static Device;
    function, Function, Function;
    graph, Graph, Arc<Captured>;
    exec, Exec, Arc<Executable>;
}
