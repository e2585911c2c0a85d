//! A copy of the workspace. Files that did not change keep their time, so that a second build is
//! short.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use walkdir::{DirEntry, WalkDir};

/// Folders that are not copied, wherever they are.
const SKIPPED: [&str; 5] = [".git", "target", "corpus", "artifacts", "__pycache__"];

/// Makes `to` a copy of `from`, in which these files have another text.
pub(super) fn mirror(from: &Path, to: &Path, other: &BTreeMap<PathBuf, String>) -> Result<()> {
    let mut there = BTreeSet::new();
    for file in files(from)? {
        let bytes = match other.get(&file) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(from.join(&file))?,
        };
        let target = to.join(&file);
        if !fs::read(&target).is_ok_and(|old| old == bytes) {
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&target, bytes)
                .with_context(|| format!("cannot write {}", target.display()))?;
        }
        there.insert(file);
    }
    for gone in files(to)?.into_iter().filter(|file| !there.contains(file)) {
        fs::remove_file(to.join(gone))?;
    }
    Ok(())
}

/// The files of a folder, by path from it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let skipped = |entry: &DirEntry| {
        // The folder itself may have any name.
        let inside = entry.depth() > 0 && entry.file_type().is_dir();
        inside && SKIPPED.iter().any(|name| entry.file_name() == *name)
    };
    let mut found = Vec::new();
    for entry in WalkDir::new(folder).into_iter().filter_entry(|entry| !skipped(entry)) {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        if entry.file_type().is_file() {
            found.push(entry.path().strip_prefix(folder)?.to_path_buf());
        }
    }
    Ok(found)
}
