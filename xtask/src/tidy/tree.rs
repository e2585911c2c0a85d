//! The files of the repository, or of a test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use walkdir::{DirEntry, WalkDir};

/// Folders that are not looked into, wherever they are.
const SKIPPED: [&str; 4] = [".git", "target", "artifacts", "corpus"];
/// Files that are read; of others only the name counts.
const READ: [&str; 3] = ["rs", "md", "toml"];
/// The folder of the records, of which all bytes are read.
pub(super) const RECORDS: &str = "benches/results";

/// A file.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Content, if it is text that some rule looks at.
    pub(super) text: Option<String>,
    /// Bytes, if it is a record.
    pub(super) record: Vec<u8>,
}

/// Files by path from the root, with `/` between the parts.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<String, Entry>,
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        let skipped = |entry: &DirEntry| {
            entry.file_type().is_dir() && SKIPPED.iter().any(|name| entry.file_name() == *name)
        };
        for entry in WalkDir::new(root).into_iter().filter_entry(|entry| !skipped(entry)) {
            let entry = entry.context("cannot list the repository")?;
            if !entry.file_type().is_file() {
                continue;
            }
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
            let is_text = is_text(path);
            let is_record = is_record(&name);
            let bytes = if is_text || is_record { fs::read(path) } else { Ok(Vec::new()) };
            let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
            let record = if is_record { bytes.clone() } else { Vec::new() };
            let text = String::from_utf8(bytes).ok().filter(|_| is_text);
            tree.files.insert(name, Entry { text, record });
        }
        Ok(tree)
    }

    /// A tree of text files, for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            let record = if is_record(path) { text.as_bytes().to_vec() } else { Vec::new() };
            let entry = Entry { text: Some((*text).to_owned()), record };
            tree.files.insert((*path).to_owned(), entry);
        }
        tree
    }

    /// The content of a file that is there and is text.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// All text files whose name ends like this.
    pub(super) fn texts(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        let named = self.files.iter().filter(move |(path, _)| path.ends_with(ending));
        named.filter_map(|(path, entry)| Some((path.as_str(), entry.text.as_deref()?)))
    }

    /// The files below a folder, by their paths from there.
    pub(super) fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &Entry)> {
        let files = self.files.iter();
        files.filter_map(move |(path, entry)| {
            Some((path.strip_prefix(folder)?.strip_prefix('/')?, entry))
        })
    }

    /// True if there is such a file or folder.
    pub(super) fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// Folders with a manifest, the deepest first so that the first that fits a file is its own.
    pub(super) fn crates(&self) -> Vec<&str> {
        let manifests = self.files.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
        let mut folders: Vec<_> = manifests.collect();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
        folders
    }
}

fn is_record(path: &str) -> bool {
    path.strip_prefix(RECORDS).is_some_and(|rest| rest.starts_with('/'))
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| READ.iter().any(|known| extension == *known))
}
