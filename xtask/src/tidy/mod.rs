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
//! | `function` | functions that documents name with their files exist |
//! | `words` | sentences name their subject; `words.rs` lists what may not stand for one |
//! | `readme` | the README names the commands that CI runs |
//! | `record` | kept records are small, are kept once, and say when and where they were made |
//! | `changelog` | the change log has a section for what is not released |
//! | `first-word` | documentation begins with a noun or a verb of the field |
//! | `so-many` | no number or time is left open by `so many`, `so long` and their like |
//! | `tuple-parameter` | private functions take no tuples |
//! | `booleans` | at most two booleans in a structure |
//! | `allow` | lints are expected with a reason, not allowed |
//! | `commit-body` | a commit of more than 100 lines has a body |
//!
//! `first-word` to `allow` and `module-cycle` are broken in older code. `baseline.toml` says how
//! often each package may, and its counts only get lower.
//!
//! Each rule is a function from the tree of files to findings, and has a test with a tree that
//! breaks it.

mod arrows;
mod baseline;
mod cycles;
mod doc_words;
mod documents;
mod history;
mod lengths;
mod manifests;
mod metadata;
mod records;
mod shapes;
mod source;
mod tree;
mod words;

use std::{fmt, fs};

use anyhow::{Context, Result, ensure};

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
    /// Problem, with advice.
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

/// Options of `cargo xtask tidy`.
#[derive(Debug, Default, clap::Args)]
pub struct Options {
    /// Lower the counts of `baseline.toml` to what is found.
    #[arg(long)]
    lower: bool,
}

/// Checks all rules on this repository and prints where they are broken.
///
/// # Errors
/// If any is.
pub fn run(options: &Options) -> Result<()> {
    let root = crate::root();
    let tree = Tree::load(&root)?;
    let Checked { mut findings, too_high, lowered } = check_tree(&tree, &baseline::read(&tree)?);
    findings.extend(history::check(&root));
    for finding in &findings {
        println!("{finding}");
    }
    for line in &too_high {
        println!("lower it in {}: {line}", baseline::FILE);
    }
    if options.lower {
        let file = root.join(baseline::FILE);
        fs::write(&file, baseline::text(&lowered)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    ensure!(findings.is_empty(), "house rules broken in {} places", findings.len());
    println!("tidy: nothing to complain about");
    Ok(())
}

/// Results of all rules on a tree.
struct Checked {
    findings: Vec<Finding>,
    /// Counts of the baseline that can be lowered.
    too_high: Vec<String>,
    lowered: baseline::Counts,
}

fn check_tree(tree: &Tree, counts: &baseline::Counts) -> Checked {
    let (sources, mut findings) = source::read_all(tree);
    findings.extend(lengths::check(tree, &sources));
    let manifests = manifests::read(tree, &mut findings);
    findings.extend(arrows::check(&manifests));
    findings.extend(metadata::check(&manifests));
    findings.extend(documents::check(tree));
    findings.extend(words::check(tree));
    findings.extend(records::check(tree));
    let mut counted = cycles::check(tree, &sources);
    counted.extend(doc_words::check(tree, &sources));
    counted.extend(shapes::check(&sources));
    let judged = baseline::judge(tree, counts, counted);
    findings.extend(judged.findings);
    findings.sort();
    Checked { findings, too_high: judged.too_high, lowered: judged.lowered }
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
