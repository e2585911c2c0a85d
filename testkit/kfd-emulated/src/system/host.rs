//! Answers from `/proc` about the processes that call.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::Opened;
use super::notify::Listener;
use crate::memory;
use crate::model::{Clocks, Host, Saved};

/// Capabilities that may pause processes: `CAP_SYS_ADMIN` and `CAP_CHECKPOINT_RESTORE`.
const CHECKPOINT: u64 = 1 << 21 | 1 << 40;

/// A field of `/proc/PID/status`.
pub(super) fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.map(|value| value.trim().to_owned())
}

/// The process of a thread.
pub(super) fn process_of(thread: u32) -> Option<u32> {
    status(thread, "Tgid")?.parse().ok()
}

/// The processes that call, during one call.
pub(super) struct System<'a> {
    pub(super) listener: &'a Listener,
    /// The present call.
    pub(super) call: u64,
    /// All processes may pause processes, as root may.
    pub(super) as_root: bool,
    pub(super) opened: &'a BTreeMap<u32, Opened>,
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

impl Host for System<'_> {
    fn read(&mut self, pid: u32, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        memory::read(pid, address, into)
    }

    fn write(&mut self, pid: u32, address: u64, from: &[u8]) -> Result<(), Errno> {
        memory::write(pid, address, from)
    }

    fn exists(&mut self, pid: u32) -> bool {
        status(pid, "Tgid").is_some()
    }

    fn tracer(&mut self, pid: u32) -> Option<u32> {
        let tracer: u32 = status(pid, "TracerPid")?.parse().ok()?;
        // The thread that traces, whose process it is that may debug.
        process_of(tracer)
    }

    fn has_file(&mut self, pid: u32, file: i32) -> bool {
        fs::symlink_metadata(format!("/proc/{pid}/fd/{file}")).is_ok()
    }

    fn give_file(&mut self, _: u32, file: OwnedFd) -> Result<u32, Errno> {
        self.listener.give(self.call, file.as_fd(), true, false)
    }

    fn saved(&mut self, pid: u32, id: u32) -> Option<Saved> {
        self.opened.get(&pid)?.page.saved(id)
    }

    fn clocks(&mut self) -> Option<Clocks> {
        Some(Clocks {
            gpu: clock_ns(ClockId::Monotonic) / 10,
            cpu_ns: clock_ns(ClockId::MonotonicRaw),
            system_ns: clock_ns(ClockId::Boottime),
        })
    }

    fn may_checkpoint(&mut self, pid: u32) -> bool {
        let has =
            |value: &String| u64::from_str_radix(value, 16).is_ok_and(|set| set & CHECKPOINT != 0);
        self.as_root || status(pid, "CapEff").as_ref().is_some_and(has)
    }
}
