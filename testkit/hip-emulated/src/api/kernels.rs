//! Modules, kernels, and functions that the host runs.

use std::ffi::c_void;
use std::slice;

use super::{Out, Text, exports};
use crate::IMAGE;
use crate::code::{
    Answer, INVALID_CONFIGURATION, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NOT_FOUND,
};
use crate::ring::Work;
use crate::runtime::{Known, Object, runtime};
use crate::stream::Stream;

/// Work-items that a block has at most.
const BLOCK_MAX: u32 = 1_024;
/// HIP's `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

fn check_shape(grid: Dim3, block: Dim3) -> Answer {
    let items = |of: Dim3| u64::from(of.x) * u64::from(of.y) * u64::from(of.z);
    let fits = items(grid) > 0 && (1..=u64::from(BLOCK_MAX)).contains(&items(block));
    if fits { Ok(()) } else { Err(INVALID_CONFIGURATION) }
}

/// Where each argument goes in the block, and the length of the block. Sizes that no number has
/// are structures', which are aligned to 8 here.
fn layout(sizes: &[usize]) -> (Vec<usize>, usize) {
    let mut end = 0_usize;
    let mut starts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let align = if matches!(size, 1 | 2 | 4) { *size } else { 8 };
        let start = end.next_multiple_of(align);
        starts.push(start);
        end = start + size;
    }
    (starts, end)
}

/// Copies so many bytes to a place in the block.
fn put(block: &mut [u64], start: usize, from: *const c_void, bytes: usize) -> Answer {
    if from.is_null() || start + bytes > block.len() * 8 {
        return Err(INVALID_VALUE);
    }
    let to = block.as_mut_ptr().cast::<u8>();
    // SAFETY: the block is long enough; HIP's caller promises that the arguments are what the
    // kernel takes, whose sizes are known.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping(to.add(start), bytes) };
    Ok(())
}

/// The block of arguments, from their addresses.
fn gather(known: &Known, parameters: *mut *mut c_void) -> Answer<Box<[u64]>> {
    let (starts, length) = layout(&known.sizes);
    let mut block = vec![0; length.div_ceil(8).max(1)].into_boxed_slice();
    if known.sizes.is_empty() {
        return Ok(block);
    }
    if parameters.is_null() {
        return Err(INVALID_VALUE);
    }
    for (at, (start, size)) in starts.into_iter().zip(&*known.sizes).enumerate() {
        // SAFETY: HIP's caller promises that there is an address for each argument.
        let from = unsafe { parameters.add(at).read() };
        put(&mut block, start, from, *size)?;
    }
    Ok(block)
}

/// The block of arguments, from the caller's block.
fn unpack(known: &Known, extra: *mut *mut c_void) -> Answer<Box<[u64]>> {
    // SAFETY: HIP's caller promises that it ends with HIP_LAUNCH_PARAM_END; pairs come before.
    let words = unsafe { slice::from_raw_parts(extra.cast::<usize>(), 5) };
    let &[1, from, 2, bytes, 3] = words else { return Err(INVALID_VALUE) };
    let bytes: *const usize = std::ptr::with_exposed_provenance(bytes);
    // SAFETY: HIP's caller promises that this is the address of the block's length.
    let bytes = unsafe { bytes.read() };
    let (_, length) = layout(&known.sizes);
    if bytes < length {
        return Err(INVALID_VALUE);
    }
    let mut block = vec![0; length.div_ceil(8).max(1)].into_boxed_slice();
    if length > 0 {
        put(&mut block, 0, std::ptr::with_exposed_provenance(from), length)?;
    }
    Ok(block)
}

fn launch(known: &Known, block: Box<[u64]>, stream: &std::sync::Arc<Stream>) -> Answer {
    stream.launch(Work::Kernel { kernel: known.kernel, block })
}

exports! {
    fn hipModuleLoadData(module: Out<usize>, image: *const u8) {
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        let device = runtime().current()?;
        device.check()?;
        let fits = IMAGE.iter().enumerate().all(|(at, expected)| {
            // SAFETY: HIP's caller promises that it is an image, which is as long as what it starts
            // with demands; this stops at the first byte that is another one.
            let byte = unsafe { image.add(at).read() };
            byte == *expected
        });
        if !fits {
            return Err(INVALID_IMAGE);
        }
        module.set(runtime().add(Object::Module(device)))
    }

    fn hipModuleUnload(module: usize) {
        runtime().module(module)?.synchronize();
        runtime().forget(module);
        Ok(())
    }

    fn hipModuleGetFunction(function: Out<usize>, module: usize, name: Text) {
        let device = runtime().module(module)?;
        let handle = runtime().add_function(device, module, &name.get()?);
        function.set(handle.ok_or(NOT_FOUND)?)
    }

    fn hipModuleLaunchKernel(
        function: usize,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        _shared_bytes: u32,
        stream: usize,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let (function, stream) = (runtime().function(function)?, runtime().stream(stream)?);
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        check_shape(grid, Dim3 { x: block_x, y: block_y, z: block_z })?;
        if function.device.ordinal != stream.device.ordinal {
            return Err(INVALID_HANDLE);
        }
        let known = &function.known;
        let block = match (parameters.is_null(), extra.is_null()) {
            (_, true) => gather(known, parameters)?,
            (true, false) => unpack(known, extra)?,
            (false, false) => return Err(INVALID_VALUE),
        };
        launch(known, block, &stream)
    }

    fn hipModuleLaunchCooperativeKernel(
        function: usize,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        _shared_bytes: u32,
        stream: usize,
        parameters: *mut *mut c_void,
    ) {
        let (function, stream) = (runtime().function(function)?, runtime().stream(stream)?);
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        check_shape(grid, Dim3 { x: block_x, y: block_y, z: block_z })?;
        if function.device.ordinal != stream.device.ordinal {
            return Err(INVALID_HANDLE);
        }
        let (known, kernel) = (&function.known, function.known.kernel);
        let block = gather(known, parameters)?;
        stream.launch_together(Work::Kernel { kernel, block })
    }

    fn hipLaunchKernel(
        kernel: usize,
        grid: Dim3,
        block: Dim3,
        parameters: *mut *mut c_void,
        _shared_bytes: usize,
        stream: usize,
    ) {
        let stream = runtime().stream(stream)?;
        check_shape(grid, block)?;
        // hipErrorInvalidDeviceFunction.
        let known = runtime().kernel_at(kernel).ok_or(98_u32)?;
        launch(&known, gather(&known, parameters)?, &stream)
    }

    fn hipLaunchHostFunc(stream: usize, function: Option<extern "C" fn(usize)>, data: usize) {
        let function = function.ok_or(INVALID_VALUE)?;
        runtime().stream(stream)?.launch(Work::Call { function, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_aligned_to_their_size() {
        assert_eq!(layout(&[1, 4, 2, 8]), (vec![0, 4, 8, 16], 24));
        assert_eq!(layout(&[4, 12, 1]), (vec![0, 8, 20], 21));
        assert_eq!(layout(&[]), (vec![], 0));
    }
}
