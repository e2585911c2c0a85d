//! The suite that every backend must pass, on the emulated HIP runtime.
#![expect(unsafe_code, reason = "drivers' handles")]

mod common;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xsched_conformance::{Claims, Subject, Work, checks};
use xsched_core::level::Level;
use xsched_hal_hip::{HipApi, HipConfig, Rings};
use xsched_hal_stream::{Spacing, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig};

use common::{Kernels, library};

/// A device of the emulated runtime.
struct Emulated {
    level: Level,
    spacing_ns: u64,
    kernels: Mutex<HashMap<u32, Arc<Kernels>>>,
    /// The device that was opened last. Each check opens one.
    current: Mutex<u32>,
}

impl Emulated {
    fn new(level: Level, spacing_ns: u64) -> Self {
        Self { level, spacing_ns, kernels: Mutex::default(), current: Mutex::new(0) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subject for Emulated {
    type Command = StreamCommand<HipApi>;
    type Backend = StreamDevice<HipApi>;

    fn claims(&self) -> Claims {
        Claims { busy_alone: false, ..Claims::at(self.level) }
    }

    fn device(&self) -> Result<StreamDevice<HipApi>, String> {
        let api = common::open(Rings::Own);
        let device = api.device();
        *lock(&self.current) = device;
        let again = HipApi::with_library(library(), HipConfig { device, rings: Rings::Own });
        let again = again.map_err(|error| error.to_string())?;
        lock(&self.kernels).insert(device, Arc::new(Kernels::load(&again)));
        let mut config = StreamDeviceConfig::default();
        config.level_max = self.level;
        // A thread that is very long without a processor counts as blocked in a launch, and all
        // gates would be opened. `faults.rs` is about that; here only holds open and close them.
        config.blocked_after = Duration::from_secs(10);
        config.probe_every = Duration::ZERO;
        StreamDevice::new(api, config).map_err(|error| error.to_string())
    }

    fn config(&self, _: &mut StreamDevice<HipApi>) -> StreamConfig<HipApi> {
        StreamConfig::default().spacing(Spacing::of_ns(self.spacing_ns))
    }

    /// The emulated stream is a thread, which may lose its processor between a look at the word and
    /// what follows.
    fn start_lag(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn command(&self, work: Work) -> Option<StreamCommand<HipApi>> {
        if matches!(work, Work::Failing) {
            // It takes all queues of the device with it; `faults.rs` sees to that.
            return None;
        }
        let kernels = Arc::clone(lock(&self.kernels).get(&*lock(&self.current))?);
        Some(StreamCommand::native(kernels.command(work)))
    }
}

fn main() {
    xsched_conformance::main([
        ("hip", checks(), Emulated::new(Level::Deactivate, 0)),
        ("hip-lv1", checks(), Emulated::new(Level::Block, 0)),
    ]);
}
