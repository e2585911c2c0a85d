//! Documents: their links, and what two of them must say.

use super::Finding;
use super::tree::Tree;
use crate::{MAIN_JOB, TEST_JOB};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        findings.extend(dead_links(tree, path, text));
        findings.extend(missing_functions(tree, path, text));
    }
    findings.extend(readme(tree));
    findings.extend(changelog(tree));
    findings
}

fn readme(tree: &Tree) -> Vec<Finding> {
    let text = tree.text("README.md").unwrap_or_default();
    let missing = [MAIN_JOB, TEST_JOB].into_iter().filter(|command| !text.contains(command));
    missing
        .map(|command| {
            let message = format!("the command `{command}` is missing");
            Finding::new("README.md", 1, "readme", message)
        })
        .collect()
}

fn changelog(tree: &Tree) -> Option<Finding> {
    let text = tree.text("CHANGELOG.md").unwrap_or_default();
    let is_section = |line: &str| {
        line.strip_prefix("## ").is_some_and(|title| title.trim_matches(['[', ']']) == "Unreleased")
    };
    let message = "a section `## [Unreleased]` is missing";
    (!text.lines().any(is_section)).then(|| Finding::new("CHANGELOG.md", 1, "changelog", message))
}

fn dead_links(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in links(text) {
        if let Some(message) = problem(tree, path, &target) {
            findings.push(Finding::new(path, line, "link", message));
        }
    }
    findings
}

/// Functions that a document names with their files, as `core/src/lib.rs::name`, and that are gone.
fn missing_functions(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // Of text split at backticks, every other piece is code.
        for code in line.split('`').skip(1).step_by(2) {
            let Some((file, name)) = code.split_once(".rs::") else { continue };
            let source = tree.text(&format!("{file}.rs")).unwrap_or_default();
            if !['(', '<'].iter().any(|next| source.contains(&format!("fn {name}{next}"))) {
                let message = format!("`{file}.rs` has no function `{name}`");
                findings.push(Finding::new(path, number, "function", message));
            }
        }
    }
    findings
}

/// Problem of a link of a document, if any.
fn problem(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
    let Some(file) = file.filter(|file| tree.exists(file)) else {
        return Some(format!("`{target}` does not exist"));
    };
    let document = if file.ends_with(".md") { tree.text(&file) } else { None };
    let found = document.is_none_or(|text| anchors(text).iter().any(|known| known == anchor));
    (!anchor.is_empty() && !found).then(|| format!("`{file}` has no section `#{anchor}`"))
}

/// A path relative to the folder of `from`, from the root; `None` if it leaves the repository.
fn resolve(from: &str, path: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = Vec::new();
    let start = if path.starts_with('/') { "" } else { folder };
    for part in start.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines of a document that are not code, with code between backticks left out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fence = None;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, None) => {
                // Of text split at backticks, every other piece is code.
                let text: Vec<_> = line.split('`').step_by(2).collect();
                return Some((number, text.join("")));
            }
            (None, Some(_)) => fence = mark,
            (Some(_), _) if fence == mark => fence = None,
            (Some(_), _) => {}
        }
        None
    })
}

/// Targets of links with the lines they are on: `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut add = |target: &str| {
            let target = target.trim().trim_start_matches('<');
            // A title may follow.
            let target = target.split([' ', '>']).next().unwrap_or_default();
            found.push((number, target.to_owned()));
        };
        for rest in line.split("](").skip(1) {
            add(rest.split(')').next().unwrap_or_default());
        }
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
        if let Some((_, target)) = definition {
            add(target);
        }
    }
    found
}

/// The anchors of a document's headings, made as the usual web views make them.
fn anchors(text: &str) -> Vec<String> {
    let outside_code: Vec<_> = prose(text).map(|(number, _)| number).collect();
    let (mut slugs, mut anchors) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') || !outside_code.contains(&number) {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let before = slugs.iter().filter(|known| **known == slug).count();
        anchors.push(if before == 0 { slug.clone() } else { format!("{slug}-{before}") });
        slugs.push(slug);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links_of(text: &str) -> Vec<usize> {
        let files = [
            ("docs/page.md", text),
            ("docs/other.md", "# Title\n## Two words: `a_b`\n## Title\n```\n# no\n```\n"),
            ("README.md", ""),
            ("sim/src/lib.rs", ""),
        ];
        let tree = Tree::of(&files);
        dead_links(&tree, "docs/page.md", text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(links_of("fine\n[a](gone.md)\n"), [2]);
        assert_eq!(links_of("[a](../docs/other.md) and [b](../gone)\n"), [1]);
        assert_eq!(links_of("[a][b]\n\n[b]: gone.md\n"), [3]);
        assert_eq!(links_of("[a](../../outside.md)\n"), [1]);
        assert_eq!(links_of("[a](#gone)\n"), [1]);
        assert_eq!(links_of("[a](other.md#no)\n"), [1]);
        assert_eq!(links_of("![a](gone.svg \"title\")\n"), [1]);
    }

    #[test]
    fn live_links_are_not_found() {
        let text = "# Here\n[a](other.md) [b](<../README.md>) [c](/sim/src) [d](#here)\n\
            [e](other.md#two-words-a_b) [f](other.md#title-1) [g](https://example.org/x)\n\
            `[h](gone)`\n```\n[i](gone)\n```\n[j](../sim/src/lib.rs#L3)\n";
        assert_eq!(links_of(text), [0; 0]);
    }

    #[test]
    fn functions_that_are_gone_are_found() {
        let page = "`core/src/a.rs::one`, `core/src/a.rs::two` and\n\
            `core/src/a.rs::on`, `core/src/b.rs::one`, `a::one`\n";
        let tree = Tree::of(&[("core/src/a.rs", "fn one() {}\nfn two<T>() {}\n")]);
        let findings = missing_functions(&tree, "docs/page.md", page);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2, 2]);
    }

    fn rules(files: &[(&str, &str)]) -> Vec<&'static str> {
        check(&Tree::of(files)).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn what_the_repository_must_have_is_found_missing() {
        let readme = format!("```sh\n{MAIN_JOB}\n{TEST_JOB}\n```\n");
        let all =
            [("README.md", readme.as_str()), ("CHANGELOG.md", "# Changes\n\n## [Unreleased]\n")];
        assert_eq!(rules(&all), [""; 0]);
        assert_eq!(rules(&all[1..]), ["readme", "readme"]);
        let other = ("CHANGELOG.md", "Unreleased\n## 1.0\n");
        assert_eq!(rules(&[all[0], other]), ["changelog"]);
        assert_eq!(rules(&[("README.md", MAIN_JOB), all[1]]), ["readme"]);
    }
}
