//! CUDA's streams, as XSched needs them.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU32;

use xsched_hal_stream::{About, FlagMemory, StreamApi, StreamKind};

use crate::command::{Body, CudaCommand, CudaKernel};
use crate::driver::{Entered, about, attribute, check, need, relax, written};
use crate::error::CudaError;
use crate::kernels::Kernels;
use crate::table::{
    ATTRIBUTE_MEM_OPS, CuContext, CuDevice, CuEvent, CuResult, CuStream, EVENT_DEFAULT,
    EVENT_DISABLE_TIMING, HOST_ALLOC, HOST_REGISTER, LAUNCH_PARAMS, NOT_READY, STREAM_LEGACY,
    STREAM_NON_BLOCKING, STREAM_PER_THREAD, Table, WAIT_EQUAL, WAIT_REACHED, WRITE_BEHIND, load,
};

/// Time after a store to a flag in host memory for which a command may still start, in
/// nanoseconds. On an H200 at most one of 9,000 started, within 2 to 3 µs, the observer's lag
/// included.
const SETTLE_NS: u64 = 3_000;

/// A device, by its primary context, which all of the process's CUDA runtime uses, or by another.
#[derive(Debug)]
pub struct CudaApi {
    pub(crate) table: &'static Table,
    device: CuDevice,
    context: CuContext,
    /// The context is the primary one, and a reference to it ours.
    primary: bool,
    about: About,
    mem_ops: bool,
    kernels: Kernels,
    connections: usize,
}

/// Connections of a process to a device: 1 to 32, and 8 by default, as the CUDA C++ Programming
/// Guide says of `CUDA_DEVICE_MAX_CONNECTIONS`.
fn connections_of(text: Option<&str>) -> usize {
    let asked = text.and_then(|text| text.trim().parse::<usize>().ok());
    asked.filter(|asked| *asked > 0).map_or(8, |asked| asked.min(32))
}

/// The driver's version: 1,000 times the major and 10 times the minor number of CUDA, as in 12,080.
/// Works without a GPU.
///
/// # Errors
/// If there is no driver, or it refuses.
pub fn driver_version() -> Result<u32, CudaError> {
    let table = load()?;
    // SAFETY: it writes a number.
    let version = |value| unsafe { (table.driver_version)(value) };
    let version = written(table, "cuDriverGetVersion", 0, version)?;
    Ok(version.unsigned_abs())
}

/// Devices that can be used.
///
/// # Errors
/// If there is no driver, or it refuses.
pub fn device_count() -> Result<u32, CudaError> {
    let table = load()?;
    // SAFETY: always allowed.
    check(table, "cuInit", unsafe { (table.init)(0) })?;
    // SAFETY: it writes a number.
    let count = written(table, "cuDeviceGetCount", 0, |n| unsafe { (table.device_count)(n) })?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// The context that is current on this thread; `None` if none is.
///
/// # Errors
/// If there is no driver, or it refuses.
pub fn current_context() -> Result<Option<CuContext>, CudaError> {
    let table = load()?;
    // SAFETY: it writes a handle.
    let ask = |context| unsafe { (table.ctx_current)(context) };
    let context = written(table, "cuCtxGetCurrent", CuContext::NULL, ask)?;
    Ok((context != CuContext::NULL).then_some(context))
}

/// The context of a stream; of null, or the handle of a default stream, the current one.
///
/// # Errors
/// If no context is current, the driver refuses, or the stream is one of a green context.
///
/// # Safety
/// The stream is alive, or a constant of the driver.
pub unsafe fn context_of(stream: CuStream) -> Result<CuContext, CudaError> {
    let table = load()?;
    let default = [CuStream::NULL, STREAM_LEGACY, STREAM_PER_THREAD].contains(&stream);
    if default {
        return current_context()?.ok_or(CudaError::NoContext);
    }
    let get = need(table.stream_context, "cuStreamGetCtx")?;
    // SAFETY: it writes a handle, and the stream is alive as the caller promises.
    let ask = |context| unsafe { get(stream, context) };
    written(table, "cuStreamGetCtx", CuContext::NULL, ask)
}

/// The number of a context's device, as [`CudaApi::open`] takes it, and whether the context is the
/// device's primary one.
///
/// # Errors
/// If there is no driver, or it refuses.
///
/// # Safety
/// The context is alive.
pub unsafe fn device_of(context: CuContext) -> Result<(u32, bool), CudaError> {
    let count = device_count()?;
    let table = load()?;
    let entered = Entered::of(table, context)?;
    // SAFETY: it writes a handle, of a context that is current.
    let ask = |device| unsafe { (table.ctx_device)(device) };
    let device = written(table, "cuCtxGetDevice", 0, ask)?;
    drop(entered);
    for ordinal in 0..count {
        let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: it writes a handle.
        let get = |device| unsafe { (table.device_get)(device, number) };
        if written(table, "cuDeviceGet", 0, get)? == device {
            return Ok((ordinal, primary_of(table, device)? == Some(context)));
        }
    }
    Err(CudaError::NoContext)
}

/// The primary context of a device, if it has one now.
fn primary_of(table: &'static Table, device: CuDevice) -> Result<Option<CuContext>, CudaError> {
    let state = need(table.primary_state, "cuDevicePrimaryCtxGetState")?;
    let (mut flags, mut active) = (0, 0);
    // SAFETY: it writes two numbers.
    let code = unsafe { state(device, &raw mut flags, &raw mut active) };
    check(table, "cuDevicePrimaryCtxGetState", code)?;
    if active == 0 {
        return Ok(None);
    }
    // SAFETY: it writes a handle.
    let retain = |context| unsafe { (table.primary_retain)(context, device) };
    let primary = written(table, "cuDevicePrimaryCtxRetain", CuContext::NULL, retain)?;
    // SAFETY: retained above. Nothing can be done about an error.
    let _ = unsafe { (table.primary_release)(device) };
    Ok(Some(primary))
}

impl CudaApi {
    /// The device with this number, from 0, as `CUDA_VISIBLE_DEVICES` leaves it.
    ///
    /// # Errors
    /// If there is no driver, no such device, or the driver refuses.
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        }
        let table = load()?;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: it writes a number.
        let get = |device| unsafe { (table.device_get)(device, ordinal) };
        let device = written(table, "cuDeviceGet", 0, get)?;
        // SAFETY: it writes a handle.
        let retain = |context| unsafe { (table.primary_retain)(context, device) };
        let context = written(table, "cuDevicePrimaryCtxRetain", CuContext::NULL, retain)?;
        Self::on(table, device, context, true).inspect_err(|_| {
            // SAFETY: retained above. Nothing can be done about an error.
            let _ = unsafe { (table.primary_release)(device) };
        })
    }

    /// The device of a context, which may be one of the program's own, by that context.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The context is alive until this is dropped.
    pub unsafe fn in_context(context: CuContext) -> Result<Self, CudaError> {
        let table = load()?;
        let entered = Entered::of(table, context)?;
        // SAFETY: it writes a handle, of a context that is current.
        let ask = |device| unsafe { (table.ctx_device)(device) };
        let device = written(table, "cuCtxGetDevice", 0, ask)?;
        drop(entered);
        Self::on(table, device, context, false)
    }

    fn on(
        table: &'static Table,
        device: CuDevice,
        context: CuContext,
        primary: bool,
    ) -> Result<Self, CudaError> {
        let entered = Entered::of(table, context)?;
        let about = about(table, device)?;
        let mem_ops = attribute(table, ATTRIBUTE_MEM_OPS, device)? != 0;
        let kernels = Kernels::load(table)?;
        drop(entered);
        let connections = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS");
        let connections = connections_of(connections.ok().as_deref());
        Ok(Self { table, device, context, primary, about, mem_ops, kernels, connections })
    }

    /// The driver's functions.
    #[must_use]
    pub const fn table(&self) -> &'static Table {
        self.table
    }

    /// The context.
    #[must_use]
    pub const fn context(&self) -> CuContext {
        self.context
    }

    /// The kernels of this crate.
    #[must_use]
    pub const fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// An attribute of the device, by its number in `cuda.h`.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn attribute(&self, number: i32) -> Result<i32, CudaError> {
        attribute(self.table, number, self.device)
    }

    pub(crate) fn check(&self, call: &'static str, code: CuResult) -> Result<(), CudaError> {
        check(self.table, call, code)
    }

    /// # Safety
    /// As [`StreamApi::launch_native`].
    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch_kernel(&self, kernel: &CudaKernel, stream: CuStream) -> CuResult {
        let (pointer, mut bytes) = kernel.parameters();
        let [by_pointer, by_size, end] = LAUNCH_PARAMS.map(|n| n as *mut c_void);
        let size = (&raw mut bytes).cast::<c_void>();
        let mut extra = [by_pointer, pointer.cast_mut(), by_size, size, end];
        let ([x, y, z], [u, v, w]) = (kernel.grid, kernel.block);
        // SAFETY: the parameters are copied before the call returns; for the rest, as promised by
        // the caller and by the maker of the kernel.
        unsafe {
            (self.table.launch)(
                kernel.function,
                x,
                y,
                z,
                u,
                v,
                w,
                kernel.shared_bytes,
                stream,
                null_mut(),
                extra.as_mut_ptr(),
            )
        }
    }
}

impl Drop for CudaApi {
    fn drop(&mut self) {
        if self.primary {
            // SAFETY: retained when it was made. Nothing can be done about an error.
            let _ = unsafe { (self.table.primary_release)(self.device) };
        }
    }
}

impl StreamApi for CudaApi {
    type Stream = CuStream;
    type Event = CuEvent;
    type Native = CudaCommand;
    type Entered<'a> = Entered;
    type Error = CudaError;

    fn name(&self) -> &'static str {
        "cuda"
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn no_waits(&self) -> Option<String> {
        if self.table.stream_wait.is_none() {
            return Some("this CUDA driver lacks cuStreamWaitValue32_v2; update it".to_owned());
        }
        (!self.mem_ops).then(|| "this device has no stream memory operations".to_owned())
    }

    fn settle_ns(&self) -> u64 {
        SETTLE_NS
    }

    fn enter(&self) -> Result<Entered, CudaError> {
        Entered::of(self.table, self.context)
    }

    fn create_stream(&self, priority: Option<i32>) -> Result<CuStream, CudaError> {
        let (least, greatest) = self.about.priorities;
        // Urgent priorities are the lower numbers.
        let priority = priority.unwrap_or(least).clamp(greatest.min(least), least.max(greatest));
        let create =
            // SAFETY: it writes an answer to where it is asked to.
            |stream| unsafe { (self.table.stream_create)(stream, STREAM_NON_BLOCKING, priority) };
        written(self.table, "cuStreamCreateWithPriority", CuStream::NULL, create)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn destroy_stream(&self, stream: CuStream) -> Result<(), CudaError> {
        // SAFETY: as promised by the caller.
        self.check("cuStreamDestroy", unsafe { (self.table.stream_destroy)(stream) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn synchronize(&self, stream: CuStream) -> Result<(), CudaError> {
        // SAFETY: as promised by the caller.
        self.check("cuStreamSynchronize", unsafe { (self.table.stream_synchronize)(stream) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn stream_kind(&self, stream: CuStream) -> Result<StreamKind, CudaError> {
        if stream == STREAM_PER_THREAD {
            return Err(CudaError::PerThreadStream);
        }
        if stream == CuStream::NULL || stream == STREAM_LEGACY {
            return Ok(StreamKind { legacy_default: true, blocking: true, own_ring: None });
        }
        // SAFETY: as promised by the caller.
        let ask = |flags| unsafe { (self.table.stream_flags)(stream, flags) };
        let flags: c_uint = written(self.table, "cuStreamGetFlags", 0, ask)?;
        // SAFETY: as promised by the caller.
        let ask = |status| unsafe { (self.table.stream_capturing)(stream, status) };
        if written(self.table, "cuStreamIsCapturing", 0, ask)? != 0 {
            return Err(CudaError::Capturing);
        }
        let blocking = flags & STREAM_NON_BLOCKING == 0;
        Ok(StreamKind { legacy_default: false, blocking, own_ring: None })
    }

    fn connections(&self) -> Option<usize> {
        Some(self.connections)
    }

    fn create_event(&self) -> Result<CuEvent, CudaError> {
        // SAFETY: it writes an answer to where it is asked to.
        let create = |event| unsafe { (self.table.event_create)(event, EVENT_DEFAULT) };
        written(self.table, "cuEventCreate", CuEvent::NULL, create)
    }

    fn create_plain_event(&self) -> Result<CuEvent, CudaError> {
        // SAFETY: it writes an answer to where it is asked to.
        let create = |event| unsafe { (self.table.event_create)(event, EVENT_DISABLE_TIMING) };
        written(self.table, "cuEventCreate", CuEvent::NULL, create)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn destroy_event(&self, event: CuEvent) {
        // Nothing can be done about an error.
        // SAFETY: as promised by the caller.
        let _ = unsafe { (self.table.event_destroy)(event) };
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn record(&self, event: CuEvent, stream: CuStream) -> Result<(), CudaError> {
        // SAFETY: as promised by the caller.
        self.check("cuEventRecord", unsafe { (self.table.event_record)(event, stream) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn query(&self, event: CuEvent) -> Result<bool, CudaError> {
        relax(self.table);
        // SAFETY: as promised by the caller.
        match unsafe { (self.table.event_query)(event) } {
            NOT_READY => Ok(false),
            code => self.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Saves recording an event, and an event that has completed takes longer to ask for.
    fn sees_ends(&self) -> bool {
        true
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn is_done(&self, stream: CuStream) -> Result<bool, CudaError> {
        relax(self.table);
        // SAFETY: as promised by the caller.
        match unsafe { (self.table.stream_query)(stream) } {
            NOT_READY => Ok(false),
            code => self.check("cuStreamQuery", code).map(|()| true),
        }
    }

    /// To half a microsecond.
    // SAFETY: it asks of its callers what the trait does.
    unsafe fn elapsed_ns(&self, from: CuEvent, to: CuEvent) -> Result<u64, CudaError> {
        // SAFETY: as promised by the caller.
        let ask = |ms| unsafe { (self.table.event_elapsed)(ms, from, to) };
        let ms = written(self.table, "cuEventElapsedTime", 0.0_f32, ask)?;
        // Negative and no-number become 0.
        Ok((f64::from(ms) * 1e6) as u64)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn wait_zero(&self, stream: CuStream, word: u64) -> Result<(), CudaError> {
        let Some(wait) = self.table.stream_wait else {
            return Err(CudaError::Missing { symbol: "cuStreamWaitValue32_v2" });
        };
        // SAFETY: as promised by the caller.
        self.check("cuStreamWaitValue32", unsafe { wait(stream, word, 0, WAIT_EQUAL) })
    }

    fn has_numbers(&self) -> bool {
        self.mem_ops && self.table.stream_wait.is_some() && self.table.stream_write.is_some()
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn write_number(
        &self,
        stream: CuStream,
        word: u64,
        number: u32,
    ) -> Result<(), CudaError> {
        let Some(write) = self.table.stream_write else {
            return Err(CudaError::Missing { symbol: "cuStreamWriteValue32_v2" });
        };
        // SAFETY: as promised by the caller.
        let code = unsafe { write(stream, word, number, WRITE_BEHIND) };
        self.check("cuStreamWriteValue32", code)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn await_number(
        &self,
        stream: CuStream,
        word: u64,
        number: u32,
    ) -> Result<(), CudaError> {
        let Some(wait) = self.table.stream_wait else {
            return Err(CudaError::Missing { symbol: "cuStreamWaitValue32_v2" });
        };
        // SAFETY: as promised by the caller.
        let code = unsafe { wait(stream, word, number, WAIT_REACHED) };
        self.check("cuStreamWaitValue32", code)
    }

    fn flag_memory(&self, bytes: usize) -> Result<FlagMemory, CudaError> {
        // SAFETY: it writes an answer to where it is asked to.
        let alloc = |at| unsafe { (self.table.host_alloc)(at, bytes, HOST_ALLOC) };
        let memory = written(self.table, "cuMemHostAlloc", null_mut(), alloc)?;
        let Some(host) = NonNull::new(memory.cast::<AtomicU32>()) else {
            return Err(CudaError::of(self.table, "cuMemHostAlloc", 2));
        };
        // SAFETY: just allocated with this length, and ours.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        let device = self.device_pointer(memory).inspect_err(|_| {
            // SAFETY: allocated above, and nothing uses it.
            let _ = unsafe { (self.table.host_free)(memory) };
        })?;
        Ok(FlagMemory { host, device, bytes })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn register_flags(
        &self,
        host: NonNull<AtomicU32>,
        bytes: usize,
    ) -> Result<FlagMemory, CudaError> {
        let memory = host.as_ptr().cast::<c_void>();
        // SAFETY: as promised by the caller.
        let code = unsafe { (self.table.host_register)(memory, bytes, HOST_REGISTER) };
        self.check("cuMemHostRegister", code)?;
        let device = self.device_pointer(memory).inspect_err(|_| {
            // SAFETY: registered above, and nothing uses it.
            let _ = unsafe { (self.table.host_unregister)(memory) };
        })?;
        Ok(FlagMemory { host, device, bytes })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn free_flags(&self, memory: FlagMemory) {
        // SAFETY: as promised by the caller.
        let _ = unsafe { (self.table.host_free)(memory.host.as_ptr().cast()) };
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn unregister_flags(&self, memory: FlagMemory) {
        // SAFETY: as promised by the caller.
        let _ = unsafe { (self.table.host_unregister)(memory.host.as_ptr().cast()) };
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch_nothing(&self, stream: CuStream) -> Result<(), CudaError> {
        let nothing = self.kernels.empty();
        // SAFETY: as promised by the caller.
        self.check("cuLaunchKernel", unsafe { self.launch_kernel(&nothing, stream) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch_native(
        &self,
        command: &CudaCommand,
        stream: CuStream,
    ) -> Result<(), CudaError> {
        match &command.0 {
            Body::Kernel(kernel) => {
                // SAFETY: as promised by the caller.
                self.check("cuLaunchKernel", unsafe { self.launch_kernel(kernel, stream) })
            }
            Body::Copy { to, from, bytes } => {
                // SAFETY: as promised by the caller.
                let code = unsafe { (self.table.copy)(*to, *from, *bytes, stream) };
                self.check("cuMemcpyAsync", code)
            }
            Body::Fill { to, value, words } => {
                // SAFETY: it writes an answer to where it is asked to.
                let code = unsafe { (self.table.fill)(*to, *value, *words, stream) };
                self.check("cuMemsetD32Async", code)
            }
            Body::Graph(graph) => {
                let Some(launch) = self.table.graph_launch else {
                    return Err(CudaError::Missing { symbol: "cuGraphLaunch" });
                };
                // SAFETY: as promised by the caller, and by the maker of the command.
                self.check("cuGraphLaunch", unsafe { launch(*graph, stream) })
            }
            // SAFETY: as promised by the caller.
            Body::Exec(exec) => unsafe { exec.launch(stream) },
        }
    }
}

impl CudaApi {
    fn device_pointer(&self, memory: *mut c_void) -> Result<u64, CudaError> {
        // SAFETY: it writes an answer to where it is asked to.
        let ask = |pointer| unsafe { (self.table.host_device_pointer)(pointer, memory, 0) };
        written(self.table, "cuMemHostGetDevicePointer", 0, ask)
    }
}

#[cfg(test)]
mod tests {
    use super::connections_of;

    #[test]
    fn there_are_eight_connections_unless_the_environment_says_how_many() {
        let texts = [None, Some("32"), Some(" 1 "), Some("64"), Some("0"), Some("many")];
        assert_eq!(texts.map(connections_of), [8, 32, 1, 32, 8, 8]);
    }
}
