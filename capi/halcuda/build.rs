//! How the shared library is linked.

include!("../halstub.rs");

fn main() -> Result<(), String> {
    link_with_stub(
        "libhalcuda.so",
        &["xsched_private_cuda_queue_create", "xsched_private_stream_queue_get"],
    )
}
