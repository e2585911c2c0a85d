//! Drivers for unit tests: one whose answers are a function, and one with a few queues.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use crate::driver::Driver;
use crate::queue::{KfdQueue, QueueFacts};
use crate::uapi::{
    self, DbgTrap, EnableDebug, INVALID_BIT, Operation, QueueSnapshot, QueueSnapshotEntry,
    ResumeQueues, RuntimeInfo, SuspendQueues, UpdateQueue, patched, runtime_state,
};
use crate::version::Versioned;

type Answer = dyn FnMut(u32, &mut [u8]) -> Result<u32, Errno> + Send;

/// Answers every call by a function, and remembers the requests.
pub(crate) struct Scripted {
    answer: Mutex<Box<Answer>>,
    requests: Mutex<Vec<u32>>,
}

impl Scripted {
    pub(crate) fn new(
        answer: impl FnMut(u32, &mut [u8]) -> Result<u32, Errno> + Send + 'static,
    ) -> Self {
        Self { answer: Mutex::new(Box::new(answer)), requests: Mutex::default() }
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<u32> {
        self.requests.lock().expect("no test panics with it").clone()
    }
}

impl Driver for Scripted {
    // SAFETY: the caller's obligation is the trait's.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        self.requests.lock().expect("no test panics with it").push(request);
        (self.answer.lock().expect("no test panics with it"))(request, argument)
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

/// A queue of a [`Fake`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FakeQueue {
    pub(crate) ring_base: u64,
    pub(crate) percentage: u32,
    pub(crate) priority: u32,
    pub(crate) is_new: bool,
    pub(crate) is_suspended: bool,
}

impl FakeQueue {
    pub(crate) const fn is_active(&self) -> bool {
        self.percentage > 0 && !self.is_suspended
    }
}

/// State of a [`Fake`].
#[derive(Debug, Default)]
pub(crate) struct FakeState {
    pub(crate) minor: u32,
    pub(crate) queues: BTreeMap<u32, FakeQueue>,
    pub(crate) runtime: u32,
    pub(crate) is_debugged: bool,
    /// How often a runtime may start or end beside a debugger without waiting.
    pub(crate) permits: u32,
    pub(crate) preemptions: u32,
    /// Answers of the next calls with a request.
    pub(crate) failing: Vec<(u32, Errno)>,
    /// An operation of `DBG_TRAP` that answers this instead.
    pub(crate) failing_operation: Option<(Operation, Errno)>,
    pub(crate) calls: Vec<(u32, Option<u32>)>,
    /// Bits that the next suspend sets in its ids.
    pub(crate) suspend_bits: u32,
    pub(crate) has_patch: bool,
}

/// A driver with queues, as far as the tests here need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fake(Arc<Mutex<FakeState>>);

/// The ring of the queue with this id.
pub(crate) const fn ring(id: u32) -> u64 {
    0x7000_0000 + id as u64 * 0x1_0000
}

impl Fake {
    /// KFD 1.17 with this many queues, seen by no debugger, whose runtime is enabled.
    pub(crate) fn with_queues(count: u32) -> Self {
        let fake = Self::default();
        let mut state = fake.state();
        state.minor = 17;
        state.runtime = runtime_state::ENABLED;
        for id in 0..count {
            let ring_base = ring(id);
            let queue = FakeQueue {
                ring_base,
                percentage: 100,
                priority: 7,
                is_new: true,
                ..Default::default()
            };
            state.queues.insert(id, queue);
        }
        drop(state);
        fake
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock().expect("no test panics with it")
    }

    pub(crate) fn versioned(&self) -> Arc<Versioned<Self>> {
        Arc::new(Versioned::ask(self.clone()).expect("it answers"))
    }

    pub(crate) fn is_active(&self, id: u32) -> bool {
        self.state().queues.get(&id).is_some_and(FakeQueue::is_active)
    }

    /// The next call with this request fails.
    pub(crate) fn fail(&self, request: u32, errno: Errno) {
        self.state().failing.push((request, errno));
    }

    /// How often a request came, with this operation if it is `DBG_TRAP`.
    pub(crate) fn count(&self, request: u32, operation: Option<Operation>) -> usize {
        let wanted = (request, operation.map(|operation| operation as u32));
        self.state().calls.iter().filter(|call| **call == wanted).count()
    }
}

/// A queue as this process has it.
pub(crate) fn queue(id: u32) -> Arc<KfdQueue> {
    queue_at(id, ring(id))
}

pub(crate) fn queue_at(id: u32, ring_base: u64) -> Arc<KfdQueue> {
    let facts = QueueFacts {
        id,
        gpu_id: 1001,
        ring_base,
        ring_size: 0x4000,
        priority: 7,
        kind: uapi::QueueType::ComputeAql as u32,
        save_bytes: 0,
        created: None,
    };
    Arc::new(KfdQueue::new(facts).expect("it can be"))
}

fn read<T: FromBytes>(argument: &[u8]) -> T {
    T::read_from_bytes(argument).expect("it has the call's size")
}

impl Driver for Fake {
    // SAFETY: the caller's obligation is the trait's.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        let mut state = self.state();
        let is_debug = request == uapi::DBG_TRAP.request;
        let operation = is_debug.then(|| read::<DbgTrap>(argument).operation);
        state.calls.push((request, operation));
        if let Some(at) = state.failing.iter().position(|(failing, _)| *failing == request) {
            return Err(state.failing.remove(at).1);
        }
        state.answer(request, argument)
    }
}

impl FakeState {
    fn answer(&mut self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        if request == uapi::GET_VERSION.request {
            let version = uapi::GetVersion { major: 1, minor: self.minor };
            argument.copy_from_slice(version.as_bytes());
            return Ok(0);
        }
        if request == uapi::UPDATE_QUEUE.request {
            return self.update(&read(argument));
        }
        if request == uapi::GET_QUEUE_WAVE_STATE.request {
            let asked: uapi::GetQueueWaveState = read(argument);
            let queue = self.queues.get(&asked.queue_id).ok_or(Errno::FAULT)?;
            return Err(if queue.is_active() { Errno::INVAL } else { Errno::FAULT });
        }
        if request == uapi::RUNTIME_ENABLE.request {
            return self.enable_runtime(&read(argument));
        }
        if request == uapi::DBG_TRAP.request {
            return self.debug(argument);
        }
        if !self.has_patch {
            return Err(Errno::NOTTY);
        }
        if request == patched::PREEMPT_QUEUE.request {
            let asked: patched::PreemptQueue = read(argument);
            return self.patched(asked.queue_id, true);
        }
        let asked: patched::ResumeQueue = read(argument);
        self.patched(asked.queue_id, false)
    }

    fn patched(&mut self, id: u32, suspend: bool) -> Result<u32, Errno> {
        let queue = self.queues.get_mut(&id).ok_or(Errno::INVAL)?;
        queue.is_suspended = suspend;
        self.preemptions += 1;
        Ok(0)
    }

    fn update(&mut self, update: &UpdateQueue) -> Result<u32, Errno> {
        if update.percentage > 100 || update.priority > 15 {
            return Err(Errno::INVAL);
        }
        let queue = self.queues.get_mut(&update.queue_id).ok_or(Errno::FAULT)?;
        if update.ring_base != queue.ring_base || update.ring_size != 0x4000 {
            return Err(Errno::FAULT);
        }
        (queue.percentage, queue.priority) = (update.percentage, update.priority);
        self.preemptions += 1;
        Ok(0)
    }

    fn enable_runtime(&mut self, asked: &uapi::RuntimeEnable) -> Result<u32, Errno> {
        if self.is_debugged {
            let left = self.permits.checked_sub(1);
            self.permits = left.expect("with a debugger this call would wait for ever");
        }
        if asked.mode & uapi::MODE_ENABLE == 0 {
            self.runtime = runtime_state::DISABLED;
            self.queues.values_mut().for_each(|queue| queue.is_suspended = false);
            return Ok(0);
        }
        if self.runtime != runtime_state::DISABLED {
            return Err(Errno::BUSY);
        }
        if !self.queues.is_empty() {
            return Err(Errno::EXIST);
        }
        self.runtime = runtime_state::ENABLED;
        Ok(0)
    }

    fn debug(&mut self, argument: &mut [u8]) -> Result<u32, Errno> {
        let mut trap: DbgTrap = read(argument);
        let operation = Operation::of(trap.operation).ok_or(Errno::INVAL)?;
        if let Some((_, errno)) =
            self.failing_operation.filter(|(failing, _)| *failing == operation)
        {
            return Err(errno);
        }
        if operation == Operation::Enable {
            return self.debug_enable(&trap.payload());
        }
        if !self.is_debugged {
            return Err(Errno::INVAL);
        }
        match operation {
            Operation::Disable => {
                self.is_debugged = false;
                self.queues.values_mut().for_each(|queue| queue.is_suspended = false);
                Ok(0)
            }
            Operation::GetQueueSnapshot => {
                let mut payload: QueueSnapshot = trap.payload();
                self.snapshot(&mut payload);
                trap = DbgTrap::new(trap.pid, &payload);
                argument.copy_from_slice(trap.as_bytes());
                Ok(0)
            }
            Operation::SendRuntimeEvent => {
                let payload: uapi::SendRuntimeEvent = trap.payload();
                self.permits += u32::from(payload.exceptions & uapi::EC_PROCESS_RUNTIME != 0);
                Ok(0)
            }
            Operation::SuspendQueues | Operation::ResumeQueues
                if self.runtime != runtime_state::ENABLED =>
            {
                Err(Errno::PERM)
            }
            Operation::SuspendQueues => {
                let payload: SuspendQueues = trap.payload();
                self.set_suspended(payload.queues, payload.count, true)
            }
            Operation::ResumeQueues => {
                let payload: ResumeQueues = trap.payload();
                self.set_suspended(payload.queues, payload.count, false)
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn debug_enable(&mut self, payload: &EnableDebug) -> Result<u32, Errno> {
        if self.is_debugged {
            return Err(Errno::ALREADY);
        }
        let info = std::ptr::with_exposed_provenance_mut::<RuntimeInfo>(payload.info as usize);
        let state = RuntimeInfo { r_debug: 0, state: self.runtime, ttmp_setup: 1 };
        // SAFETY: the caller passes the address of a `RuntimeInfo` that it owns.
        unsafe { info.write(state) };
        self.is_debugged = true;
        Ok(0)
    }

    fn snapshot(&mut self, payload: &mut QueueSnapshot) {
        let entries =
            std::ptr::with_exposed_provenance_mut::<QueueSnapshotEntry>(payload.entries as usize);
        for (at, (id, queue)) in self.queues.iter_mut().enumerate() {
            let exceptions = if queue.is_new { uapi::EC_QUEUE_NEW } else { 0 };
            queue.is_new &= payload.exceptions & uapi::EC_QUEUE_NEW == 0;
            let entry = QueueSnapshotEntry {
                exceptions,
                queue_id: *id,
                ring_base: queue.ring_base,
                ring_size: 0x4000,
                gpu_id: 1001,
                ..QueueSnapshotEntry::default()
            };
            if at < payload.count as usize {
                // SAFETY: the caller passes room for `count` entries.
                unsafe { entries.add(at).write(entry) };
            }
        }
        payload.count = self.queues.len() as u32;
    }

    fn set_suspended(&mut self, ids: u64, count: u32, suspend: bool) -> Result<u32, Errno> {
        let ids = std::ptr::with_exposed_provenance_mut::<u32>(ids as usize);
        // SAFETY: the caller passes the address of `count` ids.
        let ids = unsafe { std::slice::from_raw_parts_mut(ids, count as usize) };
        let mut done = 0;
        let bits = if suspend { std::mem::take(&mut self.suspend_bits) } else { 0 };
        for id in ids {
            match self.queues.get_mut(id) {
                Some(queue) if !(suspend && queue.is_new) => {
                    queue.is_suspended = suspend;
                    *id |= bits;
                    done += 1;
                }
                _ => *id |= INVALID_BIT,
            }
        }
        self.preemptions += u32::from(done > 0);
        Ok(done)
    }
}
