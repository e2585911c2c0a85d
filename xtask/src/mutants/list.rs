//! The files that list mutants, and what they make of the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use toml::Table;

/// Where the lists are.
const FOLDER: &str = "testkit/mutants";
/// Function for the root of a crate. It notes that a defect was reached.
const FUNCTION: &str = r#"
/// True if this deliberate defect is on.
pub(crate) fn mutant(name: &str) -> bool {
    static WANTED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    static REACHED: std::sync::Once = std::sync::Once::new();
    let wanted = WANTED.get_or_init(|| std::env::var("XSCHED_MUTANT").ok());
    let is_on = wanted.as_deref() == Some(name);
    if is_on {
        REACHED.call_once(|| eprintln!("mutant reached: {name}"));
    }
    is_on
}
"#;
/// Import at the end of a file with a mutant.
const IMPORT: &str = "\nuse crate::mutant;\n";

/// A crate with mutants.
#[derive(Debug)]
pub(super) struct Crate {
    folder: String,
    pub(super) package: String,
    pub(super) module: String,
    pub(super) mutants: Vec<Mutant>,
}

/// A deliberate defect.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) name: String,
    file: String,
    /// Tests that must fail with it, without the module that all are in.
    pub(super) tests: Vec<String>,
    /// Text that a test's complaint must contain.
    pub(super) says: Option<String>,
    find: String,
    with: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The crate's folder, if it is not the name of the file.
    folder: Option<String>,
    /// Where the tests are.
    #[serde(default = "models")]
    module: String,
    mutant: Vec<Mutant>,
}

/// Where the loom models are.
fn models() -> String {
    "models".to_owned()
}

impl Mutant {
    /// How messages name it.
    pub(super) fn place(&self) -> String {
        format!("{}: mutant `{}`", self.file, self.name)
    }

    fn check(&self, folder: &str) -> Result<()> {
        let place = self.place();
        ensure!(self.file.starts_with(&format!("{folder}/")), "{place}: not a file of {folder}");
        ensure!(!self.tests.is_empty(), "{place}: no test is named that notices it");
        let call = format!("mutant(\"{}\")", self.name);
        ensure!(self.with.contains(&call), "{place}: the replacement does not call {call}");
        Ok(())
    }
}

/// Reads and checks all lists of the workspace at `root`.
pub(super) fn read(root: &Path) -> Result<Vec<Crate>> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    ensure!(!paths.is_empty(), "no mutants are listed in {}", folder.display());
    paths.iter().map(|path| read_crate(root, path)).collect()
}

fn read_crate(root: &Path, path: &Path) -> Result<Crate> {
    let text = read_text(path)?;
    let list: List = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let name = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = list.folder.unwrap_or_else(name);
    let mut names = BTreeSet::new();
    for mutant in &list.mutant {
        mutant.check(&folder)?;
        ensure!(names.insert(&mutant.name), "{}: there are two of them", mutant.place());
    }
    let manifest: Table = read_text(&root.join(&folder).join("Cargo.toml"))?.parse()?;
    let package = manifest.get("package").and_then(|package| package.get("name")?.as_str());
    let package = package.with_context(|| format!("{folder}/Cargo.toml names no package"))?;
    Ok(Crate { package: package.to_owned(), folder, module: list.module, mutants: list.mutant })
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The files that differ in the copy, by path from the root, with their text.
pub(super) fn replaced(root: &Path, crates: &[Crate]) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for krate in crates {
        let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        for mutant in &krate.mutants {
            by_file.entry(&mutant.file).or_default().push(mutant);
        }
        for (file, mutants) in by_file {
            let text = replace(&read_text(&root.join(file))?, &mutants)?;
            files.insert(PathBuf::from(file), text + IMPORT);
        }
        let lib = format!("{}/src/lib.rs", krate.folder);
        let text = match files.remove(Path::new(&lib)) {
            // It needs no import of what it defines.
            Some(text) => text.replace(IMPORT, ""),
            None => read_text(&root.join(&lib))?,
        };
        ensure!(!text.contains("fn mutant("), "{lib} has a function `mutant` of its own");
        files.insert(PathBuf::from(lib), text + FUNCTION);
    }
    Ok(files)
}

/// A file's text with all its mutants in place.
fn replace(text: &str, mutants: &[&Mutant]) -> Result<String> {
    let mut places = Vec::new();
    for mutant in mutants {
        let found: Vec<_> = text.match_indices(&mutant.find).map(|(at, _)| at).collect();
        let [at] = found[..] else {
            anyhow::bail!("{}: `find` occurs {} times", mutant.place(), found.len());
        };
        places.push((at, mutant));
    }
    places.sort_by_key(|(at, _)| *at);
    let (mut out, mut end) = (String::new(), 0);
    for (at, mutant) in places {
        ensure!(at >= end, "{}: `find` overlaps with another mutant's", mutant.place());
        out.push_str(&text[end..at]);
        out.push_str(&mutant.with);
        end = at + mutant.find.len();
    }
    out.push_str(&text[end..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str, find: &str) -> Mutant {
        Mutant {
            name: name.to_owned(),
            file: "a/src/lib.rs".to_owned(),
            tests: vec!["m::one".to_owned()],
            says: None,
            find: find.to_owned(),
            with: format!("<mutant(\"{name}\")>"),
        }
    }

    fn replace_all(text: &str, finds: &[&str]) -> Result<String> {
        let mutants: Vec<_> = finds.iter().map(|find| mutant(find, find)).collect();
        replace(text, &mutants.iter().collect::<Vec<_>>())
    }

    #[test]
    fn replacements_are_made_at_once_in_any_order() {
        let text = replace_all("one two three", &["three", "one"]).expect("it fits");
        assert_eq!(text, "<mutant(\"one\")> two <mutant(\"three\")>");
    }

    #[test]
    fn a_replacement_that_does_not_fit_is_refused() {
        let complaint = |text, finds| replace_all(text, finds).expect_err("no fit").to_string();
        assert!(complaint("one one", &["one"]).contains("occurs 2 times"));
        assert!(complaint("two", &["one"]).contains("occurs 0 times"));
        assert!(complaint("one two", &["one t", "two"]).contains("overlaps"));
    }

    #[test]
    fn a_mutant_that_cannot_work_is_refused() {
        assert!(mutant("x", "y").check("a").is_ok());
        assert!(mutant("x", "y").check("b").is_err());
        let without_tests = Mutant { tests: Vec::new(), ..mutant("x", "y") };
        assert!(without_tests.check("a").is_err());
        let without_call = Mutant { with: "mutant(\"z\")".to_owned(), ..mutant("x", "y") };
        assert!(without_call.check("a").is_err());
    }
}
