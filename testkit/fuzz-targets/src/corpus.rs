//! The inputs that the fuzzer begins with.

use std::fs;
use std::path::{Path, PathBuf};

/// Reads the corpus of a target below `fuzz/corpus`, in order of the file names.
///
/// # Panics
/// If the folder cannot be read, or is empty: a test on no input shows nothing.
#[must_use]
pub fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).expect("the folder of the corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("an input");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}
