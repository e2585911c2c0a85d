//! Lines of code of what a device or a program without XQueues needs, counted in the source that
//! this program was built from.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Parts: what each is for, and its folders.
const PARTS: [(&str, &[&str]); 6] = [
    ("streams of CUDA and HIP", &["hal-stream/src"]),
    ("CUDA", &["hal-cuda/src"]),
    ("HIP", &["hal-hip/src"]),
    ("AMD's kernel driver", &["hal-kfd/src"]),
    ("the processor", &["hal-host/src"]),
    ("unmodified programs", &["shim/src", "shim/engine/src", "shim/cuda/src", "shim/hip/src"]),
];
/// What the paper says of its own code.
const PAPER: &str = "the paper: 316 for unmodified programs, 841 for its largest backend";

/// The counts in a sentence; `None` without the source.
pub(super) fn sentence() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let count = |folders: &[&str]| -> u64 {
        folders.iter().map(|folder| of_folder(&root.join(folder))).sum()
    };
    let counts = PARTS.map(|(what, folders)| (what, count(folders)));
    if counts.iter().any(|(_, lines)| *lines == 0) {
        return None;
    }
    let parts = counts.map(|(what, lines)| format!("{what} {lines}"));
    let words = "Lines of Rust without tests, comments and empty lines";
    Some(format!("{words}: {} ({PAPER}).", parts.join(", ")))
}

/// Lines of all files of a folder and those below it.
fn of_folder(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |path: &Path| {
        let is_test = matches!(path.file_stem().and_then(OsStr::to_str), Some("tests" | "models"));
        match path.extension().and_then(OsStr::to_str) {
            _ if is_test => 0,
            None if path.is_dir() => of_folder(path),
            Some("rs") => lines(&fs::read_to_string(path).unwrap_or_default()),
            _ => 0,
        }
    };
    entries.map(|entry| count(&entry.path())).sum()
}

/// Lines that are neither empty nor a comment, up to the tests.
fn lines(text: &str) -> u64 {
    let mut count = 0;
    let mut after_test = false;
    for line in text.lines().map(str::trim) {
        if after_test && line.starts_with("mod ") && line.ends_with('{') {
            // Tests are at the end of a file. Their attribute was counted.
            return count - 1;
        }
        after_test = line == "#[cfg(test)]";
        count += u64::from(!line.is_empty() && !line.starts_with("//"));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_comments_and_empty_lines_do_not_count() {
        let text =
            "//! Doc.\n\nfn f() {\n    // Why.\n    g();\n}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines(text), 3);
        assert_eq!(lines("#[cfg(test)]\nuse a;\n"), 2);
        assert_eq!(lines(""), 0);
    }

    #[test]
    fn all_parts_are_counted() {
        let said = sentence().expect("the source is here");
        assert!(said.contains("CUDA ") && said.contains("316"), "{said}");
    }
}
