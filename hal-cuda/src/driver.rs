//! Calls of the driver: their answers, and the current context.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use xsched_hal_stream::About;

use crate::error::CudaError;
use crate::table::{ATTRIBUTE_MPS, ATTRIBUTE_UNITS, CuContext, CuDevice, CuResult, SUCCESS, Table};

/// Answers of calls that write a value.
pub(crate) fn written<T>(
    table: &Table,
    call: &'static str,
    mut value: T,
    ask: impl FnOnce(*mut T) -> CuResult,
) -> Result<T, CudaError> {
    check(table, call, ask(&raw mut value))?;
    Ok(value)
}

pub(crate) fn check(table: &Table, call: &'static str, code: CuResult) -> Result<(), CudaError> {
    if code == SUCCESS { Ok(()) } else { Err(CudaError::of(table, call, code)) }
}

/// A function that a driver may lack.
pub(crate) fn need<T>(function: Option<T>, symbol: &'static str) -> Result<T, CudaError> {
    function.ok_or(CudaError::Missing { symbol })
}

pub(crate) fn attribute(table: &Table, number: i32, device: CuDevice) -> Result<i32, CudaError> {
    // SAFETY: it writes a number.
    let ask = |value| unsafe { (table.device_attribute)(value, number, device) };
    written(table, "cuDeviceGetAttribute", 0, ask)
}

/// A text that a call writes.
fn text(
    table: &Table,
    call: &'static str,
    ask: impl FnOnce(*mut c_char, c_int) -> CuResult,
) -> Result<String, CudaError> {
    let mut bytes = [0_u8; 256];
    // One less, so that there is an end whatever is written.
    check(table, call, ask(bytes.as_mut_ptr().cast(), 255))?;
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

pub(crate) fn about(table: &Table, device: CuDevice) -> Result<About, CudaError> {
    // SAFETY: it writes an answer to where it is asked to.
    let version = |value| unsafe { (table.driver_version)(value) };
    let version = written(table, "cuDriverGetVersion", 0, version)?;
    // SAFETY: it writes a text of at most this length.
    let name = |at, length| unsafe { (table.device_name)(at, length, device) };
    // SAFETY: it writes a text of at most this length.
    let pci = |at, length| unsafe { (table.device_pci)(at, length, device) };
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: it writes two numbers.
    let code = unsafe { (table.ctx_priorities)(&raw mut least, &raw mut greatest) };
    check(table, "cuCtxGetStreamPriorityRange", code)?;
    let pci = text(table, "cuDeviceGetPCIBusId", pci)?.to_lowercase();
    Ok(About {
        device: text(table, "cuDeviceGetName", name)?,
        // Without the function, of which devices have only one.
        pci: pci.split('.').next().unwrap_or_default().to_owned(),
        driver: format!("CUDA {}.{}", version / 1_000, version % 1_000 / 10),
        library: table.library.clone(),
        units: u32::try_from(attribute(table, ATTRIBUTE_UNITS, device)?).unwrap_or(0),
        priorities: (least, greatest),
        // A driver that does not know the number has no MPS of this kind.
        side_by_side: attribute(table, ATTRIBUTE_MPS, device).is_ok_and(|enabled| enabled != 0),
    })
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

static LEAVES_CAPTURES_ALONE: AtomicBool = AtomicBool::new(false);

/// From now on, each thread that calls the driver through this crate has its capture mode relaxed
/// and keeps it: what it asks the driver then spoils no capture that a program's thread has begun.
/// For interposers, in programs that capture and know of no other thread.
pub fn leave_captures_alone() {
    LEAVES_CAPTURES_ALONE.store(true, Ordering::Relaxed);
}

/// Relaxes this thread's capture mode, once, if it is to be.
pub(crate) fn relax(table: &Table) {
    thread_local! {
        static IS_RELAXED: Cell<bool> = const { Cell::new(false) };
    }
    if !LEAVES_CAPTURES_ALONE.load(Ordering::Relaxed) || IS_RELAXED.replace(true) {
        return;
    }
    if let Some(exchange) = table.capture_mode {
        let mut mode = RELAXED;
        // A driver that refuses leaves it as it was.
        // SAFETY: it reads and writes a number.
        let _ = unsafe { exchange(&raw mut mode) };
    }
}

/// A context is current on this thread; what was before is again when this is dropped.
#[derive(Debug)]
pub struct Entered {
    table: &'static Table,
    pushed: bool,
    /// Stays on its thread.
    here: PhantomData<*mut ()>,
}

impl Entered {
    pub(crate) fn of(table: &'static Table, context: CuContext) -> Result<Self, CudaError> {
        relax(table);
        // SAFETY: it writes a handle.
        let ask = |current| unsafe { (table.ctx_current)(current) };
        let pushed = written(table, "cuCtxGetCurrent", CuContext::NULL, ask)? != context;
        if pushed {
            // SAFETY: the context is alive as long as the device.
            check(table, "cuCtxPushCurrent", unsafe { (table.ctx_push)(context) })?;
        }
        Ok(Self { table, pushed, here: PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut context = CuContext::NULL;
            // SAFETY: it writes a handle. It was pushed on this thread, as this is not `Send`.
            let _ = unsafe { (self.table.ctx_pop)(&raw mut context) };
        }
    }
}
