//! Hooks of the functions that ask for times between events. They are in place where such times are
//! counted, so otherwise a call goes straight to the runtime.

use xsched_shim_engine::{Address, events, lifetimes};

lifetimes! {
    c"hipEventElapsedTime": elapsed(ms: Address, start: Address, end: Address) => |next| {
        events::time_since(start, next)
    };
}
