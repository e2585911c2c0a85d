//! The exported functions: a stub for each, which jumps to the address in its slot.
//!
//! A stub changes no register that holds an argument, so that it needs no signature: it has its
//! index in r11, which a called function may use freely. `first_call`, which is in each slot at
//! first, saves all registers that can hold arguments, among them rax for functions with variable
//! arguments, and asks [`resolve`] where to go.

use crate::vendor::Vendor;
use crate::{Address, driver};

/// Defines the stubs, their slots and the table of their addresses. The includer has the constant
/// `COUNT` and the static `VENDOR`.
#[macro_export]
macro_rules! stubs {
    ($($index:literal $name:ident;)*) => {
        $crate::first_call!();

        $(
            // SAFETY: it takes the place of the driver's function of this name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "mov r11d, {index}",
                    "jmp qword ptr [rip + {slots} + 8 * {index}]",
                    index = const $index,
                    slots = sym SLOTS,
                )
            }
        )*

        /// The addresses of the stubs.
        pub(crate) static STUBS: [unsafe extern "C" fn(); COUNT] = [$($name),*];
    };
}

/// Defines the slots, and what is in each at first.
#[macro_export]
macro_rules! first_call {
    () => {
        /// Where each stub jumps to.
        pub(crate) static SLOTS: [std::sync::atomic::AtomicPtr<std::ffi::c_void>; COUNT] =
            [const { std::sync::atomic::AtomicPtr::new(first_call as $crate::Address) }; COUNT];

        /// Asks `resolve` with the index in r11, and goes on there with all arguments as they are.
        #[unsafe(naked)]
        unsafe extern "C" fn first_call() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "push rax",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push r10",
                // With the return address that makes ten words: the stack is aligned to 16 bytes.
                "push r11",
                "sub rsp, 128",
                // So that debuggers see who called.
                ".cfi_def_cfa_offset 208",
                "movaps [rsp], xmm0",
                "movaps [rsp + 16], xmm1",
                "movaps [rsp + 32], xmm2",
                "movaps [rsp + 48], xmm3",
                "movaps [rsp + 64], xmm4",
                "movaps [rsp + 80], xmm5",
                "movaps [rsp + 96], xmm6",
                "movaps [rsp + 112], xmm7",
                "mov edi, r11d",
                "call {resolve}",
                "movaps xmm0, [rsp]",
                "movaps xmm1, [rsp + 16]",
                "movaps xmm2, [rsp + 32]",
                "movaps xmm3, [rsp + 48]",
                "movaps xmm4, [rsp + 64]",
                "movaps xmm5, [rsp + 80]",
                "movaps xmm6, [rsp + 96]",
                "movaps xmm7, [rsp + 112]",
                "add rsp, 128",
                "pop r11",
                "mov r11, rax",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "pop rax",
                "jmp r11",
                ".cfi_endproc",
                resolve = sym resolve,
            )
        }

        extern "C" fn resolve(index: usize) -> $crate::Address {
            $crate::stubs::resolve(&VENDOR, index)
        }
    };
}

/// Where the stub with this index goes, this time.
#[must_use]
pub fn resolve(vendor: &'static Vendor, index: usize) -> Address {
    // SAFETY: errno's place is the calling thread's for as long as it lives.
    let errno = unsafe { libc::__errno_location().read() };
    let to = match driver::get(vendor) {
        Some(driver) => driver.target(index),
        None => driver::answer_without(vendor, index),
    };
    // SAFETY: as above.
    unsafe { libc::__errno_location().write(errno) };
    to
}
