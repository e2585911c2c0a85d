//! A device behind the interface that all vendors' streams have.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use xsched_hal_stream::{About, FlagMemory, Reach, StreamApi, StreamKind};

use crate::driver::{Entered, HipEvent, HipStream, about, full_mask, relax};
use crate::endings::{Call, EndingCalls, called};
use crate::error::HipError;
use crate::kernels::Kernels;
use crate::library::HipLibrary;
use crate::lowering::WaitLowering;
use crate::native::HipNative;
use crate::raw;
use crate::raw::Handle;
use crate::reset::Reset;
use crate::ring::{HipRing, exchanges_rings, ring_of};
use crate::rings::{OwnRings, RingCalls, RingObserver};

/// Bytes of the device's memory that a command that does nothing writes to.
const SCRATCH_BYTES: usize = 64;

/// Kind of the streams that are made without a priority.
///
/// HIP has no stream that has everything. The runtime gives all streams of a priority together at
/// most 4 hardware rings (`GPU_MAX_HW_QUEUES`), so that a held stream stops other streams; only
/// streams with a mask of compute units never share theirs. But those are always of normal
/// priority, and
/// *blocking*: work on the legacy default stream waits for them and they for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rings {
    /// A ring of its own, by a mask with all compute units in it. It can be held at Lv2. Programs
    /// that launch on the legacy default stream as well are held up while such a stream is.
    #[default]
    Own,
    /// A stream that does not wait for the legacy default stream, in a ring that it may share.
    /// Holding it at Lv2 could stop streams that are not held, so it is held at Lv1.
    Shared,
}

/// How to open a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HipConfig {
    /// Number of the device, as HIP counts them, from 0. `HIP_VISIBLE_DEVICES` changes the count.
    pub device: u32,
    /// Kind of the streams that are made without a priority.
    pub rings: Rings,
}

/// A device.
///
/// # Streams
///
/// [`StreamApi::create_stream`] with a priority makes a stream in a shared ring that does not wait
/// for the legacy default stream; without one, what [`HipConfig::rings`] says. [`StreamKind`] is
/// honest about both. Ending a stream may wait until what was launched into it has run, so open
/// its gate first.
///
/// # Waits for a word
///
/// Depend on the environment: see [`WaitLowering`].
#[derive(Debug)]
pub struct HipApi {
    library: Arc<HipLibrary>,
    device: c_int,
    rings: Rings,
    about: About,
    lowering: WaitLowering,
    /// Streams change their rings between commands.
    exchanges_rings: bool,
    /// Where commands that do nothing write.
    scratch: usize,
    /// The streams that were made here with a ring of their own.
    own_rings: OwnRings,
    /// The stream into which calls are put that the runtime's thread is asked for.
    calling: OnceLock<HipStream>,
    reset: Reset,
    /// The kernels of a known length, once they are loaded.
    pub(crate) spin: OnceLock<Kernels>,
}

impl HipApi {
    /// Finds the runtime ([`HipLibrary::find`]) and opens a device.
    ///
    /// # Errors
    /// If there is no runtime or no such device, or the runtime refuses something.
    pub fn open(config: HipConfig) -> Result<Self, HipError> {
        Self::with_library(HipLibrary::find()?, config)
    }

    /// Opens a device of a runtime that was loaded already.
    ///
    /// # Errors
    /// If there is no such device, or the runtime refuses something.
    pub fn with_library(library: Arc<HipLibrary>, config: HipConfig) -> Result<Self, HipError> {
        let HipConfig { device, rings } = config;
        let count = library.devices()?;
        if device >= count {
            return Err(HipError::NoSuchDevice { device, count });
        }
        let device =
            c_int::try_from(device).map_err(|_| HipError::NoSuchDevice { device, count })?;
        let entered = Entered::of(&library, device)?;
        let exchanges_rings = exchanges_rings(library.version()?);
        let about = about(&library, device)?;
        let mut scratch = ptr::null_mut();
        // SAFETY: the pointer may be written to.
        let code = unsafe { (library.table().hipMalloc)(&raw mut scratch, SCRATCH_BYTES) };
        HipError::check("hipMalloc", code)?;
        drop(entered);
        Ok(Self {
            library,
            device,
            rings,
            about,
            lowering: WaitLowering::from_environment(),
            exchanges_rings,
            scratch: scratch.expose_provenance(),
            own_rings: OwnRings::default(),
            calling: OnceLock::new(),
            reset: Reset::default(),
            spin: OnceLock::new(),
        })
    }

    /// The runtime.
    #[must_use]
    pub const fn library(&self) -> &Arc<HipLibrary> {
        &self.library
    }

    /// The device's number, as HIP counts them.
    #[must_use]
    pub const fn device(&self) -> u32 {
        self.device.unsigned_abs()
    }

    /// Kind of the streams that are made without a priority.
    #[must_use]
    pub const fn rings(&self) -> Rings {
        self.rings
    }

    /// Lowering of waits for a word.
    #[must_use]
    pub const fn lowering(&self) -> WaitLowering {
        self.lowering
    }

    /// The program is about to reset the device, which ends all that was made on it. So nothing is
    /// destroyed when this is dropped, which may be after the reset, when the program's own streams
    /// and memory may have the same handles and addresses. Waits for what other threads are just
    /// destroying.
    pub fn leave_to_reset(&self) {
        self.reset.begin();
    }

    /// Destroys a stream, unless a reset does.
    ///
    /// # Safety
    /// The stream is alive, and this is its end.
    unsafe fn end_stream(&self, stream: HipStream) -> Result<(), HipError> {
        // SAFETY: as the caller promises.
        let end = || unsafe { (self.library.table().hipStreamDestroy)(stream.as_raw()) };
        self.reset.before(end).map_or(Ok(()), |code| HipError::check("hipStreamDestroy", code))
    }

    /// As [`StreamApi::enter`].
    pub(crate) fn enter_device(&self) -> Result<Entered<'_>, HipError> {
        Entered::of(&self.library, self.device)
    }

    /// Has something see which streams in rings of their own are made and handed out from now on.
    /// Replaces the one before. Idle streams that were made before are destroyed.
    ///
    /// # Errors
    /// If the device cannot become current.
    pub fn observe_rings(&self, observer: Arc<dyn RingObserver>) -> Result<(), HipError> {
        let _entered = self.enter_device()?;
        self.own_rings.observe(observer, self);
        Ok(())
    }

    /// Makes a stream in a ring of its own.
    fn create_with_own_ring(&self) -> Result<HipStream, HipError> {
        let mask = full_mask(self.about.units);
        let words = u32::try_from(mask.len()).unwrap_or(u32::MAX);
        let mut stream: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to, and the mask has this many words.
        let code = unsafe {
            (self.library.table().hipExtStreamCreateWithCUMask)(
                &raw mut stream,
                words,
                mask.as_ptr(),
            )
        };
        HipError::check("hipExtStreamCreateWithCUMask", code)?;
        Ok(HipStream::from_raw(stream))
    }

    /// A stream that does not wait for the default stream.
    fn create_with_priority(&self, priority: i32) -> Result<HipStream, HipError> {
        let (least, most) = self.about.priorities;
        let priority = priority.clamp(least.min(most), least.max(most));
        let mut stream: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to.
        let code = unsafe {
            (self.library.table().hipStreamCreateWithPriority)(
                &raw mut stream,
                raw::STREAM_NON_BLOCKING,
                priority,
            )
        };
        HipError::check("hipStreamCreateWithPriority", code)?;
        Ok(HipStream::from_raw(stream))
    }

    /// The stream for calls, in a shared ring.
    fn calling_stream(&self) -> Result<HipStream, HipError> {
        if let Some(stream) = self.calling.get() {
            return Ok(*stream);
        }
        // The list of streams is locked, so no other thread makes one.
        let stream = self.create_with_priority(0)?;
        Ok(*self.calling.get_or_init(|| stream))
    }

    /// The hardware ring that a stream is in now, which others may share, by launching a few small
    /// fills. `None` if nothing watches the driver's calls, or other threads launch too much.
    ///
    /// Streams of priorities, blocking ones and those with masks keep their ring until they end. A
    /// runtime that exchanges rings between commands (`DEBUG_HIP_DYNAMIC_QUEUES`) does not.
    ///
    /// # Safety
    /// The stream is alive, of this device and not captured, or 0, 1 or 2, which are the default
    /// streams. The device is current.
    #[must_use]
    pub unsafe fn hardware_ring(&self, stream: HipStream) -> Option<HipRing> {
        if self.exchanges_rings {
            return None;
        }
        // SAFETY: the caller promises that it is alive.
        ring_of(|| unsafe { self.launch_nothing(stream) }.is_ok())
    }

    /// Fails if a stream is another device's, as far as the runtime can tell.
    ///
    /// # Safety
    /// The stream is alive.
    unsafe fn check_device(&self, stream: HipStream) -> Result<(), HipError> {
        let Some(get) = self.library.table().hipStreamGetDevice else { return Ok(()) };
        let mut device = self.device;
        // SAFETY: the stream is alive, and the number may be written to.
        let code = unsafe { get(stream.as_raw(), &raw mut device) };
        HipError::check("hipStreamGetDevice", code)?;
        if device == self.device {
            return Ok(());
        }
        Err(HipError::OtherDevice { stream: device.unsigned_abs(), device: self.device() })
    }

    /// Where the device sees memory of the host's.
    ///
    /// # Safety
    /// The memory was allocated or registered by the runtime.
    pub(crate) unsafe fn device_address(&self, host: *mut c_void) -> Result<u64, HipError> {
        let mut device = ptr::null_mut();
        // SAFETY: the pointer may be written to, and the runtime knows the memory.
        let code =
            unsafe { (self.library.table().hipHostGetDevicePointer)(&raw mut device, host, 0) };
        HipError::check("hipHostGetDevicePointer", code)?;
        Ok(device.expose_provenance() as u64)
    }
}

impl Drop for HipApi {
    fn drop(&mut self) {
        if self.reset.has_begun() {
            return;
        }
        // If the device cannot become current, freeing may still work.
        let entered = self.enter_device();
        if entered.is_ok() {
            self.own_rings.close(self);
            if let Some(stream) = self.calling.get() {
                // SAFETY: it was made here, and nothing else knows it. What it may still have to
                // do ends first.
                let _ = unsafe { (self.library.table().hipStreamDestroy)(stream.as_raw()) };
            }
        }
        let scratch = ptr::with_exposed_provenance_mut(self.scratch);
        // SAFETY: it was allocated, and only commands of this device's queues refer to it; freeing
        // waits for them. There is nothing to be done about an error.
        let _ = unsafe { (self.library.table().hipFree)(scratch) };
    }
}

impl EndingCalls for HipApi {
    fn wait_for(&self, stream: HipStream) -> Result<(), HipError> {
        self.reset.tried(|| {
            let _entered = self.enter_device()?;
            // SAFETY: streams of the list are alive until a reset.
            unsafe { self.synchronize(stream) }
        })
    }

    fn call_back(&self) -> Result<Call, HipError> {
        let call = Call::default();
        let Some(add) = self.library.table().hipStreamAddCallback else {
            // AMD's runtimes have the function, and no other one has such a thread.
            call.come();
            return Ok(call);
        };
        self.reset.tried(|| {
            let _entered = self.enter_device()?;
            let stream = self.calling_stream()?;
            let data = Box::into_raw(Box::new(call.clone()));
            // SAFETY: the stream is alive until a reset, and the data is the call's alone.
            let code = unsafe { add(stream.as_raw(), Some(called), data.cast(), 0) };
            // After an error it may still come, so its data stays.
            HipError::check("hipStreamAddCallback", code)
        })?;
        Ok(call)
    }
}

impl RingCalls for HipApi {
    fn make(&self) -> Result<HipStream, HipError> {
        self.create_with_own_ring()
    }

    fn mark(&self, stream: HipStream) -> Result<HipEvent, HipError> {
        let (event, recorded) = self.reset.tried(|| {
            let _entered = self.enter_device()?;
            let event = self.create_plain_event()?;
            // SAFETY: the event is new, and streams of the list are alive.
            let recorded = unsafe { self.record(event, stream) };
            Ok((event, recorded))
        })?;
        recorded.inspect_err(|_| self.end_event(event))?;
        Ok(event)
    }

    fn is_done(&self, event: HipEvent) -> Result<bool, HipError> {
        // SAFETY: it was made by `mark`, and is destroyed after it was seen to be done.
        unsafe { self.query(event) }
    }

    fn end_event(&self, event: HipEvent) {
        // SAFETY: it was made by `mark`, and nothing refers to it any more.
        unsafe { self.destroy_event(event) };
    }

    fn destroy(&self, stream: HipStream) -> Result<(), HipError> {
        // SAFETY: streams of the list are alive, and this one was taken out of it.
        unsafe { self.end_stream(stream) }
    }
}

impl StreamApi for HipApi {
    type Stream = HipStream;
    type Event = HipEvent;
    type Native = HipNative;
    type Entered<'a> = Entered<'a>;
    type Error = HipError;

    fn name(&self) -> &'static str {
        "hip"
    }

    fn about(&self) -> &About {
        &self.about
    }

    /// Names missing functions, or says that streams are made in shared rings ([`Rings::Shared`]).
    /// Other streams in shared rings are told by [`StreamKind::own_ring`].
    fn no_waits(&self) -> Option<String> {
        if self.rings == Rings::Shared {
            return Some(HipError::SharedRings.to_string());
        }
        let table = self.library.table();
        let missing = match self.lowering {
            _ if table.hipStreamWaitValue32.is_none() => "hipStreamWaitValue32",
            WaitLowering::CommandProcessor if table.hipExtMallocWithFlags.is_none() => {
                "hipExtMallocWithFlags"
            }
            _ => return None,
        };
        Some(HipError::NoWaits { symbol: missing }.to_string())
    }

    /// 0: not measured on an MI308X yet.
    fn settle_ns(&self) -> u64 {
        0
    }

    /// Not known: not measured on an MI308X yet.
    fn depth(&self) -> Option<u32> {
        None
    }

    fn enter(&self) -> Result<Entered<'_>, HipError> {
        self.enter_device()
    }

    /// Without a priority and with [`Rings::Own`], the stream *does* wait for the legacy default
    /// stream: HIP has no other streams with a ring of their own. [`StreamKind::blocking`] says so.
    fn create_stream(&self, priority: Option<i32>) -> Result<HipStream, HipError> {
        match (priority, self.rings) {
            (None, Rings::Own) => self.own_rings.take(self),
            (priority, _) => self.create_with_priority(priority.unwrap_or_default()),
        }
    }

    /// A stream with a ring of its own is kept for [`StreamApi::create_stream`], or destroyed once
    /// it was seen to be idle: HIP 7.2.3 may wait for ever otherwise.
    // SAFETY: it asks of its callers what the trait does.
    unsafe fn destroy_stream(&self, stream: HipStream) -> Result<(), HipError> {
        if self.own_rings.give_back(stream, self) {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe { self.end_stream(stream) }
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn synchronize(&self, stream: HipStream) -> Result<(), HipError> {
        // SAFETY: the caller promises that it is alive.
        let code = unsafe { (self.library.table().hipStreamSynchronize)(stream.as_raw()) };
        HipError::check("hipStreamSynchronize", code)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn stream_kind(&self, stream: HipStream) -> Result<StreamKind, HipError> {
        if stream.0 == raw::STREAM_PER_THREAD {
            return Err(HipError::PerThreadStream);
        }
        if stream.0 <= raw::STREAM_LEGACY {
            let own_ring = Some(false);
            return Ok(StreamKind { legacy_default: true, blocking: true, own_ring });
        }
        let table = self.library.table();
        let (mut flags, mut capture) = (0, raw::CAPTURE_NONE);
        // SAFETY: the stream is alive, and the number may be written to.
        let code = unsafe { (table.hipStreamIsCapturing)(stream.as_raw(), &raw mut capture) };
        HipError::check("hipStreamIsCapturing", code)?;
        if capture != raw::CAPTURE_NONE {
            return Err(HipError::Capturing);
        }
        // SAFETY: the stream is alive.
        unsafe { self.check_device(stream) }?;
        // SAFETY: the stream is alive, and the number may be written to.
        let code = unsafe { (table.hipStreamGetFlags)(stream.as_raw(), &raw mut flags) };
        HipError::check("hipStreamGetFlags", code)?;
        let own = self.own_rings.has(stream);
        let blocking = flags & raw::STREAM_NON_BLOCKING == 0;
        Ok(StreamKind { legacy_default: false, blocking, own_ring: Some(own) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn ring_of(&self, stream: HipStream) -> Option<u64> {
        // SAFETY: the caller promises that it is alive and not captured.
        unsafe { self.hardware_ring(stream) }.map(|ring| ring.number)
    }

    fn create_event(&self) -> Result<HipEvent, HipError> {
        let mut event: Handle = ptr::null_mut();
        let create = self.library.table().hipEventCreateWithFlags;
        // SAFETY: the handle may be written to.
        let code = unsafe { create(&raw mut event, raw::EVENT_DEFAULT) };
        HipError::check("hipEventCreateWithFlags", code)?;
        Ok(HipEvent(event.expose_provenance()))
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn destroy_event(&self, event: HipEvent) {
        // SAFETY: the caller promises that it is alive and that this is its end. There is nothing
        // to be done about an error.
        let end = || unsafe { (self.library.table().hipEventDestroy)(event.as_raw()) };
        let _ = self.reset.before(end);
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn record(&self, event: HipEvent, stream: HipStream) -> Result<(), HipError> {
        let record = self.library.table().hipEventRecord;
        // SAFETY: the caller promises that both are alive.
        HipError::check("hipEventRecord", unsafe { record(event.as_raw(), stream.as_raw()) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn query(&self, event: HipEvent) -> Result<bool, HipError> {
        relax(&self.library);
        // SAFETY: the caller promises that it is alive.
        match unsafe { (self.library.table().hipEventQuery)(event.as_raw()) } {
            raw::NOT_READY => Ok(false),
            code => HipError::check("hipEventQuery", code).map(|()| true),
        }
    }

    /// HIP counts in milliseconds, in 24 bits: within a second it is right to 60 ns.
    // SAFETY: it asks of its callers what the trait does.
    unsafe fn elapsed_ns(&self, from: HipEvent, to: HipEvent) -> Result<u64, HipError> {
        let mut ms = 0.0;
        let elapsed = self.library.table().hipEventElapsedTime;
        // SAFETY: the caller promises that both are alive, and the number may be written to.
        let code = unsafe { elapsed(&raw mut ms, from.as_raw(), to.as_raw()) };
        HipError::check("hipEventElapsedTime", code)?;
        // What is below 0 becomes 0.
        Ok((f64::from(ms) * 1e6).round() as u64)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn wait_zero(&self, stream: HipStream, word: u64) -> Result<(), HipError> {
        let symbol = "hipStreamWaitValue32";
        let wait = self.library.table().hipStreamWaitValue32;
        let wait = wait.ok_or(HipError::NoWaits { symbol })?;
        let word = ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: the caller promises that the stream is alive and the word outlives the wait.
        let code = unsafe { wait(stream.as_raw(), word, 0, raw::WAIT_EQUAL, u32::MAX) };
        HipError::check(symbol, code)
    }

    /// With [`WaitLowering::CommandProcessor`] at most 8 bytes, aligned to 8.
    fn flag_memory(&self, bytes: usize) -> Result<FlagMemory, HipError> {
        if self.lowering == WaitLowering::CommandProcessor {
            return self.signal_memory(bytes);
        }
        self.host_memory(bytes)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn register_flags(
        &self,
        host: NonNull<AtomicU32>,
        bytes: usize,
    ) -> Result<FlagMemory, HipError> {
        if self.lowering == WaitLowering::CommandProcessor {
            return Err(HipError::SignalOnly);
        }
        let memory: *mut c_void = host.as_ptr().cast();
        let flags = raw::HOST_REGISTER_MAPPED | raw::HOST_REGISTER_PORTABLE;
        // SAFETY: the caller promises that the memory is there until it is taken back.
        let code = unsafe { (self.library.table().hipHostRegister)(memory, bytes, flags) };
        HipError::check("hipHostRegister", code)?;
        // SAFETY: it was just registered.
        let device = unsafe { self.device_address(memory) };
        if device.is_err() {
            // SAFETY: it was just registered, and nothing else refers to it.
            let _ = unsafe { (self.library.table().hipHostUnregister)(memory) };
        }
        Ok(FlagMemory { host, device: device?, bytes })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn free_flags(&self, memory: FlagMemory) {
        let table = self.library.table();
        let free = match self.lowering {
            WaitLowering::SpinKernel => table.hipHostFree,
            WaitLowering::CommandProcessor => table.hipFree,
        };
        // SAFETY: the caller promises that it comes from `flag_memory` and that this is its end.
        // There is nothing to be done about an error.
        let _ = self.reset.before(|| unsafe { free(memory.host.as_ptr().cast()) });
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn unregister_flags(&self, memory: FlagMemory) {
        let unregister = self.library.table().hipHostUnregister;
        // SAFETY: the caller promises that it was registered and that this is its end. There is
        // nothing to be done about an error.
        let _ = self.reset.before(|| unsafe { unregister(memory.host.as_ptr().cast()) });
    }

    /// Writes four bytes that are never read: the runtime does so with a small kernel of its own,
    /// and kernels of ours would need AMD's compiler.
    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch_nothing(&self, stream: HipStream) -> Result<(), HipError> {
        let scratch = ptr::with_exposed_provenance_mut(self.scratch);
        let fill = self.library.table().hipMemsetAsync;
        // SAFETY: the caller promises that the stream is alive; the memory is, as long as this is.
        HipError::check("hipMemsetAsync", unsafe { fill(scratch, 0, 4, stream.as_raw()) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch_native(&self, command: &HipNative, stream: HipStream) -> Result<(), HipError> {
        // SAFETY: the caller promises that the stream is alive and the device current.
        unsafe { command.launch(&self.library, stream) }
    }

    fn reach_of(&self, command: &HipNative) -> Reach {
        command.reach()
    }
}
