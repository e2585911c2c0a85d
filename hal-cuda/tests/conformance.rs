//! The suite that every backend must pass, on the first CUDA device, or on the emulated driver
//! where there is no other.
#![expect(unsafe_code, reason = "gives kernels the addresses that they write to")]

mod common;

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use xsched_conformance::{Claims, Note, Subject, Work, checks};
use xsched_core::level::Level;
use xsched_hal_cuda::table::HOST_REGISTER;
use xsched_hal_cuda::{
    CudaApi, CudaCommand, CudaError, Spacing, StreamCommand, StreamConfig, StreamDevice,
    StreamDeviceConfig, device_count,
};
use xsched_hal_stream::StreamApi;

const PAGE: usize = 4_096;

/// The first CUDA device.
struct Cuda {
    level: Level,
    rate: OnceLock<f64>,
    api: CudaApi,
    /// The driver is the emulated one.
    emulated: bool,
}

/// Pages by address, and where the device sees them; and the notes in them.
type Pages = (HashMap<usize, u64>, Vec<Note>);

/// Pages that the device can write to, and where it sees them. They stay so to the end, and so do
/// the logs in them.
static PAGES: Mutex<Option<Pages>> = Mutex::new(None);

impl Cuda {
    fn new(level: Level, emulated: bool) -> Result<Self, CudaError> {
        let api = CudaApi::open(0)?;
        Ok(Self { level, rate: OnceLock::new(), api, emulated })
    }

    /// Where the device sees an address.
    fn seen<T>(&self, place: &T) -> u64 {
        let place = std::ptr::from_ref(place) as usize;
        let (page, offset) = (place & !(PAGE - 1), place % PAGE);
        let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, _) = pages.get_or_insert_default();
        let device = *known.entry(page).or_insert_with(|| {
            let _entered = self.api.enter().expect("the device");
            let (table, at, mut device) = (self.api.table(), page as *mut c_void, 0_u64);
            // SAFETY: the page has a part of a log in it, which is kept below.
            let code = unsafe { (table.host_register)(at, PAGE, HOST_REGISTER) };
            assert_eq!(code, 0, "a page of a log could not be registered");
            // SAFETY: it writes an address.
            let code = unsafe { (table.host_device_pointer)(&raw mut device, at, 0) };
            assert_eq!(code, 0, "a page of a log has no address");
            device
        });
        device + offset as u64
    }

    fn timed(&self, ns: u64, note: Note) -> Option<CudaCommand> {
        // On a busy machine it cannot be measured, and need not be.
        let measured = || self.api.spin_rate(1, 1).expect("a rate").cycles_per_ns;
        let rate = *self.rate.get_or_init(|| if self.emulated { 1.0 } else { measured() });
        let (clock, notes) = note.notes()?;
        let (clock, first, last) =
            (self.seen(clock), self.seen(&notes.starts), self.seen(&notes.reserved));
        assert_eq!(last - first, 48, "pages of a log are seen in different places");
        let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        pages.get_or_insert_default().1.push(note);
        let cycles = (ns as f64 * rate) as u64;
        // SAFETY: the log is kept to the end.
        let kernel = unsafe { self.api.kernels().note(cycles, clock, first) };
        kernel.ok().map(CudaCommand::kernel)
    }
}

impl Subject for Cuda {
    type Command = StreamCommand<CudaApi>;
    type Backend = StreamDevice<CudaApi>;

    fn claims(&self) -> Claims {
        // A note takes microseconds across the bus, so commands are longer than elsewhere.
        Claims { units: 8, unit_ns: 500_000, busy_alone: false, ..Claims::at(self.level) }
    }

    fn device(&self) -> Result<StreamDevice<CudaApi>, String> {
        let api = CudaApi::open(0).map_err(|error| error.to_string())?;
        let mut config = StreamDeviceConfig::default();
        config.level_max = self.level;
        if self.emulated {
            // A thread that is very long without a processor counts as blocked in a launch, and all
            // gates would be opened.
            config.blocked_after = Duration::from_secs(10);
            config.probe_every = Duration::ZERO;
        }
        StreamDevice::new(api, config).map_err(|error| error.to_string())
    }

    fn config(&self, _: &mut StreamDevice<CudaApi>) -> StreamConfig<CudaApi> {
        StreamConfig::default().spacing(Spacing::of_ns(0))
    }

    /// An emulated stream is a thread, which may lose its processor between a look at the word and
    /// what follows.
    fn start_lag(&self) -> Duration {
        if self.emulated { Duration::from_millis(10) } else { Duration::ZERO }
    }

    fn command(&self, work: Work) -> Option<StreamCommand<CudaApi>> {
        let command = match work {
            Work::Empty => CudaCommand::kernel(self.api.kernels().empty()),
            Work::Timed { ns, note } => self.timed(ns, note)?,
            // It would take the context, and all other tests, with it; `cuda_faults` does that in
            // processes of its own.
            Work::Failing => return None,
        };
        Some(StreamCommand::native(command))
    }
}

fn main() {
    let emulated = common::choose_driver();
    match device_count() {
        Ok(0) => return println!("skipped: there is no CUDA device"),
        Ok(_) => {}
        Err(error) => return println!("skipped: {error}"),
    }
    let open = |level| Cuda::new(level, emulated).expect("the first device");
    xsched_conformance::main([
        ("cuda", checks(), open(Level::Deactivate)),
        ("cuda-lv1", checks(), open(Level::Block)),
    ]);
}
