//! The two calls of a patched driver, and the other meaning of one of their numbers.
//!
//! They are in no kernel (every number from 0x7f to 0x8a answers `ENOTTY` on 6.1 and 6.12), and
//! 0x87 is the next that AMD's own driver package would give to something of its own. The numbers,
//! the 16 bytes and the kinds of preemption come from notes that were published about such a
//! driver; the code of the driver was not. `docs/src/guides/amd.md` says what to make of it.
//!
//! 0x88 has another meaning in the driver of GPreempt (USENIX ATC 2025): one call of 32 bytes that
//! suspends and resumes. Since the driver does not look at the size, a resume of 16 bytes sent
//! there is a suspend of no queues: it succeeds and resumes nothing.

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Call, Direction};

/// Preempts one queue.
pub const PREEMPT_QUEUE: Call<PreemptQueue> = Call::new("PREEMPT_QUEUE", Direction::Both, 0x87, 0);
/// Resumes one queue.
pub const RESUME_QUEUE: Call<ResumeQueue> = Call::new("RESUME_QUEUE", Direction::Both, 0x88, 0);
/// GPreempt's meaning of 0x88.
pub const GPREEMPT_QUEUES: Call<GPreemptQueues> =
    Call::new("GPREEMPT_QUEUES", Direction::Both, 0x88, 0);

/// Kinds of preemption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum PreemptType {
    /// Waves that run go on to their end.
    Drain = 0,
    /// Waves that run are lost.
    Reset = 1,
    /// Waves that run are saved.
    #[default]
    Save = 2,
}

/// Of [`PREEMPT_QUEUE`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct PreemptQueue {
    /// In: the queue.
    pub queue_id: u32,
    /// In: a [`PreemptType`].
    pub preempt_type: u32,
    /// In: how long to wait, in milliseconds.
    pub timeout_ms: u32,
    /// Zero.
    pub pad: u32,
}

/// Of [`RESUME_QUEUE`]. The notes show it with and without the timeout; where there is none, it is
/// padding.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ResumeQueue {
    /// In: the queue.
    pub queue_id: u32,
    /// In: how long to wait, in milliseconds.
    pub timeout_ms: u32,
    /// Zero.
    pub pad: [u32; 2],
}

/// Of [`GPREEMPT_QUEUES`], which this crate never sends.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct GPreemptQueues {
    /// In: exceptions that are cleared.
    pub exceptions: u64,
    /// In: address of the ids.
    pub queues: u64,
    /// In: this many ids.
    pub count: u32,
    /// In: how long waves may go on.
    pub grace: u32,
    /// In: 0 suspends, 1 resumes.
    pub resume: u32,
    /// Zero.
    pub pad: u32,
}

const _: () = {
    assert!(PREEMPT_QUEUE.request == 0xc010_4b87);
    assert!(RESUME_QUEUE.request == 0xc010_4b88);
    assert!(GPREEMPT_QUEUES.request == 0xc020_4b88);
    assert!(size_of::<PreemptQueue>() == 16 && offset_of!(PreemptQueue, timeout_ms) == 8);
    assert!(size_of::<ResumeQueue>() == 16 && offset_of!(ResumeQueue, timeout_ms) == 4);
    assert!(size_of::<GPreemptQueues>() == 32 && offset_of!(GPreemptQueues, resume) == 24);
};
