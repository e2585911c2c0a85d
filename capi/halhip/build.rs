//! How the shared library is linked.

include!("../halstub.rs");

fn main() -> Result<(), String> {
    let functions = ["xsched_private_hip_queue_create", "xsched_private_hip_stream_queue_create"];
    link_with_stub("libhalhip.so", &functions)
}
