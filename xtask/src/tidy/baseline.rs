//! Rules that parts of the tree still break: how often each package may, which only gets less.
//!
//! `baseline.toml` has a table for each package with a count for each rule. A package that breaks
//! a rule more often fails, unless the whole tree breaks it no more often than all counts allow, so
//! that code may move between packages. One that breaks it less often is named, so that its count
//! is lowered: `cargo xtask tidy --lower` does so.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::Finding;
use super::tree::Tree;

/// Where the counts stand.
pub(super) const FILE: &str = "xtask/src/tidy/baseline.toml";
const HEAD: &str = "# How often each package may break a rule of `cargo xtask tidy`. Lower a count \
                    when its package\n# breaks the rule less often, by `cargo xtask tidy --lower`; \
                    never raise one.\n";

/// Package, then rule, then count.
pub(super) type Counts = BTreeMap<String, BTreeMap<String, usize>>;

/// Findings of the rules with a baseline, compared with the counts.
pub(super) struct Judged {
    /// Findings of rules that are broken more often than allowed.
    pub(super) findings: Vec<Finding>,
    /// Counts that are higher than what was found: a line each.
    pub(super) too_high: Vec<String>,
    /// The counts, none of which is higher than what was found.
    pub(super) lowered: Counts,
}

/// The counts of the tree; none if it has no file of them.
pub(super) fn read(tree: &Tree) -> Result<Counts> {
    tree.text(FILE).map_or(Ok(Counts::new()), |text| {
        toml::from_str(text).with_context(|| format!("{FILE} is not a table of counts"))
    })
}

/// The file with these counts.
pub(super) fn text(counts: &Counts) -> Result<String> {
    Ok(format!("{HEAD}\n{}", toml::to_string(counts).context("counts are a table")?))
}

/// The package of a file: the folder of its manifest, or the first folder of its path.
fn package(folders: &[&str], path: &str) -> String {
    let inside = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    let own = folders.iter().find(|folder| inside(folder)).copied();
    let first = path.split_once('/').map_or("root", |(folder, _)| folder);
    own.unwrap_or(first).to_owned()
}

/// Sorts findings by package and rule, and compares their numbers with the counts.
pub(super) fn judge(tree: &Tree, counts: &Counts, found: Vec<Finding>) -> Judged {
    let folders = tree.crates();
    let mut by_place: BTreeMap<(String, &'static str), Vec<Finding>> = BTreeMap::new();
    for finding in found {
        let place = (package(&folders, &finding.path), finding.rule);
        by_place.entry(place).or_default().push(finding);
    }
    let mut judged = Judged { findings: Vec::new(), too_high: Vec::new(), lowered: Counts::new() };
    for (package, rules) in counts {
        for (rule, &allowed) in rules {
            let is = |place: &&(String, &str)| place.0 == *package && place.1 == *rule;
            let found = by_place.keys().find(is).map_or(0, |place| by_place[place].len());
            if found < allowed {
                judged
                    .too_high
                    .push(format!("{package}: {rule}: {allowed} allowed, {found} found"));
            }
            if found.min(allowed) > 0 {
                let lowered = judged.lowered.entry(package.clone()).or_default();
                lowered.insert(rule.clone(), found.min(allowed));
            }
        }
    }
    let more = by_place.iter().filter(|((package, rule), found)| {
        let allowed = counts.get(package).and_then(|rules| rules.get(*rule)).copied();
        found.len() > allowed.unwrap_or(0) && is_exceeded(counts, &by_place, rule)
    });
    judged.findings = more.flat_map(|(_, found)| found.iter().cloned()).collect();
    judged
}

/// True if the whole tree breaks a rule more often than all counts allow.
fn is_exceeded(
    counts: &Counts,
    by_place: &BTreeMap<(String, &'static str), Vec<Finding>>,
    rule: &str,
) -> bool {
    let allowed: usize = counts.values().filter_map(|rules| rules.get(rule)).sum();
    let found = by_place.iter().filter(|((_, of), _)| *of == rule);
    found.map(|(_, findings)| findings.len()).sum::<usize>() > allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::of(&[("core/Cargo.toml", ""), ("sim/Cargo.toml", ""), ("docs/page.md", "")])
    }

    fn judged(counts: &str, places: &[&str]) -> Judged {
        let found = places.iter().map(|path| Finding::new(path, 1, "allow", "no")).collect();
        judge(&tree(), &toml::from_str(counts).expect("counts"), found)
    }

    #[test]
    fn more_than_allowed_fails_and_less_is_named() {
        let counts = "[core]\nallow = 2\n[docs]\nallow = 1\n";
        let same = judged(counts, &["core/a.rs", "core/b.rs", "docs/page.md"]);
        assert!(same.findings.is_empty() && same.too_high.is_empty());
        let more = judged(counts, &["core/a.rs", "core/b.rs", "core/c.rs", "docs/page.md"]);
        assert_eq!(more.findings.len(), 3);
        let less = judged(counts, &["core/a.rs", "docs/page.md"]);
        assert_eq!(less.too_high, ["core: allow: 2 allowed, 1 found"]);
        assert_eq!(text(&less.lowered).expect("counts").matches("= 1").count(), 2);
        assert_eq!(judged("", &["sim/a.rs"]).findings.len(), 1);
    }

    #[test]
    fn code_may_move_between_packages() {
        let counts = "[core]\nallow = 2\n[sim]\nallow = 1\n";
        let moved = judged(counts, &["core/a.rs", "sim/a.rs", "sim/b.rs"]);
        assert!(moved.findings.is_empty());
        let more = judged(counts, &["core/a.rs", "core/b.rs", "sim/a.rs", "sim/b.rs"]);
        assert_eq!(more.findings.len(), 2, "those of sim");
    }
}
