//! House rules that rustc, clippy and rustfmt cannot check.
//!
//! | rule | what it asks for |
//! |---|---|
//! | `parse` | every Rust file and every manifest is one |
//! | `function-p90` | nine tenths of a crate's functions have at most 30 lines |
//! | `file-length` | files of less than 600 lines, test modules not counted |
//! | `line-width` | lines of at most 100 columns, unless a string or an address is what is long |
//! | `arrow` | the code of workspace crates depends on each other in one direction |
//! | `test-arrow` | the tests of published crates depend on paths, without circles |
//! | `module-cycle` | the modules of a crate import each other in one direction |
//! | `dependency` | few dependencies for the crates that work without std |
//! | `metadata` | published packages say of themselves what a registry shows |
//! | `link` | links between documents lead somewhere |
//! | `words` | sentences name their subject; `words.rs` lists what may not stand for one |
//! | `readme` | the README names the commands that CI runs |
//! | `changelog` | the change log has a section for what is not released |
//!
//! Each rule is a function from the tree of files to findings, and has a test with a tree that
//! breaks it.

mod arrows;
mod cycles;
mod documents;
mod lengths;
mod manifests;
mod metadata;
mod source;
mod tree;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, ensure};

use tree::Tree;

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, from the repository's root.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// What is wrong and what to do.
    pub message: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.message)
    }
}

/// Checks all rules on this repository and prints where they are broken.
///
/// # Errors
/// If any is.
pub fn run() -> Result<()> {
    let findings = check(&crate::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "house rules broken in {} places", findings.len());
    println!("tidy: nothing to complain about");
    Ok(())
}

/// Checks all rules on the repository below `root`.
///
/// # Errors
/// If a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    Ok(check_tree(&Tree::load(root)?))
}

fn check_tree(tree: &Tree) -> Vec<Finding> {
    let (sources, mut findings) = source::read_all(tree);
    findings.extend(lengths::check(tree, &sources));
    findings.extend(cycles::check(&sources));
    let manifests = manifests::read(tree, &mut findings);
    findings.extend(arrows::check(&manifests));
    findings.extend(metadata::check(&manifests));
    findings.extend(documents::check(tree));
    findings.extend(words::check(tree));
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_name_the_place() {
        let finding = Finding::new("core/src/lib.rs", 7, "panic", "no");
        assert_eq!(finding.to_string(), "core/src/lib.rs:7: panic: no");
    }
}
