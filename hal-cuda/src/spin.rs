//! Commands of a known length, and the device's clock.

use xsched_hal_stream::{SpinApi, SpinRate};

use crate::api::CudaApi;
use crate::command::{CudaCommand, CudaKernel};
use crate::error::CudaError;

impl CudaApi {
    /// As [`SpinRate::measure`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn spin_rate(&self, blocks: u32, threads: u32) -> Result<SpinRate, CudaError> {
        SpinRate::measure(self, blocks, threads)
    }
}

impl SpinApi for CudaApi {
    type Kernel = CudaKernel;

    fn native(kernel: CudaKernel) -> CudaCommand {
        CudaCommand::kernel(kernel)
    }

    fn empty_kernel(&self) -> Result<CudaKernel, CudaError> {
        Ok(self.kernels().empty())
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn spin_kernel(
        &self,
        blocks: u32,
        threads: u32,
        cycles: u64,
        stamps: u64,
    ) -> Result<CudaKernel, CudaError> {
        // SAFETY: the caller promises what is asked for.
        unsafe { self.kernels().spin(blocks, threads, cycles, stamps) }
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn clock_kernel(&self, words: u64, rounds: u64) -> Result<CudaKernel, CudaError> {
        // SAFETY: the caller promises what is asked for.
        unsafe { self.kernels().clock(words, rounds) }
    }

    fn clock_silent(ms: u64) -> CudaError {
        CudaError::ClockSilent { ms }
    }
}
