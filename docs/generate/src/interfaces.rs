//! The interfaces for C and Python, from the headers and the package as they are committed.

use anyhow::{Result, ensure};

use crate::{read, root};

/// The headers that declare functions, with what programs include them for.
const HEADERS: [(&str, &str); 5] = [
    ("xqueue.h", "XQueues, hardware queues and commands"),
    ("hint.h", "what the scheduler is told"),
    ("host/hal.h", "the processor"),
    ("hip/hal.h", "AMD GPUs"),
    ("cuda/hal.h", "NVIDIA GPUs"),
];
/// The modules that programs use, with the files that define what is in them.
const MODULES: [(&str, &[&str]); 2] =
    [("xsched", &["runtime.py", "queues.py", "errors.py"]), ("xsched.sim", &["sim.py"])];

/// The first program in C.
pub(crate) fn c_program() -> Result<String> {
    Ok(format!("```c\n{}```\n", read(&root().join("capi/examples/first.c"))?))
}

/// The functions of the headers, with their comments.
pub(crate) fn c() -> Result<String> {
    let mut out = String::new();
    for (header, about) in HEADERS {
        let functions = functions(&read(&root().join("capi/include/xsched").join(header))?);
        ensure!(!functions.is_empty(), "{header} declares no functions");
        out.push_str(&format!("## xsched/{header}\n\nFor {about}.\n\n"));
        for (declaration, doc) in functions {
            out.push_str(&format!("```c\n{declaration}\n```\n\n{doc}\n\n"));
        }
    }
    let names = other_names(&read(&root().join("capi/include/xsched/types.h"))?);
    ensure!(!names.is_empty(), "types.h has no other names");
    out.push_str("## xsched/types.h\n\nOther names of policies.\n\n");
    for (name, doc) in names {
        out.push_str(&format!("- `{name}`: {doc}\n"));
    }
    Ok(out)
}

/// The enumerators of a header that are other names: each with the comment before it, on one line.
fn other_names(header: &str) -> Vec<(String, String)> {
    let parts = header.split("/**\n").filter_map(|part| part.split_once(" */\n#define k"));
    parts
        .map(|(comment, rest)| {
            let name = rest.split_whitespace().next().unwrap_or_default();
            let lines = comment.lines().map(|line| line.trim_start_matches([' ', '*']));
            (format!("k{name}"), lines.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// The functions that a header declares: each with the comment before it.
fn functions(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in header.split("/**\n").skip(1) {
        let Some((comment, rest)) = part.split_once(" */\n") else { continue };
        let Some((declaration, _)) = rest.split_once(';') else { continue };
        if declaration.starts_with("typedef") || !declaration.contains('(') {
            continue;
        }
        // What callers in Rust promise is what callers in C know.
        let lines = comment.lines().map(|line| line.trim_start_matches([' ', '*']));
        let doc: Vec<_> = lines.take_while(|line| *line != "# Safety").collect();
        found.push((format!("{declaration};"), doc.join("\n").trim().to_owned()));
    }
    found
}

/// The classes and functions of the package, with their docstrings.
pub(crate) fn python() -> Result<String> {
    let mut out = String::new();
    for (module, files) in MODULES {
        out.push_str(&format!("## {module}\n"));
        for file in files {
            let items = items(&read(&root().join("python/xsched").join(file))?);
            ensure!(!items.is_empty(), "{file} defines nothing");
            items.iter().for_each(|item| out.push_str(&item.markdown()));
        }
    }
    Ok(out)
}

/// A class or a function of Python.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    /// How deep it is indented: 0, or 4 in a class.
    depth: usize,
    /// As it is declared, on one line, without what it returns if that is nothing.
    head: String,
    doc: String,
}

impl Item {
    fn markdown(&self) -> String {
        if self.depth > 0 {
            let doc = self.doc.split("\n\n").map(|part| part.replace('\n', " "));
            let doc: Vec<_> = doc.collect();
            let colon = if self.doc.is_empty() { "" } else { ": " };
            return format!("- `{}`{colon}{}\n", self.head, doc.join(" "));
        }
        // Code stays in lines of its own.
        let doc = self.doc.split("\n\n").map(|part| match part.starts_with("    ") {
            true => format!("```py\n{}\n```", part.replace("\n    ", "\n").trim_start()),
            false => part.to_owned(),
        });
        format!("\n### `{}`\n\n{}\n\n", self.head, doc.collect::<Vec<_>>().join("\n\n"))
    }
}

/// What a file defines for programs, in its order.
fn items(source: &str) -> Vec<Item> {
    let lines: Vec<_> = source.lines().collect();
    let mut found: Vec<Item> = Vec::new();
    let mut hidden = false;
    for (at, line) in lines.iter().enumerate() {
        let depth = line.len() - line.trim_start().len();
        let Some((kind, rest)) = line.trim_start().split_once(' ') else { continue };
        if depth == 4 && !hidden && is_field(kind) {
            let before =
                at.checked_sub(1).and_then(|before| lines[before].trim().strip_prefix("#: "));
            let head = line.trim().to_owned();
            found.push(Item { depth, head, doc: before.unwrap_or_default().to_owned() });
        }
        if !matches!(kind, "def" | "class") || depth > 4 {
            continue;
        }
        let is_private = rest.starts_with('_') && !rest.starts_with("__init__");
        if depth == 0 {
            hidden = is_private;
        }
        if hidden || is_private {
            continue;
        }
        let end = (at..lines.len()).find(|end| lines[*end].ends_with(':')).unwrap_or(at);
        let doc = docstring(&lines[end + 1..], depth + 4);
        if !doc.is_empty() {
            let mut head = head(&lines[at..=end]);
            if at > 0 && lines[at - 1].trim() == "@property" {
                head = head.replacen("() -> ", ": ", 1);
            }
            found.push(Item { depth, head, doc });
        }
    }
    found
}

/// Whether a word is the name of a field, with the colon behind it.
fn is_field(word: &str) -> bool {
    let letters =
        |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
    word.strip_suffix(':').is_some_and(|name| letters(name) && !name.starts_with('_'))
}

/// A declaration on one line.
fn head(lines: &[&str]) -> String {
    let joined = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let plain = joined.replace("( ", "(").replace(", )", ")").replace(" )", ")");
    let plain = plain.trim_end_matches(':').trim_end_matches(" -> None");
    let plain = plain.strip_prefix("def ").unwrap_or(plain);
    plain
        .replacen("(self, ", "(", 1)
        .replacen("(cls, ", "(", 1)
        .replacen("(self)", "()", 1)
        .replacen("(cls)", "()", 1)
}

/// The docstring that these lines begin with, without its indentation; empty if there is none.
fn docstring(lines: &[&str], depth: usize) -> String {
    let Some(first) = lines.first().and_then(|line| line.trim_start().strip_prefix("\"\"\""))
    else {
        return String::new();
    };
    if let Some(whole) = first.strip_suffix("\"\"\"") {
        return whole.to_owned();
    }
    let mut doc = vec![first];
    for line in &lines[1..] {
        let line = line.get(depth..).unwrap_or("");
        if let Some(last) = line.strip_suffix("\"\"\"") {
            doc.push(last);
            break;
        }
        doc.push(line);
    }
    doc.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_header_have_their_comments_and_types_are_left_out() {
        let header = "/**\n * A number.\n */\ntypedef int A;\n\n/**\n * Does it.\n *\n * # Safety\n \
                      * None.\n */\nXResult Do(A a,\n           A b);\n";
        let expected = ("XResult Do(A a,\n           A b);".to_owned(), "Does it.".to_owned());
        assert_eq!(functions(header), [expected]);
    }

    #[test]
    fn other_names_have_their_comments_and_limits_are_left_out() {
        let header = "/**\n * Ten.\n */\n#define TEN 10\n\n/**\n * Another\n * name.\n \
                      */\n#define kTen kZehn\n";
        assert_eq!(other_names(header), [("kTen".to_owned(), "Another name.".to_owned())]);
    }

    #[test]
    fn items_of_a_file_are_what_programs_use() {
        let source = "class A:\n    \"\"\"One.\n\n    Two.\n    \"\"\"\n\n    def b(\n        self, c: \
                      int\n    ) -> None:\n        \"\"\"Three.\"\"\"\n\n    def _d(self):\n        \
                      \"\"\"No.\"\"\"\n\nclass _E:\n    def f(self):\n        \"\"\"No.\"\"\"\n";
        let [class, method] = items(source).try_into().expect("two");
        assert_eq!((class.depth, class.doc.as_str()), (0, "One.\n\nTwo."));
        assert_eq!(method.markdown(), "- `b(c: int)`: Three.\n");
    }

    #[test]
    fn every_exported_function_is_on_the_page() {
        let page = c().expect("a page");
        for library in ["preempt", "halhost", "halhip", "halcuda"] {
            let map = read(&root().join(format!("capi/install/lib{library}.map"))).expect("a map");
            let names = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
            let is_public = |name: &&str| name.starts_with(char::is_uppercase);
            for name in names.filter(is_public) {
                assert!(page.contains(&format!("{name}(")), "the page lacks {name}");
            }
        }
    }
}
