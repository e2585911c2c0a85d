//! The driver as an object of the calling process: for unit tests and benches.

use std::collections::HashMap;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use xsched_hal_kfd::Driver;

use crate::config::Config;
use crate::memory;
use crate::model::{Block, CallResult, Caller, Host, Model};

/// Rest of a latency that is waited for without sleep, in nanoseconds.
const AWAKE_NS: u64 = 100_000;
/// How often it is looked whether events are there.
const EVENTS_LOOK: Duration = Duration::from_micros(200);

/// The emulated driver, called directly: no file, no system call.
///
/// Addresses are always the calling process's, for any `pid`. A wrong one answers `EFAULT`, as
/// the kernel's does. A call that would block for ever answers `EDEADLK`, which no KFD call does,
/// and [`InProcess::blocked`] says what it waited for.
#[derive(Clone, Debug)]
pub struct InProcess {
    shared: Arc<Shared>,
    pid: u32,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    model: Model,
    host: Local,
    blocked: Option<Block>,
}

/// Host for processes that are this one.
#[derive(Debug, Default)]
struct Local {
    tracers: HashMap<u32, u32>,
    pids: Vec<u32>,
    may_checkpoint: bool,
}

impl Host for Local {
    fn read(&mut self, _: u32, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        memory::read(std::process::id(), address, into)
    }

    fn write(&mut self, _: u32, address: u64, from: &[u8]) -> Result<(), Errno> {
        memory::write(std::process::id(), address, from)
    }

    fn exists(&mut self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    fn tracer(&mut self, pid: u32) -> Option<u32> {
        self.tracers.get(&pid).copied()
    }

    fn has_file(&mut self, _: u32, file: i32) -> bool {
        Path::new(&format!("/proc/self/fd/{file}")).symlink_metadata().is_ok()
    }

    fn give_file(&mut self, _: u32, file: OwnedFd) -> Result<u32, Errno> {
        Ok(file.into_raw_fd().cast_unsigned())
    }

    fn may_checkpoint(&mut self, _: u32) -> bool {
        self.may_checkpoint
    }
}

impl InProcess {
    /// A driver that has just been loaded, opened by this process.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let pid = std::process::id();
        let mut model = Model::new(config);
        model.open(pid);
        let host = Local { pids: vec![pid], ..Local::default() };
        let state = State { model, host, blocked: None };
        Self { shared: Arc::new(Shared { start: Instant::now(), state: Mutex::new(state) }), pid }
    }

    /// Opens this driver as a process of this number, which need not exist.
    #[must_use]
    pub fn process(&self, pid: u32) -> Self {
        let mut state = self.lock();
        state.model.open(pid);
        if !state.host.pids.contains(&pid) {
            state.host.pids.push(pid);
        }
        drop(state);
        Self { shared: Arc::clone(&self.shared), pid }
    }

    /// The number of the process that calls through this.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Says who traces a process.
    pub fn trace(&self, pid: u32, tracer: Option<u32>) {
        let tracers = &mut self.lock().host.tracers;
        match tracer {
            Some(tracer) => tracers.insert(pid, tracer),
            None => tracers.remove(&pid),
        };
    }

    /// Sets whether processes may pause each other, as `CAP_CHECKPOINT_RESTORE` allows.
    pub fn allow_checkpoints(&self, allow: bool) {
        self.lock().host.may_checkpoint = allow;
    }

    /// A process ends.
    pub fn exit(&self) {
        let mut state = self.lock();
        let pid = self.pid;
        state.model.exit(pid);
        state.host.pids.retain(|other| *other != pid);
    }

    /// Looks at the state, or changes it.
    pub fn with<R>(&self, body: impl FnOnce(&mut Model) -> R) -> R {
        body(&mut self.lock().model)
    }

    /// Reason of the last call that would have blocked for ever.
    #[must_use]
    pub fn blocked(&self) -> Option<Block> {
        self.lock().blocked
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.shared.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Asks again until events are there, or the time is over.
    fn await_events(
        &self,
        request: u32,
        argument: &mut [u8],
        (until_ns, seen): (u64, u64),
    ) -> Result<u32, Errno> {
        let mut block = Block::Events { until_ns, seen };
        loop {
            std::thread::sleep(EVENTS_LOOK);
            let caller = Caller { pid: self.pid, opened_by: self.pid, now_ns: self.now_ns() };
            let mut state = self.lock();
            let State { model, host, .. } = &mut *state;
            let ask = |model: &mut Model| model.call_with(caller, request, argument, host);
            match model.again(caller, block, ask) {
                CallResult::Answer { result, .. } => return result,
                CallResult::Blocks(still) => block = still,
            }
        }
    }

    fn wait_until(&self, at_ns: u64) {
        loop {
            match at_ns.saturating_sub(self.now_ns()) {
                0 => return,
                left @ AWAKE_NS.. => {
                    std::thread::sleep(Duration::from_nanos(left - AWAKE_NS / 2));
                }
                _ => std::hint::spin_loop(),
            }
        }
    }
}

impl Driver for InProcess {
    // SAFETY: nothing is asked of the caller: wrong addresses are answered, not followed.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        let caller = Caller { pid: self.pid, opened_by: self.pid, now_ns: self.now_ns() };
        let mut state = self.lock();
        let State { model, host, .. } = &mut *state;
        let outcome = model.call_with(caller, request, argument, host);
        // In the process they have no use, and must not accumulate.
        model.take_changes();
        match outcome {
            CallResult::Answer { result, at_ns } => {
                drop(state);
                self.wait_until(at_ns);
                result
            }
            CallResult::Blocks(Block::Events { until_ns, seen }) => {
                drop(state);
                self.await_events(request, argument, (until_ns, seen))
            }
            CallResult::Blocks(block) => {
                state.blocked = Some(block);
                Err(Errno::DEADLK)
            }
        }
    }
}
