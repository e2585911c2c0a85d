//! How the shared library is linked.

include!("../halstub.rs");

fn main() -> Result<(), String> {
    link_with_stub("libhalhip.so", &["xsched_private_hip_queue_create"])
}
