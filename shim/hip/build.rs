//! Writes the table of functions, and says how the shared library is linked.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use xsched_shim_table::List;

const LIST: &str = "functions.toml";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={LIST}");
    println!("cargo:rerun-if-changed=build.rs");
    let list =
        List::parse(&fs::read_to_string(LIST)?).map_err(|error| format!("{LIST}: {error}"))?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("functions.rs"), list.rust())?;
    // The libraries that have the runtime's names need it by this one.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libshimhip.so");
    // The addresses of the stubs are this library's own, which also saves the loader a search for
    // each when a process starts.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Its hooks are where the program and the runtime keep pointers to them.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The unwinder of Rust's standard library, linked in: a program that needs none would otherwise
    // load libgcc_s.so.1 because of this library.
    fs::write(out.join("libgcc_s.so"), "INPUT(-lgcc_eh)\n")?;
    println!("cargo:rustc-cdylib-link-arg=-L{}", out.display());
    Ok(())
}
