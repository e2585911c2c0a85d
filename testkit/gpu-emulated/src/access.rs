//! Memory as a GPU sees it: ranges of addresses, and where they are in this process.

use std::cell::{Cell, RefCell};

use xsched_gfx942::{Fault, Memory};

use crate::guarded;

/// Addresses that a GPU reaches.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    bytes: u64,
    /// Where it is in this process. Memory of the process itself is there at the same address, and
    /// may be gone although the driver was not told.
    place: usize,
}

impl Range {
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }
}

/// The ranges that one GPU reaches.
#[derive(Debug, Default)]
pub struct Map {
    /// In the order of their addresses; they do not overlap.
    ranges: Vec<Range>,
}

impl Map {
    /// No range.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Lets the GPU reach a range, in place of all that it reached there.
    ///
    /// # Safety
    /// `place` may be read and written for `bytes` bytes as long as the range is here; or else the
    /// whole range is not there any more, which is noticed.
    pub unsafe fn insert(&mut self, start: u64, bytes: u64, place: *mut u8) {
        if bytes == 0 || start.checked_add(bytes).is_none() {
            return;
        }
        let place = place.expose_provenance();
        self.ranges
            .retain(|other| other.start + other.bytes <= start || start + bytes <= other.start);
        let at = self.ranges.partition_point(|other| other.start < start);
        self.ranges.insert(at, Range { start, bytes, place });
    }

    /// The GPU does not reach the range that starts there any more.
    pub fn remove(&mut self, start: u64) {
        self.ranges.retain(|other| other.start != start);
    }

    fn find(&self, address: u64) -> Option<usize> {
        let at = self.ranges.partition_point(|range| range.start <= address).checked_sub(1)?;
        self.ranges[at].has(address).then_some(at)
    }
}

/// Memory while a map does not change, and the interrupts that were sent meanwhile.
#[derive(Debug)]
pub struct View<'a> {
    map: &'a Map,
    /// The range that was used last.
    last: Cell<usize>,
    interrupts: RefCell<Vec<u32>>,
}

impl<'a> View<'a> {
    /// A view of a map.
    #[must_use]
    pub const fn new(map: &'a Map) -> Self {
        Self { map, last: Cell::new(0), interrupts: RefCell::new(Vec::new()) }
    }

    /// The events of the interrupts that were sent, in order. They are forgotten.
    #[must_use]
    pub fn take_interrupts(&self) -> Vec<u32> {
        self.interrupts.take()
    }

    /// Where an address is, and for how many bytes.
    fn place(&self, address: u64) -> Option<(*mut u8, u64)> {
        let last = self.map.ranges.get(self.last.get()).filter(|range| range.has(address));
        let range = match last {
            Some(range) => range,
            None => {
                let at = self.map.find(address)?;
                self.last.set(at);
                &self.map.ranges[at]
            }
        };
        let offset = address - range.start;
        let place = std::ptr::with_exposed_provenance_mut::<u8>(range.place + offset as usize);
        Some((place, range.bytes - offset))
    }

    /// Where this many bytes are, if they are in one range.
    fn whole(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        let (place, left) = self.place(address)?;
        (left >= bytes as u64).then_some(place)
    }

    /// Calls `body` with each piece of a range of addresses: where it is, and what of the range it
    /// is. All of it is there before the first call.
    fn pieces(
        &self,
        address: u64,
        bytes: usize,
        is_write: bool,
        mut body: impl FnMut(*mut u8, std::ops::Range<usize>) -> bool,
    ) -> Result<(), Fault> {
        for does in [false, true] {
            let mut done = 0;
            while done < bytes {
                let at = address.wrapping_add(done as u64);
                let fault = Fault { address: at, is_write };
                let (place, left) = self.place(at).ok_or(fault)?;
                let piece = usize::try_from(left).unwrap_or(usize::MAX).min(bytes - done);
                if does && !body(place, done..done + piece) {
                    return Err(fault);
                }
                done += piece;
            }
        }
        Ok(())
    }

    /// Copies within the memory. Where both overlap, what comes is as if from the start on.
    ///
    /// # Errors
    /// If not all of it is there.
    pub fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Fault> {
        let mut piece = vec![0; bytes.min(COPY_BYTES)];
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(COPY_BYTES);
            let (from, to) = (from.wrapping_add(done as u64), to.wrapping_add(done as u64));
            self.read(from, &mut piece[..now])?;
            self.write(to, &piece[..now])?;
            done += now;
        }
        Ok(())
    }
}

/// How much is copied at once.
const COPY_BYTES: usize = 1 << 18;

impl Memory for View<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.pieces(address, into.len(), false, |place, piece| {
            let into = &mut into[piece];
            // SAFETY: the range is mapped, or the copy notices that it is not.
            unsafe { guarded::copy(into.as_mut_ptr(), place, into.len()) }
        })
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.pieces(address, from.len(), true, |place, piece| {
            let from = &from[piece];
            // SAFETY: the range is mapped, or the copy notices that it is not.
            unsafe { guarded::copy(place, from.as_ptr(), from.len()) }
        })
    }

    fn update_u32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> Result<u32, Fault> {
        let fault = Fault { address, is_write: true };
        let place = self.whole(address, 4).filter(|_| address.is_multiple_of(4)).ok_or(fault)?;
        // SAFETY: as in `write`; it is aligned, as ranges are.
        unsafe { guarded::update_u32(place, change) }.ok_or(fault)
    }

    fn update_u64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        let fault = Fault { address, is_write: true };
        let place = self.whole(address, 8).filter(|_| address.is_multiple_of(8)).ok_or(fault)?;
        // SAFETY: as in `write`; it is aligned, as ranges are.
        unsafe { guarded::update_u64(place, change) }.ok_or(fault)
    }

    fn read_u32(&self, address: u64) -> Result<u32, Fault> {
        let fault = Fault { address, is_write: false };
        if let Some(place) = self.whole(address, 4)
            && address.is_multiple_of(4)
        {
            // SAFETY: as in `read`; it is aligned, as ranges are.
            return unsafe { guarded::read_u32(place) }.ok_or(fault);
        }
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn read_u64(&self, address: u64) -> Result<u64, Fault> {
        let fault = Fault { address, is_write: false };
        if let Some(place) = self.whole(address, 8)
            && address.is_multiple_of(8)
        {
            // SAFETY: as in `read`; it is aligned, as ranges are.
            return unsafe { guarded::read_u64(place) }.ok_or(fault);
        }
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn write_u32(&self, address: u64, value: u32) -> Result<(), Fault> {
        let fault = Fault { address, is_write: true };
        if let Some(place) = self.whole(address, 4)
            && address.is_multiple_of(4)
        {
            // SAFETY: as in `write`; it is aligned, as ranges are.
            return if unsafe { guarded::write_u32(place, value) } { Ok(()) } else { Err(fault) };
        }
        self.write(address, &value.to_le_bytes())
    }

    fn write_u64(&self, address: u64, value: u64) -> Result<(), Fault> {
        let fault = Fault { address, is_write: true };
        if let Some(place) = self.whole(address, 8)
            && address.is_multiple_of(8)
        {
            // SAFETY: as in `write`; it is aligned, as ranges are.
            return if unsafe { guarded::write_u64(place, value) } { Ok(()) } else { Err(fault) };
        }
        self.write(address, &value.to_le_bytes())
    }

    fn interrupt(&self, event: u32) {
        self.interrupts.borrow_mut().push(event);
    }
}
