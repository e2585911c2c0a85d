//! `libshimhip.so`: preloaded, it takes the place of HIP's runtime in a program, forwards every
//! function to it, and launches through XQueues.
//!
//! **How it gets in.** Beside it are libraries that have the runtime's SONAMEs, `libamdhip64.so.7`,
//! `.so.6`, `.so.5` and `libamdhip64.so`, as which PyTorch brings it along. They have its symbol
//! versions and nothing else, and need this library. The loader gives the one that is preloaded to
//! whatever asks for its name: a program that is linked with the runtime, or one that opens the
//! runtime itself. A program that opens the runtime by a path goes past it. Their files must not be
//! in a folder that `ldconfig` looks at.
//!
//! This library alone, preloaded, is in front of the functions of a program that is linked with the
//! runtime, by whatever name: its functions have no versions, which the loader takes for any
//! version. A program that opens the runtime by a SONAME, of whatever version, gets it as well,
//! since it takes the place of `dlopen`.
//!
//! **Which runtime** it forwards to: the one that the process has loaded, or else the one that the
//! loader would find for the files of the process. Several can be installed. If the program opens
//! one of them itself, it is the one of that name; `XSCHED_HIP_RUNTIME` names another.
//!
//! **How it works** is in `xsched-shim-engine`. `functions.toml` lists the functions that the
//! runtime exports.
//!
//! **What differs from the runtime alone.** A function that the list has and the runtime lacks
//! answers `hipErrorNotSupported`, where `dlsym` would have found nothing. A function that the
//! runtime has and the list lacks cannot be found with `dlsym`; `hipGetProcAddress` finds it, and
//! the file of counts names it. `dlvsym` finds nothing. Without a runtime calls answer
//! `hipErrorNoDevice`, and one line on standard error says why. `hipExtGetLastError` may answer the
//! code of a call that is not the program's own; `hipGetLastError` and `hipPeekAtLastError` do not.
#![expect(unsafe_code, reason = "it takes the place of C functions")]

// The watch of the driver's calls is part of this library: see its own documentation.
use xsched_kfd_watch as _;

mod address;
mod graphs;
mod lifetimes;
mod masks;
mod opens;
mod rings;
mod signals;
mod table;
mod times;
mod vendor;
