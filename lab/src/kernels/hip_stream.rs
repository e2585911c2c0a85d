//! Streams without anything around them, to find out what holds what.

use std::ptr;
use std::sync::Arc;

use xsched_hal_hip::{HipApi, HipConfig, HipError, HipNative, HipStream, Rings};
use xsched_hal_stream::{SpinApi, StreamApi};

use super::hip_word::PlacedWord;

/// Stream to launch in, by its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ring {
    /// One with a mask of compute units, and so with a hardware ring of its own.
    Own,
    /// One of normal priority, in a ring that it may share.
    Shared,
    /// The legacy default stream.
    Default,
}

impl Ring {
    /// Name of the ring.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
            Self::Default => "default",
        }
    }
}

/// A stream. It stays to the end of the process: to end one that is held may wait for ever.
#[derive(Debug)]
pub struct BareStream {
    api: Arc<HipApi>,
    stream: HipStream,
}

impl BareStream {
    /// A stream of a device that makes streams with rings of their own unless they have a priority
    /// ([`Rings::Own`], as by default).
    ///
    /// # Errors
    /// If the runtime refuses, or the device was opened otherwise.
    pub fn new(api: &Arc<HipApi>, ring: Ring) -> Result<Self, HipError> {
        if api.rings() != Rings::Own {
            return Err(HipError::SharedRings);
        }
        let _entered = api.enter()?;
        let stream = match ring {
            Ring::Own => api.create_stream(None)?,
            Ring::Shared => api.create_stream(Some(0))?,
            Ring::Default => HipStream::from_raw(ptr::null_mut()),
        };
        Ok(Self { api: Arc::clone(api), stream })
    }

    /// Launches a command.
    ///
    /// # Errors
    /// If the runtime refuses.
    pub fn launch(&self, command: &HipNative) -> Result<(), HipError> {
        let _entered = self.api.enter()?;
        // SAFETY: the stream is never ended, and its device is current.
        unsafe { self.api.launch_native(command, self.stream) }
    }

    /// Has what is launched from now on wait until the word is 0.
    ///
    /// # Errors
    /// If the runtime has no such waits, or not for words in that place.
    pub fn hold(&self, word: &PlacedWord) -> Result<(), HipError> {
        let _entered = self.api.enter()?;
        // SAFETY: neither the stream nor the word ever ends, and the device is current.
        unsafe { self.api.wait_zero(self.stream, word.device()) }
    }

    /// Writes to a word: the host does where it can, else this stream, which is not waited for.
    ///
    /// # Errors
    /// If the runtime has no such command, or refuses it.
    pub fn write(&self, word: &PlacedWord, value: u32) -> Result<(), HipError> {
        let _entered = self.api.enter()?;
        // SAFETY: the stream is never ended, and its device is current.
        unsafe { word.store(&self.api, value, self.stream) }
    }

    /// Waits until all that was launched has run.
    ///
    /// # Errors
    /// If something of it failed.
    pub fn synchronize(&self) -> Result<(), HipError> {
        let _entered = self.api.enter()?;
        // SAFETY: the stream is never ended.
        unsafe { self.api.synchronize(self.stream) }
    }
}

/// Opens the same device anew, loads the benches' kernels anew, and runs one of them, as a program
/// does that begins. The stream in which it ran keeps all of that: giving it back may wait for the
/// device.
///
/// # Errors
/// If the runtime refuses something.
pub(crate) fn begin_anew(api: &HipApi) -> Result<BareStream, HipError> {
    let config = HipConfig { device: api.device(), rings: api.rings() };
    let api = Arc::new(HipApi::with_library(Arc::clone(api.library()), config)?);
    api.load_spin_kernels()?;
    let stream = BareStream::new(&api, Ring::Own)?;
    stream.launch(&api.empty_kernel()?)?;
    stream.synchronize()?;
    Ok(stream)
}
