//! Commands of a known length, and the device's clock: `kernels/spin.hip`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use xsched_hal_stream::{FlagMemory, SpinApi};

use crate::api::HipApi;
use crate::arguments::Arguments;
use crate::error::HipError;
use crate::kernels::Kernels;
use crate::module::HipModule;
use crate::native::HipNative;

/// The variable of the environment that names the file with these kernels. If it is set and
/// not empty, nothing else is tried.
pub const KERNELS_VARIABLE: &str = "XSCHED_HIP_KERNELS";
/// The file beside the program, if the variable names none.
const BESIDE: &str = "spin.hsaco";
/// `kernels/spin.hip`, compiled for gfx942: an MI300A, MI300X, MI308X or MI325X.
const BUILT_IN: &[u8] = include_bytes!("../kernels/spin.gfx942.hsaco");
/// Name of the last of the three.
const BUILT_IN_NAME: &str = "the code object for gfx942 that is part of this program";

/// Loads the kernels on a device. `from` is where the image is from.
fn load(api: &HipApi, from: &str, image: Vec<u8>) -> Result<Kernels, HipError> {
    let refused =
        |error: HipError| HipError::KernelsRefused { from: from.to_owned(), why: Box::new(error) };
    let mut image = image;
    // An image that is text has to end with zero. A code object may.
    image.push(0);
    // SAFETY: its builder, or the user who names it, promises that it is whole.
    let module = unsafe { HipModule::load(api, &image) }.map_err(refused)?;
    let function = |name| module.function(name).map_err(refused);
    Ok(Kernels {
        nothing: function("xs_nothing")?,
        spin: function("xs_spin")?,
        clock: function("xs_clock")?,
    })
}

/// The file that the environment names, or the one beside the program if it is there.
fn file() -> Option<PathBuf> {
    let named = env::var_os(KERNELS_VARIABLE).filter(|name| !name.is_empty());
    named.map(PathBuf::from).or_else(|| {
        let beside = env::current_exe().ok()?.parent()?.join(BESIDE);
        beside.is_file().then_some(beside)
    })
}

impl HipApi {
    /// Loads the kernels that [`SpinApi`] is about: what [`KERNELS_VARIABLE`] names, or else
    /// `spin.hsaco` beside the program, or else those for gfx942 that are part of this crate. A
    /// second call does nothing. Loading may wait for the device.
    ///
    /// # Errors
    /// If the file cannot be read, or the runtime cannot use what is in it on this device.
    pub fn load_spin_kernels(&self) -> Result<(), HipError> {
        if self.spin.get().is_some() {
            return Ok(());
        }
        let kernels = match file() {
            Some(path) => load(self, &path.display().to_string(), Self::read_kernels(&path)?)?,
            None => load(self, BUILT_IN_NAME, BUILT_IN.to_vec())?,
        };
        // Another thread may have been faster, and then its kernels are as good.
        let _ = self.spin.set(kernels);
        Ok(())
    }

    /// Reads a code object from a file.
    ///
    /// # Errors
    /// [`HipError::KernelsUnread`] if there is no such file, or it is empty.
    pub fn read_kernels(path: &Path) -> Result<Vec<u8>, HipError> {
        let unread = |why| HipError::KernelsUnread { path: path.display().to_string(), why };
        match fs::read(path) {
            Ok(image) if image.is_empty() => Err(unread("it is empty".to_owned())),
            Ok(image) => Ok(image),
            Err(error) => Err(unread(error.to_string())),
        }
    }

    fn spin_kernels(&self) -> Result<&Kernels, HipError> {
        self.spin.get().ok_or(HipError::NoSpinKernels)
    }
}

impl SpinApi for HipApi {
    type Kernel = HipNative;

    fn native(kernel: HipNative) -> HipNative {
        kernel
    }

    fn empty_kernel(&self) -> Result<HipNative, HipError> {
        let function = &self.spin_kernels()?.nothing;
        // SAFETY: it takes no arguments and touches no memory.
        Ok(unsafe { HipNative::kernel(function, [1; 3], [1; 3], 0, Arguments::new()) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn spin_kernel(
        &self,
        blocks: u32,
        threads: u32,
        cycles: u64,
        stamps: u64,
    ) -> Result<HipNative, HipError> {
        let function = &self.spin_kernels()?.spin;
        let arguments = Arguments::new().with(cycles)?.with(stamps)?;
        let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
        // SAFETY: these are its arguments, and it writes where the caller allows it.
        Ok(unsafe { HipNative::kernel(function, grid, block, 0, arguments) })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn clock_kernel(&self, words: u64, rounds: u64) -> Result<HipNative, HipError> {
        let function = &self.spin_kernels()?.clock;
        let arguments = Arguments::new().with(words)?.with(rounds)?;
        // SAFETY: these are its arguments, and it writes where the caller allows it.
        Ok(unsafe { HipNative::kernel(function, [1; 3], [1; 3], 0, arguments) })
    }

    fn clock_silent(ms: u64) -> HipError {
        HipError::ClockSilent { ms }
    }

    fn stamp_memory(&self, bytes: usize) -> Result<FlagMemory, HipError> {
        self.host_memory(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_code_object_is_one_for_gfx942() {
        // ELF of 64 bits for AMD's GPUs (224), version 5 of code objects (3), gfx942 (0x4c).
        assert_eq!(&BUILT_IN[..5], b"\x7fELF\x02");
        assert_eq!((BUILT_IN[8], BUILT_IN[18], BUILT_IN[48]), (3, 224, 0x4c));
        for name in ["xs_nothing.kd", "xs_spin.kd", "xs_clock.kd"] {
            let found = BUILT_IN.windows(name.len()).any(|part| part == name.as_bytes());
            assert!(found, "{name}");
        }
    }

    #[test]
    fn files_without_kernels_are_named() {
        let folder = env::temp_dir();
        let error = HipApi::read_kernels(&folder).expect_err("a folder is no file");
        assert!(error.to_string().contains(&*folder.to_string_lossy()), "{error}");
        let empty = folder.join(format!("xsched-empty-{}", std::process::id()));
        fs::write(&empty, []).expect("a file for the test");
        let read = HipApi::read_kernels(&empty);
        fs::remove_file(&empty).expect("it is there");
        assert!(matches!(read, Err(HipError::KernelsUnread { why, .. }) if why == "it is empty"));
    }
}
