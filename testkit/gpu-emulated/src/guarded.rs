//! Memory accesses that may go wrong: what is not mapped is noticed, and does not end the process.
//!
//! Memory of the process itself that it gave to the GPU may be gone before the driver is told. Each
//! access here is one instruction whose address is known; if it faults, the handler of the signal
//! goes on behind it with a mark. Faults anywhere else are passed to the handler that was there.

use std::arch::global_asm;
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

// Each function answers 1 in `eax`, or 0 if the instruction at its label faulted.
global_asm!(
    ".hidden xsched_gpu_guarded_start",
    ".globl xsched_gpu_guarded_start",
    "xsched_gpu_guarded_start:",
    ".hidden xsched_gpu_guarded_copy",
    ".globl xsched_gpu_guarded_copy",
    "xsched_gpu_guarded_copy:",
    "mov rcx, rdx",
    "rep movsb",
    "mov eax, 1",
    "ret",
    ".hidden xsched_gpu_guarded_read_32",
    ".globl xsched_gpu_guarded_read_32",
    "xsched_gpu_guarded_read_32:",
    "mov ecx, dword ptr [rsi]",
    "mov dword ptr [rdi], ecx",
    "mov eax, 1",
    "ret",
    ".hidden xsched_gpu_guarded_read_64",
    ".globl xsched_gpu_guarded_read_64",
    "xsched_gpu_guarded_read_64:",
    "mov rcx, qword ptr [rsi]",
    "mov qword ptr [rdi], rcx",
    "mov eax, 1",
    "ret",
    ".hidden xsched_gpu_guarded_write_32",
    ".globl xsched_gpu_guarded_write_32",
    "xsched_gpu_guarded_write_32:",
    "mov dword ptr [rdi], esi",
    "mov eax, 1",
    "ret",
    ".hidden xsched_gpu_guarded_write_64",
    ".globl xsched_gpu_guarded_write_64",
    "xsched_gpu_guarded_write_64:",
    "mov qword ptr [rdi], rsi",
    "mov eax, 1",
    "ret",
    ".hidden xsched_gpu_guarded_exchange_32",
    ".globl xsched_gpu_guarded_exchange_32",
    "xsched_gpu_guarded_exchange_32:",
    "mov eax, dword ptr [rsi]",
    "lock cmpxchg dword ptr [rdi], edx",
    "mov dword ptr [rsi], eax",
    "mov eax, 1",
    "mov ecx, 2",
    "cmovne eax, ecx",
    "ret",
    ".hidden xsched_gpu_guarded_exchange_64",
    ".globl xsched_gpu_guarded_exchange_64",
    "xsched_gpu_guarded_exchange_64:",
    "mov rax, qword ptr [rsi]",
    "lock cmpxchg qword ptr [rdi], rdx",
    "mov qword ptr [rsi], rax",
    "mov eax, 1",
    "mov ecx, 2",
    "cmovne eax, ecx",
    "ret",
    ".hidden xsched_gpu_guarded_end",
    ".globl xsched_gpu_guarded_end",
    "xsched_gpu_guarded_end:",
    // Where the handler goes on: the functions use no stack, so it can return from here.
    "xor eax, eax",
    "ret",
);

unsafe extern "C" {
    #[link_name = "xsched_gpu_guarded_start"]
    static START: u8;
    #[link_name = "xsched_gpu_guarded_end"]
    static END: u8;
    #[link_name = "xsched_gpu_guarded_copy"]
    fn copy_bytes(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    #[link_name = "xsched_gpu_guarded_read_32"]
    fn read_32(to: *mut u32, from: *const u8) -> u32;
    #[link_name = "xsched_gpu_guarded_read_64"]
    fn read_64(to: *mut u64, from: *const u8) -> u32;
    #[link_name = "xsched_gpu_guarded_write_32"]
    fn write_32(to: *mut u8, value: u32) -> u32;
    #[link_name = "xsched_gpu_guarded_write_64"]
    fn write_64(to: *mut u8, value: u64) -> u32;
    #[link_name = "xsched_gpu_guarded_exchange_32"]
    fn exchange_32(place: *mut u8, expected: *mut u32, value: u32) -> u32;
    #[link_name = "xsched_gpu_guarded_exchange_64"]
    fn exchange_64(place: *mut u8, expected: *mut u64, value: u64) -> u32;
}

/// Up to this a copy is made word by word: the processor's string instruction starts slowly.
const SHORT_BYTES: usize = 64;

/// Copies bytes. False if not all of them were there; some may be copied then.
///
/// # Safety
/// Both are valid for this many bytes, or not mapped at all. They do not overlap.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    let is_aligned = (to.addr() | from.addr()) & 7 == 0;
    if bytes > SHORT_BYTES || !bytes.is_multiple_of(8) || !is_aligned {
        // SAFETY: the caller's promise.
        return unsafe { copy_bytes(to, from, bytes) } == 1;
    }
    for at in (0..bytes).step_by(8) {
        let mut word = 0;
        // SAFETY: within what the caller promises.
        let done = unsafe {
            read_64(&raw mut word, from.wrapping_add(at)) == 1
                && write_64(to.wrapping_add(at), word) == 1
        };
        if !done {
            return false;
        }
    }
    true
}

/// Reads a word.
///
/// # Safety
/// It is valid, or not mapped at all.
pub(crate) unsafe fn read_u32(from: *const u8) -> Option<u32> {
    let mut value = 0;
    // SAFETY: the caller's promise, and a place of our own.
    (unsafe { read_32(&raw mut value, from) } == 1).then_some(value)
}

/// Reads a word of 8 bytes.
///
/// # Safety
/// As [`read_u32`].
pub(crate) unsafe fn read_u64(from: *const u8) -> Option<u64> {
    let mut value = 0;
    // SAFETY: the caller's promise, and a place of our own.
    (unsafe { read_64(&raw mut value, from) } == 1).then_some(value)
}

/// Writes a word. False if it is not there.
///
/// # Safety
/// As [`read_u32`].
pub(crate) unsafe fn write_u32(to: *mut u8, value: u32) -> bool {
    // SAFETY: the caller's promise.
    unsafe { write_32(to, value) == 1 }
}

/// Writes a word of 8 bytes. False if it is not there.
///
/// # Safety
/// As [`read_u32`].
pub(crate) unsafe fn write_u64(to: *mut u8, value: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { write_64(to, value) == 1 }
}

/// Replaces a word by what `change` makes of it, and answers the old one.
///
/// # Safety
/// As [`read_u32`], and it is aligned.
pub(crate) unsafe fn update_u32(place: *mut u8, change: &mut dyn FnMut(u32) -> u32) -> Option<u32> {
    // SAFETY: the caller's promise.
    let mut old = unsafe { read_u32(place) }?;
    loop {
        // SAFETY: the caller's promise, and a place of our own.
        match unsafe { exchange_32(place, &raw mut old, change(old)) } {
            0 => return None,
            1 => return Some(old),
            _ => {}
        }
    }
}

/// Replaces a word of 8 bytes by what `change` makes of it, and answers the old one.
///
/// # Safety
/// As [`update_u32`].
pub(crate) unsafe fn update_u64(place: *mut u8, change: &mut dyn FnMut(u64) -> u64) -> Option<u64> {
    // SAFETY: the caller's promise.
    let mut old = unsafe { read_u64(place) }?;
    loop {
        // SAFETY: the caller's promise, and a place of our own.
        match unsafe { exchange_64(place, &raw mut old, change(old)) } {
            0 => return None,
            1 => return Some(old),
            _ => {}
        }
    }
}

/// Earlier handlers of the two signals.
static BEFORE: [AtomicPtr<libc::sigaction>; 2] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Has faults of these accesses noticed from now on. A program that replaces the handler later
/// takes that away.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (signal, before) in SIGNALS.into_iter().zip(&BEFORE) {
            // SAFETY: zero is valid in all fields.
            let (mut action, mut there): (libc::sigaction, libc::sigaction) =
                unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handler;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            // SAFETY: `there` may be written to, and the handler does only what a handler may.
            if unsafe { libc::sigaction(signal, &raw const action, &raw mut there) } == 0 {
                before.store(Box::into_raw(Box::new(there)), Ordering::SeqCst);
            }
        }
    });
}

extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of the thread, which is ours until we return.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    let (start, end) = ((&raw const START).addr(), (&raw const END).addr());
    if (start..end).contains(&(at.cast_unsigned() as usize)) {
        *at = (end as u64).cast_signed();
        return;
    }
    let which = usize::from(signal == libc::SIGBUS);
    // SAFETY: it is null, or what was put there and is never freed.
    let before = unsafe { BEFORE[which].load(Ordering::SeqCst).as_ref() };
    pass_on(signal, info, context, before);
}

/// Action of the earlier handler.
fn pass_on(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    before: Option<&libc::sigaction>,
) {
    match before {
        Some(action) if action.sa_sigaction > libc::SIG_IGN => {
            if action.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the flag says that it is such a function.
                let call: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { std::mem::transmute(action.sa_sigaction) };
                call(signal, info, context);
            } else {
                // SAFETY: without the flag it is such a function.
                let call: extern "C" fn(c_int) =
                    unsafe { std::mem::transmute(action.sa_sigaction) };
                call(signal);
            }
        }
        _ => {
            // The instruction faults again, without a handler.
            // SAFETY: the call takes numbers only.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}
