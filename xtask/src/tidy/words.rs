//! Words that stand for a subject that the sentence does not name.

use super::Finding;
use super::tree::Tree;

/// Words to replace by the submitter, the waiter, another queue, the caller.
const WORDS: [&str; 6] = ["whoever", "somebody", "someone", "nobody", "anybody", "everybody"];
/// The file with the list.
const LIST: &str = "xtask/src/tidy/words.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let texts = tree.texts(".rs").chain(tree.texts(".md"));
    texts.filter(|(path, _)| *path != LIST).flat_map(|(path, text)| find(path, text)).collect()
}

fn find(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.split(|c: char| !c.is_alphanumeric());
        for word in words.filter(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
        {
            let message = format!("say who that is instead of `{word}`");
            findings.push(Finding::new(path, number, "words", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn sentences_without_a_subject_are_found() {
        let text = "// Whoever waits.\nfn f() {}\nlet a = \"for nobody\";\nfn nobody_waits() {}\n";
        assert_eq!(lines("core/src/lib.rs", text), [1, 3, 4]);
        assert_eq!(lines("docs/page.md", "Fine.\n\nSomebody's.\n"), [3]);
    }

    #[test]
    fn other_words_are_fine() {
        assert_eq!(lines("core/src/lib.rs", "// The waiter. NOBODYS.\n"), [0; 0]);
        assert_eq!(lines("sim/data/a.toml", "# nobody\n"), [0; 0]);
        assert_eq!(lines(LIST, "// nobody\n"), [0; 0]);
    }
}
