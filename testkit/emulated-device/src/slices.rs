//! One device for several processes, in time slices: that of the file that
//! `XSCHED_EMULATED_GPU` names. Without it each process has a device of its own.
//!
//! `XSCHED_EMULATED_CALL_US` says how many microseconds a call takes that puts something into a
//! stream.
//!
//! Who has the device keeps it for two milliseconds, unless it runs out of work or waits for
//! something. It then goes to the process that asked first.

use std::fs::{File, OpenOptions};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{hint, io, thread};

/// As long as those of a GPU of NVIDIA's.
const SLICE: Duration = Duration::from_millis(2);
/// Time for which a process leaves the device to others that asked for it.
const LEFT: Duration = Duration::from_micros(60);

struct Slices {
    file: File,
    /// Since when this process has the device.
    since: Mutex<Option<Instant>>,
}

static SLICES: LazyLock<Option<Slices>> = LazyLock::new(|| {
    let path = std::env::var_os("XSCHED_EMULATED_GPU")?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let refused = |error: &io::Error| eprintln!("XSCHED_EMULATED_GPU={}: {error}", path.display());
    let file = file.inspect_err(refused).ok()?;
    Some(Slices { file, since: Mutex::default() })
});

/// Time of a call of the driver that puts something into a stream.
static CALL: LazyLock<Duration> = LazyLock::new(|| {
    let Some(given) = std::env::var_os("XSCHED_EMULATED_CALL_US") else { return Duration::ZERO };
    let us = given.to_str().and_then(|given| given.parse().ok());
    if us.is_none() {
        eprintln!("XSCHED_EMULATED_CALL_US is no number of microseconds: {}", given.display());
    }
    Duration::from_micros(us.unwrap_or(0))
});

/// Takes as long as a call of the driver does.
pub(crate) fn call() {
    let began = Instant::now();
    while began.elapsed() < *CALL {
        hint::spin_loop();
    }
}

/// Waits until this process has the device, and answers for how long it may keep it.
pub(crate) fn enter() -> Duration {
    let Some(slices) = &*SLICES else { return Duration::MAX };
    loop {
        let mut since = slices.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            let _ = slices.file.lock();
        }
        match SLICE.checked_sub(since.get_or_insert_with(Instant::now).elapsed()) {
            Some(left) => return left,
            None => leave_with(slices, &mut since),
        }
        drop(since);
        thread::sleep(LEFT);
    }
}

/// Leaves the device while this process has nothing to run.
pub(crate) fn leave() {
    // If it is locked, something else of the process has or wants the device.
    if let Some(slices) = &*SLICES
        && let Ok(mut since) = slices.since.try_lock()
    {
        leave_with(slices, &mut since);
    }
}

fn leave_with(slices: &Slices, since: &mut Option<Instant>) {
    if since.take().is_some() {
        let _ = slices.file.unlock();
    }
}
