//! Contexts, and which are current on a thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::env;
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use xsched_emulated_device::code::{
    Answer, CONTEXT_DESTROYED, ILLEGAL_STATE, INVALID_CONTEXT, INVALID_DEVICE,
};
use xsched_emulated_device::{Device, Place, Stream};

use crate::driver::{Object, driver};

/// A context. Its streams are those of a device of its own, which a reset replaces.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: u32,
    pub(crate) is_primary: bool,
    pub(crate) flags: AtomicU32,
    /// Number of references to it; a primary one has none at first.
    retained: Mutex<u32>,
    engine: Mutex<Option<&'static Device>>,
}

/// How many connections streams take.
static CONNECTIONS: LazyLock<usize> = LazyLock::new(|| {
    let text = env::var("CUDA_DEVICE_MAX_CONNECTIONS").ok();
    let asked = text.and_then(|text| text.trim().parse::<usize>().ok());
    asked.filter(|asked| *asked > 0).map_or(8, |asked| asked.min(32))
});

/// Where a stream's commands go.
pub(crate) const fn place() -> Place {
    Place::Connection
}

fn start(device: u32) -> &'static Device {
    // Never given back: handles and threads may refer to it for as long as they like.
    Box::leak(Box::new(Device::new(device, *CONNECTIONS, |_, _| Ok(None))))
}

impl Context {
    pub(crate) fn new(device: u32, flags: u32) -> Self {
        let engine = Mutex::new(Some(start(device)));
        let flags = AtomicU32::new(flags);
        Self { device, is_primary: false, flags, retained: Mutex::new(1), engine }
    }

    pub(crate) fn primary_of(device: u32) -> Self {
        let engine = Mutex::new(None);
        let flags = AtomicU32::new(0);
        Self { device, is_primary: true, flags, retained: Mutex::new(0), engine }
    }

    /// Streams' device.
    ///
    /// # Errors
    /// If it was destroyed, or is a primary one that is not retained.
    pub(crate) fn engine(&self) -> Answer<&'static Device> {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.ok_or(CONTEXT_DESTROYED)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.engine().is_ok()
    }

    /// Another reference, with which a primary context begins.
    pub(crate) fn retain(&self) {
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        *retained += 1;
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.get_or_insert_with(|| start(self.device));
    }

    /// One reference less; the last one takes its streams and memory along.
    pub(crate) fn release(&self) -> Answer {
        let mut retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        *retained = retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        if *retained == 0 {
            self.end();
        }
        Ok(())
    }

    /// Ends what there is. A primary context that is retained starts afresh.
    pub(crate) fn reset(&self) {
        let retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        self.end();
        if *retained > 0 {
            *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Some(start(self.device));
        }
    }

    /// Waits for what runs, drops what was launched and does not run, and forgets all handles of
    /// the context.
    pub(crate) fn end(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(engine) = engine else { return };
        engine.close(CONTEXT_DESTROYED);
        drop(driver().objects.retain(|object| !object.is_of(engine)));
    }
}

thread_local! {
    /// Handles of contexts; the last is current. Programs may ask while they exit, so it stays.
    static STACK: RefCell<ManuallyDrop<Vec<usize>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// Default streams of this thread, by their contexts' devices.
    static STREAMS: RefCell<HashMap<usize, PerThread>> = RefCell::new(HashMap::new());
}

/// A thread's default stream, which ends with it.
#[derive(Debug)]
struct PerThread(Arc<Stream>);

impl Drop for PerThread {
    fn drop(&mut self) {
        if driver().is_forked() {
            // It is the parent's.
            std::mem::forget(Arc::clone(&self.0));
            return;
        }
        self.0.device.close_stream(&self.0);
    }
}

/// The calling thread's stack of contexts.
pub(crate) fn with_stack<R>(body: impl FnOnce(&mut Vec<usize>) -> R) -> R {
    STACK.with_borrow_mut(|stack| body(stack))
}

/// The handle of the current context, or 0.
pub(crate) fn current_handle() -> usize {
    with_stack(|stack| stack.last().copied().unwrap_or(0))
}

/// The current context.
pub(crate) fn current() -> Answer<Arc<Context>> {
    match current_handle() {
        0 => Err(INVALID_CONTEXT),
        handle => by_handle(handle).map_err(|_| CONTEXT_DESTROYED),
    }
}

/// A context by its handle.
pub(crate) fn by_handle(handle: usize) -> Answer<Arc<Context>> {
    match driver().objects.get(handle) {
        Ok(Object::Context(context)) => Ok(context),
        _ => Err(INVALID_CONTEXT),
    }
}

/// The current context's streams.
///
/// # Errors
/// That of the context, if it was lost.
pub(crate) fn engine() -> Answer<&'static Device> {
    let engine = current()?.engine()?;
    engine.check()?;
    Ok(engine)
}

/// The calling thread's default stream in the current context.
pub(crate) fn per_thread_stream() -> Answer<Arc<Stream>> {
    let engine = engine()?;
    let key = std::ptr::from_ref(engine) as usize;
    let made = STREAMS.try_with(|streams| {
        let mut streams = streams.borrow_mut();
        if let Some(stream) = streams.get(&key) {
            return Ok(Arc::clone(&stream.0));
        }
        let stream = engine.open_stream(0, 0, place())?;
        streams.insert(key, PerThread(Arc::clone(&stream)));
        Ok(stream)
    });
    made.unwrap_or(Err(ILLEGAL_STATE))
}

/// The handle of a device's primary context.
pub(crate) fn primary_of(device: i32) -> Answer<(usize, Arc<Context>)> {
    let device = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
    let handle = *driver().primaries.get(device).ok_or(INVALID_DEVICE)?;
    Ok((handle, by_handle(handle)?))
}
