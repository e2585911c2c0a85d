//! How the shared library is linked.

include!("../../capi/halstub.rs");

fn main() -> Result<(), String> {
    let functions = [
        "xsched_private_interposed",
        "xsched_private_loaded",
        "xsched_private_auto_queue",
        "xsched_private_launch",
        "xsched_private_hip_queue_create",
        "XQueueDestroy",
        "XHintPriority",
        "HwQueueDestroy",
        "XSchedGetLastErrorString",
    ];
    link_with_stub("libshimhip.so", &functions)
}
