//! Why a packet cannot be started or continued.

use crate::Fault;

/// Why an execution cannot start or go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wave used global memory that is not there.
    #[error("the instruction at {pc:#x} faulted: {fault}")]
    Fault {
        /// Where the instruction is.
        pc: u64,
        /// Access that faulted.
        fault: Fault,
    },
    /// A wave used an offset in its local data share or its scratch memory that is not there.
    #[error("the instruction at {pc:#x} used {space} at {offset:#x}, which is not allocated")]
    OutOfRange {
        /// Where the instruction is.
        pc: u64,
        /// Memory that was used.
        space: Space,
        /// The offset from the beginning of that memory.
        offset: u64,
    },
    /// No instruction of gfx942 is encoded like this, or it names registers that the wave has not.
    #[error("the instruction {word:#010x} at {pc:#x} is illegal")]
    IllegalInstruction {
        /// Where the instruction is.
        pc: u64,
        /// First 4 bytes.
        word: u32,
    },
    /// The interpreter does not know this instruction, or not this use of it.
    #[error("{what} at {pc:#x} is not emulated")]
    NotEmulated {
        /// Where the instruction is.
        pc: u64,
        /// The name of the instruction, or what of it is not emulated.
        what: &'static str,
    },
    /// A wave executed `s_trap`, as `__builtin_trap` and `abort` do.
    #[error("s_trap {id} at {pc:#x}")]
    Trap {
        /// Where the instruction is.
        pc: u64,
        /// The number of the trap.
        id: u8,
    },
    /// The dispatch packet cannot be carried out.
    #[error("the dispatch packet is invalid: {0}")]
    Packet(&'static str),
    /// The kernel's descriptor asks for what the interpreter does not have.
    #[error("the kernel's descriptor is not supported: {0}")]
    Descriptor(&'static str),
    /// The packet names a kernel's descriptor or arguments that are not there.
    #[error("the packet's kernel cannot be read: {0}")]
    Kernel(Fault),
}

/// Memory that belongs to a workgroup or a work-item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// The local data share of a workgroup.
    Lds,
    /// The private memory of a work-item.
    Scratch,
    /// The vector registers, by a register that holds the index.
    Registers,
}

impl std::fmt::Display for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Lds => "the local data share",
            Self::Scratch => "scratch memory",
            Self::Registers => "the vector registers",
        })
    }
}

/// Why a context image is refused. The execution that it was to continue is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes do not begin as a context image does.
    #[error("this is not a context image")]
    NotAnImage,
    /// The image was written by another version of this crate.
    #[error("the context image has version {0}")]
    Version(u32),
    /// Bytes are not those that were written.
    #[error("the context image is damaged: {0}")]
    Damaged(&'static str),
    /// The packet that it continues cannot be read any more.
    #[error("the context image's packet: {0}")]
    Packet(Error),
}
