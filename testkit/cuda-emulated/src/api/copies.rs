//! Copies and fills.

use std::sync::Arc;

use xsched_emulated_device::c::In;
use xsched_emulated_device::code::{Answer, INVALID_VALUE, NOT_SUPPORTED};
use xsched_emulated_device::{Kind, MemoryKind, Stream, Work, pointer};

use super::check_default;
use crate::driver::driver;
use crate::exports::exports;

/// `CU_MEMORYTYPE_HOST`, `DEVICE` and `UNIFIED`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const UNIFIED: u32 = 4;

/// Bytes in a row: to, from, and how many.
pub(super) type Row = (usize, usize, usize);

/// One end of `CUDA_MEMCPY2D` and of `CUDA_MEMCPY3D`, without heights.
#[derive(Clone, Copy, Debug)]
struct End {
    kind: u32,
    host: usize,
    device: usize,
    /// Where it begins: bytes, rows and slices.
    at: [usize; 3],
    pitch: usize,
    /// Rows of a slice.
    height: usize,
}

impl End {
    fn start(&self) -> Answer<usize> {
        let base = match self.kind {
            HOST => self.host,
            DEVICE | UNIFIED => self.device,
            _ => return Err(NOT_SUPPORTED),
        };
        Ok(base + self.at[0] + (self.at[1] + self.at[2] * self.height) * self.pitch)
    }
}

/// The rows of a copy of this many bytes, rows and slices.
fn rows(to: End, from: End, [width, height, depth]: [usize; 3]) -> Answer<Vec<Row>> {
    let fits = |end: &End| height.max(depth) <= 1 || width <= end.pitch;
    if !fits(&to) || !fits(&from) {
        return Err(INVALID_VALUE);
    }
    let (first_to, first_from) = (to.start()?, from.start()?);
    let row = move |slice: usize, row: usize| {
        let at = |end: &End| (slice * end.height + row) * end.pitch;
        (first_to + at(&to), first_from + at(&from), width)
    };
    Ok((0..depth).flat_map(|slice| (0..height).map(move |at| row(slice, at))).collect())
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Debug)]
struct Copy2D {
    from_x: usize,
    from_y: usize,
    from_kind: u32,
    from_host: usize,
    from_device: usize,
    _from_array: usize,
    from_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_kind: u32,
    to_host: usize,
    to_device: usize,
    _to_array: usize,
    to_pitch: usize,
    width: usize,
    height: usize,
}

impl Copy2D {
    fn rows(&self) -> Answer<Vec<Row>> {
        let from = End {
            kind: self.from_kind,
            host: self.from_host,
            device: self.from_device,
            at: [self.from_x, self.from_y, 0],
            pitch: if self.from_pitch == 0 { self.width } else { self.from_pitch },
            height: self.height,
        };
        let to = End {
            kind: self.to_kind,
            host: self.to_host,
            device: self.to_device,
            at: [self.to_x, self.to_y, 0],
            pitch: if self.to_pitch == 0 { self.width } else { self.to_pitch },
            height: self.height,
        };
        rows(to, from, [self.width, self.height, 1])
    }
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Copy3D {
    from_at: [usize; 3],
    _from_level: usize,
    from_kind: u32,
    from_host: usize,
    from_device: usize,
    _from_array: usize,
    _reserved0: usize,
    from_pitch: usize,
    from_height: usize,
    to_at: [usize; 3],
    _to_level: usize,
    to_kind: u32,
    to_host: usize,
    to_device: usize,
    _to_array: usize,
    _reserved1: usize,
    to_pitch: usize,
    to_height: usize,
    extent: [usize; 3],
}

impl Copy3D {
    pub(super) fn rows(&self) -> Answer<Vec<Row>> {
        let from = End {
            kind: self.from_kind,
            host: self.from_host,
            device: self.from_device,
            at: self.from_at,
            pitch: if self.from_pitch == 0 { self.extent[0] } else { self.from_pitch },
            height: if self.from_height == 0 { self.extent[1] } else { self.from_height },
        };
        let to = End {
            kind: self.to_kind,
            host: self.to_host,
            device: self.to_device,
            at: self.to_at,
            pitch: if self.to_pitch == 0 { self.extent[0] } else { self.to_pitch },
            height: if self.to_height == 0 { self.extent[1] } else { self.to_height },
        };
        rows(to, from, self.extent)
    }
}

/// True if these bytes are in one block, or in none: the program's own memory is its own business.
fn fits(address: usize, bytes: usize) -> bool {
    let memory = &driver().memory;
    address != 0 && (is_pageable(address) || memory.kind(address, bytes).is_some())
}

/// True if it is memory of the program's that the driver does not know.
fn is_pageable(address: usize) -> bool {
    driver().memory.kind(address, 1).is_none()
}

/// Work that copies these rows. Pageable memory is read now.
pub(super) fn copy(rows: Vec<Row>) -> Answer<Work> {
    let rows: Vec<_> = rows.into_iter().filter(|(_, _, bytes)| *bytes > 0).collect();
    if !rows.iter().all(|(to, from, bytes)| fits(*to, *bytes) && fits(*from, *bytes)) {
        return Err(INVALID_VALUE);
    }
    let taken = |&(to, from, bytes): &Row| {
        let staged = is_pageable(from).then(|| {
            // SAFETY: CUDA's caller promises that there are this many bytes.
            unsafe { std::slice::from_raw_parts(pointer(from).cast_const(), bytes) }.to_vec()
        });
        (to, from, bytes, staged)
    };
    let rows: Vec<_> = rows.iter().map(taken).collect();
    Ok(Work::Short(Arc::new(move || {
        for (to, from, bytes, staged) in &rows {
            let from = staged.as_ref().map_or(pointer(*from).cast_const(), Vec::as_ptr);
            // SAFETY: memory that the driver knows stays until what was launched is done; CUDA's
            // caller promises the rest.
            unsafe { std::ptr::copy(from, pointer(*to), *bytes) };
        }
    })))
}

/// Launches a copy. Waits for it, if `wait`, or if it writes to pageable memory.
fn launch(rows: Vec<Row>, stream: &Arc<Stream>, wait: bool) -> Answer {
    check_default(stream)?;
    if wait {
        stream.check_not_captured()?;
    }
    let waits = wait || rows.iter().any(|(to, ..)| is_pageable(*to));
    stream.launch(Kind::Copy, copy(rows)?)?;
    if waits && stream.capture().is_none() {
        stream.synchronize();
    }
    stream.device.check()
}

/// A copy of bytes in a row.
fn plain(to: usize, from: usize, bytes: usize, stream: usize, wait: bool) -> Answer {
    launch(vec![(to, from, bytes)], &driver().stream(stream)?, wait)
}

/// Rows that are filled: where the first is, how far they are apart, the value and its width in
/// bytes, how many values a row has, and how many rows there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) to: usize,
    pub(super) pitch: usize,
    pub(super) value: u32,
    pub(super) element: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Fill {
    pub(super) fn work(self) -> Answer<Work> {
        let Self { to, pitch, value, element, width, height } = self;
        let bytes = width.checked_mul(element).ok_or(INVALID_VALUE)?;
        let is_aligned = matches!(element, 1 | 2 | 4) && to.is_multiple_of(element);
        let is_there =
            |row: usize| bytes == 0 || driver().memory.kind(to + row * pitch, bytes).is_some();
        if !is_aligned || height > 1 && pitch < bytes || !(0..height).all(is_there) {
            return Err(INVALID_VALUE);
        }
        let row = value.to_ne_bytes()[..element].repeat(width);
        Ok(Work::Short(Arc::new(move || {
            for at in 0..height {
                let to = pointer(to + at * pitch);
                // SAFETY: the row is in a block of memory, which stays until what was launched is
                // done.
                unsafe { to.copy_from_nonoverlapping(row.as_ptr(), bytes) };
            }
        })))
    }

    /// Launches it. Waits for it, if `wait` and it fills memory of the host's.
    fn launch(self, stream: usize, wait: bool) -> Answer {
        let stream = driver().stream(stream)?;
        check_default(&stream)?;
        let is_host = driver().memory.kind(self.to, 1) != Some(MemoryKind::Device);
        stream.launch(Kind::Fill, self.work()?)?;
        if wait && is_host {
            stream.synchronize();
        }
        stream.device.check()
    }
}

/// A row of values.
const fn row(to: usize, value: u32, element: usize, width: usize) -> Fill {
    Fill { to, pitch: 0, value, element, width, height: 1 }
}

exports! {
    [cuMemcpy_ptds, cuMemcpyHtoD_v2_ptds, cuMemcpyDtoH_v2_ptds]
    also cuMemcpyHtoD_v2, cuMemcpyDtoH_v2
    fn cuMemcpy(to: usize, from: usize, bytes: usize) {
        plain(to, from, bytes, 0, true)
    }

    [cuMemcpyDtoD_v2_ptds]
    fn cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) {
        plain(to, from, bytes, 0, false)
    }

    [cuMemcpyPeer_ptds]
    fn cuMemcpyPeer(
        to: usize,
        _to_context: usize,
        from: usize,
        _from_context: usize,
        bytes: usize,
    ) {
        plain(to, from, bytes, 0, false)
    }

    [
        cuMemcpyAsync_ptsz,
        cuMemcpyHtoDAsync_v2_ptsz,
        cuMemcpyDtoHAsync_v2_ptsz,
        cuMemcpyDtoDAsync_v2_ptsz
    ]
    also cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyDtoDAsync_v2
    fn cuMemcpyAsync(
        to: usize,
        from: usize,
        bytes: usize,
        stream: usize,
    ) {
        plain(to, from, bytes, stream, false)
    }

    [cuMemcpyPeerAsync_ptsz]
    fn cuMemcpyPeerAsync(
        to: usize,
        _to_context: usize,
        from: usize,
        _from_context: usize,
        bytes: usize,
        stream: usize,
    ) {
        plain(to, from, bytes, stream, false)
    }

    [cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2_ptds]
    also cuMemcpy2DUnaligned_v2
    fn cuMemcpy2D_v2(copy: In<Copy2D>) {
        launch(copy.get()?.rows()?, &driver().stream(0)?, true)
    }

    [cuMemcpy2DAsync_v2_ptsz]
    fn cuMemcpy2DAsync_v2(copy: In<Copy2D>, stream: usize) {
        launch(copy.get()?.rows()?, &driver().stream(stream)?, false)
    }

    [cuMemcpy3D_v2_ptds]
    fn cuMemcpy3D_v2(copy: In<Copy3D>) {
        launch(copy.get()?.rows()?, &driver().stream(0)?, true)
    }

    [cuMemcpy3DAsync_v2_ptsz]
    fn cuMemcpy3DAsync_v2(copy: In<Copy3D>, stream: usize) {
        launch(copy.get()?.rows()?, &driver().stream(stream)?, false)
    }

    [cuMemsetD8_v2_ptds]
    fn cuMemsetD8_v2(to: usize, value: u8, count: usize) {
        row(to, value.into(), 1, count).launch(0, true)
    }

    [cuMemsetD16_v2_ptds]
    fn cuMemsetD16_v2(to: usize, value: u16, count: usize) {
        row(to, value.into(), 2, count).launch(0, true)
    }

    [cuMemsetD32_v2_ptds]
    fn cuMemsetD32_v2(to: usize, value: u32, count: usize) {
        row(to, value, 4, count).launch(0, true)
    }

    [cuMemsetD8Async_ptsz]
    fn cuMemsetD8Async(
        to: usize,
        value: u8,
        count: usize,
        stream: usize,
    ) {
        row(to, value.into(), 1, count).launch(stream, false)
    }

    [cuMemsetD16Async_ptsz]
    fn cuMemsetD16Async(
        to: usize,
        value: u16,
        count: usize,
        stream: usize,
    ) {
        row(to, value.into(), 2, count).launch(stream, false)
    }

    [cuMemsetD32Async_ptsz]
    fn cuMemsetD32Async(
        to: usize,
        value: u32,
        count: usize,
        stream: usize,
    ) {
        row(to, value, 4, count).launch(stream, false)
    }

    [cuMemsetD2D8_v2_ptds]
    fn cuMemsetD2D8_v2(
        to: usize,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
    ) {
        Fill { to, pitch, value: value.into(), element: 1, width, height }.launch(0, true)
    }

    [cuMemsetD2D32_v2_ptds]
    fn cuMemsetD2D32_v2(
        to: usize,
        pitch: usize,
        value: u32,
        width: usize,
        height: usize,
    ) {
        Fill { to, pitch, value, element: 4, width, height }.launch(0, true)
    }

    [cuMemsetD2D8Async_ptsz]
    fn cuMemsetD2D8Async(
        to: usize,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
        stream: usize,
    ) {
        Fill { to, pitch, value: value.into(), element: 1, width, height }.launch(stream, false)
    }

    [cuMemsetD2D32Async_ptsz]
    fn cuMemsetD2D32Async(
        to: usize,
        pitch: usize,
        value: u32,
        width: usize,
        height: usize,
        stream: usize,
    ) {
        Fill { to, pitch, value, element: 4, width, height }.launch(stream, false)
    }
}
