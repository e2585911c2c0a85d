//! Functions that are long on the whole, and files and lines that are too long.

use syn::visit::{self, Visit};

use super::Finding;
use super::source::Source;
use super::tree::Tree;

const FUNCTION_LINES_P90: usize = 30;
const FILE_LINES_BELOW: usize = 600;
const COLUMNS_MAX: usize = 100;

pub(super) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(long_file(source));
        findings.extend(long_lines(source));
    }
    findings.extend(crates_of_long_functions(tree, sources));
    findings
}

/// Collects how many lines each function of a file has that has a body and is no test.
struct Functions<'a> {
    source: &'a Source<'a>,
    lines: Vec<usize>,
}

impl Functions<'_> {
    fn of(source: &Source<'_>) -> Vec<usize> {
        let mut functions = Functions { source, lines: Vec::new() };
        functions.visit_file(&source.ast);
        functions.lines
    }

    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let line = signature.fn_token.span.start().line;
        let end = block.brace_token.span.close().end().line;
        if !self.source.in_test(line) {
            self.lines.push(end + 1 - line);
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn crates_of_long_functions(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let folders = tree.crates();
    let mut findings = Vec::new();
    for folder in &folders {
        let mut lengths = Vec::new();
        for source in sources {
            if owner(&folders, source.path) == Some(folder) {
                lengths.extend(Functions::of(source));
            }
        }
        let p90 = nine_tenths(&mut lengths);
        if p90 > FUNCTION_LINES_P90 {
            let message = format!(
                "one function in ten has {p90} lines or more; {FUNCTION_LINES_P90} is the limit"
            );
            findings.push(Finding::new(
                &format!("{folder}/Cargo.toml"),
                1,
                "function-p90",
                message,
            ));
        }
    }
    findings
}

/// The crate that a file belongs to. Folders come deepest first.
fn owner<'a>(folders: &'a [&'a str], path: &str) -> Option<&'a &'a str> {
    let inside = |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    folders.iter().find(|folder| inside(folder))
}

/// The smallest length that nine tenths do not exceed; 0 of nothing.
fn nine_tenths(lengths: &mut [usize]) -> usize {
    lengths.sort_unstable();
    let rank = (lengths.len() * 9).div_ceil(10);
    rank.checked_sub(1).map_or(0, |index| lengths[index])
}

fn long_file(source: &Source<'_>) -> Option<Finding> {
    let total = source.text.lines().count();
    let lines = (1..=total).filter(|&line| !source.in_test(line)).count();
    (lines >= FILE_LINES_BELOW).then(|| {
        let message = format!(
            "{lines} lines without tests; split it, fewer than {FILE_LINES_BELOW} are allowed"
        );
        Finding::new(source.path, total, "file-length", message)
    })
}

fn long_lines(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let columns = line.chars().count();
        if columns <= COLUMNS_MAX || ends_in_address(line) {
            continue;
        }
        if columns - string_columns(source, number, columns) > COLUMNS_MAX {
            let message = format!("{columns} columns; {COLUMNS_MAX} is the limit");
            findings.push(Finding::new(source.path, number, "line-width", message));
        }
    }
    findings
}

/// True if an address is what reaches past the limit.
fn ends_in_address(line: &str) -> bool {
    let Some((at, _)) = line.char_indices().nth(COLUMNS_MAX) else { return false };
    let start = line[..at].rfind(char::is_whitespace).unwrap_or(0);
    line[start..].split_whitespace().next().is_some_and(|word| word.contains("://"))
}

/// How many columns of a line belong to string literals. Documentation does not count as one.
fn string_columns(source: &Source<'_>, line: usize, columns: usize) -> usize {
    let on_line = source.tokens.iter().filter(|t| t.start.line <= line && t.end.line >= line);
    let strings = on_line.filter(|token| {
        let start = token.start.column;
        let quoted = source.line(token.start.line).chars().skip(start).take(3);
        token.text.ends_with(['"', '#']) && quoted.clone().any(|c| c == '"') && token.text != "#"
    });
    strings
        .map(|token| {
            let start = if token.start.line == line { token.start.column } else { 0 };
            let end = if token.end.line == line { token.end.column } else { columns };
            end.saturating_sub(start)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::source::read_all;
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let tree = Tree::of(&[("core/Cargo.toml", "[package]"), (path, text)]);
        let (sources, findings) = read_all(&tree);
        assert!(findings.is_empty(), "{findings:?}");
        check(&tree, &sources).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
    }

    #[test]
    fn a_crate_with_many_long_functions_is_found() {
        let text = |long| format!("{}{}", function(31).repeat(long), function(3).repeat(20 - long));
        assert_eq!(rules("core/src/lib.rs", &text(2)), []);
        assert_eq!(rules("core/src/lib.rs", &text(3)), [(1, "function-p90")]);
    }

    #[test]
    fn a_file_of_600_lines_is_found() {
        let text = |lines| "const A: u8 = 0;\n".repeat(lines);
        assert_eq!(rules("core/src/lib.rs", &text(599)), []);
        assert_eq!(rules("core/src/lib.rs", &text(600)), [(600, "file-length")]);
        assert_eq!(rules("core/tests/all.rs", &text(600)), []);
        let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", text(500), text(500));
        assert_eq!(rules("core/src/lib.rs", &with_tests), []);
    }

    #[test]
    fn a_line_of_101_columns_is_found() {
        let comment = |columns: usize| format!("// {}\n", "µ".repeat(columns - 3));
        assert_eq!(rules("core/src/lib.rs", &comment(100)), []);
        assert_eq!(rules("core/src/lib.rs", &comment(101)), [(1, "line-width")]);
        let doc = format!("/// \"{}\"\nfn f() {{}}\n", "a".repeat(100));
        assert_eq!(rules("core/src/lib.rs", &doc), [(1, "line-width")]);
        let string = format!("const A: &str = \"{}\";\n", "a".repeat(100));
        assert_eq!(rules("core/src/lib.rs", &string), []);
        let address = format!("// See https://example.org/{}\n", "a".repeat(100));
        assert_eq!(rules("core/src/lib.rs", &address), []);
    }
}
