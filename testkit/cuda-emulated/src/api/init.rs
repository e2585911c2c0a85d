//! The start, errors, and functions by their names.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::LazyLock;

use xsched_emulated_device::c::{Out, Text};
use xsched_emulated_device::code::{ALL, Answer, INVALID_VALUE, NO_DEVICE, NOT_FOUND};

use super::EXPORTS;
use crate::driver::driver;
use crate::exports::exports;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`, and all flags.
const FLAG_PER_THREAD: u64 = 2;
const FLAGS: u64 = 1 | FLAG_PER_THREAD;

/// From which version on a name stands for a function, where that is not 2.0 for the one of this
/// name and 3.2 for its second edition.
const EDITIONS: &[(&str, i32, &str)] = &[
    ("cuCtxCreate", 11_040, "cuCtxCreate_v3"),
    ("cuCtxCreate", 12_050, "cuCtxCreate_v4"),
    ("cuCtxDestroy", 4_000, "cuCtxDestroy_v2"),
    ("cuCtxGetDevice", 13_000, "cuCtxGetDevice_v2"),
    ("cuCtxPopCurrent", 4_000, "cuCtxPopCurrent_v2"),
    ("cuCtxPushCurrent", 4_000, "cuCtxPushCurrent_v2"),
    ("cuCtxSynchronize", 13_000, "cuCtxSynchronize_v2"),
    ("cuDeviceGetUuid", 9_020, "cuDeviceGetUuid"),
    ("cuDeviceGetUuid", 11_040, "cuDeviceGetUuid_v2"),
    ("cuDevicePrimaryCtxRelease", 11_000, "cuDevicePrimaryCtxRelease_v2"),
    ("cuDevicePrimaryCtxReset", 11_000, "cuDevicePrimaryCtxReset_v2"),
    ("cuDevicePrimaryCtxSetFlags", 11_000, "cuDevicePrimaryCtxSetFlags_v2"),
    ("cuEventDestroy", 4_000, "cuEventDestroy_v2"),
    ("cuEventElapsedTime", 12_080, "cuEventElapsedTime_v2"),
    ("cuGetProcAddress", 11_030, "cuGetProcAddress"),
    ("cuGetProcAddress", 12_000, "cuGetProcAddress_v2"),
    ("cuGraphAddDependencies", 12_030, "cuGraphAddDependencies_v2"),
    ("cuGraphAddKernelNode", 12_000, "cuGraphAddKernelNode_v2"),
    ("cuGraphExecKernelNodeSetParams", 12_000, "cuGraphExecKernelNodeSetParams_v2"),
    ("cuGraphExecUpdate", 12_000, "cuGraphExecUpdate_v2"),
    ("cuGraphGetEdges", 12_030, "cuGraphGetEdges_v2"),
    ("cuGraphInstantiate", 11_000, "cuGraphInstantiate_v2"),
    ("cuGraphInstantiate", 12_000, "cuGraphInstantiateWithFlags"),
    ("cuGraphKernelNodeSetParams", 12_000, "cuGraphKernelNodeSetParams_v2"),
    ("cuGraphInstantiateWithParams", 12_000, "cuGraphInstantiateWithParams"),
    ("cuGraphNodeGetDependencies", 12_030, "cuGraphNodeGetDependencies_v2"),
    ("cuGraphRemoveDependencies", 12_030, "cuGraphRemoveDependencies_v2"),
    ("cuKernelGetFunction", 12_000, "cuKernelGetFunction"),
    ("cuLaunchKernelEx", 11_060, "cuLaunchKernelEx"),
    ("cuLibraryLoadData", 12_000, "cuLibraryLoadData"),
    ("cuMemAllocAsync", 11_020, "cuMemAllocAsync"),
    ("cuMemFreeAsync", 11_020, "cuMemFreeAsync"),
    ("cuMemHostRegister", 6_050, "cuMemHostRegister_v2"),
    ("cuStreamBatchMemOp", 11_070, "cuStreamBatchMemOp_v2"),
    ("cuStreamBeginCapture", 10_010, "cuStreamBeginCapture_v2"),
    ("cuStreamDestroy", 4_000, "cuStreamDestroy_v2"),
    ("cuStreamGetCaptureInfo", 10_010, "cuStreamGetCaptureInfo"),
    ("cuStreamGetCaptureInfo", 11_030, "cuStreamGetCaptureInfo_v2"),
    ("cuStreamGetCaptureInfo", 12_030, "cuStreamGetCaptureInfo_v3"),
    ("cuStreamGetCtx", 12_050, "cuStreamGetCtx_v2"),
    ("cuStreamWaitValue32", 11_070, "cuStreamWaitValue32_v2"),
    ("cuStreamWaitValue64", 11_070, "cuStreamWaitValue64_v2"),
    ("cuStreamWriteValue32", 11_070, "cuStreamWriteValue32_v2"),
    ("cuStreamWriteValue64", 11_070, "cuStreamWriteValue64_v2"),
];

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Address(usize),
    /// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
    Nothing,
    /// `CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT`.
    OnlyNewer,
}

/// The editions of a name: since which version, and the function. The oldest comes first.
fn editions(name: &str) -> Vec<(i32, String)> {
    let listed = EDITIONS.iter().filter(|(of, ..)| *of == name);
    let mut found: Vec<_> = listed.map(|(_, since, to)| (*since, (*to).to_owned())).collect();
    for (since, function) in [(2_000, name.to_owned()), (3_020, format!("{name}_v2"))] {
        let is_listed = found.iter().any(|(_, listed)| *listed == function);
        if !is_listed && EXPORTS.contains_key(function.as_str()) {
            found.push((since, function));
        }
    }
    found.sort_by_key(|(since, _)| *since);
    found
}

/// True if it is the name of an edition, which is nothing to ask for.
fn is_edition(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or_default();
    matches!(last, "ptsz" | "ptds" | "v2" | "v3" | "v4")
}

fn find(name: &str, version: i32, flags: u64) -> Found {
    if is_edition(name) {
        return Found::Nothing;
    }
    let version = version.min(driver().version);
    let editions = editions(name);
    let Some((_, function)) = editions.iter().rev().find(|(since, _)| *since <= version) else {
        return if editions.is_empty() { Found::Nothing } else { Found::OnlyNewer };
    };
    let twins = [format!("{function}_ptsz"), format!("{function}_ptds")];
    let twins = twins.iter().filter(|_| flags & FLAG_PER_THREAD != 0);
    let mut names = twins.chain([function]);
    let address = names.find_map(|name| EXPORTS.get(name.as_str()));
    address.map_or(Found::Nothing, |address| Found::Address(*address))
}

fn proc_address(
    name: &Text,
    to: Out<usize>,
    version: c_int,
    flags: u64,
    status: Option<Out<u32>>,
) -> Answer {
    let answers_by_status = status.is_some();
    let name = name.get()?;
    if to.is_null() || flags & !FLAGS != 0 || version < 2_000 {
        return Err(INVALID_VALUE);
    }
    let found = find(&name, version, flags);
    let (address, number) = match found {
        Found::Address(address) => (address, 0),
        Found::Nothing => (0, 1),
        Found::OnlyNewer => (0, 2),
    };
    to.set(address)?;
    if let Some(status) = status {
        status.offer(number);
    }
    // The second edition succeeds in finding nothing.
    if address == 0 && !answers_by_status { Err(NOT_FOUND) } else { Ok(()) }
}

/// Names and texts of errors, which end with a zero.
static WORDS: LazyLock<HashMap<u32, [CString; 2]>> = LazyLock::new(|| {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    ALL.iter().map(|(code, name, words)| (*code, [text(name), text(words)])).collect()
});

fn words(code: u32, which: usize, to: Out<*const c_char>) -> Answer {
    let known = WORDS.get(&code).map(|words| words[which].as_ptr());
    to.set(known.unwrap_or(ptr::null()))?;
    known.map(drop).ok_or(INVALID_VALUE)
}

exports! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if driver().primaries.is_empty() {
            return Err(NO_DEVICE);
        }
        driver().initialise();
        Ok(())
    }

    fn cuDriverGetVersion(version: Out<c_int>) {
        version.set(driver().version)
    }

    fn cuGetErrorName(code: u32, name: Out<*const c_char>) {
        words(code, 0, name)
    }

    fn cuGetErrorString(code: u32, text: Out<*const c_char>) {
        words(code, 1, text)
    }

    fn cuGetProcAddress(name: Text, to: Out<usize>, version: c_int, flags: u64) {
        proc_address(&name, to, version, flags, None)
    }

    fn cuGetProcAddress_v2(
        name: Text,
        to: Out<usize>,
        version: c_int,
        flags: u64,
        status: Out<u32>,
    ) {
        proc_address(&name, to, version, flags, Some(status))
    }

    fn cuGetExportTable(to: Out<usize>, id: *const c_void) {
        if id.is_null() {
            return Err(INVALID_VALUE);
        }
        to.set(0)?;
        Err(NOT_FOUND)
    }
}
