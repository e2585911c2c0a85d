//! Exports of the installed library.

use std::fs;
use std::path::Path;

/// The private functions in the files of a folder.
fn private_functions(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(private_functions(&path));
            continue;
        }
        let text = fs::read_to_string(path).expect("a source");
        let names =
            text.split("extern \"C\" fn ").skip(1).filter_map(|text| text.split('(').next());
        found.extend(names.filter(|name| name.starts_with("xsched_private_")).map(str::to_owned));
    }
    found
}

/// An interposer that misses one of them schedules nothing.
#[test]
fn every_private_function_is_exported() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = fs::read_to_string(root.join("install/libpreempt.map")).expect("a script");
    let exported: Vec<_> = script.lines().map(str::trim).collect();
    let functions = private_functions(&root.join("src"));
    assert!(functions.len() > 30, "{functions:?}");
    let missing = functions.iter().filter(|name| !exported.contains(&format!("{name};").as_str()));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&String>::new());
}
