//! Why a queue stops for good, in the driver's words.

use xsched_gfx942::{Error, Fault, ImageError};

/// Codes of exceptions, as in the kernel's header.
mod code {
    pub(super) const WAVE_TRAP: u32 = 2;
    pub(super) const WAVE_ILLEGAL_INSTRUCTION: u32 = 4;
    pub(super) const WAVE_MEMORY_VIOLATION: u32 = 5;
    pub(super) const WAVE_APERTURE_VIOLATION: u32 = 6;
    pub(super) const PACKET_DIM_INVALID: u32 = 16;
    pub(super) const PACKET_CODE_INVALID: u32 = 18;
    pub(super) const PACKET_RESERVED: u32 = 19;
    pub(super) const PACKET_UNSUPPORTED: u32 = 20;
    pub(super) const PACKET_VENDOR_UNSUPPORTED: u32 = 23;
    pub(super) const PREEMPTION_ERROR: u32 = 30;
}

/// Why a queue stops for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A packet used an address where no memory is.
    #[error("the packet at {at:#x} faulted: {fault}")]
    Memory {
        /// The packet.
        at: u64,
        /// Access that faulted.
        fault: Fault,
    },
    /// A kernel cannot go on.
    #[error("{0}")]
    Kernel(#[from] Error),
    /// A packet has a type that is reserved.
    #[error("the packet at {at:#x} has the reserved type {kind}")]
    Reserved {
        /// The packet.
        at: u64,
        /// Type.
        kind: u32,
    },
    /// A packet is of a kind that the device does not carry out.
    #[error("the packet at {at:#x} is not supported: {what}")]
    Unsupported {
        /// The packet.
        at: u64,
        /// Kind of the packet.
        what: &'static str,
    },
    /// A packet of AMD's own format is of a kind that the device does not carry out.
    #[error("the vendor packet at {at:#x} is not supported: {what}")]
    Vendor {
        /// The packet.
        at: u64,
        /// Kind of the packet.
        what: &'static str,
    },
    /// The save area does not hold what has to be saved.
    #[error("the save area has room for {room} bytes and {needed} are needed")]
    NoRoom {
        /// Bytes that are needed.
        needed: usize,
        /// Bytes that are there.
        room: usize,
    },
    /// The save area has not what was saved.
    #[error("the save area is damaged: {0}")]
    Damaged(&'static str),
    /// The waves that were saved cannot go on.
    #[error("{0}")]
    Image(#[from] ImageError),
}

impl Failure {
    /// The exception's code in the interface.
    #[must_use]
    pub const fn code(&self) -> u32 {
        match self {
            Self::Memory { .. } | Self::Kernel(Error::Fault { .. } | Error::Kernel(_)) => {
                code::WAVE_MEMORY_VIOLATION
            }
            Self::Kernel(Error::Trap { .. }) => code::WAVE_TRAP,
            Self::Kernel(Error::OutOfRange { .. }) => code::WAVE_APERTURE_VIOLATION,
            Self::Kernel(Error::Packet(_)) => code::PACKET_DIM_INVALID,
            Self::Kernel(Error::Descriptor(_)) => code::PACKET_CODE_INVALID,
            Self::Kernel(_) => code::WAVE_ILLEGAL_INSTRUCTION,
            Self::Reserved { .. } => code::PACKET_RESERVED,
            Self::Unsupported { .. } => code::PACKET_UNSUPPORTED,
            Self::Vendor { .. } => code::PACKET_VENDOR_UNSUPPORTED,
            Self::NoRoom { .. } | Self::Damaged(_) | Self::Image(_) => code::PREEMPTION_ERROR,
        }
    }

    /// The wrong address, if it was one.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self {
            Self::Memory { fault, .. }
            | Self::Kernel(Error::Fault { fault, .. } | Error::Kernel(fault)) => Some(*fault),
            _ => None,
        }
    }
}
