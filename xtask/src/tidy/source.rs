//! Rust files, read with an eye on what belongs to tests.

use std::ops::RangeInclusive;

use proc_macro2::{LineColumn, TokenStream, TokenTree};

use super::Finding;
use super::tree::Tree;

/// Folders whose files are tests of some kind, wherever they are.
const TEST_FOLDERS: [&str; 3] = ["tests", "benches", "fuzz"];

type Lines = RangeInclusive<usize>;

/// One token. Groups are two: where they open and where they close.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) start: LineColumn,
    pub(super) end: LineColumn,
}

/// A file that could be parsed.
pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    pub(super) ast: syn::File,
    pub(super) tokens: Vec<Token>,
    /// True if all of it is a test.
    pub(super) is_test: bool,
    test_lines: Vec<Lines>,
    /// Names of the modules that are tests and live in files of their own.
    test_modules: Vec<String>,
}

impl Source<'_> {
    /// True if a line belongs to a test.
    pub(super) fn in_test(&self, line: usize) -> bool {
        self.is_test || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// A line, counted from 1.
    pub(super) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }

    /// Where the files of its modules are.
    fn module_folder(&self) -> String {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", self.path));
        match name {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
        }
    }
}

/// Parses every Rust file, and complains about those that cannot be.
pub(super) fn read_all(tree: &Tree) -> (Vec<Source<'_>>, Vec<Finding>) {
    let (mut sources, mut findings) = (Vec::new(), Vec::new());
    for (path, text) in tree.texts(".rs") {
        match read(path, text) {
            Ok(source) => sources.push(source),
            Err(error) => {
                let line = error.span().start().line;
                findings.push(Finding::new(path, line, "parse", error.to_string()));
            }
        }
    }
    mark_test_files(&mut sources);
    (sources, findings)
}

fn read<'a>(path: &'a str, text: &'a str) -> syn::Result<Source<'a>> {
    let ast = syn::parse_file(text)?;
    let mut tokens = Vec::new();
    flatten(text.parse()?, &mut tokens);
    let in_test_folder = path.split('/').rev().skip(1).any(|folder| TEST_FOLDERS.contains(&folder));
    let mut source = Source {
        path,
        text,
        ast,
        tokens,
        is_test: in_test_folder,
        test_lines: Vec::new(),
        test_modules: Vec::new(),
    };
    for at in 0..source.tokens.len() {
        mark_attribute(&mut source, at);
    }
    Ok(source)
}

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    for tree in stream {
        let span = tree.span();
        let TokenTree::Group(group) = tree else {
            out.push(Token { text: tree.to_string(), start: span.start(), end: span.end() });
            continue;
        };
        let (open, close) = match group.delimiter() {
            proc_macro2::Delimiter::Parenthesis => ("(", ")"),
            proc_macro2::Delimiter::Brace => ("{", "}"),
            proc_macro2::Delimiter::Bracket => ("[", "]"),
            proc_macro2::Delimiter::None => ("", ""),
        };
        let (start, end) = (group.span_open(), group.span_close());
        out.push(Token { text: open.to_owned(), start: start.start(), end: start.end() });
        flatten(group.stream(), out);
        out.push(Token { text: close.to_owned(), start: end.start(), end: end.end() });
    }
}

/// If an outer attribute starts at this token that marks a test, notes what it applies to.
fn mark_attribute(source: &mut Source<'_>, at: usize) {
    let Some(end) = attribute_end(&source.tokens, at) else { return };
    let inside: Vec<_> = source.tokens[at + 2..end].iter().map(|t| t.text.as_str()).collect();
    if !marks_test(&inside) {
        return;
    }
    let mut item = end + 1;
    while let Some(end) = attribute_end(&source.tokens, item) {
        item = end + 1;
    }
    let Some(last) = item_end(&source.tokens, item) else { return };
    let lines = source.tokens[at].start.line..=source.tokens[last].end.line;
    source.test_lines.push(lines);
    let words: Vec<_> = source.tokens[item..=last].iter().map(|t| t.text.as_str()).collect();
    if let [.., "mod", name, ";"] = words[..] {
        source.test_modules.push(name.to_owned());
    }
}

/// The closing bracket of the outer attribute that starts at this token, if one does.
fn attribute_end(tokens: &[Token], at: usize) -> Option<usize> {
    let [hash, bracket, ..] = tokens.get(at..)? else { return None };
    if hash.text != "#" || bracket.text != "[" {
        return None;
    }
    group_end(tokens, at + 1)
}

/// The token that closes the group which this token opens.
fn group_end(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The last token of the item or statement that starts here: a semicolon, or a closing brace unless
/// it is a `let`.
fn item_end(tokens: &[Token], start: usize) -> Option<usize> {
    let is_let = tokens.get(start)?.text == "let";
    let mut at = start;
    loop {
        match tokens.get(at)?.text.as_str() {
            ";" => return Some(at),
            "{" if !is_let => return group_end(tokens, at),
            "(" | "[" | "{" => at = group_end(tokens, at)?,
            // The end of what surrounds it.
            ")" | "]" | "}" => return at.checked_sub(1),
            _ => {}
        }
        at += 1;
    }
}

/// True if the inside of an attribute means that the item exists only in tests.
fn marks_test(inside: &[&str]) -> bool {
    match inside {
        ["test" | "bench"] => true,
        ["cfg", "(", condition @ .., ")"] => only_in_tests(condition),
        _ => false,
    }
}

fn only_in_tests(condition: &[&str]) -> bool {
    match condition {
        ["test"] => true,
        ["all", "(", parts @ .., ")"] => split_at_commas(parts).into_iter().any(only_in_tests),
        ["any", "(", parts @ .., ")"] => split_at_commas(parts).into_iter().all(only_in_tests),
        _ => false,
    }
}

/// Splits at the commas that are not inside parentheses.
fn split_at_commas<'a, 'b>(words: &'a [&'b str]) -> Vec<&'a [&'b str]> {
    let mut depth = 0_usize;
    words
        .split(|word| {
            match *word {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && *word == ","
        })
        .filter(|part| !part.is_empty())
        .collect()
}

/// Files of modules that are tests are tests.
fn mark_test_files(sources: &mut [Source<'_>]) {
    let mut modules = Vec::new();
    for source in &*sources {
        let folder = source.module_folder();
        modules.extend(source.test_modules.iter().map(|name| format!("{folder}/{name}")));
    }
    for source in sources {
        source.is_test |= modules.iter().any(|module| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_lines(text: &str) -> Vec<usize> {
        let source = read("core/src/lib.rs", text).expect("it parses");
        (1..=text.lines().count()).filter(|&line| source.in_test(line)).collect()
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        let tree = Tree::of(&[("core/src/lib.rs", "fn ok() {}\nfn {}")]);
        let (sources, findings) = read_all(&tree);
        assert!(sources.is_empty());
        assert_eq!((findings[0].line, findings[0].rule), (2, "parse"));
    }

    #[test]
    fn test_items_are_known() {
        assert_eq!(
            test_lines("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n"),
            [2, 3, 4, 5]
        );
        assert_eq!(test_lines("#[test]\n#[ignore]\nfn a() {}\nfn b() {}\n"), [1, 2, 3]);
        assert_eq!(
            test_lines("#[cfg(all(test, feature = \"x\"))]\nuse a::b;\nfn c() {}\n"),
            [1, 2]
        );
        assert_eq!(test_lines("#[cfg(any(test, feature = \"x\"))]\nfn a() {}\n"), [0; 0]);
        assert_eq!(test_lines("#[cfg(not(test))]\nfn a() {}\n"), [0; 0]);
    }

    #[test]
    fn files_of_test_modules_are_tests() {
        let tree = Tree::of(&[
            ("core/src/lib.rs", "pub mod queue;"),
            ("core/src/queue/mod.rs", "#[cfg(test)]\nmod tests;\nmod slot;"),
            ("core/src/queue/tests.rs", "mod deep;"),
            ("core/src/queue/tests/deep.rs", ""),
            ("core/src/queue/slot.rs", "#[cfg(test)] mod check;"),
            ("core/src/queue/slot/check.rs", ""),
            ("core/tests/all.rs", ""),
        ]);
        let tests: Vec<_> =
            read_all(&tree).0.iter().filter(|s| s.is_test).map(|s| s.path).collect();
        let expected = [
            "core/src/queue/slot/check.rs",
            "core/src/queue/tests.rs",
            "core/src/queue/tests/deep.rs",
            "core/tests/all.rs",
        ];
        assert_eq!(tests, expected);
    }
}
