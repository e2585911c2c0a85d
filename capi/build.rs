//! How the shared library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpreempt.so");
    // It has threads and handlers that cannot be taken back, so `dlclose` must not unload it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
