//! The functions of libdrm that AMD's runtime calls, as far as an emulated render node has them.
//!
//! They stand in front of the library's own, which the runtime brings along.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

/// A version of the interface that the runtime takes.
const VERSION: (u32, u32) = (3, 61);
/// The number of the device on its bus, and its family.
const DEVICE: u32 = 0x74a2;
const FAMILY: u32 = 141;
/// Bytes of what is said of a GPU, up to the last field that the runtime reads.
const INFO_BYTES: usize = 64;

/// Opens a GPU's render node.
// SAFETY: it stands in for the library's function of this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn drmOpenRender(minor: c_int) -> c_int {
    let Ok(path) = std::ffi::CString::new(format!("/dev/dri/renderD{minor}")) else { return -1 };
    // SAFETY: the path ends in a zero.
    unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }
}

/// Closes it.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn drmClose(file: c_int) -> c_int {
    // SAFETY: the call touches no memory.
    unsafe { libc::close(file) }
}

/// A call of the graphics driver, which is not there.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn drmCommandWriteRead(_: c_int, _: c_ulong, _: *mut c_void, _: c_ulong) -> c_int {
    -libc::EOPNOTSUPP
}

/// Makes a device of a render node. The handle is the file's number, and 1.
///
/// # Safety
/// The places may be written to.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn amdgpu_device_initialize(
    file: c_int,
    major: *mut u32,
    minor: *mut u32,
    device: *mut *mut c_void,
) -> c_int {
    // SAFETY: the call touches no memory.
    let own = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
    if own < 0 {
        return -libc::EBADF;
    }
    let handle = std::ptr::without_provenance_mut(own as usize + 1);
    // SAFETY: the caller's promise.
    unsafe {
        major.write(VERSION.0);
        minor.write(VERSION.1);
        device.write(handle);
    }
    0
}

fn file_of(device: *mut c_void) -> c_int {
    c_int::try_from(device.addr()).unwrap_or(0) - 1
}

/// Ends a device.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn amdgpu_device_deinitialize(device: *mut c_void) -> c_int {
    drmClose(file_of(device))
}

/// The file of a device.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn amdgpu_device_get_fd(device: *mut c_void) -> c_int {
    file_of(device)
}

/// The name of a device.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn amdgpu_get_marketing_name(_: *mut c_void) -> *const c_char {
    c"Emulated MI308X".as_ptr()
}

/// What a GPU is.
///
/// # Safety
/// The place is such a structure, which has more bytes than are written.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn amdgpu_query_gpu_info(_: *mut c_void, info: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let words = unsafe {
        info.write_bytes(0, INFO_BYTES);
        std::slice::from_raw_parts_mut(info.cast::<u32>(), 4)
    };
    (words[0], words[3]) = (DEVICE, FAMILY);
    0
}

/// Buffers of the graphics driver do not exist here: each function refuses.
macro_rules! refused {
    ($($name:ident($($argument:ty),*);)*) => {$(
        /// Refused: there are no buffers of the graphics driver.
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($(_: $argument),*) -> c_int {
            -libc::EOPNOTSUPP
        }
    )*};
}

refused! {
    amdgpu_bo_cpu_map(*mut c_void, *mut *mut c_void);
    amdgpu_bo_export(*mut c_void, c_int, *mut u32);
    amdgpu_bo_free(*mut c_void);
    amdgpu_bo_import(*mut c_void, c_int, u32, *mut c_void);
    amdgpu_bo_query_info(*mut c_void, *mut c_void);
    amdgpu_bo_set_metadata(*mut c_void, *mut c_void);
    amdgpu_bo_va_op(*mut c_void, u64, u64, u64, u64, c_uint);
}
