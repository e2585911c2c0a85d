//! How sentences in comments begin, and words of a dialect.

use super::Finding;
use super::source::Source;
use super::tree::Tree;

/// Words that do not say what the item is, as the first of its documentation.
const FIRST: [&str; 19] = [
    "it", "its", "they", "their", "them", "this", "that", "these", "those", "we", "you", "what",
    "whatever", "which", "who", "whose", "whether", "so", "such",
];
/// Pairs of first words that do not say it either.
const FIRST_TWO: [(&str, &str); 2] = [("the", "same"), ("there", "is")];
/// Words that say a number or a time behind `so` and leave it open.
const OPEN: [&str; 8] = ["many", "much", "few", "little", "long", "often", "soon", "late"];

pub(super) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(first_words(source));
        for (number, text) in comments(source) {
            findings.extend(open_words(source.path, number, text));
        }
    }
    for (path, text) in tree.texts(".md") {
        for (number, line) in (1..).zip(text.lines()) {
            findings.extend(open_words(path, number, line));
        }
    }
    findings
}

/// The words of a line in lower case.
fn words(line: &str) -> impl Iterator<Item = String> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Documentation of an item whose first word is none of the field.
fn first_words(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = "";
    for (number, line) in (1..).zip(source.text.lines()) {
        let mark = ["/// ", "//! "].into_iter().find(|mark| line.trim_start().starts_with(mark));
        let mark = mark.unwrap_or_default();
        let text = line.trim_start().strip_prefix(mark).unwrap_or_default();
        let begins = !mark.is_empty() && mark.trim_end() != before;
        before =
            ["///", "//!"].into_iter().find(|m| line.trim_start().starts_with(m)).unwrap_or("");
        if !begins || !text.starts_with(char::is_alphabetic) {
            continue;
        }
        let mut words = words(text);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let pair = FIRST_TWO.iter().any(|(a, b)| first == *a && second == *b);
        if pair || FIRST.contains(&first.as_str()) {
            let message = format!("begin with a noun or a verb instead of `{first}`");
            findings.push(Finding::new(source.path, number, "first-word", message));
        }
    }
    findings
}

/// Comments of a source by their lines. What stands behind code counts if it begins with `// `.
fn comments<'a>(source: &Source<'a>) -> impl Iterator<Item = (usize, &'a str)> {
    (1..).zip(source.text.lines()).filter_map(|(number, line)| {
        let at =
            if line.trim_start().starts_with("//") { line.find("//") } else { line.find(" // ") };
        Some((number, line.get(at?..)?))
    })
}

/// Finds `so` in front of a word of [`OPEN`].
fn open_words(path: &str, number: usize, line: &str) -> Option<Finding> {
    let words: Vec<_> = words(line).collect();
    let found =
        words.windows(2).find(|pair| pair[0] == "so" && OPEN.contains(&pair[1].as_str()))?;
    let message = format!("say how {} instead of `so {}`", found[1], found[1]);
    Some(Finding::new(path, number, "so-many", message))
}

#[cfg(test)]
mod tests {
    use super::super::source::read_all;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let tree = Tree::of(&[(path, text)]);
        let (sources, findings) = read_all(&tree);
        assert!(findings.is_empty(), "{findings:?}");
        check(&tree, &sources).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn documentation_that_does_not_begin_with_its_subject_is_found() {
        let text =
            "//! It waits.\n\n/// Whether it waits.\nfn a() {}\n/// The same as `a`.\nfn b() {}\n";
        let rule = "first-word";
        assert_eq!(found("core/src/lib.rs", text), [(1, rule), (3, rule), (5, rule)]);
    }

    #[test]
    fn later_lines_and_other_words_are_fine() {
        let text = "/// Waits.\n/// It does.\n///\n/// What it waits for.\nfn a() {}\n// This is.\n\
                    /// `So`, and That.\nfn b() {}\n/// Sorted items.\nfn c() {}\n";
        assert_eq!(found("core/src/lib.rs", text), []);
    }

    #[test]
    fn numbers_and_times_that_are_left_open_are_found() {
        let text = "// Waits for so long.\nfn a() {} // so many\nconst A: &str = \"so many\";\n";
        assert_eq!(found("core/src/lib.rs", text), [(1, "so-many"), (2, "so-many")]);
        assert_eq!(found("docs/a.md", "Fine.\nSo often, so far.\n"), [(2, "so-many")]);
        assert_eq!(found("docs/a.md", "Many, so all of them; as long as.\n"), []);
    }
}
