//! Hooks of the functions that ask for times between events. They are in place where such times are
//! counted, so otherwise a call goes straight to the driver.

use xsched_shim_engine::{Address, events, lifetimes};

lifetimes! {
    c"cuEventElapsedTime": elapsed_old(ms: Address, start: Address, end: Address) => |next| {
        events::time_since(start, next)
    };
    c"cuEventElapsedTime_v2": elapsed(ms: Address, start: Address, end: Address) => |next| {
        events::time_since(start, next)
    };
}
