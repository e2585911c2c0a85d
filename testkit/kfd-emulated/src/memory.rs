//! Other processes' memory, and this one's: addresses that may be wrong are `EFAULT`, not a crash.

use rustix::io::Errno;

/// The longest piece that is moved at once, in bytes.
const PIECE_BYTES: usize = 1 << 20;

fn errno() -> Errno {
    let error = std::io::Error::last_os_error();
    error.raw_os_error().map_or(Errno::FAULT, Errno::from_raw_os_error)
}

fn vectors(ours: *mut u8, theirs: u64, bytes: usize) -> Result<[libc::iovec; 2], Errno> {
    let address = usize::try_from(theirs).map_err(|_| Errno::FAULT)?;
    let theirs = std::ptr::without_provenance_mut(address);
    Ok([
        libc::iovec { iov_base: ours.cast(), iov_len: bytes },
        libc::iovec { iov_base: theirs, iov_len: bytes },
    ])
}

/// Reads a process's memory.
///
/// # Errors
/// `EFAULT` if not all of it is there, and `EPERM` or `ESRCH` if the process cannot be read.
pub(crate) fn read(pid: u32, address: u64, into: &mut [u8]) -> Result<(), Errno> {
    for (piece, at) in into.chunks_mut(PIECE_BYTES).zip((0..).step_by(PIECE_BYTES)) {
        let place = address.checked_add(at).ok_or(Errno::FAULT)?;
        let [ours, theirs] = vectors(piece.as_mut_ptr(), place, piece.len())?;
        // SAFETY: `ours` is a slice that may be written to; `theirs` is checked by the kernel.
        let moved = unsafe {
            libc::process_vm_readv(pid.cast_signed(), &raw const ours, 1, &raw const theirs, 1, 0)
        };
        complete(moved, piece.len())?;
    }
    Ok(())
}

/// Writes a process's memory. What was written before an error stays.
///
/// # Errors
/// As [`read`].
pub(crate) fn write(pid: u32, address: u64, from: &[u8]) -> Result<(), Errno> {
    for (piece, at) in from.chunks(PIECE_BYTES).zip((0..).step_by(PIECE_BYTES)) {
        let place = address.checked_add(at).ok_or(Errno::FAULT)?;
        let [ours, theirs] = vectors(piece.as_ptr().cast_mut(), place, piece.len())?;
        // SAFETY: `ours` is a slice that is only read; `theirs` is checked by the kernel. What is
        // written is the answer of the process's own call, which writes there.
        let moved = unsafe {
            libc::process_vm_writev(pid.cast_signed(), &raw const ours, 1, &raw const theirs, 1, 0)
        };
        complete(moved, piece.len())?;
    }
    Ok(())
}

fn complete(moved: isize, bytes: usize) -> Result<(), Errno> {
    match usize::try_from(moved) {
        Ok(moved) if moved == bytes => Ok(()),
        Ok(_) => Err(Errno::FAULT),
        Err(_) => Err(errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_addresses_are_errors() {
        let (pid, mut word) = (std::process::id(), [0; 8]);
        let there = 0x0123_4567_89ab_cdef_u64.to_ne_bytes();
        read(pid, there.as_ptr() as u64, &mut word).expect("it is there");
        assert_eq!(word, there);
        let mut place = [0; 8];
        write(pid, place.as_mut_ptr() as u64, &there).expect("it is there");
        assert_eq!(place, there);
        for address in [0, 8, u64::MAX - 3, 1 << 63] {
            assert_eq!(read(pid, address, &mut word), Err(Errno::FAULT), "{address:#x}");
            assert_eq!(write(pid, address, &word), Err(Errno::FAULT), "{address:#x}");
        }
    }
}
