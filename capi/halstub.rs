// Part of the build scripts of the platforms' libraries: a library to link with in place of
// `libpreempt.so`, which cargo has not built by then. The loader finds the real one.

use std::path::PathBuf;
use std::process::Command;

/// Links with a `libpreempt.so` that has these functions, and names itself `soname`.
fn link_with_stub(soname: &str, functions: &[&str]) -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let source: String = functions.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
    let (from, to) = (out.join("stub.c"), out.join("libpreempt.so"));
    std::fs::write(&from, source).map_err(|e| format!("cannot write {}: {e}", from.display()))?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-nostdlib", "-fPIC", "-Wl,-soname,libpreempt.so", "-o"]);
    let status = command.arg(&to).arg(&from).status();
    if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
        let hint = "install a C compiler, or set CC";
        return Err(format!("{command:?} failed ({status:?}); {hint}"));
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../halstub.rs");
    println!("cargo:rerun-if-env-changed=CC");
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The real one is beside it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    Ok(())
}
