//! The checks of the conformance suite, from its source.

use anyhow::{Result, ensure};

use crate::table::Table;
use crate::{read, root};

/// The suite's checks in the order of the source: name, and what it stands for.
pub(crate) fn checks() -> Result<String> {
    let folder = root().join("testkit/conformance/src/check");
    let order = read(&folder.join("mod.rs"))?;
    let groups: Vec<_> =
        order.lines().filter_map(|line| line.trim().strip_suffix("::checks(),")).collect();
    let mut table = Table::new(["check", "stands for"]);
    for group in groups {
        let found = named(&read(&folder.join(format!("{group}.rs")))?);
        ensure!(!found.is_empty(), "no checks in the group `{group}`");
        for (name, about) in found {
            table.row([format!("`{name}`"), about]);
        }
    }
    Ok(table.markdown())
}

/// Names and descriptions: two string literals, one after the other, within `list!`.
fn named(source: &str) -> Vec<(String, String)> {
    let Some((_, list)) = source.split_once("list! {") else { return Vec::new() };
    let list = list.split("\n    }").next().unwrap_or_default();
    // Of text split at quotes, every other piece is a literal. None of them has an escape but a
    // line that goes on.
    let literals: Vec<_> = list.split('"').skip(1).step_by(2).map(joined).collect();
    literals.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// A literal that goes on on the next line, on one line.
fn joined(literal: &str) -> String {
    literal.split("\\\n").map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_found_in_the_source() {
        let source = "list! {\n \"a::b\",\n \"one \\\n   two\",\n f;\n \"a::c\", \"three\", g;\n    }\n\"d\"";
        let found = named(source);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], ("a::b".into(), "one two".into()));
        assert_eq!(found[1].1, "three");
    }
}
