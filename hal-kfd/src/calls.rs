//! The driver's calls as methods of [`Versioned`]. They take the addresses that an argument holds
//! from memory that is borrowed for the call.

use rustix::io::Errno;

use crate::driver::Driver;
use crate::error::KfdError;
use crate::uapi::{
    self, DbgTrap, DisableDebug, EnableDebug, Payload, QueueSnapshot, QueueSnapshotEntry,
    ResumeQueues, RuntimeEnable, RuntimeInfo, SendRuntimeEvent, SuspendQueues, UpdateQueue,
    patched,
};
use crate::version::Versioned;

/// The driver's answer, a count or an errno; or why the call was not made.
type Answered = Result<Result<u32, Errno>, KfdError>;

/// The address of memory, in the form of the driver's arguments.
fn address<T>(memory: *const T) -> u64 {
    memory.expose_provenance() as u64
}

/// The number of items, in the form of the driver's arguments. Lists here end at 1,024.
fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

impl<D: Driver> Versioned<D> {
    /// `UPDATE_QUEUE`.
    pub(crate) fn update_queue(&self, mut argument: UpdateQueue) -> Answered {
        // SAFETY: the ring's address is compared with what the driver knows, and not followed.
        unsafe { self.call(&uapi::UPDATE_QUEUE, &mut argument) }
    }

    /// `GET_QUEUE_WAVE_STATE` with a null address, which asks only whether the queue is inactive.
    pub(crate) fn wave_state(&self, queue_id: u32) -> Answered {
        let mut argument = uapi::GetQueueWaveState { queue_id, ..Default::default() };
        // SAFETY: the address is null, which the driver cannot write to and answers `EFAULT` for.
        unsafe { self.call(&uapi::GET_QUEUE_WAVE_STATE, &mut argument) }
    }

    /// Bytes of a GPU's memory that this process can still allocate (`AVAILABLE_MEMORY`).
    ///
    /// # Errors
    /// [`KfdError::TooOld`] before KFD 1.9, or the driver's error if it has no such GPU.
    pub fn available_memory(&self, gpu_id: u32) -> Result<u64, KfdError> {
        let call = uapi::AVAILABLE_MEMORY;
        let mut argument = uapi::AvailableMemory { gpu_id, ..Default::default() };
        // SAFETY: the argument names no memory.
        let answered = unsafe { self.call(&call, &mut argument) }?;
        answered.map_err(|errno| KfdError::of_call(call.name, errno))?;
        Ok(argument.available)
    }

    /// The GPUs, or partitions, that this process can use (`GET_PROCESS_APERTURES_NEW`).
    ///
    /// # Errors
    /// The driver's error, or [`KfdError::UnexpectedAnswer`] for more than 4,096 GPUs.
    pub fn gpu_ids(&self) -> Result<Vec<u32>, KfdError> {
        let call = uapi::GET_PROCESS_APERTURES_NEW;
        let refused = |errno| KfdError::of_call(call.name, errno);
        let mut argument = uapi::GetProcessAperturesNew::default();
        // SAFETY: without room for entries none are written.
        unsafe { self.call(&call, &mut argument) }?.map_err(refused)?;
        let nodes = argument.nodes as usize;
        let most = 4_096;
        if nodes > most {
            let (answer, advice) = (nodes as u64, "no machine has so many GPUs");
            return Err(KfdError::UnexpectedAnswer { call: call.name, answer, advice });
        }
        let mut entries = vec![uapi::ProcessAperture::default(); nodes];
        argument.entries = address(entries.as_mut_ptr());
        if nodes > 0 {
            // SAFETY: there is room for as many entries as the argument says.
            unsafe { self.call(&call, &mut argument) }?.map_err(refused)?;
        }
        let said = (argument.nodes as usize).min(nodes);
        Ok(entries.iter().take(said).map(|entry| entry.gpu_id).collect())
    }

    /// A descriptor for a GPU's events (`SMI_EVENTS`), whose numbers and meaning are the driver's.
    /// They report evictions, resets and page faults, and not suspended queues.
    ///
    /// # Errors
    /// [`KfdError::TooOld`] before KFD 1.3, or the driver's error if it has no such GPU.
    pub fn events(&self, gpu_id: u32) -> Result<std::os::fd::OwnedFd, KfdError> {
        use std::os::fd::{FromRawFd, OwnedFd};
        let call = uapi::SMI_EVENTS;
        let mut argument = uapi::SmiEvents { gpu_id, descriptor: u32::MAX };
        // SAFETY: the argument names no memory.
        let answered = unsafe { self.call(&call, &mut argument) }?;
        answered.map_err(|errno| KfdError::of_call(call.name, errno))?;
        let descriptor =
            i32::try_from(argument.descriptor).map_err(|_| KfdError::UnexpectedAnswer {
                call: call.name,
                answer: u64::from(argument.descriptor),
                advice: "it is no descriptor; update the driver",
            })?;
        // SAFETY: the driver has just opened it for this call, so nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// `RUNTIME_ENABLE` with these mode bits; 0 disables.
    pub(crate) fn runtime_enable(&self, mode: u32) -> Answered {
        let mut argument = RuntimeEnable { r_debug: 0, mode, capabilities: 0 };
        // SAFETY: the address is for debuggers, and null here.
        unsafe { self.call(&uapi::RUNTIME_ENABLE, &mut argument) }
    }

    /// `DBG_TRAP`.
    ///
    /// # Safety
    /// Memory that the payload names is valid for the operation.
    unsafe fn debug<P: Payload>(
        &self,
        pid: u32,
        payload: &mut P,
    ) -> Result<Result<u32, Errno>, KfdError> {
        let mut argument = DbgTrap::new(pid, payload);
        // SAFETY: passed on.
        let answer = unsafe { self.call(&uapi::DBG_TRAP, &mut argument) }?;
        *payload = argument.payload();
        Ok(answer)
    }

    /// Becomes the debugger of a process. The answer describes the process's runtime.
    pub(crate) fn debug_enable(
        &self,
        pid: u32,
        descriptor: u32,
    ) -> Result<Result<RuntimeInfo, Errno>, KfdError> {
        let mut info = RuntimeInfo::default();
        let mut payload = EnableDebug {
            exceptions: 0,
            info: address(&raw mut info),
            info_size: size_of::<RuntimeInfo>() as u32,
            descriptor,
        };
        // SAFETY: the driver writes `info_size` bytes at most, and `info` outlives the call.
        let answer = unsafe { self.debug(pid, &mut payload) }?;
        Ok(answer.map(|_| info))
    }

    /// Permits the runtime to continue that waits for its debugger, or the next one that would.
    pub(crate) fn debug_permit_runtime(&self, pid: u32) -> Answered {
        let exceptions = uapi::EC_PROCESS_RUNTIME;
        let mut payload = SendRuntimeEvent { exceptions, ..SendRuntimeEvent::default() };
        // SAFETY: the operation names no memory.
        unsafe { self.debug(pid, &mut payload) }
    }

    /// Stops being the debugger, which resumes all queues.
    pub(crate) fn debug_disable(&self, pid: u32) -> Answered {
        // SAFETY: the operation takes nothing.
        unsafe { self.debug(pid, &mut DisableDebug::default()) }
    }

    /// Lists the queues of a process and makes them known to the debugger.
    pub(crate) fn debug_snapshot(
        &self,
        pid: u32,
        entries: &mut [QueueSnapshotEntry],
    ) -> Result<Result<usize, Errno>, KfdError> {
        let mut payload = QueueSnapshot {
            exceptions: uapi::EC_QUEUE_NEW,
            entries: address(entries.as_mut_ptr()),
            count: count(entries),
            entry_size: size_of::<QueueSnapshotEntry>() as u32,
        };
        // SAFETY: there is room for as many entries of that size as the argument says; an older
        // driver writes less of each and keeps the distance.
        let answer = unsafe { self.debug(pid, &mut payload) }?;
        Ok(answer.map(|_| payload.count as usize))
    }

    /// Suspends queues. Each queue's result is in its id's highest bits.
    pub(crate) fn debug_suspend(&self, pid: u32, ids: &mut [u32], grace: u32) -> Answered {
        let queues = address(ids.as_mut_ptr());
        let mut payload = SuspendQueues { exceptions: 0, queues, count: count(ids), grace };
        // SAFETY: the ids are borrowed for the call, which reads and writes as many as it is told.
        unsafe { self.debug(pid, &mut payload) }
    }

    /// Resumes queues. Each queue's result is in its id's highest bits.
    pub(crate) fn debug_resume(&self, pid: u32, ids: &mut [u32]) -> Answered {
        let queues = address(ids.as_mut_ptr());
        let mut payload = ResumeQueues { queues, count: count(ids), pad: 0 };
        // SAFETY: the ids are borrowed for the call, which reads and writes as many as it is told.
        unsafe { self.debug(pid, &mut payload) }
    }

    /// The patched driver's preemption.
    pub(crate) fn preempt_queue(&self, mut argument: patched::PreemptQueue) -> Answered {
        // SAFETY: the argument names no memory.
        unsafe { self.call(&patched::PREEMPT_QUEUE, &mut argument) }
    }

    /// The patched driver's resumption.
    pub(crate) fn resume_queue(&self, mut argument: patched::ResumeQueue) -> Answered {
        // SAFETY: the argument names no memory.
        unsafe { self.call(&patched::RESUME_QUEUE, &mut argument) }
    }
}
