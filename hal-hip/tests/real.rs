//! The real library, with a GPU or without. Ignored unless asked for, because few machines have it:
//! `cargo xtask ci` installs Debian's and runs this.

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_hip::raw::Table;
use xsched_hal_hip::{HipApi, HipConfig, HipError, HipLibrary};
use xsched_hal_stream::StreamApi;

#[test]
#[ignore = "needs libamdhip64"]
fn the_real_library_has_all_functions_and_says_what_it_finds() {
    let library = HipLibrary::find().expect("libamdhip64; on Debian install libamdhip64-5");
    let version = library.version().expect("the version needs no GPU");
    assert!(version >= 50_200_000, "{version} is older than what was checked");
    let table = library.table();
    println!(
        "{}: version {version}, all {} required functions; hipStreamGetDevice {}, \
         hipExtMallocWithFlags {}, hipStreamWaitValue32 {}",
        library.name(),
        Table::REQUIRED.len(),
        there(table.hipStreamGetDevice.is_some()),
        there(table.hipExtMallocWithFlags.is_some()),
        there(table.hipStreamWaitValue32.is_some()),
    );
    assert!(table.hipStreamWaitValue32.is_some() && table.hipExtMallocWithFlags.is_some());
    // From 5.6 or 5.7 on; 5.2.3 is known to lack it.
    assert!(table.hipStreamGetDevice.is_some() || version < 50_700_000);
    match HipApi::open(HipConfig::default()) {
        Ok(api) => println!("{:?}", api.about()),
        Err(error) => says_that_there_is_no_device(&error, library.name()),
    }
}

fn says_that_there_is_no_device(error: &HipError, library: &str) {
    assert!(matches!(error, HipError::NoDevice { code: 100 | 101, .. }), "{error:?}");
    assert_eq!(error.kind(), Fault::DeviceLost);
    let text = error.to_string();
    println!("{text}");
    let whole = text.contains(library) && text.contains("/dev/kfd");
    assert!(whole && !text.contains('\n'), "{text}");
}

const fn there(is: bool) -> &'static str {
    if is { "there" } else { "missing" }
}
