//! Surroundings of a compute unit that it reaches: memory and a clock.

/// An access to an address where no memory is, or none that may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory to {} at {address:#x}", if *.is_write { "write" } else { "read" })]
pub struct Fault {
    /// The first address of the access that failed.
    pub address: u64,
    /// True if it was a store or an atomic.
    pub is_write: bool,
}

/// Memory that waves reach by global addresses.
///
/// Loads and stores of aligned 4 and 8 bytes are atomic, since other threads use the memory at the
/// same time. An access must not be done in part: if any of its bytes is not there, none is
/// changed.
pub trait Memory {
    /// Reads as many bytes as fit into `into`.
    ///
    /// # Errors
    /// If any of them is not there.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;

    /// Writes all of `from`.
    ///
    /// # Errors
    /// If any of the bytes is not there, or may not be written.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault>;

    /// Replaces 4 bytes atomically by what `change` makes of them, and answers the old value.
    ///
    /// `change` may be called several times, and has no effect but its result.
    ///
    /// # Errors
    /// As [`write`](Self::write), and if the address is not a multiple of 4.
    fn update_u32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> Result<u32, Fault>;

    /// Replaces 8 bytes atomically by what `change` makes of them, and answers the old value.
    ///
    /// `change` may be called several times, and has no effect but its result.
    ///
    /// # Errors
    /// As [`write`](Self::write), and if the address is not a multiple of 8.
    fn update_u64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault>;

    /// Reads 4 bytes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn read_u32(&self, address: u64) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads 8 bytes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn read_u64(&self, address: u64) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes 4 bytes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn write_u32(&self, address: u64, value: u32) -> Result<(), Fault> {
        self.write(address, &value.to_le_bytes())
    }

    /// Writes 8 bytes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn write_u64(&self, address: u64, value: u64) -> Result<(), Fault> {
        self.write(address, &value.to_le_bytes())
    }

    /// A wave has sent an interrupt (`s_sendmsg sendmsg(MSG_INTERRUPT)`) with this in `m0`, the
    /// event that a signal names. A device that has events looks at them then; the default does
    /// nothing.
    fn interrupt(&self, event: u32) {
        let _ = event;
    }
}

/// Time as the compute unit sees it.
///
/// `s_memrealtime` is a tenth of it, as a clock of 100 MHz counts, and `s_memtime` counts it as
/// cycles.
pub trait Clock {
    /// Nanoseconds since any fixed moment. They never decrease.
    fn now_ns(&self) -> u64;
}
