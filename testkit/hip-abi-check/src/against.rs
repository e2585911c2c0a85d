//! All functions.

use xsched_hal_hip::raw::Table;

use crate::same::{same, same_if_there};

/// Compares functions, and says which.
macro_rules! compare {
    (
        $bindings:path:
        required { $($name:ident($($arg:tt)*);)+ }
        optional { $($maybe:ident($($maybe_arg:tt)*);)* }
    ) => {{
        use $bindings as bindings;
        $(same(|t: &Table| t.$name, bindings::$name as unsafe extern "C" fn($($arg)*) -> _);)+
        $(same_if_there(
            |t: &Table| t.$maybe,
            bindings::$maybe as unsafe extern "C" fn($($maybe_arg)*) -> _,
        );)*
        (vec![$(stringify!($name)),+], vec![$(stringify!($maybe)),*])
    }};
}

/// Compares with a module of bindings, and with functions that only some have.
macro_rules! compare_with {
    ($bindings:path, $($maybe:ident($($maybe_arg:tt)*);)*) => {
        compare! {
            $bindings:
            required {
                hipRuntimeGetVersion(_);
                hipGetDeviceCount(_);
                hipGetDevice(_);
                hipSetDevice(_);
                hipDeviceGetAttribute(_, _, _);
                hipDeviceGetName(_, _, _);
                hipDeviceGetPCIBusId(_, _, _);
                hipDeviceGetStreamPriorityRange(_, _);
                hipStreamCreateWithPriority(_, _, _);
                hipExtStreamCreateWithCUMask(_, _, _);
                hipStreamDestroy(_);
                hipStreamSynchronize(_);
                hipStreamGetFlags(_, _);
                hipStreamIsCapturing(_, _);
                hipEventCreateWithFlags(_, _);
                hipEventDestroy(_);
                hipEventRecord(_, _);
                hipEventQuery(_);
                hipEventElapsedTime(_, _, _);
                hipMalloc(_, _);
                hipFree(_);
                hipHostMalloc(_, _, _);
                hipHostFree(_);
                hipHostRegister(_, _, _);
                hipHostUnregister(_);
                hipHostGetDevicePointer(_, _, _);
                hipMemcpyAsync(_, _, _, _, _);
                hipMemsetAsync(_, _, _, _);
                hipModuleLoadData(_, _);
                hipModuleUnload(_);
                hipModuleGetFunction(_, _, _);
                hipModuleLaunchKernel(_, _, _, _, _, _, _, _, _, _, _);
            }
            optional {
                hipExtMallocWithFlags(_, _, _);
                hipStreamWaitValue32(_, _, _, _, _);
                hipStreamWriteValue32(_, _, _, _);
                hipStreamAddCallback(_, _, _, _);
                hipStreamBeginCapture(_, _);
                hipStreamEndCapture(_, _);
                hipThreadExchangeStreamCaptureMode(_);
                hipGraphInstantiate(_, _, _, _, _);
                hipGraphLaunch(_, _);
                hipGraphDestroy(_);
                hipGraphExecDestroy(_);
                $($maybe($($maybe_arg)*);)*
            }
        }
    };
}

#[test]
fn cubecl_hip_sys_declares_the_same() {
    let (required, mut optional) = compare_with!(
        cubecl_hip_sys,
        hipStreamGetDevice(_, _);
        hipModuleLaunchCooperativeKernel(_, _, _, _, _, _, _, _, _, _);
    );
    optional.sort_unstable();
    assert_eq!(required, Table::REQUIRED);
    let mut all = Table::OPTIONAL.to_vec();
    all.sort_unstable();
    assert_eq!(optional, all);
}

#[cfg(feature = "check-hip-sys")]
#[test]
fn hip_sys_declares_the_same() {
    let (required, optional) = compare_with!(hip_sys::hiprt,);
    assert_eq!(required, Table::REQUIRED);
    // All but hipStreamGetDevice and hipModuleLaunchCooperativeKernel, which are younger.
    assert_eq!(optional.len() + 2, Table::OPTIONAL.len());
}
