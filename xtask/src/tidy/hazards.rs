//! `unsafe` and panics.

use super::Finding;
use super::source::{Source, Token};

/// Where `unsafe` is allowed: paths that start like this, and what for. A new place needs a reason
/// that a reviewer accepts.
const UNSAFE_PLACES: [(&str, &str); 8] = [
    ("hal-", "calls drivers, and maps what they share with us"),
    ("capi/", "is called from C"),
    ("shim/", "is called from C in place of a vendor's library"),
    ("testkit/hip-", "stands in for a vendor's library, which is called from C"),
    ("testkit/kfd-", "stands in for a driver"),
    ("testkit/fuzz-targets/", "calls the C interface"),
    ("testkit/device-tests/", "calls drivers"),
    ("proof/src/main.rs", "has the C runtime call its `main`"),
];

/// Folders that may panic: chores, and fuzz targets' bodies, where a panic is the finding.
const MAY_PANIC: [&str; 2] = ["xtask/", "testkit/fuzz-targets/"];
const PANICKING_METHODS: [&str; 4] = ["unwrap", "expect", "unwrap_err", "expect_err"];
const PANICKING_MACROS: [&str; 5] = ["panic", "todo", "unimplemented", "dbg", "unreachable"];
/// A comment with this, at the end of the line or on the line above, excuses a panic.
const EXCUSE: &str = "// infallible: ";

pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(unsafe_places(source));
        findings.extend(panics(source));
    }
    findings
}

fn unsafe_places(source: &Source<'_>) -> Vec<Finding> {
    let allowed = UNSAFE_PLACES.iter().any(|(place, _)| source.path.starts_with(place));
    let mut findings = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let line = token.start.line;
        if token.text != "unsafe" || names_a_type(&source.tokens[at..]) {
            continue;
        }
        if !allowed {
            let message =
                "`unsafe` is not allowed here; see the table in xtask/src/tidy/hazards.rs";
            findings.push(Finding::new(source.path, line, "unsafe-place", message));
        } else if !has_safety_comment(source, line) {
            let message = "say in a `SAFETY:` comment right above why this is sound";
            findings.push(Finding::new(source.path, line, "safety-comment", message));
        }
    }
    findings
}

/// Whether these tokens start a type such as `unsafe extern "C" fn(u8)`, which promises nothing.
fn names_a_type(tokens: &[Token]) -> bool {
    let words: Vec<_> = tokens.iter().take(5).map(|token| token.text.as_str()).collect();
    matches!(words[..], ["unsafe", "fn", "(", ..] | ["unsafe", "extern", _, "fn", "("])
}

/// Whether the line, or the comments and attributes right above it, say why it is safe.
fn has_safety_comment(source: &Source<'_>, line: usize) -> bool {
    let says = |text: &str| text.contains("SAFETY:") || text.contains("# Safety");
    if says(source.line(line)) {
        return true;
    }
    let above = (1..line).rev().map(|number| source.line(number).trim_start());
    // A statement may start on the line before: `let x =`, then `unsafe { … }`.
    above
        .take_while(|text| text.starts_with("//") || text.starts_with('#') || text.ends_with('='))
        .any(says)
}

fn panics(source: &Source<'_>) -> Vec<Finding> {
    if MAY_PANIC.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for at in 0..source.tokens.len() {
        let Some(name) = panicking(&source.tokens, at) else { continue };
        let line = source.tokens[at].start.line;
        if source.in_test(line) || source.is_excused(line) || has_excuse(source, line) {
            continue;
        }
        let message = format!(
            "`{name}` in library code; return an error, or say why it cannot happen in a comment \
             `{EXCUSE}…`"
        );
        findings.push(Finding::new(source.path, line, "panic", message));
    }
    findings
}

/// The name of what can panic, if this token is it.
fn panicking(tokens: &[Token], at: usize) -> Option<String> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let (name, next) = (word(at), word(at + 1));
    let before = at.checked_sub(1).map_or("", word);
    if PANICKING_METHODS.contains(&name) && (before == "." && next == "(" || before == ":") {
        return Some(format!("{name}()"));
    }
    let is_macro = next == "!" && ["(", "[", "{"].contains(&word(at + 2));
    (PANICKING_MACROS.contains(&name) && is_macro).then(|| format!("{name}!"))
}

fn has_excuse(source: &Source<'_>, line: usize) -> bool {
    let reason =
        |text: &str| text.split_once(EXCUSE).is_some_and(|(_, why)| !why.trim().is_empty());
    let above = source.line(line - 1).trim_start();
    reason(source.line(line)) || above.starts_with("//") && reason(above)
}

#[cfg(test)]
mod tests {
    use super::super::source::read_all;
    use super::super::tree::Tree;
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let tree = Tree::of(&[(path, text)]);
        let (sources, findings) = read_all(&tree);
        assert!(findings.is_empty(), "{findings:?}");
        check(&sources).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn unsafe_code_in_the_wrong_place_is_found() {
        let text = "// SAFETY: none needed.\nfn f() { unsafe { g() } }\n";
        assert_eq!(rules("core/src/lib.rs", text), [(2, "unsafe-place")]);
        assert_eq!(rules("core/tests/all.rs", text), [(2, "unsafe-place")]);
        assert_eq!(rules("hal-kfd/src/lib.rs", text), []);
    }

    #[test]
    fn unsafe_code_without_a_reason_is_found() {
        let found = [(2, "safety-comment")];
        assert_eq!(rules("capi/src/lib.rs", "// Fast.\nfn f() { unsafe { g() } }\n"), found);
        assert_eq!(rules("capi/src/lib.rs", "\n#[unsafe(no_mangle)]\nfn f() {}\n"), found);
        assert_eq!(rules("capi/src/lib.rs", "\nunsafe impl Send for A {}\n"), found);
        let apart = "// SAFETY: fine.\nlet_go!();\nunsafe impl Send for A {}\n";
        assert_eq!(rules("capi/src/lib.rs", apart), [(3, "safety-comment")]);
        let documented =
            "/// # Safety\n/// `p` is valid.\n#[inline]\nunsafe fn f(p: *const u8) {}\n";
        assert_eq!(rules("capi/src/lib.rs", documented), []);
        let split = "fn f() {\n// SAFETY: fine.\nlet x =\nunsafe { g() };\n}\n";
        assert_eq!(rules("capi/src/lib.rs", split), []);
        let named = "type F = unsafe extern \"C\" fn(u8);\ntype G = unsafe fn(u8);\n";
        assert_eq!(rules("capi/src/lib.rs", named), []);
    }

    #[test]
    fn panics_are_found() {
        let bodies = [
            "a.unwrap();",
            "a.expect(\"b\");",
            "a.map(Option::unwrap);",
            "panic!(\"b\");",
            "todo!();",
            "unimplemented!();",
            "dbg!(a);",
            "unreachable!();",
            "matches! { a.unwrap() }",
        ];
        for body in bodies {
            let text = format!("fn f() {{\n{body}\n}}\n");
            assert_eq!(rules("sim/src/lib.rs", &text), [(2, "panic")], "{body}");
            assert_eq!(rules("sim/tests/all.rs", &text), [], "{body}");
            assert_eq!(rules("xtask/src/lib.rs", &text), [], "{body}");
            assert_eq!(rules("testkit/fuzz-targets/src/lib.rs", &text), [], "{body}");
            let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
            assert_eq!(rules("sim/src/lib.rs", &tests), [], "{body}");
        }
    }

    #[test]
    fn what_only_looks_like_a_panic_is_not_found() {
        let bodies = [
            "a.unwrap_or(b);",
            "let panic = 1; panic != 2;",
            "assert!(a);",
            "// a.unwrap()",
            "f(\"panic!()\");",
        ];
        for body in bodies {
            let text = format!("/// `a.unwrap()`\nfn f() {{\n{body}\n}}\n");
            assert_eq!(rules("sim/src/lib.rs", &text), [], "{body}");
        }
    }

    #[test]
    fn a_reason_excuses_a_panic() {
        let excused = [
            "a.unwrap(); // infallible: just checked",
            "// infallible: just checked\na.unwrap();",
            "#[expect(clippy::unwrap_used, reason = \"just checked\")]\nlet x = { a }.unwrap();",
        ];
        for body in excused {
            assert_eq!(rules("sim/src/lib.rs", &format!("fn f() {{\n{body}\n}}\n")), [], "{body}");
        }
        let not_excused = [
            "// infallible: \na.unwrap();",
            "b(); // infallible: just checked\na.unwrap();",
            "#[expect(clippy::unwrap_used)]\nlet x = a.unwrap();",
            "#[expect(dead_code, reason = \"later\")]\nlet x = a.unwrap();",
        ];
        for body in not_excused {
            let found = rules("sim/src/lib.rs", &format!("fn f() {{\n{body}\n}}\n"));
            assert_eq!(found, [(3, "panic")], "{body}");
        }
    }
}
