//! The crates' manifests.

use toml::{Table, Value};

use super::Finding;
use super::tree::Tree;

/// The manifest of a crate.
#[derive(Debug)]
pub(super) struct Manifest<'a> {
    pub(super) folder: &'a str,
    pub(super) path: String,
    text: &'a str,
    table: Table,
}

/// An entry of a table of dependencies.
#[derive(Debug)]
pub(super) struct Dependency {
    /// Name in the manifest.
    pub(super) key: String,
    pub(super) package: String,
    /// True if it is needed for tests alone.
    pub(super) is_dev: bool,
    /// True if it says where the package is and not which version it has, so that cargo leaves it
    /// out when it packages a crate's tests.
    pub(super) is_path_only: bool,
}

impl Manifest<'_> {
    /// The name of the package.
    pub(super) fn package(&self) -> Option<&str> {
        self.key("name")?.as_str()
    }

    /// A key of the package.
    pub(super) fn key(&self, key: &str) -> Option<&Value> {
        self.table.get("package")?.get(key)
    }

    /// True if it says that cargo may publish it.
    pub(super) fn is_published(&self) -> bool {
        self.key("publish").and_then(Value::as_bool) == Some(true)
    }

    /// Dependencies from all tables, at the top or below a target.
    pub(super) fn dependencies(&self) -> Vec<Dependency> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
        let mut found = Vec::new();
        for table in targets.chain([&self.table]) {
            for kind in ["dependencies", "build-dependencies", "dev-dependencies"] {
                let entries = table.get(kind).and_then(Value::as_table);
                for (key, value) in entries.into_iter().flatten() {
                    let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
                    let has = |name: &str| value.get(name).is_some();
                    found.push(Dependency {
                        key: key.clone(),
                        package: package.to_owned(),
                        is_dev: kind == "dev-dependencies",
                        is_path_only: has("path") && !has("version"),
                    });
                }
            }
        }
        found
    }

    pub(super) fn finding(
        &self,
        key: &str,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Finding {
        let starts = |line: &str| line.trim_start().trim_start_matches('"').starts_with(key);
        let line = self.text.lines().position(starts).map_or(1, |index| index + 1);
        Finding::new(&self.path, line, rule, message)
    }
}

/// All manifests but the workspace's own, and a finding for each that is not TOML.
pub(super) fn read<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> Vec<Manifest<'a>> {
    let mut manifests = Vec::new();
    for folder in tree.crates() {
        let path = format!("{folder}/Cargo.toml");
        let text = tree.text(&path).unwrap_or_default();
        match text.parse() {
            Ok(table) => manifests.push(Manifest { folder, path, text, table }),
            Err(error) => findings.push(Finding::new(&path, 1, "parse", error.message())),
        }
    }
    manifests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_is_not_toml_is_found() {
        let tree = Tree::of(&[("sim/Cargo.toml", "[package")]);
        let mut findings = Vec::new();
        assert!(read(&tree, &mut findings).is_empty());
        assert_eq!(findings[0].rule, "parse");
    }

    #[test]
    fn dependencies_are_read_from_all_tables() {
        let text = "[dependencies]\na.workspace = true\n\
                    [target.'cfg(unix)'.dev-dependencies]\nb = { package = 'c', path = '../c' }\n";
        let tree = Tree::of(&[("sim/Cargo.toml", text)]);
        let manifests = read(&tree, &mut Vec::new());
        let found = manifests[0].dependencies();
        let found =
            found.iter().map(|d| (d.key.as_str(), d.package.as_str(), d.is_dev, d.is_path_only));
        assert_eq!(found.collect::<Vec<_>>(), [("b", "c", true, true), ("a", "a", false, false)]);
        assert_eq!(manifests[0].finding("b", "x", "y").line, 4);
    }
}
