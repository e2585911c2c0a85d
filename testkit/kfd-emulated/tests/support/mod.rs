//! Calls through the structures of the crate under test.
#![allow(dead_code, unsafe_code, reason = "each test uses a part")]

use rustix::io::Errno;
use xsched_hal_kfd::uapi::{self, Call, DbgTrap, Operation};
use xsched_hal_kfd::{Driver, Versioned};
use xsched_kfd_emulated::InProcess;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The GPU of `Config::mi308x`.
pub(crate) const GPU: u32 = 0x8c1f;
/// Where rings are said to be: the emulator does not look into them.
pub(crate) const RING: u64 = 0x7000_0000_0000;
pub(crate) const RING_BYTES: u32 = 1 << 16;

/// A process that has asked for the version.
pub(crate) struct Process<D>(pub(crate) Versioned<D>);

pub(crate) fn opened(driver: &InProcess) -> Process<InProcess> {
    Process(Versioned::ask(driver.clone()).expect("a version"))
}

impl<D: Driver> Process<D> {
    pub(crate) fn call<T>(&self, call: &Call<T>, argument: &mut T) -> Result<u32, Errno>
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        // SAFETY: tests name only memory that is alive, or wrong addresses, which the emulator and
        // the kernel refuse.
        unsafe { self.0.call(call, argument) }.expect("new enough")
    }

    pub(crate) fn create(&self) -> Result<u32, Errno> {
        let base = uapi::CreateQueue88 {
            ring_base: RING,
            ring_size: RING_BYTES,
            gpu_id: GPU,
            queue_type: 2,
            percentage: 100,
            priority: 7,
            save_size: 1 << 20,
            ..uapi::CreateQueue88::default()
        };
        let mut argument = uapi::CreateQueue { base, ..uapi::CreateQueue::default() };
        self.call(&uapi::CREATE_QUEUE, &mut argument)?;
        Ok(argument.base.queue_id)
    }

    pub(crate) fn destroy(&self, queue_id: u32) -> Result<u32, Errno> {
        self.call(&uapi::DESTROY_QUEUE, &mut uapi::DestroyQueue { queue_id, pad: 0 })
    }

    pub(crate) fn update(&self, queue_id: u32, percentage: u32) -> Result<u32, Errno> {
        let (ring_base, ring_size) = (RING, RING_BYTES);
        let mut argument =
            uapi::UpdateQueue { ring_base, queue_id, ring_size, percentage, priority: 7 };
        self.call(&uapi::UPDATE_QUEUE, &mut argument)
    }

    pub(crate) fn runtime(&self, mode: u32) -> Result<u32, Errno> {
        let mut argument = uapi::RuntimeEnable { r_debug: 0x1000, mode, capabilities: 9 };
        self.call(&uapi::RUNTIME_ENABLE, &mut argument)
    }

    pub(crate) fn trap<P>(
        &self,
        pid: u32,
        operation: Operation,
        payload: &mut P,
    ) -> Result<u32, Errno>
    where
        P: FromBytes + IntoBytes + Immutable,
    {
        let mut argument = DbgTrap { pid, operation: operation as u32, ..DbgTrap::default() };
        let given = payload.as_bytes();
        argument.payload.as_mut_bytes()[..given.len()].copy_from_slice(given);
        let answer = self.call(&uapi::DBG_TRAP, &mut argument);
        let room = payload.as_mut_bytes();
        room.copy_from_slice(&argument.payload.as_bytes()[..room.len()]);
        answer
    }

    pub(crate) fn detach(&self, pid: u32) -> Result<u32, Errno> {
        self.trap(pid, Operation::Disable, &mut uapi::DisableDebug::default())
    }

    pub(crate) fn attach(&self, pid: u32) -> Result<u32, Errno> {
        self.attach_with(pid, 0)
    }

    pub(crate) fn attach_with(&self, pid: u32, descriptor: u32) -> Result<u32, Errno> {
        let mut info = uapi::RuntimeInfo::default();
        let mut enable = uapi::EnableDebug {
            exceptions: 0,
            info: std::ptr::from_mut(&mut info).expose_provenance() as u64,
            info_size: 16,
            descriptor,
        };
        self.trap(pid, Operation::Enable, &mut enable)
    }

    pub(crate) fn snapshot(&self, pid: u32, exceptions: u64) -> Result<Vec<u32>, Errno> {
        let mut entries = [uapi::QueueSnapshotEntry::default(); 8];
        let mut snapshot = uapi::QueueSnapshot {
            exceptions,
            entries: entries.as_mut_ptr().expose_provenance() as u64,
            count: 8,
            entry_size: 64,
        };
        self.trap(pid, Operation::GetQueueSnapshot, &mut snapshot)?;
        let count = (snapshot.count as usize).min(8);
        Ok(entries[..count].iter().map(|entry| entry.queue_id).collect())
    }

    pub(crate) fn suspend(&self, pid: u32, ids: &mut [u32]) -> Result<u32, Errno> {
        let mut suspend = uapi::SuspendQueues {
            queues: ids.as_mut_ptr().expose_provenance() as u64,
            count: ids.len() as u32,
            ..uapi::SuspendQueues::default()
        };
        self.trap(pid, Operation::SuspendQueues, &mut suspend)
    }

    pub(crate) fn resume(&self, pid: u32, ids: &mut [u32]) -> Result<u32, Errno> {
        let queues = ids.as_mut_ptr().expose_provenance() as u64;
        let mut resume = uapi::ResumeQueues { queues, count: ids.len() as u32, pad: 0 };
        self.trap(pid, Operation::ResumeQueues, &mut resume)
    }
}
