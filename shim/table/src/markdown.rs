//! The list as Markdown, for the book.

use std::fmt::Write;

use crate::entry::Class;
use crate::list::{Group, List};

impl List {
    /// The list for readers: how many functions each class has, then a section for each class with
    /// its groups, with headings of level 2 and 3.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::from("| class | functions |\n|---|---|\n");
        for class in Class::ALL {
            let count = self.functions.iter().filter(|known| known.class == class).count();
            let name = class.name();
            // Writing to a text cannot fail.
            let _ = writeln!(out, "| [{name}](#{name}) | {count} |");
        }
        for class in Class::ALL {
            let _ = writeln!(out, "\n## {}", class.name());
            for group in self.groups.iter().filter(|group| group.class == class) {
                out.push_str(&section(group));
            }
        }
        if self.left_out.prefixes.is_empty() {
            return out;
        }
        let reason = self.left_out.reason.split_whitespace().collect::<Vec<_>>().join(" ");
        let names = self.left_out.prefixes.iter().map(|prefix| format!("`{prefix}…`"));
        let names = names.collect::<Vec<_>>().join(", ");
        let _ = write!(out, "\n## left out\n\n{reason}\n\n{names}\n");
        out
    }
}

fn section(group: &Group) -> String {
    let mut out = format!("\n### {}\n\n{}", group.title, group.reason);
    if let Some(stream) = group.stream.as_deref().filter(|stream| *stream != "default") {
        let _ = write!(out, " The stream is `{stream}`.");
    }
    let entry = |text: &String| match text.split_once(" since ") {
        Some((names, version)) => format!("`{names}` ({version})"),
        None => format!("`{text}`"),
    };
    let entries: Vec<_> = group.entries.iter().map(entry).collect();
    let _ = write!(out, "\n\n{}\n", entries.join(", "));
    out
}
