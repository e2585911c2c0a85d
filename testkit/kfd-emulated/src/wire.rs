//! The numbers and layouts of `/dev/kfd`, written down a second time.
//!
//! The crate under test declares them as structures. Here they are numbers and offsets of their
//! own, from `include/uapi/linux/kfd_ioctl.h` of Linux 6.12, so that a slip in one is noticed by
//! the other; both are held against a real driver by `cargo xtask kfd-vm`.
#![expect(missing_docs, reason = "numbers and layouts have the names of the kernel's header")]

use rustix::io::Errno;

/// Direction `_IOC_READ`: the driver writes the argument.
pub const READ: u8 = 2;
/// Direction `_IOC_WRITE`: the driver reads the argument.
pub const WRITE: u8 = 1;
const BOTH: u8 = READ | WRITE;

/// Bytes in an argument that a request can name at most (14 bits).
pub const ARGUMENT_BYTES_MAX: usize = (1 << 14) - 1;

/// Calls, by the low byte of the request. The driver looks at nothing else.
pub mod nr {
    pub const GET_VERSION: u8 = 0x01;
    pub const CREATE_QUEUE: u8 = 0x02;
    pub const DESTROY_QUEUE: u8 = 0x03;
    pub const SET_MEMORY_POLICY: u8 = 0x04;
    pub const GET_CLOCK_COUNTERS: u8 = 0x05;
    pub const GET_PROCESS_APERTURES: u8 = 0x06;
    pub const UPDATE_QUEUE: u8 = 0x07;
    pub const CREATE_EVENT: u8 = 0x08;
    pub const DESTROY_EVENT: u8 = 0x09;
    pub const SET_EVENT: u8 = 0x0a;
    pub const RESET_EVENT: u8 = 0x0b;
    pub const WAIT_EVENTS: u8 = 0x0c;
    pub const DBG_FIRST_OLD: u8 = 0x0d;
    pub const DBG_LAST_OLD: u8 = 0x10;
    pub const SET_SCRATCH_BACKING_VA: u8 = 0x11;
    pub const GET_TILE_CONFIG: u8 = 0x12;
    pub const SET_TRAP_HANDLER: u8 = 0x13;
    pub const GET_PROCESS_APERTURES_NEW: u8 = 0x14;
    pub const ACQUIRE_VM: u8 = 0x15;
    pub const ALLOC_MEMORY_OF_GPU: u8 = 0x16;
    pub const FREE_MEMORY_OF_GPU: u8 = 0x17;
    pub const MAP_MEMORY_TO_GPU: u8 = 0x18;
    pub const UNMAP_MEMORY_FROM_GPU: u8 = 0x19;
    pub const SET_CU_MASK: u8 = 0x1a;
    pub const GET_QUEUE_WAVE_STATE: u8 = 0x1b;
    pub const GET_DMABUF_INFO: u8 = 0x1c;
    pub const IMPORT_DMABUF: u8 = 0x1d;
    pub const ALLOC_QUEUE_GWS: u8 = 0x1e;
    pub const SMI_EVENTS: u8 = 0x1f;
    pub const SVM: u8 = 0x20;
    pub const SET_XNACK_MODE: u8 = 0x21;
    pub const CRIU_OP: u8 = 0x22;
    pub const AVAILABLE_MEMORY: u8 = 0x23;
    pub const EXPORT_DMABUF: u8 = 0x24;
    pub const RUNTIME_ENABLE: u8 = 0x25;
    pub const DBG_TRAP: u8 = 0x26;
    /// Of no released driver: the patched one's, and another's.
    pub const PREEMPT_QUEUE: u8 = 0x87;
    pub const RESUME_QUEUE: u8 = 0x88;
}

/// Operations of `DBG_TRAP`.
pub mod op {
    pub const ENABLE: u32 = 0;
    pub const DISABLE: u32 = 1;
    pub const SEND_RUNTIME_EVENT: u32 = 2;
    pub const SET_EXCEPTIONS_ENABLED: u32 = 3;
    pub const SET_WAVE_LAUNCH_OVERRIDE: u32 = 4;
    pub const SET_WAVE_LAUNCH_MODE: u32 = 5;
    pub const SUSPEND_QUEUES: u32 = 6;
    pub const RESUME_QUEUES: u32 = 7;
    pub const SET_NODE_ADDRESS_WATCH: u32 = 8;
    pub const CLEAR_NODE_ADDRESS_WATCH: u32 = 9;
    pub const SET_FLAGS: u32 = 10;
    pub const GET_QUEUE_SNAPSHOT: u32 = 13;
    pub const LAST: u32 = 14;
}

/// The exception that every fresh queue carries: code 31, so bit 30.
pub const EC_QUEUE_NEW: u64 = 1 << 30;
/// The exception with which a debugger lets `RUNTIME_ENABLE` go on: code 48, so bit 47.
pub const EC_PROCESS_RUNTIME: u64 = 1 << 47;
/// In an answered queue id: the preemption failed.
pub const QUEUE_ERROR: u32 = 1 << 30;
/// In an answered queue id: there is no such queue, or it may not be suspended now.
pub const QUEUE_INVALID: u32 = 1 << 31;

/// Entry of a call in the driver's table: bytes and direction of the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    pub bytes: usize,
    pub direction: u8,
}

const fn both(bytes: usize) -> Option<Definition> {
    Some(Definition { bytes, direction: BOTH })
}

const fn written(bytes: usize) -> Option<Definition> {
    Some(Definition { bytes, direction: WRITE })
}

/// The driver's table. `None` is a number that no 6.12 driver knows: `ENOTTY`.
pub const fn definition(nr: u8) -> Option<Definition> {
    match nr {
        nr::GET_VERSION => Some(Definition { bytes: 8, direction: READ }),
        nr::CREATE_QUEUE => both(96),
        nr::DESTROY_QUEUE | nr::SMI_EVENTS => both(8),
        nr::SET_MEMORY_POLICY => written(32),
        nr::CREATE_EVENT | nr::GET_DMABUF_INFO => both(32),
        nr::GET_CLOCK_COUNTERS | nr::GET_TILE_CONFIG | nr::ALLOC_MEMORY_OF_GPU => both(40),
        nr::GET_PROCESS_APERTURES => Some(Definition { bytes: 400, direction: READ }),
        nr::UPDATE_QUEUE => written(24),
        nr::DESTROY_EVENT
        | nr::SET_EVENT
        | nr::RESET_EVENT
        | nr::ACQUIRE_VM
        | nr::FREE_MEMORY_OF_GPU => written(8),
        nr::WAIT_EVENTS
        | nr::GET_QUEUE_WAVE_STATE
        | nr::MAP_MEMORY_TO_GPU
        | nr::UNMAP_MEMORY_FROM_GPU
        | nr::IMPORT_DMABUF
        | nr::SVM => both(24),
        nr::SET_TRAP_HANDLER => written(24),
        nr::SET_XNACK_MODE => both(4),
        nr::DBG_FIRST_OLD..=nr::DBG_LAST_OLD => written(16),
        nr::SET_CU_MASK => written(16),
        nr::SET_SCRATCH_BACKING_VA
        | nr::EXPORT_DMABUF
        | nr::GET_PROCESS_APERTURES_NEW
        | nr::ALLOC_QUEUE_GWS
        | nr::AVAILABLE_MEMORY
        | nr::RUNTIME_ENABLE => both(16),
        nr::CRIU_OP => both(56),
        nr::DBG_TRAP => both(32),
        _ => None,
    }
}

/// The call that a request names.
pub const fn nr_of(request: u32) -> u8 {
    (request & 0xff) as u8
}

/// The argument's bytes that a request names.
pub const fn bytes_of(request: u32) -> usize {
    (request >> 16) as usize & ARGUMENT_BYTES_MAX
}

/// An argument as the driver sees it: its own size at least, filled up with zeros.
#[derive(Debug)]
pub struct Argument<'a>(pub &'a mut [u8]);

impl Argument<'_> {
    fn take<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(found) = self.0.get(at..at + N) {
            bytes.copy_from_slice(found);
        }
        bytes
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        if let Some(place) = self.0.get_mut(at..at + N) {
            place.copy_from_slice(&bytes);
        }
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.take(at))
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.take(at))
    }

    pub fn set_u32(&mut self, at: usize, value: u32) {
        self.put(at, value.to_ne_bytes());
    }

    pub fn set_u64(&mut self, at: usize, value: u64) {
        self.put(at, value.to_ne_bytes());
    }
}

/// Above this an address is the kernel's (four-level page tables).
const USER_END: u64 = 0x7fff_ffff_f000;

/// Returns what the kernel's `access_ok` says of this many bytes at an address.
pub fn accessible(address: u64, bytes: u64) -> Result<(), Errno> {
    let end = address.checked_add(bytes).ok_or(Errno::FAULT)?;
    if end <= USER_END { Ok(()) } else { Err(Errno::FAULT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers as compiled from the header of 6.12.117.
    #[test]
    fn sizes_are_those_of_the_header() {
        let numbers = [
            0x8008_4b01_u32,
            0xc060_4b02,
            0xc008_4b03,
            0xc028_4b05,
            0x8190_4b06,
            0x4018_4b07,
            0xc020_4b08,
            0x4008_4b09,
            0x4008_4b0a,
            0x4008_4b0b,
            0xc018_4b0c,
            0x4020_4b04,
            0xc010_4b11,
            0xc028_4b12,
            0x4018_4b13,
            0x4008_4b15,
            0xc028_4b16,
            0x4008_4b17,
            0xc018_4b18,
            0xc018_4b19,
            0xc020_4b1c,
            0xc018_4b1d,
            0xc018_4b20,
            0xc004_4b21,
            0xc010_4b24,
            0xc010_4b14,
            0x4010_4b1a,
            0xc018_4b1b,
            0xc010_4b1e,
            0xc008_4b1f,
            0xc038_4b22,
            0xc010_4b23,
            0xc010_4b25,
            0xc020_4b26,
        ];
        for request in numbers {
            let found = definition(nr_of(request)).expect("a call");
            assert_eq!(found.bytes, bytes_of(request), "{request:#x}");
            assert_eq!(u32::from(found.direction), request >> 30, "{request:#x}");
        }
        assert_eq!(definition(0x27), None);
        assert_eq!(definition(0), None);
    }

    #[test]
    fn arguments_beyond_the_end_are_zero_and_not_written() {
        let mut bytes = [1, 0, 0, 0, 2, 0];
        let mut argument = Argument(&mut bytes);
        assert_eq!((argument.u32(0), argument.u32(4), argument.u64(0)), (1, 0, 0));
        argument.set_u32(4, 7);
        assert_eq!(bytes, [1, 0, 0, 0, 2, 0]);
        assert!(accessible(u64::MAX, 2).is_err() && accessible(0, 4096).is_ok());
    }
}
