//! The state of amdkfd for all processes, and what each call does to it.
//!
//! No clock, no threads, no system calls: time is an argument, memory of processes and their
//! debuggers are asked for through [`Host`], and what the system should show is a list of
//! [`Change`]s.

mod debug;
mod device;
mod events;
mod exceptions;
mod memory;
mod node;
mod private;
mod process;
mod queues;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

pub use debug::{Attach, Debugging};
pub use exceptions::Told;
pub use memory::BUFFERS_MAX;
pub(crate) use memory::file_bytes;
pub use node::{Fault, NodeView};
pub use process::{QUEUES_MAX, QueueView};

use crate::config::Config;
use crate::wire::{Argument, READ, WRITE, bytes_of, definition, nr, nr_of};
use node::Node;
use process::Process;

/// Questions of the model about the processes that call.
pub trait Host {
    /// Reads a process's memory.
    ///
    /// # Errors
    /// `EFAULT` if not all of it is there.
    fn read(&mut self, pid: u32, address: u64, into: &mut [u8]) -> Result<(), Errno>;

    /// Writes a process's memory.
    ///
    /// # Errors
    /// `EFAULT` if not all of it is there.
    fn write(&mut self, pid: u32, address: u64, from: &[u8]) -> Result<(), Errno>;

    /// True if there is such a process.
    fn exists(&mut self, pid: u32) -> bool;

    /// Number of its tracer.
    fn tracer(&mut self, pid: u32) -> Option<u32>;

    /// True if it has such a file.
    fn has_file(&mut self, pid: u32, file: i32) -> bool;

    /// Puts a file into it. What comes back is its number there.
    ///
    /// # Errors
    /// If it can have no more.
    fn give_file(&mut self, pid: u32, file: OwnedFd) -> Result<u32, Errno>;

    /// True if it may pause processes: `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN`.
    fn may_checkpoint(&mut self, pid: u32) -> bool;

    /// How much of a queue's save area is used, if there is a device that writes to it.
    fn saved(&mut self, _pid: u32, _id: u32) -> Option<Saved> {
        None
    }

    /// The clocks, if they are to be the machine's.
    fn clocks(&mut self) -> Option<Clocks> {
        None
    }
}

/// How much of a queue's save area is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Bytes of the control stack.
    pub control_bytes: u32,
    /// Bytes of the waves' state.
    pub wave_bytes: u32,
}

/// Clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The GPU's, at 100 MHz.
    pub gpu: u64,
    /// The processor's monotonic one that is not adjusted, in nanoseconds.
    pub cpu_ns: u64,
    /// The one since the machine was started, in nanoseconds.
    pub system_ns: u64,
}

/// A change that other processes can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A process has opened the driver, or a debugger has on its behalf.
    Opened {
        /// Number of the process.
        pid: u32,
    },
    /// A queue was made.
    Created {
        /// Process.
        pid: u32,
        /// Id.
        id: u32,
        /// GPU's `gpu_id`.
        gpu_id: u32,
        /// Bytes of its ring.
        bytes: u32,
        /// `queue_type` in sysfs: 0 for compute with any packet format.
        kind: u32,
    },
    /// A queue is gone.
    Destroyed {
        /// Process.
        pid: u32,
        /// Id.
        id: u32,
    },
    /// A queue may run now, or may not any more.
    Active {
        /// Process.
        pid: u32,
        /// Id.
        id: u32,
        /// True if the queue is on the run list.
        is_active: bool,
    },
    /// A piece of the device's memory is free again, and what it contained is gone.
    Freed {
        /// Where it is in the file that stands for the memory.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// A queue was reset: nothing of it ever runs again.
    Lost {
        /// Process.
        pid: u32,
        /// Id.
        id: u32,
    },
}

/// Caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The calling process.
    pub pid: u32,
    /// The process that opened the file.
    pub opened_by: u32,
    /// Now, in nanoseconds of a clock that never goes back.
    pub now_ns: u64,
}

/// Why a call does not return, and what would let it go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Block {
    /// A queue that a debugger suspended is not destroyed.
    #[error("DESTROY_QUEUE of queue {id} waits until it is resumed; resume it first")]
    Destroy {
        /// Id.
        id: u32,
    },
    /// The process's runtime waits for its debugger.
    #[error(
        "RUNTIME_ENABLE waits for the debugger's SEND_RUNTIME_EVENT(EC_PROCESS_RUNTIME); \
         enable the runtime before the debugger, and disable the debugger before the runtime"
    )]
    Runtime {
        /// True if the call enables the runtime, rather than disables it.
        enables: bool,
    },
    /// Events that are waited for.
    #[error("WAIT_EVENTS waits for its events")]
    Events {
        /// When it gives up, in nanoseconds of the caller's clock.
        until_ns: u64,
        /// How often events of any process had changed when it looked at them.
        seen: u64,
    },
}

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallResult {
    /// The call returns.
    Answer {
        /// Error of the record.
        result: Result<u32, Errno>,
        /// When, in nanoseconds of the caller's clock: not before the device has done it.
        at_ns: u64,
    },
    /// The call does not return yet: ask again with [`Model::again`] after other calls.
    Blocks(Block),
}

/// How a handler ends.
pub(crate) type Handled = Result<u32, Stop>;

/// Argument of a call, and the machine that it is made on.
type Asked<'a, 'b> = (&'a mut Argument<'b>, &'a mut (dyn Host + 'a));

/// A handler does not succeed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    Errno(Errno),
    Block(Block),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Block> for Stop {
    fn from(block: Block) -> Self {
        Self::Block(block)
    }
}

/// The driver.
#[derive(Debug)]
pub struct Model {
    config: Config,
    nodes: Vec<Node>,
    processes: BTreeMap<u32, Process>,
    changes: Vec<Change>,
    /// Files that listen to a GPU's events: the GPU's place, our end.
    listeners: Vec<(usize, OwnedFd)>,
    /// The device memory that is in use.
    space: memory::Space,
    /// How often events of any process have changed.
    event_changes: u64,
    /// When the present call gives up, if it waited for events before.
    until_ns: Option<u64>,
    /// Calls that the real driver has and the model does not.
    unmodelled: BTreeSet<(u8, u32)>,
    debugging: Debugging,
    attach: Attach,
    /// The time of the present call.
    now_ns: u64,
    /// When the present call is done.
    ready_ns: u64,
}

impl Model {
    /// A driver that has just been loaded.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            nodes: config.gpus.iter().map(|_| Node::default()).collect(),
            space: memory::Space::of(&config),
            config,
            processes: BTreeMap::new(),
            changes: Vec::new(),
            listeners: Vec::new(),
            event_changes: 0,
            until_ns: None,
            unmodelled: BTreeSet::new(),
            debugging: Debugging::default(),
            attach: Attach::default(),
            now_ns: 0,
            ready_ns: 0,
        }
    }

    /// Configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Sets how long the device takes from now on.
    pub const fn set_latency(&mut self, latency: crate::config::Latency) {
        self.config.latency = latency;
    }

    /// A process opens the driver. Opening it again changes nothing.
    pub fn open(&mut self, pid: u32) {
        if let Entry::Vacant(place) = self.processes.entry(pid) {
            place.insert(Process::default());
            self.changes.push(Change::Opened { pid });
        }
    }

    /// A process ended: its queues are destroyed in any state, and its sessions as debugger of
    /// other processes end.
    pub fn exit(&mut self, pid: u32) {
        let debugged = self.processes.iter().filter(|(_, process)| {
            process.debugged.as_ref().is_some_and(|debugged| debugged.by == pid)
        });
        let debugged: Vec<_> = debugged.map(|(other, _)| *other).collect();
        for other in debugged {
            self.stop_debugging(other);
        }
        self.free_all(pid);
        let Some(process) = self.processes.remove(&pid) else { return };
        let mut gpus = BTreeSet::new();
        for (id, queue) in process.queues {
            gpus.insert(queue.gpu);
            self.changes.push(Change::Destroyed { pid, id });
        }
        for gpu in gpus {
            // While the GPU is being reset there is no run list to take down.
            let _ = self.preempting(gpu, |_| {});
        }
    }

    /// The changes that other processes can see and that were not taken yet, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Calls that the real driver has and the model does not, as numbers and operations. They were
    /// answered with `EOPNOTSUPP`, which no KFD call answers.
    #[must_use]
    pub fn unmodelled(&self) -> Vec<(u8, u32)> {
        self.unmodelled.iter().copied().collect()
    }

    /// A call whose argument is in the caller's memory.
    pub fn call(
        &mut self,
        caller: Caller,
        request: u32,
        address: u64,
        host: &mut dyn Host,
    ) -> CallResult {
        let mut user = vec![0; bytes_of(request)];
        let direction = self.definition(nr_of(request)).map_or(0, |found| found.direction);
        let is_owner = caller.pid == caller.opened_by;
        let reads = is_owner && direction & WRITE != 0;
        let read = if reads { host.read(caller.pid, address, &mut user) } else { Ok(()) };
        if let Err(errno) = read {
            return CallResult::Answer { result: Err(errno), at_ns: caller.now_ns };
        }
        let outcome = self.call_with(caller, request, &mut user, host);
        let CallResult::Answer { at_ns, .. } = outcome else { return outcome };
        // The driver copies out whether or not the call succeeded.
        if is_owner && direction & READ != 0 && host.write(caller.pid, address, &user).is_err() {
            return CallResult::Answer { result: Err(Errno::FAULT), at_ns };
        }
        outcome
    }

    /// A call whose argument is here. Only what the request says is its size is read and written.
    pub fn call_with(
        &mut self,
        caller: Caller,
        request: u32,
        argument: &mut [u8],
        host: &mut dyn Host,
    ) -> CallResult {
        self.now_ns = caller.now_ns;
        self.ready_ns = caller.now_ns;
        self.pass_time(caller.now_ns);
        let handled = self.dispatch(caller, request, argument, host);
        self.outcome(handled)
    }

    const fn outcome(&self, handled: Handled) -> CallResult {
        let at_ns = self.ready_ns;
        match handled {
            Ok(result) => CallResult::Answer { result: Ok(result), at_ns },
            Err(Stop::Errno(errno)) => CallResult::Answer { result: Err(errno), at_ns },
            Err(Stop::Block(block)) => CallResult::Blocks(block),
        }
    }

    /// Answers whether a call that blocked may return by now, and with what. `ask` makes the call
    /// once more, for calls whose argument has to be read again.
    pub fn again(
        &mut self,
        caller: Caller,
        block: Block,
        ask: impl FnOnce(&mut Self) -> CallResult,
    ) -> CallResult {
        self.now_ns = caller.now_ns;
        self.ready_ns = caller.now_ns;
        let handled = match block {
            Block::Destroy { id } => self.destroy(caller.pid, id),
            Block::Runtime { enables } => self.go_on(caller.pid, enables),
            Block::Events { until_ns, seen } => {
                if seen == self.event_changes && caller.now_ns < until_ns {
                    return CallResult::Blocks(block);
                }
                self.until_ns = Some(until_ns);
                let outcome = ask(self);
                self.until_ns = None;
                return outcome;
            }
        };
        self.outcome(handled)
    }

    /// The call's entry in the driver's table, if this driver has one.
    fn definition(&self, number: u8) -> Option<crate::wire::Definition> {
        let is_there = match number {
            nr::PREEMPT_QUEUE | nr::RESUME_QUEUE => return self.private(number),
            nr::RUNTIME_ENABLE | nr::DBG_TRAP => self.config.minor >= 13,
            nr::AVAILABLE_MEMORY => self.config.minor >= 9,
            _ => true,
        };
        definition(number).filter(|_| is_there)
    }

    fn dispatch(
        &mut self,
        caller: Caller,
        request: u32,
        argument: &mut [u8],
        host: &mut dyn Host,
    ) -> Handled {
        let number = nr_of(request);
        let found = self.definition(number).ok_or(Errno::NOTTY)?;
        if caller.pid != caller.opened_by || !self.processes.contains_key(&caller.pid) {
            return Err(Errno::BADF.into());
        }
        let given = bytes_of(request).min(argument.len());
        let mut own = vec![0; found.bytes.max(given)];
        if found.direction & WRITE != 0 {
            own[..given].copy_from_slice(&argument[..given]);
        }
        let handled = self.handle(caller, number, &mut Argument(&mut own), host);
        if found.direction & READ != 0 {
            argument[..given].copy_from_slice(&own[..given]);
        }
        handled
    }

    fn handle(
        &mut self,
        caller: Caller,
        number: u8,
        argument: &mut Argument<'_>,
        host: &mut dyn Host,
    ) -> Handled {
        let pid = caller.pid;
        match number {
            nr::GET_VERSION => self.version(argument),
            nr::CREATE_QUEUE => self.create_queue(pid, argument),
            nr::DESTROY_QUEUE => self.destroy(pid, argument.u32(0)),
            nr::UPDATE_QUEUE => self.update_queue(pid, argument),
            nr::SET_CU_MASK => self.set_cu_mask(pid, (argument, host)),
            nr::GET_QUEUE_WAVE_STATE => self.wave_state(pid, (argument, host)),
            nr::ALLOC_QUEUE_GWS => self.queue_gws(pid, argument),
            nr::GET_CLOCK_COUNTERS => self.clocks(argument, host),
            nr::GET_PROCESS_APERTURES => self.apertures_old(argument),
            nr::GET_PROCESS_APERTURES_NEW => self.apertures(pid, (argument, host)),
            nr::AVAILABLE_MEMORY => self.available_memory(argument),
            nr::SMI_EVENTS => self.smi_events(pid, (argument, host)),
            nr::CRIU_OP => self.criu(pid, (argument, host)),
            nr::CREATE_EVENT => self.create_event(pid, argument),
            nr::DESTROY_EVENT | nr::SET_EVENT | nr::RESET_EVENT => {
                self.change_event(pid, number, argument)
            }
            nr::WAIT_EVENTS => self.wait_events(pid, (argument, host)),
            nr::DBG_FIRST_OLD..=nr::DBG_LAST_OLD => Err(Errno::PERM.into()),
            nr::RUNTIME_ENABLE => self.runtime_enable(pid, argument),
            nr::DBG_TRAP => self.dbg_trap(pid, (argument, host)),
            nr::SET_XNACK_MODE => self.set_xnack(pid, argument),
            nr::PREEMPT_QUEUE => self.preempt_queue(pid, argument),
            nr::RESUME_QUEUE => self.resume_queue(pid, (argument, host)),
            _ => self.memory_call(pid, number, (argument, host)),
        }
    }

    /// Something that the real driver has and the model does not.
    fn not_modelled(&mut self, number: u8, operation: u32) -> Handled {
        self.unmodelled.insert((number, operation));
        Err(Errno::OPNOTSUPP.into())
    }

    /// The place of a GPU by its `gpu_id`.
    fn gpu(&self, gpu_id: u32) -> Option<usize> {
        self.config.gpus.iter().position(|gpu| gpu.gpu_id == gpu_id)
    }
}
