//! All kept records.

use anyhow::{Context, Result};
use serde_json::Value;
use walkdir::WalkDir;

use crate::{read, root};

/// A record in JSON: its path below `benches/results`, and what it says.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) path: String,
    pub(crate) document: Value,
}

/// The paths of all files below `benches/results`, in order.
pub(crate) fn paths() -> Result<Vec<String>> {
    let folder = root().join("benches/results");
    let mut found = Vec::new();
    for entry in WalkDir::new(&folder).sort_by_file_name() {
        let entry = entry.context("cannot list benches/results")?;
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(&folder).context("a file elsewhere")?;
            found.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

/// All records in JSON, in the order of their paths.
pub(crate) fn kept() -> Result<Vec<Kept>> {
    let paths = paths()?.into_iter().filter(|path| path.ends_with(".json"));
    paths
        .map(|path| {
            let text = read(&root().join("benches/results").join(&path))?;
            let document = serde_json::from_str(&text).with_context(|| path.clone())?;
            Ok(Kept { path, document })
        })
        .collect()
}
