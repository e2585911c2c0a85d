//! The debugger's side: `RUNTIME_ENABLE` and `DBG_TRAP`.

use rustix::io::Errno;

use super::process::{Debugged, Runtime, RuntimeState, plain};
use super::{Asked, Block, Handled, Host, Model};
use crate::wire::{Argument, EC_PROCESS_RUNTIME, EC_QUEUE_NEW, QUEUE_ERROR, QUEUE_INVALID, nr, op};

/// Bits of `mode_mask`.
const MODE_ENABLE: u32 = 1;
const MODE_TTMP: u32 = 2;
/// Bytes of `kfd_runtime_info` and of one entry of a queue snapshot.
const INFO_BYTES: usize = 16;
const ENTRY_BYTES: usize = 64;
/// Ids in one call, a bound of the emulator above the queues that a process can have.
const IDS_MAX: u32 = 65_536;
/// No hardware scheduling, so nothing that could suspend.
const NO_SCHEDULER: u32 = 2;

/// Behaviour of `DBG_TRAP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Debugging {
    /// As usual.
    #[default]
    Works,
    /// AMD's packaged driver while PC sampling runs: `EBUSY`.
    Busy,
    /// Newer drivers, of a context that is not the process's first: `EOPNOTSUPP`.
    Secondary,
}

/// Fate of an enabled runtime when a debugger attaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// Stays enabled.
    #[default]
    Enabled,
    /// Another process uses what debugging needs.
    Busy,
    /// A GPU could not be prepared.
    Error,
}

impl Model {
    /// Sets what `DBG_TRAP` does from now on.
    pub const fn set_debugging(&mut self, debugging: Debugging) {
        self.debugging = debugging;
    }

    /// Sets what becomes of the runtime of a process whose debugger attaches from now on.
    pub const fn set_attach(&mut self, attach: Attach) {
        self.attach = attach;
    }

    pub(super) fn runtime_enable(&mut self, pid: u32, argument: &mut Argument<'_>) -> Handled {
        let (r_debug, mode) = (argument.u64(0), argument.u32(8));
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        let is_debugged = process.debugged.is_some();
        if mode & MODE_ENABLE == 0 {
            return self.runtime_disable(pid);
        }
        if process.runtime.state == RuntimeState::Enabled {
            return Err(Errno::BUSY.into());
        }
        if !process.queues.is_empty() {
            return Err(Errno::EXIST.into());
        }
        process.runtime.r_debug = r_debug;
        process.runtime.ttmp = mode & MODE_TTMP != 0;
        argument.set_u32(12, 0);
        // Enabled already while it waits: the debugger may suspend meanwhile.
        process.runtime.state = RuntimeState::Enabled;
        if is_debugged { self.go_on(pid, true) } else { Ok(0) }
    }

    /// With a debugger, everything goes on that it suspended, and then the call waits for it.
    fn runtime_disable(&mut self, pid: u32) -> Handled {
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        let is_debugged = process.debugged.is_some();
        let was_enabled = process.runtime.state == RuntimeState::Enabled;
        process.runtime.state = RuntimeState::Disabled;
        if !is_debugged {
            process.runtime.clear();
            return Ok(0);
        }
        if was_enabled {
            self.let_all_go(pid);
        }
        self.go_on(pid, false)
    }

    /// Goes on if the debugger has said so, now or beforehand.
    pub(super) fn go_on(&mut self, pid: u32, enables: bool) -> Handled {
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        if process.runtime.permits == 0 {
            return Err(Block::Runtime { enables }.into());
        }
        process.runtime.permits -= 1;
        if !enables {
            process.runtime.clear();
        }
        Ok(0)
    }

    pub(super) fn dbg_trap(&mut self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        if self.config.sched_policy == NO_SCHEDULER {
            return Err(Errno::INVAL.into());
        }
        match self.debugging {
            Debugging::Works => {}
            Debugging::Busy => return Err(Errno::BUSY.into()),
            Debugging::Secondary => return Err(Errno::OPNOTSUPP.into()),
        }
        let (target, operation) = (argument.u32(0), argument.u32(4));
        if target == 0 || !host.exists(target) {
            return Err(Errno::SRCH.into());
        }
        let is_tracer = target != pid && host.tracer(target) == Some(pid);
        if operation == op::ENABLE && is_tracer {
            self.open(target);
        }
        let process = self.processes.get(&target).ok_or(Errno::SRCH)?;
        let is_debugger = process.debugged.as_ref().is_some_and(|debugged| debugged.by == pid);
        let may_touch = is_tracer || is_debugger && !self.config.debugger_traces;
        self.check_debugger(target, operation, pid, may_touch)?;
        match operation {
            op::ENABLE => self.debug_enable(pid, target, (argument, host)),
            op::DISABLE => {
                self.stop_debugging(target);
                Ok(0)
            }
            op::SEND_RUNTIME_EVENT => self.send_event(target, argument),
            op::SET_EXCEPTIONS_ENABLED => self.set_exceptions(target, argument),
            op::SUSPEND_QUEUES => {
                self.suspend(pid, target, argument.u64(16), argument.u32(24), host)
            }
            op::RESUME_QUEUES => self.resume(pid, target, argument.u64(8), argument.u32(16), host),
            op::GET_QUEUE_SNAPSHOT => self.snapshot(pid, target, (argument, host)),
            _ if operation <= op::LAST => self.not_modelled(nr::DBG_TRAP, operation),
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Checks of the caller, in the driver's order.
    fn check_debugger(
        &self,
        target: u32,
        operation: u32,
        pid: u32,
        may_touch: bool,
    ) -> Result<(), Errno> {
        if target != pid && operation != op::DISABLE && !may_touch {
            return Err(Errno::PERM);
        }
        let process = self.processes.get(&target).ok_or(Errno::SRCH)?;
        if operation == op::ENABLE {
            return Ok(());
        }
        let debugged = process.debugged.as_ref().ok_or(Errno::INVAL)?;
        if debugged.by != pid {
            return Err(Errno::PERM);
        }
        let needs_runtime = matches!(
            operation,
            op::SET_WAVE_LAUNCH_OVERRIDE
                | op::SET_WAVE_LAUNCH_MODE
                | op::SUSPEND_QUEUES
                | op::RESUME_QUEUES
                | op::SET_NODE_ADDRESS_WATCH
                | op::CLEAR_NODE_ADDRESS_WATCH
                | op::SET_FLAGS
        );
        if needs_runtime && process.runtime.state != RuntimeState::Enabled {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    fn debug_enable(&mut self, pid: u32, target: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let (exceptions, address, room) = (argument.u64(8), argument.u64(16), argument.u32(24));
        let file = argument.u32(28).cast_signed();
        let process = self.processes.get_mut(&target).ok_or(Errno::SRCH)?;
        if process.debugged.is_some() {
            return Err(Errno::ALREADY.into());
        }
        if !host.has_file(pid, file) {
            return Err(Errno::BADF.into());
        }
        // Attaching succeeds, and leaves behind why activating did not.
        if process.runtime.state == RuntimeState::Enabled {
            process.runtime.state = match self.attach {
                Attach::Enabled => RuntimeState::Enabled,
                Attach::Busy => RuntimeState::EnabledBusy,
                Attach::Error => RuntimeState::EnabledError,
            };
        }
        let info = runtime_info(&process.runtime);
        let bytes = (room as usize).min(INFO_BYTES);
        host.write(pid, address, &info[..bytes])?;
        argument.set_u32(24, INFO_BYTES as u32);
        process.debugged = Some(Debugged { by: pid, exceptions });
        if process.runtime.state == RuntimeState::Enabled {
            self.refresh(target);
        }
        Ok(0)
    }

    /// Takes the run lists of a process's GPUs down and puts them up again.
    fn refresh(&mut self, target: u32) {
        for gpu in 0..self.nodes.len() {
            if self.on_gpu(gpu).any(|(pid, ..)| pid == target) {
                // Attaching does not depend on it.
                let _ = self.preempting(gpu, |_| {});
            }
        }
    }

    /// The debugger leaves: everything that it suspended goes on. A runtime that waits for it waits
    /// on.
    pub(super) fn stop_debugging(&mut self, target: u32) {
        let Some(process) = self.processes.get_mut(&target) else { return };
        let is_enabled = process.runtime.state == RuntimeState::Enabled;
        if process.debugged.take().is_none() {
            return;
        }
        // So that the next one may find it otherwise.
        if process.runtime.state != RuntimeState::Disabled {
            process.runtime.state = RuntimeState::Enabled;
        }
        // With what it was not told about, queues that it has not seen among it.
        process.queues.values_mut().for_each(|queue| queue.exceptions = 0);
        // Without a runtime there is nothing that could be suspended, and nothing is changed.
        if is_enabled {
            self.let_all_go(target);
        }
    }

    /// Resumes what a debugger has suspended, with one preemption of each GPU that has queues.
    fn let_all_go(&mut self, target: u32) {
        let ids = self.queue_ids(target);
        for gpu in 0..self.nodes.len() {
            let on_gpu = ids.iter().copied().filter(|id| self.is_on(target, *id, gpu));
            let on_gpu: Vec<_> = on_gpu.collect();
            if !on_gpu.is_empty() {
                // The debugger leaves all the same.
                let _ = self.preempting(gpu, |model| model.mark(target, &on_gpu, false));
            }
        }
    }

    /// Notes that a debugger has suspended queues, or let them go.
    fn mark(&mut self, target: u32, ids: &[u32], suspended: bool) {
        for id in ids {
            self.changing(target, *id, |queue| queue.stopped.suspended = suspended);
        }
    }

    fn is_on(&self, pid: u32, id: u32, gpu: usize) -> bool {
        self.queue_of(pid, id, Errno::FAULT).is_ok_and(|queue| queue.gpu == gpu)
    }

    fn send_event(&mut self, target: u32, argument: &Argument<'_>) -> Handled {
        let process = self.processes.get_mut(&target).ok_or(Errno::SRCH)?;
        if argument.u64(8) & EC_PROCESS_RUNTIME != 0 {
            process.runtime.permits += 1;
        }
        Ok(0)
    }

    fn set_exceptions(&mut self, target: u32, argument: &Argument<'_>) -> Handled {
        let process = self.processes.get_mut(&target).ok_or(Errno::SRCH)?;
        if let Some(debugged) = &mut process.debugged {
            debugged.exceptions = argument.u64(8);
        }
        Ok(0)
    }

    fn suspend(
        &mut self,
        pid: u32,
        target: u32,
        address: u64,
        count: u32,
        host: &mut dyn Host,
    ) -> Handled {
        let mut ids = read_ids(pid, address, count, host)?;
        let suspended = self.hold(target, &mut ids, true);
        write_ids(pid, address, &ids, host)?;
        Ok(suspended)
    }

    fn resume(
        &mut self,
        pid: u32,
        target: u32,
        address: u64,
        count: u32,
        host: &mut dyn Host,
    ) -> Handled {
        // Without a list all of them go on.
        if address == 0 {
            let mut ids = self.queue_ids(target);
            return Ok(self.hold(target, &mut ids, false));
        }
        let mut ids = read_ids(pid, address, count, host)?;
        let resumed = self.hold(target, &mut ids, false);
        write_ids(pid, address, &ids, host)?;
        Ok(resumed)
    }

    /// Suspends queues or lets them go, with one preemption of each GPU that has some of them, and
    /// says in each id what became of it. Answers how many followed.
    fn hold(&mut self, target: u32, ids: &mut [u32], suspend: bool) -> u32 {
        let mut done = 0;
        for gpu in 0..self.nodes.len() {
            let places = (0..ids.len()).filter(|at| self.follows(target, ids[*at], gpu, suspend));
            let places: Vec<_> = places.collect();
            if places.is_empty() {
                continue;
            }
            let chosen: Vec<_> = places.iter().map(|at| plain(ids[*at])).collect();
            let came = self.preempting(gpu, |model| model.mark(target, &chosen, suspend));
            for at in places {
                ids[at] = plain(ids[at]) | if came.is_err() { QUEUE_ERROR } else { 0 };
                done += u32::from(came.is_ok());
            }
        }
        done
    }

    /// True if a queue is on this GPU and, for a suspension, can be suspended: a debugger has to
    /// have seen it.
    fn follows(&self, target: u32, id: u32, gpu: usize, suspend: bool) -> bool {
        let queue = self.queue_of(target, plain(id), Errno::FAULT);
        queue.is_ok_and(|queue| queue.gpu == gpu && !(suspend && queue.is_new()))
    }

    fn snapshot(&mut self, pid: u32, target: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let (clears, address) = (argument.u64(8), argument.u64(16));
        let (room, stride) = (argument.u32(24), argument.u32(28));
        let bytes = (stride as usize).min(ENTRY_BYTES);
        let gpus: Vec<_> = self.config.gpus.iter().map(|gpu| gpu.gpu_id).collect();
        let process = self.processes.get_mut(&target).ok_or(Errno::SRCH)?;
        let total = process.queues.len() as u32;
        for (at, (id, queue)) in (0_u64..u64::from(room)).zip(&mut process.queues) {
            let mut entry = [0; ENTRY_BYTES];
            let mut words = Argument(&mut entry);
            words.set_u64(0, queue.exceptions);
            words.set_u64(8, queue.ring.0);
            words.set_u64(16, queue.write_pointer);
            words.set_u64(24, queue.read_pointer);
            words.set_u64(32, queue.save_area.0);
            words.set_u32(40, *id);
            words.set_u32(44, gpus[queue.gpu]);
            words.set_u32(48, queue.ring.1);
            words.set_u32(52, queue.kind);
            words.set_u32(56, queue.save_area.1);
            let place = address.wrapping_add(at.wrapping_mul(u64::from(stride)));
            host.write(pid, place, &entry[..bytes])?;
            queue.exceptions &= !clears;
        }
        argument.set_u32(24, total);
        argument.set_u32(28, bytes as u32);
        Ok(0)
    }

    /// True if a queue still carries what every fresh queue does: no snapshot took it away.
    #[must_use]
    pub fn is_new(&self, pid: u32, id: u32) -> bool {
        self.queue_of(pid, id, Errno::FAULT).is_ok_and(|queue| queue.exceptions & EC_QUEUE_NEW != 0)
    }
}

fn runtime_info(runtime: &Runtime) -> [u8; INFO_BYTES] {
    let mut bytes = [0; INFO_BYTES];
    let mut info = Argument(&mut bytes);
    info.set_u64(0, runtime.r_debug);
    info.set_u32(8, runtime.state as u32);
    info.set_u32(12, u32::from(runtime.ttmp));
    bytes
}

/// Reads ids, and takes all of them for unknown.
fn read_ids(pid: u32, address: u64, count: u32, host: &mut dyn Host) -> Result<Vec<u32>, Errno> {
    if count > IDS_MAX {
        return Err(Errno::NOMEM);
    }
    let mut bytes = vec![0; count as usize * 4];
    host.read(pid, address, &mut bytes)?;
    let (chunks, _) = bytes.as_chunks::<4>();
    Ok(chunks.iter().map(|chunk| u32::from_ne_bytes(*chunk) | QUEUE_INVALID).collect())
}

fn write_ids(pid: u32, address: u64, ids: &[u32], host: &mut dyn Host) -> Result<(), Errno> {
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    host.write(pid, address, &bytes)
}
