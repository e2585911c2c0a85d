//! The loom models, from their source, and the mutants that they must notice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use toml::Table as Toml;
use walkdir::WalkDir;

use crate::root;

/// The crates with models.
const CRATES: [&str; 6] = ["runtime", "capi", "hal-host", "hal-process", "hal-stream", "node"];

/// A model: its name, its bound, and what it proves.
#[derive(Debug, PartialEq, Eq)]
struct Model {
    name: String,
    bound: String,
    proves: String,
}

/// A paragraph for each model.
pub(super) fn table() -> Result<String> {
    let mut table = String::new();
    for folder in CRATES {
        let mutants = mutants(&root().join(format!("testkit/mutants/{folder}.toml")))?;
        let mut found = 0;
        for entry in WalkDir::new(root().join(folder).join("src/models")).sort_by_file_name() {
            let entry = entry.with_context(|| format!("cannot list the models of {folder}"))?;
            if !entry.file_type().is_file() {
                continue;
            }
            for model in models(&read(entry.path())?) {
                let of = mutants.get(&model.name).cloned().unwrap_or_default();
                let Model { name, bound, proves } = model;
                table +=
                    &format!("{name} ({folder}, bound {bound})\n    {proves}\n    mutants: {of}\n");
                found += 1;
            }
        }
        ensure!(found > 0, "{folder} has no models");
    }
    Ok(table)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The tests of a file that explore something, with their documentation.
fn models(source: &str) -> Vec<Model> {
    let mut found = Vec::new();
    let mut doc = String::new();
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push_str(text);
            doc.push(' ');
        } else if let Some(call) = line.strip_prefix("explore(\"") {
            let (name, rest) = call.split_once('"').unwrap_or((call, ""));
            let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
            let bound = digits.chars().take_while(char::is_ascii_digit).collect();
            found.push(Model { name: name.into(), bound, proves: first_sentence(&doc) });
            doc.clear();
        } else if line.is_empty() || line == "}" {
            doc.clear();
        }
    }
    found
}

fn first_sentence(doc: &str) -> String {
    let end = doc.find(". ").map_or(doc.trim_end().len(), |end| end + 1);
    doc[..end].trim_end().to_owned()
}

/// For each model the names of the mutants that it must notice.
fn mutants(path: &Path) -> Result<BTreeMap<String, String>> {
    let mut by_model: BTreeMap<String, String> = BTreeMap::new();
    if !path.exists() {
        return Ok(by_model);
    }
    let file: Toml = read(path)?.parse().with_context(|| format!("{}", path.display()))?;
    for mutant in file.get("mutant").and_then(toml::Value::as_array).into_iter().flatten() {
        let name = mutant.get("name").and_then(toml::Value::as_str).context("no name")?;
        let tests = mutant.get("tests").and_then(toml::Value::as_array).context("no tests")?;
        for model in tests.iter().filter_map(toml::Value::as_str) {
            let of = by_model.entry(model.to_owned()).or_default();
            if !of.is_empty() {
                of.push_str("; ");
            }
            of.push_str(name);
        }
    }
    Ok(by_model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_with_their_first_sentence() {
        let source = "/// A wait returns. Later too.\n#[test]\nfn a() {\n    \
                      explore(\"waiting::a\", long(3, 12), || {\n});\n}\n/// No model.\nfn b() {\n}\n";
        let model = Model {
            name: "waiting::a".into(),
            bound: "3".into(),
            proves: "A wait returns.".into(),
        };
        assert_eq!(models(source), [model]);
    }
}
