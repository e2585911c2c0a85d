//! The keys of scenario files, from the simulator's schema.

use anyhow::Result;

/// A section for each table of a scenario file.
pub(crate) fn keys() -> Result<String> {
    let mut out = String::new();
    for table in xsched_sim::scenario::reference() {
        let title = if table.name.is_empty() { "Top level" } else { table.name };
        let title = title.trim_matches(['[', ']']);
        let mut letters = title.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let title: String = first.into_iter().chain(letters).collect();
        out.push_str(&format!("## {title}\n\n{}\n\n{table}\n", table.about));
    }
    Ok(out)
}
