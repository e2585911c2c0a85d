//! Meanings of what `xsched ps` and `xsched top` show of processes.

use std::fmt::Write;

use xsched_console::program::EXIT_CODES;

/// States of a process on a GPU.
pub(crate) const STATES: [(&str, &str); 5] = [
    ("alone", "the only process on its GPU: not scheduled or measured"),
    ("idle", "no work"),
    ("running", "work that may run"),
    ("held", "work that waits, as others run instead"),
    ("held by hand", "from `xsched ctl hold` to `xsched ctl release`"),
];

/// Columns of `xsched ps` as [`xsched_console::table::table`] takes them, with their meanings.
pub(crate) const COLUMNS: [(&str, &str); 11] = [
    ("pid", "number of the process; 0 if the daemon cannot see it"),
    ("uid", "number of its user"),
    ("<tenant", "its tenant, or its grant"),
    ("<program", "what it calls itself"),
    ("<GPU", "its GPU; a process has a row for each"),
    ("<state", "one of the states above"),
    ("since s", "seconds in this state"),
    ("priority", "−256 to 255; the higher comes first, and −256 never runs"),
    ("share %", "percent of the GPU that it asks for; `-` for none"),
    ("GPU s", "seconds of device time that it has used on this GPU"),
    ("holds", "how often it was held on this GPU"),
];

/// The end of the help of `xsched ps`.
pub(crate) fn of_ps() -> String {
    format!("States:\n{}\nColumns:\n{}\n{EXIT_CODES}", lines(&STATES), lines(&COLUMNS))
}

fn lines(meanings: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, meaning) in meanings {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  {:<13} {meaning}", name.trim_start_matches('<'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_and_the_guide_name_every_state_and_column() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/guides/operate.md");
        let guide = std::fs::read_to_string(guide).expect("the guide");
        let mut command = crate::command();
        let ps = command.find_subcommand_mut("ps").expect("a command");
        let help = ps.render_long_help().to_string();
        for (name, meaning) in STATES.iter().chain(&COLUMNS) {
            assert!(help.contains(meaning), "{name} is not in the help: {help}");
        }
        let with_units = COLUMNS.iter().skip_while(|(name, _)| *name != "since s");
        for (name, _) in STATES.iter().chain(with_units) {
            assert!(guide.contains(&format!("`{name}`")), "{name} is not in the guide");
        }
    }
}
