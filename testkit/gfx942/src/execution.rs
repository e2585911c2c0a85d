//! A dispatch packet under way.

use crate::{Clock, Error, ImageError, Memory};

/// How long a kernel dispatch packet is.
pub const PACKET_BYTES: usize = 64;

/// What the device around the compute unit is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Where the local data share is in flat addresses, a multiple of 4 GiB.
    pub shared_base: u64,
    /// Where scratch memory is in flat addresses, a multiple of 4 GiB.
    pub private_base: u64,
    /// How many workgroups are resident at once, at least 1.
    pub workgroups_max: usize,
    /// The address of the queue's `amd_queue_t`, for kernels that ask for it.
    pub queue_address: u64,
    /// The packet's number in its queue, for kernels that ask for it.
    pub dispatch_id: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shared_base: 0x1_0000_0000_0000,
            private_base: 0x2_0000_0000_0000,
            workgroups_max: 16,
            queue_address: 0,
            dispatch_id: 0,
        }
    }
}

/// How far an execution has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All work-items have ended. The packet's completion signal is the device's to handle.
    Done,
    /// The instructions that were asked for are used up.
    Running,
    /// All waves sleep (`s_sleep`), so that the device may yield the processor before it goes on.
    Waiting,
}

/// A kernel dispatch packet (HSA AQL) under way: its resident workgroups with their waves, local
/// data share and scratch memory, and the next workgroup to start.
#[derive(Debug)]
pub struct Execution {
    instructions: u64,
}

impl Execution {
    /// Starts the dispatch packet `packet`, which the queue has at `packet_address`.
    ///
    /// # Errors
    /// If the packet or its kernel's descriptor is not one that can be executed.
    pub fn start(
        packet: &[u8; PACKET_BYTES],
        packet_address: u64,
        memory: &impl Memory,
        config: &Config,
    ) -> Result<Self, Error> {
        let _ = (packet, packet_address, memory, config);
        Err(Error::Packet("not yet written"))
    }

    /// Runs up to `instructions` instructions of its waves in turn.
    ///
    /// # Errors
    /// If a wave does what it must not. The execution cannot go on then.
    pub fn run(
        &mut self,
        memory: &impl Memory,
        clock: &impl Clock,
        instructions: u64,
    ) -> Result<Progress, Error> {
        let _ = (memory, clock, instructions);
        Ok(Progress::Done)
    }

    /// How many instructions its waves have executed so far.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Appends the context image: everything that is needed to go on.
    pub fn save(&self, image: &mut Vec<u8>) {
        image.extend(self.instructions.to_le_bytes());
    }

    /// Makes of a context image what was saved in it.
    ///
    /// # Errors
    /// If the image is damaged or of another version, or the packet's kernel is gone.
    pub fn restore(
        image: &[u8],
        memory: &impl Memory,
        config: &Config,
    ) -> Result<Self, ImageError> {
        let _ = (image, memory, config);
        Err(ImageError::NotAnImage)
    }
}
