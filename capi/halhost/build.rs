//! How the shared library is linked.

include!("../halstub.rs");

fn main() -> Result<(), String> {
    link_with_stub(
        "libhalhost.so",
        &[
            "xsched_private_host_queue_create",
            "xsched_private_host_command_create_timed",
            "xsched_private_host_command_create_function",
        ],
    )
}
