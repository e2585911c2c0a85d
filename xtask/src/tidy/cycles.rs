//! Import cycles among the modules of a crate.
//!
//! A module here is a file or a folder next to `lib.rs`, with all that is below it. It imports
//! another one where its code, tests left out, names it: `crate::other`, one of `crate::{…}`, or
//! `super::other` in the module's own file.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source::{Source, Token};
use super::tree::Tree;

/// Modules that exist for tests.
const LEFT_OUT: [&str; 1] = ["models"];

/// Where a module imports another one: file and line.
type Imports<'a> = BTreeMap<(String, String), (&'a str, usize)>;

pub(super) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in tree.crates() {
        let folder = format!("{name}/src/");
        let imports = imports(sources, &folder);
        for ((from, to), (path, line)) in &imports {
            if let Some(back) = path_back(&imports, to, from) {
                let message = format!("modules import each other: {from} → {}", back.join(" → "));
                findings.push(Finding::new(path, *line, "module-cycle", message));
            }
        }
    }
    findings
}

/// All imports between the modules of the crate with this folder.
fn imports<'a>(sources: &'a [Source<'_>], folder: &str) -> Imports<'a> {
    let mut found = Imports::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let Some(rest) = source.path.strip_prefix(folder) else { continue };
        let module = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
        if module == "lib" || LEFT_OUT.contains(&module) {
            continue;
        }
        let own = rest == format!("{module}.rs") || rest == format!("{module}/mod.rs");
        for (to, line) in named(&source.tokens, own) {
            if to != module && !source.in_test(line) {
                found.entry((module.to_owned(), to)).or_insert((source.path, line));
            }
        }
    }
    let modules: BTreeSet<String> = found.keys().map(|(from, _)| from.clone()).collect();
    found.retain(|(_, to), _| modules.contains(to));
    found
}

/// The names that follow `crate::`, and `super::` if that is the crate, with their lines.
fn named(tokens: &[Token], own: bool) -> Vec<(String, usize)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut names = Vec::new();
    for at in 0..tokens.len() {
        let root = text(at) == "crate" || own && text(at) == "super";
        if !root || text(at + 1) != ":" || text(at + 2) != ":" {
            continue;
        }
        if text(at + 3) != "{" {
            names.push((text(at + 3).to_owned(), tokens[at].start.line));
            continue;
        }
        let mut depth = 0_usize;
        for (inner, token) in tokens.iter().enumerate().skip(at + 3) {
            let starts = depth == 1 && matches!(text(inner - 1), "{" | ",");
            match text(inner) {
                "{" => depth += 1,
                "}" => depth -= 1,
                name if starts => names.push((name.to_owned(), token.start.line)),
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

/// The shortest way from one module to another by imports, both ends included.
fn path_back(imports: &Imports<'_>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut at = 0;
    while let Some(way) = ways.get(at).cloned() {
        let last = way.last()?;
        if last == to {
            return Some(way);
        }
        for (_, next) in imports.keys().filter(|(module, _)| module == last) {
            if seen.insert(next.clone()) {
                ways.push([way.clone(), vec![next.clone()]].concat());
            }
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::source::read_all;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(&[files, &[("runtime/Cargo.toml", "")]].concat());
        let (sources, findings) = read_all(&tree);
        assert!(findings.is_empty(), "{findings:?}");
        check(&tree, &sources).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_found() {
        let circle = [
            ("runtime/src/lib.rs", "mod a; mod b; mod c; pub use a::A;"),
            ("runtime/src/a.rs", "use crate::{c::C, b::inner::{B, X}};"),
            ("runtime/src/b/inner.rs", "fn f() { crate::c::g(); }"),
            ("runtime/src/b/mod.rs", "mod inner;"),
            ("runtime/src/c.rs", "use super::a::A;"),
        ];
        let messages = found(&circle);
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert!(messages.contains(&"modules import each other: b → c → a → b".to_owned()));
    }

    #[test]
    fn imports_in_one_direction_and_in_tests_are_none() {
        let tree = [
            ("runtime/src/lib.rs", "mod a; mod b; mod models;"),
            ("runtime/src/a.rs", "use crate::b::B;"),
            (
                "runtime/src/b/mod.rs",
                "mod c;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
            ("runtime/src/b/c.rs", "use super::a::A;"),
            ("runtime/src/models/mod.rs", "use crate::a::A; use crate::b::B;"),
        ];
        assert!(found(&tree).is_empty(), "{:?}", found(&tree));
    }
}
