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

/// A file.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Its content, if it is text that some rule looks at.
    pub(super) text: Option<String>,
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
            let read = path.extension().is_some_and(|ext| READ.iter().any(|known| ext == *known));
            let bytes = if read { fs::read(path) } else { Ok(Vec::new()) };
            let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
            let text = String::from_utf8(bytes).ok().filter(|_| read);
            tree.files.insert(name, Entry { text });
        }
        Ok(tree)
    }

    /// A tree of text files, for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            let entry = Entry { text: Some((*text).to_owned()) };
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

    /// Whether there is such a file or folder.
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
