//! The suite that every backend must pass, at Lv3, with real system calls: the emulated HIP runtime
//! makes a queue of the emulated driver for each ring, and stops in the midst of a kernel when the
//! driver says so. No GPU is involved.
//!
//! The program runs itself once for each mechanism, on the emulated driver, with the library
//! preloaded that sees which queues are made.
#![allow(unsafe_code, reason = "drivers' handles")]

#[path = "../../../hal-hip/tests/common/mod.rs"]
mod common;

use std::collections::HashMap;
use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xsched_conformance::{Claims, Subject, Work, checks};
use xsched_core::level::Level;
use xsched_hal_hip::{HipApi, HipConfig, Rings};
use xsched_hal_kfd::hip::HipLv3;
use xsched_hal_kfd::mechanism::Kind;
use xsched_hal_kfd::probe::{MECHANISM_VARIABLE, ProbeConfig};
use xsched_hal_kfd::{KfdDevice, KfdQueueConfig};
use xsched_hal_stream::{Spacing, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig};
use xsched_kfd_emulated::Config;
use xsched_kfd_emulated::system::{Options, run};

use common::{Kernels, library};

/// Says, in the program on the emulated driver, by which mechanism.
const INSIDE: &str = "XSCHED_TEST_MECHANISM";

/// A call that takes longer is blocked.
const PATIENCE: Duration = Duration::from_secs(2);

/// The library to preload, which Cargo puts where it puts the tests.
fn watch() -> PathBuf {
    env::current_exe().expect("tests are programs").with_file_name("libxsched_kfd_watch.so")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device of the emulated runtime, on the emulated driver.
struct Emulated {
    kind: Kind,
    stages: bool,
    kernels: Mutex<HashMap<u32, Arc<Kernels>>>,
    /// The device that was opened last. Each check opens one.
    current: Mutex<u32>,
}

impl Emulated {
    fn new(kind: Kind, stages: bool) -> Self {
        Self { kind, stages, kernels: Mutex::default(), current: Mutex::default() }
    }

    /// A device below, with a gate in front of each command.
    fn below(&self) -> Result<StreamDevice<HipApi>, String> {
        let api = common::open(Rings::Own);
        let device = api.device();
        *lock(&self.current) = device;
        let again = HipApi::with_library(library(), HipConfig { device, rings: Rings::Own });
        let again = again.map_err(|error| error.to_string())?;
        lock(&self.kernels).insert(device, Arc::new(Kernels::load(&again)));
        // A busy machine must not look like a blocked call, for which all gates are opened. That
        // they are is tested where it belongs.
        let mut config = StreamDeviceConfig::default();
        (config.blocked_after, config.probe_every) = (PATIENCE, Duration::ZERO);
        let device = StreamDevice::new(api, config).map_err(|error| error.to_string())?;
        // Without gates the checks of Lv2 would be skipped, or hold nothing.
        match device.no_gate() {
            None => Ok(device),
            Some(why) => Err(format!("the emulated device has no gate: {why}")),
        }
    }
}

impl Subject for Emulated {
    type Command = StreamCommand<HipApi>;
    type Backend = KfdDevice<StreamDevice<HipApi>>;

    fn claims(&self) -> Claims {
        Claims { busy_alone: false, ..Claims::at(Level::Interrupt) }
    }

    fn device(&self) -> Result<Self::Backend, String> {
        let below = self.below()?;
        let places = ProbeConfig {
            mechanism: Some(self.kind.name().to_owned()),
            ..ProbeConfig::from_environment()
        };
        let lv3 = HipLv3::open(below.clone(), places);
        let parts = lv3.parts().map_err(|error| error.to_string())?;
        let gates_open = below.gates_open();
        let mut config = lv3.config();
        config.blocked_after = PATIENCE;
        config.stages = self.stages;
        let device = KfdDevice::with_parts(below, parts, Some(gates_open), config);
        device.map_err(|error| error.to_string())
    }

    fn config(&self, _: &mut Self::Backend) -> KfdQueueConfig<StreamConfig<HipApi>> {
        KfdQueueConfig::new(StreamConfig::default().spacing(Spacing::of_ns(0)))
    }

    /// The emulated ring is a thread, which may lose its processor between a look at the word and
    /// what follows.
    fn start_lag(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn command(&self, work: Work) -> Option<StreamCommand<HipApi>> {
        if matches!(work, Work::Failing) {
            // It takes all queues of the device with it.
            return None;
        }
        let kernels = Arc::clone(lock(&self.kernels).get(&*lock(&self.current))?);
        Some(StreamCommand::native(kernels.command(work)))
    }
}

/// Runs this program on the emulated driver, with the same arguments.
fn outside(kind: Kind) -> bool {
    let mut command = Command::new(env::current_exe().expect("tests are programs"));
    command
        .args(env::args_os().skip(1))
        .env(INSIDE, kind.name())
        .env("XSCHED_EMULATED_KFD", "1")
        .env("LD_PRELOAD", watch())
        .env_remove(MECHANISM_VARIABLE);
    let config = Config::mi308x();
    let report = run(&Options { config, ..Options::default() }, &mut command);
    report.expect("the emulated driver").status.success()
}

fn main() -> ExitCode {
    let Ok(name) = env::var(INSIDE) else {
        let kinds = [Kind::UpdateQueue, Kind::DebugTrap];
        let fine = kinds.into_iter().all(outside);
        return if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    let kind = Kind::of(&name).expect("it is given above");
    let name = kind.name();
    let staged: &'static str = Box::leak(format!("{name}-staged").into_boxed_str());
    xsched_conformance::main([
        (name, checks(), Emulated::new(kind, false)),
        (staged, checks(), Emulated::new(kind, true)),
    ])
}
