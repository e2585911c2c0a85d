//! A HIP runtime without a GPU, for tests: streams on threads behind HIP's own C interface.
//!
//! Streams, events, captures and memory are those of `xsched-emulated-device`.
//!
//! Built as a shared library that is loaded in place of `libamdhip64`. It keeps to what the real
//! one promises where a scheduler could notice:
//!
//! * Streams run their commands in order, asynchronously. A stream that was made with a mask of
//!   compute units has a hardware ring of its own. All other streams share at most 4 rings for each
//!   of three priorities (`GPU_MAX_HW_QUEUES`), and a ring is strictly in order: a command that
//!   waits stops all that any stream launched into the ring after it.
//! * A ring takes 1,024 commands (`XSCHED_EMULATED_DEPTH`); a launch into a full one blocks.
//! * The legacy default stream waits for all blocking streams, and they for it.
//! * As many kernels run at once as the device has units for (`XSCHED_EMULATED_UNITS`, 1 if it is
//!   not set), each as if it filled one.
//! * A kernel that fails loses the device: every later call answers its error.
//! * Freeing memory and ending a stream wait until the device has done what was launched.
//! * With `XSCHED_EMULATED_KFD=1`, and an emulated kernel driver behind `/dev/kfd`, each ring is a
//!   queue of that driver, which can stop it in the middle of a kernel. The driver is told that
//!   there is a runtime by the first call of any function, and that there is none any more when the
//!   program ends.
//! * Cooperative kernels of all streams are carried out in a ring of the device's own, and their
//!   stream waits for that.
//! * What is launched into streams that are being captured becomes a graph of kernels, fills and
//!   copies. A row of them runs in the ring of the stream that it is launched in. Branches run in
//!   streams of their own, which share rings with others. Nothing else can be captured.
//! * A capture spoils, by its mode and the thread's, when memory is allocated or freed, an event is
//!   asked for or waited for, or a device is waited for.
//! * There is one device, or as many as `XSCHED_EMULATED_DEVICES` says.
//! * The last error of a thread is that of its last call, as before HIP 7.
//! * With `GPU_STREAMOPS_CP_WAIT=1` streams wait only for signal memory, of 8 bytes each.
//!
//! Not emulated: graphs that are no captures, managed and pooled memory, devices that reach each
//! other's memory, caches, and any timing. Device memory is the host's.
//!
//! # Kernels
//!
//! Are functions of the host, made known under a name by `xsched_emulated_register`. A module is
//! loaded from the bytes of [`IMAGE`], and has all kernels that are known by then, and those of
//! `hal-hip/kernels/spin.hip`, whose cycles are nanoseconds here, and `fill`, with an address, a
//! value and a number of 32-bit words. A kernel gets
//! the block of its arguments, as copied by the launch, and answers 0 or the error with which it
//! fails.
//!
//! # Controls
//!
//! Functions that HIP does not have. All start with `xsched_emulated_` and answer 0 or an error.
//!
//! | function | what it does |
//! |---|---|
//! | `register(name, kernel, sizes, count)` | makes a kernel and its arguments' sizes known |
//! | `devices(count)` | sets how many devices there are, up to 256; at first as said above |
//! | `fail(call, code, times)` | the next this many calls of a function answer an error |
//! | `lose(device, code)` | loses a device, as a kernel would that fails |
//! | `capture(stream, status)` | what `hipStreamIsCapturing` answers |
//! | `in_flight(stream, count)` | writes how many commands were launched and are not done |
//! | `calls(function, count)` | writes how often a function of HIP's was called |
//! | `unseen_ends(count)` | writes how many streams were destroyed too early, see below |
//! | `handles(count)` | writes how many streams, events, modules and graphs are alive |
//!
//! A stream in a ring of its own is destroyed too early if its last completion was not seen by
//! `hipEventQuery`: HIP 7.2.3 may wait for ever then.
#![allow(unsafe_code, non_snake_case)]

mod api;
mod control;
mod graph;
mod kfd;
mod runtime;
mod spin;
mod work;

/// Image for `hipModuleLoadData`.
pub const IMAGE: &[u8] = b"xsched emulated kernels\0";
