//! Launches of kernels.

use std::sync::Arc;

use xsched_emulated_device::c::{In, gather, unpack};
use xsched_emulated_device::code::{Answer, INVALID_HANDLE, INVALID_VALUE};
use xsched_emulated_device::{Kind, Stream, Work};

use super::modules::callable;
use crate::attributes::BLOCK_THREADS;
use crate::driver::{Function, driver};
use crate::exports::exports;

/// `CU_LAUNCH_PARAM_END`.
const END: usize = 0;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
struct Configuration {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: usize,
    attributes: usize,
    count: u32,
}

/// Work of a kernel's launch.
pub(super) fn work(
    function: &Function,
    grid: [u32; 3],
    block: [u32; 3],
    parameters: In<*const u8>,
    extra: In<usize>,
) -> Answer<Work> {
    let items = |of: [u32; 3]| of.into_iter().map(u64::from).product::<u64>();
    let fits = (1..=BLOCK_THREADS as u64).contains(&items(block));
    if items(grid) == 0 || grid[1].max(grid[2]) > 65_535 || !fits || block[2] > 64 {
        return Err(INVALID_VALUE);
    }
    let sizes = function.builtin.sizes;
    let arguments = match (parameters.is_null(), extra.is_null()) {
        (_, true) => gather(sizes, parameters)?,
        (true, false) => unpack(sizes, extra, END)?,
        (false, false) => return Err(INVALID_VALUE),
    };
    Ok(function.builtin.work(arguments))
}

fn launch(
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    stream: usize,
    parameters: In<*const u8>,
    extra: In<usize>,
) -> Answer {
    let stream: Arc<Stream> = driver().stream(stream)?;
    // Unlike a copy, a kernel is launched into streams of the current context alone.
    if !std::ptr::eq(crate::context::engine()?, stream.device) {
        return Err(INVALID_HANDLE);
    }
    let function = callable(function)?;
    if function.engine.is_some_and(|engine| !std::ptr::eq(engine, stream.device)) {
        return Err(INVALID_HANDLE);
    }
    super::launch(&stream, Kind::Kernel, work(&function, grid, block, parameters, extra)?)
}

exports! {
    [cuLaunchKernel_ptsz]
    fn cuLaunchKernel(
        function: usize,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        _shared_bytes: u32,
        stream: usize,
        parameters: In<*const u8>,
        extra: In<usize>,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, grid, block, stream, parameters, extra)
    }

    [cuLaunchCooperativeKernel_ptsz]
    fn cuLaunchCooperativeKernel(
        function: usize,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        _shared_bytes: u32,
        stream: usize,
        parameters: In<*const u8>,
    ) {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, grid, block, stream, parameters, In::NONE)
    }

    [cuLaunchKernelEx_ptsz]
    fn cuLaunchKernelEx(
        configuration: In<Configuration>,
        function: usize,
        parameters: In<*const u8>,
        extra: In<usize>,
    ) {
        let configuration = configuration.get()?;
        if configuration.count > 0 && configuration.attributes == 0 {
            return Err(INVALID_VALUE);
        }
        let (grid, block) = (configuration.grid, configuration.block);
        launch(function, grid, block, configuration.stream, parameters, extra)
    }
}
