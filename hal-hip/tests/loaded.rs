//! A runtime that the process has loaded is the one whose streams there are.
#![expect(unsafe_code, reason = "the environment, and a library that is loaded")]

use std::env;
use std::fs;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use xsched_hal_hip::{HipLibrary, LIBRARY_VARIABLE, loaded};

/// Alone in its process, since nothing else may have loaded a runtime.
#[test]
fn a_runtime_that_is_loaded_under_another_name_is_found_first() {
    // SAFETY: no other thread reads or changes the environment meanwhile.
    unsafe { env::remove_var(LIBRARY_VARIABLE) };
    let name = c"hipRuntimeGetVersion";
    assert_eq!(loaded::symbol(name, std::ptr::null()), None);
    let test = env::current_exe().expect("tests are programs");
    let folder = test.parent().expect("programs are in folders");
    let vendor = folder.join(format!("libvendor-{}.so", std::process::id()));
    fs::copy(folder.join("libxsched_hip_emulated.so"), &vendor).expect("the emulated runtime");
    // As a plugin's library is loaded: for its loader alone.
    // SAFETY: the emulated runtime starts nothing when it is loaded.
    let library = unsafe { Library::open(Some(&vendor), RTLD_NOW | RTLD_LOCAL) };
    let library = library.expect("it can be loaded");
    fs::remove_file(&vendor).expect("it is there");
    // SAFETY: its address is looked at alone.
    let own = unsafe { library.get::<*mut std::ffi::c_void>(name.to_bytes_with_nul()) };
    let own = own.expect("it has the function").as_raw_ptr();
    let found = loaded::symbol(name, std::ptr::null()).expect("it is loaded");
    assert_eq!((found.address, found.library.as_os_str()), (own, vendor.as_os_str()));
    assert_eq!(loaded::symbol(name, own), None, "but for this library there is none");
    let runtime = HipLibrary::find().expect("it is loaded");
    assert_eq!(runtime.name(), vendor.to_str().expect("a path"));
    assert_eq!(runtime.version(), Ok(60_400_000));
}
