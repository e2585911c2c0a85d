//! The life of a queue.

use rustix::io::Errno;

use super::process::{QUEUES_MAX, Queue, Stopped};
use super::{Asked, Block, Change, Handled, Model, Saved};
use crate::page::doorbell_offset;
use crate::wire::{Argument, EC_QUEUE_NEW, accessible};

const PERCENTAGE_MAX: u32 = 100;
const PRIORITY_MAX: u32 = 15;
/// Kinds of queues: compute, SDMA, compute with AQL packets, SDMA over XGMI, SDMA by engine.
const KIND_LAST: u32 = 4;
/// From this version of the interface on an engine may be chosen.
const BY_ENGINE_SINCE: u32 = 17;
/// Bits of a mask of compute units that are looked at.
const CU_MASK_BITS_MAX: u32 = 1_024;

/// Checks of `CREATE_QUEUE` and `UPDATE_QUEUE`, in the driver's order.
fn check_properties(percentage: u32, priority: u32, ring: (u64, u32)) -> Result<(), Errno> {
    // Bits 8 to 15 are another thing.
    if percentage & 0xff > PERCENTAGE_MAX || priority > PRIORITY_MAX {
        return Err(Errno::INVAL);
    }
    if ring.0 != 0 {
        accessible(ring.0, 8)?;
    }
    if ring.1 != 0 && !ring.1.is_power_of_two() {
        return Err(Errno::INVAL);
    }
    Ok(())
}

impl Model {
    pub(super) fn create_queue(&mut self, pid: u32, argument: &mut Argument<'_>) -> Handled {
        let ring = (argument.u64(0), argument.u32(32));
        let (percentage, priority) = (argument.u32(44), argument.u32(48));
        check_properties(percentage, priority, ring)?;
        let (write_pointer, read_pointer) = (argument.u64(8), argument.u64(16));
        accessible(read_pointer, 4)?;
        accessible(write_pointer, 4)?;
        let save_area = (argument.u64(72), argument.u32(80));
        accessible(argument.u64(56), 4)?;
        accessible(save_area.0, 4)?;
        let kind = argument.u32(40);
        let kinds = if self.config.minor >= BY_ENGINE_SINCE { KIND_LAST } else { KIND_LAST - 1 };
        if kind > kinds {
            return Err(Errno::INVAL.into());
        }
        let gpu = self.gpu(argument.u32(36)).ok_or(Errno::INVAL)?;
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        let id = process.free_id().ok_or(Errno::NOMEM)?;
        let queue = Queue {
            gpu,
            kind,
            ring,
            buffer: ring,
            read_pointer,
            write_pointer,
            save_area,
            percentage: percentage & 0xff,
            priority,
            cu_mask: Vec::new(),
            exceptions: EC_QUEUE_NEW,
            stopped: Stopped { evicted: process.is_paused, ..Stopped::default() },
        };
        self.add_queue(pid, id, queue)?;
        argument.set_u64(24, doorbell_offset(gpu) + u64::from(id) * 8);
        argument.set_u32(52, id);
        Ok(0)
    }

    /// Puts a queue on the run list. If that fails there is none.
    fn add_queue(&mut self, pid: u32, id: u32, queue: Queue) -> Result<(), Errno> {
        let (gpu, bytes) = (queue.gpu, queue.ring.1);
        let kind = if queue.runs_waves() { 0 } else { queue.kind };
        let is_active = queue.is_active();
        if is_active {
            self.preempting(gpu, |_| {})?;
        }
        let gpu_id = self.config.gpus[gpu].gpu_id;
        if let Some(process) = self.processes.get_mut(&pid) {
            process.queues.insert(id, queue);
        }
        self.changes.push(Change::Created { pid, id, gpu_id, bytes, kind });
        if is_active {
            self.changes.push(Change::Active { pid, id, is_active });
        }
        Ok(())
    }

    pub(super) fn destroy(&mut self, pid: u32, id: u32) -> Handled {
        let queue = self.queue_of(pid, id, Errno::INVAL)?;
        let (gpu, is_active) = (queue.gpu, queue.is_active());
        if queue.stopped.suspended {
            return Err(Block::Destroy { id }.into());
        }
        // The driver frees the queue after an error as well.
        let result = if is_active { self.preempting(gpu, |_| {}) } else { Ok(()) };
        if let Some(process) = self.processes.get_mut(&pid) {
            process.queues.remove(&id);
            if process.queues.values().all(|queue| queue.gpu != gpu) {
                process.reset_on.retain(|other| *other != gpu);
            }
        }
        self.changes.push(Change::Destroyed { pid, id });
        // The destruction of a queue whose GPU was reset succeeds.
        result.or_else(|errno| if errno == Errno::TIME { Err(errno) } else { Ok(()) })?;
        Ok(0)
    }

    pub(super) fn update_queue(&mut self, pid: u32, argument: &Argument<'_>) -> Handled {
        let ring = (argument.u64(0), argument.u32(12));
        let (id, percentage, priority) = (argument.u32(8), argument.u32(16), argument.u32(20));
        check_properties(percentage, priority, ring)?;
        let queue = self.queue_of(pid, id, Errno::FAULT)?;
        let gpu = queue.gpu;
        // The buffer must be mapped, start there and be so large; without one the queue stops.
        if ring.0 != 0 && ring.1 != 0 && queue.runs_waves() && ring != queue.buffer {
            return Err(Errno::FAULT.into());
        }
        let is_lost = |process: &super::Process| process.reset_on.contains(&gpu);
        if self.processes.get(&pid).is_some_and(is_lost) {
            return Err(Errno::ACCESS.into());
        }
        self.preempting(gpu, |model| {
            model.changing(pid, id, |queue| {
                queue.ring = ring;
                queue.percentage = percentage & 0xff;
                queue.priority = priority;
            });
        })?;
        Ok(0)
    }

    pub(super) fn set_cu_mask(&mut self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let (id, bits, address) = (argument.u32(0), argument.u32(4), argument.u64(8));
        if bits == 0 || !bits.is_multiple_of(32) {
            return Err(Errno::INVAL.into());
        }
        let words = bits.min(CU_MASK_BITS_MAX) / 32;
        let mut bytes = vec![0; words as usize * 4];
        host.read(pid, address, &mut bytes)?;
        let gpu = self.queue_of(pid, id, Errno::FAULT)?.gpu;
        let (chunks, _) = bytes.as_chunks::<4>();
        let mask = chunks.iter().map(|chunk| u32::from_ne_bytes(*chunk)).collect();
        self.preempting(gpu, |model| {
            model.changing(pid, id, |queue| queue.cu_mask = mask);
        })?;
        Ok(0)
    }

    /// Where a stopped queue's waves were saved. The driver refuses it for a queue that may run.
    pub(super) fn wave_state(&self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let id = argument.u32(16);
        let queue = self.queue_of(pid, id, Errno::FAULT)?;
        if !queue.runs_waves() || queue.is_active() || !self.config.cwsr {
            return Err(Errno::INVAL.into());
        }
        let usual = self.config.gpus[queue.gpu].saved_bytes.min(queue.save_area.1);
        let usual = Saved { control_bytes: 0, wave_bytes: usual };
        let saved = host.saved(pid, id).unwrap_or(usual);
        argument.set_u32(8, saved.control_bytes);
        argument.set_u32(12, saved.wave_bytes);
        Ok(0)
    }

    /// Global wave sync, which this GPU has; it changes nothing here.
    pub(super) fn queue_gws(&self, pid: u32, argument: &mut Argument<'_>) -> Handled {
        self.queue_of(pid, argument.u32(0), Errno::INVAL)?;
        argument.set_u32(8, 0);
        Ok(0)
    }

    /// A queue, or the call's errno for an unknown one.
    pub(super) fn queue_of(&self, pid: u32, id: u32, unknown: Errno) -> Result<&Queue, Errno> {
        let process = self.processes.get(&pid).ok_or(Errno::BADF)?;
        process.queues.get(&id).filter(|_| id < QUEUES_MAX).ok_or(unknown)
    }

    /// The mask of compute units of a queue; empty if none was set.
    #[must_use]
    pub fn cu_mask(&self, pid: u32, id: u32) -> Vec<u32> {
        self.queue_of(pid, id, Errno::FAULT).map(|queue| queue.cu_mask.clone()).unwrap_or_default()
    }
}
