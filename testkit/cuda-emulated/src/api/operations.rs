//! Waits for words, and words that streams write.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_emulated_device::c::In;
use xsched_emulated_device::code::{Answer, INVALID_VALUE};
use xsched_emulated_device::{Compare, Kind, Work, word32, word64};

use super::check_default;
use crate::driver::driver;
use crate::exports::exports;

/// `CU_STREAM_WAIT_VALUE_FLUSH`.
const FLUSH: u32 = 1 << 30;
/// Operations of a batch that are taken at most.
const MANY: u32 = 256;

/// `CUstreamBatchMemOpParams`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Operation {
    kind: u32,
    address: usize,
    value: u64,
    flags: u32,
    _rest: [u64; 2],
}

/// Fails unless a word of this many bytes is there.
fn check(address: usize, bytes: usize) -> Answer {
    let is_there = driver().memory.kind(address, bytes).is_some();
    if is_there && address.is_multiple_of(bytes) { Ok(()) } else { Err(INVALID_VALUE) }
}

fn wait32(address: usize, value: u32, flags: u32) -> Answer<Work> {
    check(address, 4)?;
    let how = Compare::from_flags(flags & !FLUSH).ok_or(INVALID_VALUE)?;
    let word = word32(address);
    Ok(Work::Await(Arc::new(move || how.holds(word.load(Ordering::Acquire), value, u32::MAX))))
}

fn wait64(address: usize, value: u64, flags: u32) -> Answer<Work> {
    check(address, 8)?;
    let how = Compare::from_flags(flags & !FLUSH).ok_or(INVALID_VALUE)?;
    let word = word64(address);
    Ok(Work::Await(Arc::new(move || how.holds_64(word.load(Ordering::Acquire), value))))
}

fn write32(address: usize, value: u32, flags: u32) -> Answer<Work> {
    check(address, 4)?;
    if flags & !1 != 0 {
        return Err(INVALID_VALUE);
    }
    Ok(Work::Short(Arc::new(move || word32(address).store(value, Ordering::Release))))
}

fn write64(address: usize, value: u64, flags: u32) -> Answer<Work> {
    check(address, 8)?;
    if flags & !1 != 0 {
        return Err(INVALID_VALUE);
    }
    Ok(Work::Short(Arc::new(move || word64(address).store(value, Ordering::Release))))
}

/// Works of the operations of a batch.
pub(super) fn works(count: u32, operations: &In<Operation>) -> Answer<Vec<Work>> {
    if count == 0 || count > MANY {
        return Err(INVALID_VALUE);
    }
    let work = |operation: &Operation| {
        let &Operation { kind, address, value, flags, .. } = operation;
        match kind {
            1 => wait32(address, value as u32, flags),
            2 => write32(address, value as u32, flags),
            // Flushes of remote writes, and barriers: memory is the host's.
            3 | 6 => Ok(Work::Nothing),
            4 => wait64(address, value, flags),
            5 => write64(address, value, flags),
            _ => Err(INVALID_VALUE),
        }
    };
    operations.slice(count as usize)?.iter().map(work).collect()
}

fn launch(stream: usize, works: Vec<Work>) -> Answer {
    let stream = driver().stream(stream)?;
    check_default(&stream)?;
    stream.launch_all(Kind::MemoryOperations, works)
}

exports! {
    [cuStreamWaitValue32_v2_ptsz]
    fn cuStreamWaitValue32_v2(
        stream: usize,
        address: usize,
        value: u32,
        flags: u32,
    ) {
        launch(stream, vec![wait32(address, value, flags)?])
    }

    [cuStreamWaitValue64_v2_ptsz]
    fn cuStreamWaitValue64_v2(
        stream: usize,
        address: usize,
        value: u64,
        flags: u32,
    ) {
        launch(stream, vec![wait64(address, value, flags)?])
    }

    [cuStreamWriteValue32_v2_ptsz]
    fn cuStreamWriteValue32_v2(
        stream: usize,
        address: usize,
        value: u32,
        flags: u32,
    ) {
        launch(stream, vec![write32(address, value, flags)?])
    }

    [cuStreamWriteValue64_v2_ptsz]
    fn cuStreamWriteValue64_v2(
        stream: usize,
        address: usize,
        value: u64,
        flags: u32,
    ) {
        launch(stream, vec![write64(address, value, flags)?])
    }

    [cuStreamBatchMemOp_v2_ptsz]
    fn cuStreamBatchMemOp_v2(
        stream: usize,
        count: u32,
        operations: In<Operation>,
        flags: u32,
    ) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        launch(stream, works(count, &operations)?)
    }
}
