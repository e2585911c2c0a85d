//! Words in places of the caller's choice, to find out where one is best waited for.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use xsched_hal_hip::{HipApi, HipError, HipStream, raw};
use xsched_hal_stream::StreamApi;

/// Bytes of a word's memory, of which the first four are the word: those that signal memory has.
const BYTES: usize = 8;
/// Alignment of memory that is registered, in bytes.
const PAGE: usize = 4_096;

/// Where a word that streams wait for may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Page-locked memory of the host that no side caches: what gates use.
    HostCoherent,
    /// Page-locked memory of the host that the device may cache.
    HostCached,
    /// Memory of the program's own that was registered.
    Registered,
    /// Memory that the runtime keeps for signals.
    Signal,
    /// Memory of the device that it does not cache while others may write to it.
    DeviceFine,
    /// Memory of the device as programs have it.
    DeviceCoarse,
}

impl Place {
    /// All of them, those first from which a wait returns for certain.
    pub const ALL: [Self; 6] = [
        Self::HostCoherent,
        Self::Registered,
        Self::Signal,
        Self::HostCached,
        Self::DeviceFine,
        Self::DeviceCoarse,
    ];

    /// Name of the place.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostCoherent => "host, coherent",
            Self::HostCached => "host, not coherent",
            Self::Registered => "host, registered",
            Self::Signal => "signal memory",
            Self::DeviceFine => "device, fine-grained",
            Self::DeviceCoarse => "device, coarse-grained",
        }
    }

    /// Returns whether the host writes there by itself. Whether it could write to the device's
    /// memory depends on the machine, and to try it may end the process.
    #[must_use]
    pub const fn is_host_visible(self) -> bool {
        !matches!(self, Self::DeviceFine | Self::DeviceCoarse)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that is 0 at first. Its memory stays allocated to the end of the process: nothing tells
/// for how long a stream may wait for it.
#[derive(Debug)]
pub struct PlacedWord {
    place: Place,
    /// Where the host writes, if it does.
    host: Option<NonNull<AtomicU32>>,
    device: u64,
}

// SAFETY: the memory is never given back, and the host touches it atomically only.
unsafe impl Send for PlacedWord {}

impl PlacedWord {
    /// A word in this place.
    ///
    /// # Errors
    /// If the runtime has no such memory.
    pub fn new(api: &HipApi, place: Place) -> Result<Self, HipError> {
        let _entered = api.enter()?;
        let (host, device) = match place {
            Place::HostCoherent => host_memory(api, raw::HOST_MALLOC_COHERENT)?,
            Place::HostCached => host_memory(api, raw::HOST_MALLOC_NON_COHERENT)?,
            Place::Registered => registered(api)?,
            Place::Signal => signal_memory(api)?,
            Place::DeviceFine => device_memory(api, raw::MALLOC_FINE_GRAINED)?,
            Place::DeviceCoarse => device_memory(api, 0)?,
        };
        let host = NonNull::new(host).filter(|_| place.is_host_visible());
        Ok(Self { place, host, device })
    }

    /// Where it is.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Address as the device sees it.
    #[must_use]
    pub const fn device(&self) -> u64 {
        self.device
    }

    /// Writes to it: from here where the host can, else by a command in the stream `by`, which is
    /// not waited for.
    ///
    /// # Errors
    /// If the runtime has no such command, or refuses it.
    ///
    /// # Safety
    /// The stream is alive, and its device current.
    pub unsafe fn store(&self, api: &HipApi, value: u32, by: HipStream) -> Result<(), HipError> {
        if let Some(host) = self.host {
            // SAFETY: the memory is never given back, and touched atomically only.
            unsafe { host.as_ref() }.store(value, Ordering::SeqCst);
            return Ok(());
        }
        let symbol = "hipStreamWriteValue32";
        let write = api.library().table().hipStreamWriteValue32;
        let write = write.ok_or(HipError::Lacks { symbol, what: "writes by a stream" })?;
        let word = ptr::with_exposed_provenance_mut(self.device as usize);
        // SAFETY: the caller promises that the stream is alive, and the word always is.
        HipError::check(symbol, unsafe { write(by.as_raw(), word, value, 0) })
    }
}

type Addresses = (*mut AtomicU32, u64);

/// The device's address of page-locked memory of the host.
///
/// # Safety
/// The runtime allocated the memory or registered it.
unsafe fn device_address(api: &HipApi, host: *mut c_void) -> Result<u64, HipError> {
    let mut device = ptr::null_mut();
    let get = api.library().table().hipHostGetDevicePointer;
    // SAFETY: the pointer may be written to, and the runtime knows the memory.
    HipError::check("hipHostGetDevicePointer", unsafe { get(&raw mut device, host, 0) })?;
    Ok(device.expose_provenance() as u64)
}

/// Memory that the runtime keeps for signals, which the host sees at the same address.
fn signal_memory(api: &HipApi) -> Result<Addresses, HipError> {
    let symbol = "hipExtMallocWithFlags";
    let allocate = api.library().table().hipExtMallocWithFlags;
    let allocate = allocate.ok_or(HipError::NoWaits { symbol })?;
    let mut memory = ptr::null_mut();
    // SAFETY: the pointer may be written to.
    HipError::check(symbol, unsafe { allocate(&raw mut memory, BYTES, raw::MALLOC_SIGNAL) })?;
    // SAFETY: `BYTES` bytes were just allocated, and nothing else refers to them.
    unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, BYTES) };
    let device = memory.expose_provenance() as u64;
    Ok((memory.cast(), device))
}

/// Page-locked memory of the host's.
fn host_memory(api: &HipApi, kind: u32) -> Result<Addresses, HipError> {
    let flags = raw::HOST_MALLOC_MAPPED | raw::HOST_MALLOC_PORTABLE | kind;
    let mut host: *mut c_void = ptr::null_mut();
    // SAFETY: the pointer may be written to.
    let code = unsafe { (api.library().table().hipHostMalloc)(&raw mut host, BYTES, flags) };
    HipError::check("hipHostMalloc", code)?;
    // SAFETY: `BYTES` bytes were just allocated, and nothing else refers to them.
    unsafe { ptr::write_bytes(host.cast::<u8>(), 0, BYTES) };
    // SAFETY: it was just allocated by the runtime.
    let device = unsafe { device_address(api, host) }?;
    Ok((host.cast(), device))
}

/// A page of the program's own.
fn registered(api: &HipApi) -> Result<Addresses, HipError> {
    #[repr(align(4096))]
    struct Page {
        _bytes: [u8; PAGE],
    }
    // Never given back, as all words here.
    let page: *mut Page = Box::leak(Box::new(Page { _bytes: [0; PAGE] }));
    let memory: *mut c_void = page.cast();
    let flags = raw::HOST_REGISTER_MAPPED | raw::HOST_REGISTER_PORTABLE;
    // SAFETY: a page of memory is there, for ever.
    let code = unsafe { (api.library().table().hipHostRegister)(memory, PAGE, flags) };
    HipError::check("hipHostRegister", code)?;
    // SAFETY: it was just registered.
    let device = unsafe { device_address(api, memory) }?;
    Ok((memory.cast(), device))
}

/// Memory of the device's, set to zero by the device. The host's address of it is null.
fn device_memory(api: &HipApi, flags: u32) -> Result<Addresses, HipError> {
    let table = api.library().table();
    let mut memory: *mut c_void = ptr::null_mut();
    if flags == 0 {
        // SAFETY: the pointer may be written to.
        HipError::check("hipMalloc", unsafe { (table.hipMalloc)(&raw mut memory, BYTES) })?;
    } else {
        let symbol = "hipExtMallocWithFlags";
        let allocate = table.hipExtMallocWithFlags;
        let what = "memory of other kinds";
        let allocate = allocate.ok_or(HipError::Lacks { symbol, what })?;
        // SAFETY: the pointer may be written to.
        HipError::check(symbol, unsafe { allocate(&raw mut memory, BYTES, flags) })?;
    }
    let stream = ptr::null_mut();
    // SAFETY: `BYTES` bytes were just allocated, and the null stream always exists.
    let code = unsafe { (table.hipMemsetAsync)(memory, 0, BYTES, stream) };
    HipError::check("hipMemsetAsync", code)?;
    // SAFETY: as above.
    HipError::check("hipStreamSynchronize", unsafe { (table.hipStreamSynchronize)(stream) })?;
    Ok((ptr::null_mut(), memory.expose_provenance() as u64))
}
