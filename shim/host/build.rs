//! How the shared library is linked.

include!("../../capi/halstub.rs");

fn main() -> Result<(), String> {
    let functions = [
        "xsched_private_interposed",
        "xsched_private_loaded",
        "xsched_private_auto_queue",
        "xsched_private_launch",
        "XQueueDestroy",
        "XQueueWaitAll",
        "XHintPriority",
        "XSchedGetLastErrorString",
    ];
    link_with_stub("libshimhost.so", &functions)
}
