//! The keys of scenario files, from the simulator's schema.

use anyhow::Result;

/// A section for each table of a scenario file.
pub(crate) fn keys() -> Result<String> {
    let mut out = String::new();
    for table in xsched_sim::scenario::reference() {
        let title = match table.name.trim_matches(['[', ']']) {
            "" => "Top level".to_owned(),
            "task.arrival" => "Arrivals".to_owned(),
            "task.command" => "Distributions".to_owned(),
            name => format!("{}{}", name[..1].to_uppercase(), &name[1..]),
        };
        out.push_str(&format!("## {title}\n\n{}\n\n{table}\n", table.about));
    }
    Ok(out)
}
