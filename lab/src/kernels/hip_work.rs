//! Kernels of AMD GPUs that check their results: `kernels/work.hip`.

use std::env;
use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_hal_hip::{Arguments, HipApi, HipError, HipFunction, HipModule, HipNative, raw};
use xsched_hal_stream::{FlagMemory, SpinApi, StreamApi};

/// The variable of the environment that names the file with these kernels. If it is set and not
/// empty, nothing else is tried.
pub(crate) const WORK_VARIABLE: &str = "XSCHED_HIP_WORK_KERNELS";
/// The file beside the program, if the variable names none.
const BESIDE: &str = "work.hsaco";
/// `kernels/work.hip`, compiled for gfx942.
const BUILT_IN: &[u8] = include_bytes!("../../kernels/work.gfx942.hsaco");
/// Name of the last of the three.
const BUILT_IN_NAME: &str = "the code object for gfx942 that is part of this program";
/// Work-items of a block: the kernels are compiled for that many.
pub(crate) const WORK_THREADS: u32 = 256;
/// Words of device memory for each work-item, and beside those for all together.
const WORDS: (usize, usize) = (8, 2);
/// Blocks that write down when they get on.
const BEATERS: u32 = 16;

/// Work of kernels: the names of those in `kernels/work.hip` without `xs_work_`.
pub(crate) const WORK_KINDS: [&str; 7] =
    ["alu", "lds", "mfma", "memory", "atomics", "barrier", "cooperative"];

/// The kernels of `kernels/work.hip`, loaded on a device.
#[derive(Debug)]
pub(crate) struct WorkKernels {
    functions: Vec<(&'static str, HipFunction)>,
}

/// Memory that kernels of one queue write to. It is never given back: nothing tells when a kernel
/// that was made for it runs for the last time.
#[derive(Debug)]
pub(crate) struct WorkMemory {
    blocks: u32,
    beats: FlagMemory,
    sums: FlagMemory,
    /// The device's address.
    memory: u64,
}

impl WorkKernels {
    /// Loads them on a device: what [`WORK_VARIABLE`] names, or else `work.hsaco` beside the
    /// program, or else those for gfx942 that are part of this crate. Loading may wait for the
    /// device.
    pub(crate) fn load(api: &HipApi) -> Result<Self, HipError> {
        let (from, mut image) = match file() {
            Some(path) => (path.display().to_string(), HipApi::read_kernels(&path)?),
            None => (BUILT_IN_NAME.to_owned(), BUILT_IN.to_vec()),
        };
        let refused =
            |error: HipError| HipError::KernelsRefused { from: from.clone(), why: Box::new(error) };
        // What is a text has to end with zero, and nothing minds it.
        image.push(0);
        // SAFETY: its builder, or the user who names it, promises that it is whole.
        let module = unsafe { HipModule::load(api, &image) }.map_err(refused)?;
        let function = |kind| Ok((kind, module.function(&format!("xs_work_{kind}"))?));
        let functions: Result<Vec<_>, HipError> = WORK_KINDS.into_iter().map(function).collect();
        Ok(Self { functions: functions.map_err(refused)? })
    }

    /// A kernel of `rounds` rounds, or `None` if there is none of this kind. All blocks have to fit
    /// on the device at once if it is `cooperative`. Kernels that write to the same memory must
    /// not run at the same time: they are for one stream.
    pub(crate) fn kernel(&self, kind: &str, rounds: u64, to: &WorkMemory) -> Option<HipNative> {
        let (function, grid, block, arguments) = self.parts(kind, rounds, to)?;
        // SAFETY: these are its arguments, and the memory is large enough for the blocks of the
        // grid and never given back.
        Some(unsafe { HipNative::kernel(function, grid, block, 0, arguments) })
    }

    /// Like [`Self::kernel`], launched by the runtime's call for kernels whose blocks wait for each
    /// other ([`HipNative::cooperative_kernel`]).
    pub(crate) fn cooperative(
        &self,
        kind: &str,
        rounds: u64,
        to: &WorkMemory,
    ) -> Option<HipNative> {
        let (function, grid, block, arguments) = self.parts(kind, rounds, to)?;
        // SAFETY: as above.
        Some(unsafe { HipNative::cooperative_kernel(function, grid, block, 0, arguments) })
    }

    fn parts(
        &self,
        kind: &str,
        rounds: u64,
        to: &WorkMemory,
    ) -> Option<(&HipFunction, [u32; 3], [u32; 3], Arguments)> {
        let (_, function) = self.functions.iter().find(|(name, _)| *name == kind)?;
        // The kernels look at the lower half. The upper one is for those who know of no grid.
        let beaters = u64::from(to.blocks) << 32 | u64::from(BEATERS.min(to.blocks));
        let (beats, sums) = (to.beats.device, to.sums.device);
        let arguments = [rounds, beats, beaters, sums, to.memory];
        let arguments = arguments.into_iter().try_fold(Arguments::new(), Arguments::with).ok()?;
        Some((function, [to.blocks, 1, 1], [WORK_THREADS, 1, 1], arguments))
    }
}

impl WorkMemory {
    /// Memory for kernels of `blocks` blocks, at least one.
    pub(crate) fn new(api: &HipApi, blocks: u32) -> Result<Self, HipError> {
        let blocks = blocks.max(1);
        let _entered = api.enter()?;
        let word = size_of::<u64>();
        let beats = api.stamp_memory(2 * word * BEATERS as usize)?;
        let sums = api.stamp_memory(2 * word * blocks as usize)?;
        let (each, beside) = WORDS;
        let bytes = (blocks as usize * WORK_THREADS as usize * each + beside) * word;
        let memory = zeroed_device_memory(api, bytes)?;
        Ok(Self { blocks, beats, sums, memory })
    }

    /// Blocks of the kernels.
    pub(crate) const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// When a kernel last got on, in nanoseconds of the device's clock; 0 if none has.
    pub(crate) fn last_ns(&self) -> u64 {
        (0..BEATERS as usize).map(|block| read_word(&self.beats, 2 * block)).max().unwrap_or(0)
    }

    /// When a kernel first got on after a start or a pause later than this moment, if one has; in
    /// nanoseconds of the device's clock.
    pub(crate) fn first_after(&self, ns: u64) -> Option<u64> {
        let first = |block: usize| read_word(&self.beats, 2 * block + 1);
        (0..BEATERS as usize).map(first).filter(|&at| at > ns).min()
    }

    /// Returns what all blocks have added up, and how many blocks have run to their end.
    pub(crate) fn sums(&self) -> (u64, u64) {
        let block = |block: usize| [0, 1].map(|half| read_word(&self.sums, 2 * block + half));
        (0..self.blocks as usize)
            .map(block)
            .fold((0, 0), |(sum, count), [more, blocks]| (sum.wrapping_add(more), count + blocks))
    }
}

/// A 64-bit word of host memory; 0 beyond its end.
fn read_word(memory: &FlagMemory, n: usize) -> u64 {
    if n >= memory.bytes / size_of::<u64>() {
        return 0;
    }
    // SAFETY: it is within the memory, which is aligned to 64 bytes, is touched by atomic
    // operations only, and is never given back.
    unsafe { memory.host.cast::<AtomicU64>().add(n).as_ref() }.load(Ordering::SeqCst)
}

/// Memory of the device's, all zero.
fn zeroed_device_memory(api: &HipApi, bytes: usize) -> Result<u64, HipError> {
    let table = api.library().table();
    let mut memory: *mut c_void = ptr::null_mut();
    // SAFETY: the pointer may be written to.
    HipError::check("hipMalloc", unsafe { (table.hipMalloc)(&raw mut memory, bytes) })?;
    let stream = ptr::null_mut();
    // SAFETY: `bytes` bytes were just allocated, and the null stream always exists.
    let code = unsafe { (table.hipMemsetAsync)(memory, 0, bytes, stream) };
    HipError::check("hipMemsetAsync", code)?;
    // SAFETY: as above.
    HipError::check("hipStreamSynchronize", unsafe { (table.hipStreamSynchronize)(stream) })?;
    Ok(memory.expose_provenance() as u64)
}

/// Allocations and copies as programs make them, to see what they take.
#[derive(Debug)]
pub(crate) struct SideCalls {
    api: HipApi,
    host: FlagMemory,
    device: u64,
    bytes: usize,
}

impl SideCalls {
    /// With `bytes` bytes, at least 1. Nothing of it is given back.
    pub(crate) fn new(api: HipApi, bytes: usize) -> Result<Self, HipError> {
        let entered = api.enter()?;
        let host = api.stamp_memory(bytes)?;
        let device = zeroed_device_memory(&api, host.bytes)?;
        drop(entered);
        let bytes = host.bytes;
        Ok(Self { api, host, device, bytes })
    }

    /// `hipMalloc` and `hipFree`.
    pub(crate) fn allocate(&self) -> Result<(), HipError> {
        let _entered = self.api.enter()?;
        let table = self.api.library().table();
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pointer may be written to.
        HipError::check("hipMalloc", unsafe { (table.hipMalloc)(&raw mut memory, self.bytes) })?;
        // SAFETY: it was just allocated.
        HipError::check("hipFree", unsafe { (table.hipFree)(memory) })
    }

    /// A copy to the device and one back, each on the null stream and waited for.
    pub(crate) fn copy(&self) -> Result<(), HipError> {
        let _entered = self.api.enter()?;
        let table = self.api.library().table();
        let host: *mut c_void = self.host.host.as_ptr().cast();
        let device: *mut c_void = ptr::with_exposed_provenance_mut(self.device as usize);
        let stream = ptr::null_mut();
        for (to, from) in [(device, host), (host, device)] {
            let kind = raw::MEMCPY_DEFAULT;
            // SAFETY: both are that long, ours, and never given back.
            let code = unsafe { (table.hipMemcpyAsync)(to, from, self.bytes, kind, stream) };
            HipError::check("hipMemcpyAsync", code)?;
            // SAFETY: the null stream always exists.
            let code = unsafe { (table.hipStreamSynchronize)(stream) };
            HipError::check("hipStreamSynchronize", code)?;
        }
        Ok(())
    }
}

/// The file that the environment names, or the one beside the program if it is there.
fn file() -> Option<PathBuf> {
    let named = env::var_os(WORK_VARIABLE).filter(|name| !name.is_empty());
    named.map(PathBuf::from).or_else(|| {
        let beside = env::current_exe().ok()?.parent()?.join(BESIDE);
        beside.is_file().then_some(beside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_code_object_is_one_for_gfx942_with_all_kernels() {
        // ELF of 64 bits for AMD's GPUs (224), version 5 of code objects (3), gfx942 (0x4c).
        assert_eq!(&BUILT_IN[..5], b"\x7fELF\x02");
        assert_eq!((BUILT_IN[8], BUILT_IN[18], BUILT_IN[48]), (3, 224, 0x4c));
        for kind in WORK_KINDS {
            let name = format!("xs_work_{kind}.kd");
            let found = BUILT_IN.windows(name.len()).any(|part| part == name.as_bytes());
            assert!(found, "{name}");
        }
    }
}
