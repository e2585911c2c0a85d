//! State of the process: devices, handles, memory, and counts of calls.

use std::collections::HashMap;
use std::env;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use xsched_emulated_device::code::{Answer, INVALID_HANDLE};
use xsched_emulated_device::{Device, Event, Handles, Memory, Stream, finders};

use crate::context::{Context, per_thread_stream};
use crate::graph::{Exec, Graph};
use crate::kernels::Builtin;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Kernels that were loaded: of a module, or of a library, which is of all contexts.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) engine: Option<&'static Device>,
    pub(crate) kernels: Vec<Builtin>,
}

/// A kernel of a module or a library, by its handle.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) module: usize,
    /// In whose context it runs; a library's kernel has none.
    pub(crate) engine: Option<&'static Device>,
    pub(crate) builtin: Builtin,
}

/// Object behind a handle.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Context(Arc<Context>),
    Stream(Arc<Stream>),
    Event(Arc<Event>),
    Module(Arc<Module>),
    Library(Arc<Module>),
    Function(Function),
    Kernel(Function),
    Graph(Arc<Mutex<Graph>>),
    Exec(Arc<Exec>),
}

impl Object {
    /// True if it goes with a context's streams.
    pub(crate) fn is_of(&self, engine: &'static Device) -> bool {
        let of = match self {
            Self::Stream(stream) => Some(stream.device),
            Self::Event(event) => Some(event.device),
            Self::Module(module) | Self::Library(module) => module.engine,
            Self::Function(function) | Self::Kernel(function) => function.engine,
            Self::Context(_) | Self::Graph(_) | Self::Exec(_) => None,
        };
        of.is_some_and(|of| std::ptr::eq(of, engine))
    }
}

/// Counts by name.
type Counts = Mutex<HashMap<&'static str, u64>>;

#[derive(Debug)]
pub(crate) struct Driver {
    /// The process that initialised it, or 0.
    process: AtomicU32,
    pub(crate) version: i32,
    pub(crate) objects: Handles<Object>,
    /// Handles of the devices' primary contexts.
    pub(crate) primaries: Vec<usize>,
    pub(crate) memory: Memory,
    /// Calls by function, and kernels that ran by kernel.
    pub(crate) calls: Counts,
    pub(crate) launches: Counts,
}

static DRIVER: LazyLock<Driver> = LazyLock::new(|| {
    let number = |name, otherwise: i32| {
        let text = env::var(name).ok();
        text.and_then(|text| text.trim().parse::<i32>().ok()).unwrap_or(otherwise)
    };
    let objects = Handles::default();
    let devices = number("XSCHED_EMULATED_DEVICES", 1).clamp(0, 64).cast_unsigned();
    let primary = |device| objects.add(Object::Context(Arc::new(Context::primary_of(device))));
    let primaries = (0..devices).map(primary).collect();
    Driver {
        process: AtomicU32::new(0),
        version: number("XSCHED_EMULATED_CUDA_VERSION", 13_000),
        objects,
        primaries,
        memory: Memory::default(),
        calls: Counts::default(),
        launches: Counts::default(),
    }
});

/// The driver.
pub(crate) fn driver() -> &'static Driver {
    &DRIVER
}

/// Adds one.
pub(crate) fn count(counts: &Counts, name: &'static str) {
    *counts.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
}

/// The number for a name, or for all.
pub(crate) fn counted(counts: &Counts, name: Option<&str>) -> u64 {
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    match name {
        Some(name) => counts.get(name).copied().unwrap_or(0),
        None => counts.values().sum(),
    }
}

impl Driver {
    pub(crate) fn initialise(&self) {
        let _ =
            self.process.compare_exchange(0, process::id(), Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn is_initialised(&self) -> bool {
        self.process.load(Ordering::Acquire) != 0
    }

    /// True if the process that has initialised it is another one. Nothing may be locked here.
    pub(crate) fn is_forked(&self) -> bool {
        ![0, process::id()].contains(&self.process.load(Ordering::Acquire))
    }

    /// A stream by its handle. Null is a default stream: which, says the function that is called.
    pub(crate) fn stream(&self, handle: usize) -> Answer<Arc<Stream>> {
        let handle = match handle {
            0 if crate::exports::is_per_thread() => PER_THREAD,
            0 => LEGACY,
            handle => handle,
        };
        match handle {
            LEGACY => crate::context::engine()?.default_stream(),
            PER_THREAD => per_thread_stream(),
            _ => match self.objects.get(handle)? {
                Object::Stream(stream) => Ok(stream),
                _ => Err(INVALID_HANDLE),
            },
        }
    }
}

finders! {
    Driver:
    event, Event, Arc<Event>;
    module, Module, Arc<Module>;
    library, Library, Arc<Module>;
    kernel, Kernel, Function;
    graph, Graph, Arc<Mutex<Graph>>;
    exec, Exec, Arc<Exec>;
}
