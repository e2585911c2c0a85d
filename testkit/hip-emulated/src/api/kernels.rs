//! Modules, kernels, and functions that the host runs.

use std::sync::Arc;

use xsched_emulated_device::c::{gather, unpack};
use xsched_emulated_device::code::{
    Answer, INVALID_CONFIGURATION, INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NOT_FOUND,
};
use xsched_emulated_device::{Kind, Work};

use super::{In, Out, Text, exports};
use crate::IMAGE;
use crate::runtime::{Known, Object, launch, of_thread, runtime};

/// `HIP_LAUNCH_PARAM_END`.
const LAUNCH_END: usize = 3;
/// Work-items that a block has at most.
const BLOCK_MAX: u32 = 1_024;
/// HIP's `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

fn check_shape(grid: Dim3, block: Dim3) -> Answer {
    let items = |of: Dim3| u64::from(of.x) * u64::from(of.y) * u64::from(of.z);
    let fits = items(grid) > 0 && (1..=u64::from(BLOCK_MAX)).contains(&items(block));
    if fits { Ok(()) } else { Err(INVALID_CONFIGURATION) }
}

fn work(known: &Known, block: Box<[u64]>) -> Work {
    let kernel = known.kernel;
    Work::Kernel(Arc::new(move || kernel(block.as_ptr().cast())))
}

/// HIP's `hipLaunchConfig_t`, and `HIP_LAUNCH_CONFIG`, which has a smaller number in the place of
/// the bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Config {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: usize,
    attributes: usize,
    count: u32,
}

/// Launches the kernel that a function of the program stands for.
fn launch_at(
    kernel: usize,
    grid: Dim3,
    block: Dim3,
    parameters: In<*const u8>,
    stream: usize,
) -> Answer {
    let stream = runtime().stream(stream)?;
    check_shape(grid, block)?;
    // hipErrorInvalidDeviceFunction.
    let known = runtime().kernel_at(kernel).ok_or(98_u32)?;
    stream.launch(Kind::Kernel, work(&known, gather(&known.sizes, parameters)?))
}

/// Launches between two events, where they are not 0.
fn between(stream: usize, start: usize, stop: usize, launch: impl FnOnce() -> Answer) -> Answer {
    let record = |event| match event {
        0 => Ok(()),
        event => runtime().stream(stream)?.record(&*runtime().event(event)?),
    };
    record(start)?;
    launch()?;
    record(stop)
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
        parameters: In<*const u8>,
        extra: In<usize>,
    ) {
        let (function, stream) = (runtime().function(function)?, runtime().stream(stream)?);
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        check_shape(grid, Dim3 { x: block_x, y: block_y, z: block_z })?;
        if function.device.ordinal != stream.device.ordinal {
            return Err(INVALID_HANDLE);
        }
        let known = &function.known;
        let block = match (parameters.is_null(), extra.is_null()) {
            (_, true) => gather(&known.sizes, parameters)?,
            (true, false) => unpack(&known.sizes, extra, LAUNCH_END)?,
            (false, false) => return Err(INVALID_VALUE),
        };
        stream.launch(Kind::Kernel, work(known, block))
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
        parameters: In<*const u8>,
    ) {
        let (function, stream) = (runtime().function(function)?, runtime().stream(stream)?);
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        check_shape(grid, Dim3 { x: block_x, y: block_y, z: block_z })?;
        if function.device.ordinal != stream.device.ordinal {
            return Err(INVALID_HANDLE);
        }
        let known = &function.known;
        stream.launch_together(work(known, gather(&known.sizes, parameters)?))
    }

    fn hipLaunchKernel(
        kernel: usize,
        grid: Dim3,
        block: Dim3,
        parameters: In<*const u8>,
        _shared_bytes: usize,
        stream: usize,
    ) {
        launch_at(kernel, grid, block, parameters, stream)
    }

    fn hipLaunchKernel_spt(
        kernel: usize,
        grid: Dim3,
        block: Dim3,
        parameters: In<*const u8>,
        _shared_bytes: usize,
        stream: usize,
    ) {
        launch_at(kernel, grid, block, parameters, of_thread(stream))
    }

    fn hipExtLaunchKernel(
        kernel: usize,
        grid: Dim3,
        block: Dim3,
        parameters: In<*const u8>,
        _shared_bytes: usize,
        stream: usize,
        start: usize,
        stop: usize,
        _flags: i32,
    ) {
        between(stream, start, stop, || launch_at(kernel, grid, block, parameters, stream))
    }

    fn hipExtModuleLaunchKernel(
        function: usize,
        items_x: u32,
        items_y: u32,
        items_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        _shared_bytes: usize,
        stream: usize,
        parameters: In<*const u8>,
        _extra: usize,
        start: usize,
        stop: usize,
        _flags: u32,
    ) {
        let known = runtime().function(function)?.known;
        check_shape(
            Dim3 { x: items_x, y: items_y, z: items_z },
            Dim3 { x: block_x, y: block_y, z: block_z },
        )?;
        let block = gather(&known.sizes, parameters)?;
        between(stream, start, stop, || {
            runtime().stream(stream)?.launch(Kind::Kernel, work(&known, block))
        })
    }

    fn hipLaunchCooperativeKernel(
        kernel: usize,
        grid: Dim3,
        block: Dim3,
        parameters: In<*const u8>,
        _shared_bytes: u32,
        stream: usize,
    ) {
        launch_at(kernel, grid, block, parameters, stream)
    }

    fn hipLaunchKernelExC(config: In<Config>, kernel: usize, parameters: In<*const u8>) {
        let config = config.get()?;
        launch_at(kernel, config.grid, config.block, parameters, config.stream)
    }

    fn hipDrvLaunchKernelEx(
        config: In<Config>,
        function: usize,
        parameters: In<*const u8>,
        _extra: usize,
    ) {
        let (config, known) = (config.get()?, runtime().function(function)?.known);
        check_shape(config.grid, config.block)?;
        let stream = runtime().stream(config.stream)?;
        stream.launch(Kind::Kernel, work(&known, gather(&known.sizes, parameters)?))
    }

    fn hipLaunchHostFunc(stream: usize, function: Option<extern "C" fn(usize)>, data: usize) {
        let function = function.ok_or(INVALID_VALUE)?;
        let call = Work::Call(Arc::new(move || function(data)));
        launch(&runtime().stream(stream)?, Kind::Call, call)
    }

    fn hipStreamAddCallback(
        stream: usize,
        function: Option<extern "C" fn(usize, u32, usize)>,
        data: usize,
        flags: u32,
    ) {
        let function = function.filter(|_| flags == 0).ok_or(INVALID_VALUE)?;
        let call = Work::Call(Arc::new(move || function(stream, 0, data)));
        launch(&runtime().stream(stream)?, Kind::Call, call)
    }
}
