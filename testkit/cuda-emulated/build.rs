//! Names the library as NVIDIA's driver names itself, so that a program that has loaded it by its
//! path gets it for `libcuda.so.1` as well. What it takes for its own functions are its own, also
//! where an interposer was loaded before it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
