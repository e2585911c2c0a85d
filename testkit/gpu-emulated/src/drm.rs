//! The functions of libdrm that AMD's runtime calls, as far as an emulated render node has them.
//!
//! They stand in front of the library's own, which the runtime brings along.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use crate::device::device;

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

/// The call that says where a buffer can be mapped, and its argument: a handle before, the offset
/// after it.
const GEM_MMAP: c_ulong = 1;
const PAGE_SHIFT: u32 = 12;

/// A call of the graphics driver: where a buffer can be mapped. There are no others.
///
/// # Safety
/// The argument is the call's.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn drmCommandWriteRead(
    _: c_int,
    number: c_ulong,
    argument: *mut c_void,
    bytes: c_ulong,
) -> c_int {
    if number != GEM_MMAP || bytes < 8 {
        return -libc::EOPNOTSUPP;
    }
    // SAFETY: the caller's promise.
    let handle = unsafe { argument.cast::<u32>().read_unaligned() };
    // SAFETY: the caller's promise.
    unsafe { argument.cast::<u64>().write_unaligned(u64::from(handle) << PAGE_SHIFT) };
    0
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

/// Kind of a GPU.
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

/// A buffer that was imported.
#[derive(Debug)]
struct Buffer {
    offset: u64,
    bytes: u64,
    place: *mut u8,
}

/// How a buffer is named elsewhere: by its number in the driver, or as a file.
const BY_NUMBER: c_int = 1;
const BY_FILE: c_int = 2;
/// Operation on addresses.
const MAP: c_uint = 1;
const UNMAP: c_uint = 2;
const REPLACE: c_uint = 4;

/// Reads what the emulated driver has written into a buffer's file.
fn import(file: c_int) -> std::io::Result<Buffer> {
    let mut words = [0_u64; 2];
    // SAFETY: this many bytes may be written to.
    let read = unsafe { libc::pread(file, words.as_mut_ptr().cast(), 16, 0) };
    if read != 16 {
        return Err(std::io::Error::from_raw_os_error(libc::EINVAL));
    }
    let [offset, bytes] = words;
    Ok(Buffer { offset, bytes, place: device()?.piece(offset, bytes)? })
}

/// Makes a buffer of a file.
///
/// # Safety
/// The result, a handle and a size, may be written to.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn amdgpu_bo_import(
    _: *mut c_void,
    kind: c_int,
    file: u32,
    result: *mut c_void,
) -> c_int {
    if kind != BY_FILE {
        return -libc::EOPNOTSUPP;
    }
    let Ok(buffer) = import(file.cast_signed()) else { return -libc::EINVAL };
    let bytes = buffer.bytes;
    let handle = Box::into_raw(Box::new(buffer));
    // SAFETY: the caller's promise.
    unsafe {
        result.cast::<*mut Buffer>().write_unaligned(handle);
        result.cast::<u64>().add(1).write_unaligned(bytes);
    }
    0
}

/// Lets GPUs reach a part of a buffer at an address, or not any more.
///
/// # Safety
/// The buffer is one that was imported, or null to take addresses away.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn amdgpu_bo_va_op(
    buffer: *mut c_void,
    offset: u64,
    bytes: u64,
    address: u64,
    _flags: u64,
    operation: c_uint,
) -> c_int {
    let Ok(device) = device() else { return -libc::ENODEV };
    // SAFETY: the caller's promise.
    let buffer = unsafe { buffer.cast::<Buffer>().as_ref() };
    match (operation, buffer) {
        (MAP | REPLACE, Some(buffer)) if offset.saturating_add(bytes) <= buffer.bytes => {
            let place = buffer.place.wrapping_add(offset as usize);
            // SAFETY: it stays mapped until the buffer is freed, before which it is taken away.
            unsafe { device.reach(address, bytes, place) };
        }
        // SAFETY: nothing is added.
        (UNMAP, _) => unsafe { device.reach(address, bytes, std::ptr::null_mut()) },
        _ => return -libc::EINVAL,
    }
    0
}

/// Ends a buffer. What still reaches it notices that it is gone.
///
/// # Safety
/// The buffer is one that was imported, and is not used any more.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn amdgpu_bo_free(buffer: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let buffer = unsafe { Box::from_raw(buffer.cast::<Buffer>()) };
    // SAFETY: our own mapping.
    unsafe { libc::munmap(buffer.place.cast(), buffer.bytes as usize) };
    0
}

/// Where a buffer is in this process.
///
/// # Safety
/// The buffer is one that was imported, and the place may be written to.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn amdgpu_bo_cpu_map(
    buffer: *mut c_void,
    place: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { place.write((*buffer.cast::<Buffer>()).place.cast()) };
    0
}

/// The number of a buffer in the driver: that of its first page.
///
/// # Safety
/// The buffer is one that was imported, and the number may be written to.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn amdgpu_bo_export(
    buffer: *mut c_void,
    kind: c_int,
    number: *mut u32,
) -> c_int {
    if kind != BY_NUMBER {
        return -libc::EOPNOTSUPP;
    }
    // SAFETY: the caller's promise.
    let offset = unsafe { (*buffer.cast::<Buffer>()).offset };
    let Ok(page) = u32::try_from(offset >> PAGE_SHIFT) else { return -libc::EINVAL };
    // SAFETY: the caller's promise.
    unsafe { number.write(page) };
    0
}

/// Refused: buffers say nothing about themselves.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn amdgpu_bo_query_info(_: *mut c_void, _: *mut c_void) -> c_int {
    -libc::EOPNOTSUPP
}

/// Refused: buffers say nothing about themselves.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn amdgpu_bo_set_metadata(_: *mut c_void, _: *mut c_void) -> c_int {
    -libc::EOPNOTSUPP
}
