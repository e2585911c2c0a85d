//! The list of HIP's functions as it is.

use std::path::Path;

use xsched_shim_table::{Class, DefaultStream, List};

fn list() -> List {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hip/functions.toml");
    List::parse(&std::fs::read_to_string(path).expect("the list")).expect("a list without faults")
}

#[test]
fn versions_of_a_function_are_of_one_class() {
    let list = list();
    for function in &list.functions {
        assert!(function.since.is_some_and(|version| version >= (4, 2)), "{}", function.name);
        let name = function.name.strip_suffix("_spt").unwrap_or(&function.name);
        let name = name.strip_suffix("_v2").unwrap_or(name);
        let first = list.index(name).map(|index| &list.functions[index]);
        assert_eq!(first.map(|first| first.group), Some(function.group), "{}", function.name);
        let per_thread = function.default_stream() == DefaultStream::PerThread;
        assert_eq!(per_thread, function.name.ends_with("_spt"));
    }
}

#[test]
fn what_is_named_asynchronous_is_a_launch() {
    for function in &list().functions {
        let name = function.name.strip_suffix("_spt").unwrap_or(&function.name);
        if name.ends_with("Async") {
            assert_eq!(function.class, Class::Launch, "{name}");
        }
    }
}

#[test]
fn functions_have_the_versions_of_their_symbols() {
    let list = list();
    for (name, version) in [
        ("hipExtModuleLaunchKernel", (4, 2)),
        ("hipLaunchKernel_spt", (5, 2)),
        ("hipMemPrefetchAsync_v2", (7, 1)),
        ("__hipRegisterFatBinary", (4, 2)),
    ] {
        let index = list.index(name).unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!(list.functions[index].since, Some(version), "{name}");
    }
}

#[test]
fn the_version_script_defines_all_versions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hip/versions.map");
    let script = std::fs::read_to_string(path).expect("the script");
    assert_eq!(script, list().version_script("hip_"), "write shim/hip/versions.map anew");
}
