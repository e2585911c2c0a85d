//! Metadata that published packages must have.

use toml::Value;

use super::Finding;
use super::manifests::Manifest;
use crate::package::PUBLISHED;

/// Keys that a published package must have.
const NEEDED: [&str; 6] =
    ["description", "license", "keywords", "categories", "readme", "rust-version"];

pub(super) fn check(manifests: &[Manifest<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests {
        let mut found = |key, message: String| {
            findings.push(manifest.finding(key, "metadata", message));
        };
        let is_listed =
            manifest.package().is_some_and(|name| PUBLISHED.iter().any(|p| p.1 == name));
        if manifest.is_published() != is_listed {
            found(
                "publish",
                "this does not agree with the list in xtask/src/package.rs".to_owned(),
            );
        }
        for key in NEEDED.iter().filter(|_| is_listed) {
            if manifest.key(key).is_none() {
                found("[package]", format!("`{key}` is missing"));
            }
        }
        if manifest.key("rust-version").is_some_and(Value::is_str) {
            let message = "the oldest Rust is named in one place, the workspace's manifest";
            found("rust-version", message.to_owned());
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::{manifests, tree::Tree};
    use super::*;

    const CORE: &str = "[package]\nname = 'xsched-core'\npublish = true\ndescription = ''\n\
                        license.workspace = true\nkeywords = []\ncategories = []\n\
                        readme.workspace = true\nrust-version.workspace = true\n";

    fn lines(text: &str) -> Vec<usize> {
        let tree = Tree::of(&[("core/Cargo.toml", text)]);
        let findings = check(&manifests::read(&tree, &mut Vec::new()));
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn what_a_published_package_lacks_is_found() {
        assert_eq!(lines(CORE), [0; 0]);
        assert_eq!(lines(&CORE.replace("readme.workspace = true\n", "")), [1]);
        assert_eq!(
            lines(&CORE.replace("rust-version.workspace = true", "rust-version = '1'")),
            [9]
        );
    }

    #[test]
    fn what_is_published_is_listed() {
        assert_eq!(lines(&CORE.replace("publish = true", "publish.workspace = true")), [3]);
        assert_eq!(lines(&CORE.replace("xsched-core", "xsched-cli")), [3]);
        assert_eq!(lines("[package]\nname = 'xsched-cli'\npublish.workspace = true\n"), [0; 0]);
    }
}
