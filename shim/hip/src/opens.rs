//! The C library's `dlopen`, as this library has it: a program that opens HIP's runtime by a name,
//! of whatever version, gets this library.
//!
//! The C library's function is jumped to, not called: the loader takes the folders to search, and
//! the namespace, from the address that a call returns to.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use xsched_hal_process::loader;
use xsched_shim_engine::Address;
use xsched_shim_engine::opened::is_library;

use crate::vendor::VENDOR;

/// The next `dlopen` in the order of libraries: the C library's, or that of another one that is
/// preloaded.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(refuse as Address);

/// The C library's `dlopen`.
///
/// # Safety
/// As the C library's.
// SAFETY: it stands in for the C library's function of this name, and does what that does.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rsi",
        // With the return address that makes three words, and four below: the stack is aligned.
        "push rdi",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 32",
        "call {path}",
        "add rsp, 8",
        "pop rdi",
        "pop rsi",
        ".cfi_def_cfa_offset 8",
        "mov rdi, rax",
        "jmp qword ptr [rip + {next}]",
        ".cfi_endproc",
        path = sym path,
        next = sym NEXT,
    )
}

/// Returns the path to open in the place of this one. Sees to it that the next function is known.
///
/// # Safety
/// As of `dlopen`.
unsafe extern "C" fn path(path: *const c_char, flags: c_int) -> *const c_char {
    if NEXT.load(Ordering::Acquire) == refuse as Address
        && let Some(next) = loader::next(c"dlopen")
    {
        NEXT.store(next, Ordering::Release);
    }
    // SAFETY: the caller promises what `dlopen` asks for.
    let is_runtime = unsafe { is_library(&VENDOR.library, path, flags) };
    // By its SONAME, which is loaded.
    if is_runtime { c"libshimhip.so".as_ptr() } else { path }
}

/// Answers without a next function: no library is opened.
extern "C" fn refuse() -> *mut c_void {
    ptr::null_mut()
}
