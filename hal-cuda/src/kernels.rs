//! Kernels of this crate: for the self-test of gates, for calibrated load and for device clocks.

use std::ffi::CStr;

use crate::command::CudaKernel;
use crate::driver::check;
use crate::error::CudaError;
use crate::table::{CuFunction, CuModule, Table};

/// The module, as PTX with a null at its end.
const PTX: &str = concat!(include_str!("../kernels/spin.ptx"), "\0");

/// The kernels of `kernels/spin.ptx`. They stay loaded as long as the context: unloading would wait
/// for the device.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    nothing: CuFunction,
    spin: CuFunction,
    note: CuFunction,
    trap: CuFunction,
    clock: CuFunction,
}

impl Kernels {
    /// Compiles and loads them into the current context.
    pub(crate) fn load(table: &Table) -> Result<Self, CudaError> {
        let mut module = CuModule::NULL;
        // SAFETY: the text ends with a null, and the driver copies it.
        let code = unsafe { (table.module_load)(&raw mut module, PTX.as_ptr().cast()) };
        check(table, "cuModuleLoadData", code)?;
        let find = |name: &CStr| {
            let mut function = CuFunction::NULL;
            // SAFETY: the module was loaded above, and the name ends with a null.
            let code = unsafe { (table.module_function)(&raw mut function, module, name.as_ptr()) };
            check(table, "cuModuleGetFunction", code)?;
            if let Some(load) = table.function_load {
                // So that the first launch does not have to, which would wait for held queues.
                // SAFETY: just found.
                check(table, "cuFuncLoad", unsafe { load(function) })?;
            }
            Ok::<_, CudaError>(function)
        };
        Ok(Self {
            nothing: find(c"xs_nothing")?,
            spin: find(c"xs_spin")?,
            note: find(c"xs_note")?,
            trap: find(c"xs_trap")?,
            clock: find(c"xs_clock")?,
        })
    }

    /// A kernel that does nothing.
    #[must_use]
    pub const fn empty(&self) -> CudaKernel {
        // SAFETY: it has no parameters and touches no memory; its module stays loaded.
        unsafe { CudaKernel::new(self.nothing, [1; 3], [1; 3]) }
    }

    /// A kernel that fails, and takes the context with it.
    #[must_use]
    pub const fn trap(&self) -> CudaKernel {
        // SAFETY: it has no parameters and touches no memory; its module stays loaded.
        unsafe { CudaKernel::new(self.trap, [1; 3], [1; 3]) }
    }

    /// Blocks that each spin for `cycles` cycles. Where `stamps` is not 0, the first thread writes
    /// the device's clock there, in nanoseconds, at its start and its end.
    ///
    /// # Errors
    /// None that can happen.
    ///
    /// # Safety
    /// `stamps` is 0 or the device's address of 16 bytes that are alive until it has run.
    pub unsafe fn spin(
        &self,
        blocks: u32,
        threads: u32,
        cycles: u64,
        stamps: u64,
    ) -> Result<CudaKernel, CudaError> {
        // SAFETY: it writes where the caller allows it; its module stays loaded.
        let kernel = unsafe { CudaKernel::new(self.spin, [blocks, 1, 1], [threads, 1, 1]) };
        kernel.parameter(cycles)?.parameter(stamps)
    }

    /// Blocks that each spin for `cycles` cycles, without stamps.
    ///
    /// # Errors
    /// None that can happen.
    pub fn spin_unseen(
        &self,
        blocks: u32,
        threads: u32,
        cycles: u64,
    ) -> Result<CudaKernel, CudaError> {
        // SAFETY: without stamps.
        unsafe { self.spin(blocks, threads, cycles, 0) }
    }

    /// One thread that spins for `cycles` cycles and notes what it does in seven words, as the
    /// conformance suite asks for.
    ///
    /// # Errors
    /// None that can happen.
    ///
    /// # Safety
    /// Device addresses of host memory that is alive until it has run.
    pub unsafe fn note(
        &self,
        cycles: u64,
        clock: u64,
        notes: u64,
    ) -> Result<CudaKernel, CudaError> {
        // SAFETY: it writes where the caller allows it; its module stays loaded.
        let kernel = unsafe { CudaKernel::new(self.note, [1; 3], [1; 3]) };
        kernel.parameter(cycles)?.parameter(clock)?.parameter(notes)
    }

    /// One thread that writes the device's clock `rounds` times, each time it is asked to.
    ///
    /// # Errors
    /// None that can happen.
    ///
    /// # Safety
    /// `words` is the device's address of host memory of 64 bytes and 8 for each round, which is
    /// alive until it has run.
    pub(crate) unsafe fn clock(&self, words: u64, rounds: u64) -> Result<CudaKernel, CudaError> {
        // SAFETY: it writes where the caller allows it; its module stays loaded.
        let kernel = unsafe { CudaKernel::new(self.clock, [1; 3], [1; 3]) };
        kernel.parameter(words)?.parameter(rounds)
    }
}
