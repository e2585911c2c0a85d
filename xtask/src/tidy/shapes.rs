//! Shapes of code: what private functions take, how many booleans a structure has, and lints that
//! are switched off.

use syn::visit::{self, Visit};
use syn::{FnArg, ImplItemFn, ItemFn, ItemImpl, ItemStruct, Signature, Type, Visibility};

use super::Finding;
use super::source::Source;

const BOOLEANS_MAX: usize = 2;
/// Derived traits of the options of a command, where each switch is a boolean.
const OPTIONS: [&str; 2] = ["Args", "Parser"];

pub(super) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let mut shapes = Shapes { source, findings: Vec::new() };
        shapes.visit_file(&source.ast);
        findings.extend(shapes.findings);
        findings.extend(allowed(source));
    }
    findings
}

struct Shapes<'a> {
    source: &'a Source<'a>,
    findings: Vec<Finding>,
}

impl Shapes<'_> {
    fn add(&mut self, line: usize, rule: &'static str, message: String) {
        if !self.source.in_test(line) {
            self.findings.push(Finding::new(self.source.path, line, rule, message));
        }
    }

    fn parameters(&mut self, visibility: &Visibility, signature: &Signature) {
        if matches!(visibility, Visibility::Public(_)) {
            return;
        }
        let is_tuple = |input: &&FnArg| match input {
            FnArg::Typed(input) => has_parts(&input.ty),
            FnArg::Receiver(_) => false,
        };
        let tuples = signature.inputs.iter().filter(is_tuple).count();
        if tuples > 0 {
            let line = signature.fn_token.span.start().line;
            let message = format!("name the parts of the tuple that `{}` takes", signature.ident);
            self.add(line, "tuple-parameter", message);
        }
    }
}

/// True if a type is a tuple of two or more, or a reference to one.
fn has_parts(of: &Type) -> bool {
    match of {
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        Type::Reference(reference) => has_parts(&reference.elem),
        _ => false,
    }
}

/// True if a type is `bool`.
fn is_bool(of: &Type) -> bool {
    matches!(of, Type::Path(path) if path.path.is_ident("bool"))
}

/// True if a structure is the options of a command.
fn is_options(item: &ItemStruct) -> bool {
    item.attrs.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|derive| {
        let mut found = false;
        // A derive that cannot be parsed is the compiler's finding.
        let _ = derive.parse_nested_meta(|meta| {
            let last = meta.path.segments.last();
            found |= last.is_some_and(|name| OPTIONS.iter().any(|known| name.ident == *known));
            Ok(())
        });
        found
    })
}

impl<'ast> Visit<'ast> for Shapes<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.parameters(&item.vis, &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        // The trait says what its functions take.
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.parameters(&item.vis, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let booleans = item.fields.iter().filter(|field| is_bool(&field.ty)).count();
        if booleans > BOOLEANS_MAX && !is_options(item) {
            let line = item.struct_token.span.start().line;
            let message = format!(
                "`{}` has {booleans} booleans; {BOOLEANS_MAX} is the limit, so make an enum of them",
                item.ident
            );
            self.add(line, "booleans", message);
        }
        visit::visit_item_struct(self, item);
    }
}

/// Attributes that switch a lint off without a reason, tests included.
fn allowed(source: &Source<'_>) -> Vec<Finding> {
    let text = |at: usize| source.tokens.get(at).map_or("", |token| token.text.as_str());
    let mut findings = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let opens = matches!(text(at.wrapping_sub(1)), "[" | ",") && text(at + 1) == "(";
        if token.text == "allow" && opens {
            let message = "write `#[expect(lint, reason = \"…\")]`";
            findings.push(Finding::new(source.path, token.start.line, "allow", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::read_all;
    use super::super::tree::Tree;
    use super::*;

    fn found(text: &str) -> Vec<(usize, &'static str)> {
        let tree = Tree::of(&[("core/src/lib.rs", text)]);
        let (sources, findings) = read_all(&tree);
        assert!(findings.is_empty(), "{findings:?}");
        check(&sources).iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn private_functions_that_take_tuples_are_found() {
        let text = "fn a(x: (u8, u8)) {}\nimpl A {\n fn b(&self, (x, y): &(u8, u8)) {}\n}\n\
                    pub(crate) fn c(x: (u8, u8)) {}\n";
        let rule = "tuple-parameter";
        assert_eq!(found(text), [(1, rule), (3, rule), (5, rule)]);
        let fine = "pub fn a(x: (u8, u8)) {}\nfn b(x: u8) -> (u8, u8) {}\nfn c(x: ()) {}\n\
                    impl T for A { fn d(x: (u8, u8)) {} }\n#[test]\nfn e(x: (u8, u8)) {}\n";
        assert_eq!(found(fine), []);
    }

    #[test]
    fn a_structure_of_three_booleans_is_found() {
        assert_eq!(found("struct A { a: bool, b: bool, c: bool }"), [(1, "booleans")]);
        assert_eq!(found("struct A { a: bool, b: bool, c: Cell<bool> }"), []);
        assert_eq!(found("#[derive(Debug, clap::Args)]\nstruct A(bool, bool, bool);"), []);
    }

    #[test]
    fn a_lint_that_is_allowed_is_found() {
        let text = "#![allow(dead_code)]\n#[cfg_attr(a, allow(b))]\nfn f() { allow(x); }\n";
        assert_eq!(found(text), [(1, "allow"), (2, "allow")]);
        assert_eq!(found("#[expect(dead_code, reason = \"later\")]\nfn f() {}\n"), []);
    }
}
