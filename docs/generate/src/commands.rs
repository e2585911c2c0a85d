//! The command line, from clap.

use anyhow::{Context, Result};
use clap::{Arg, Command};

/// A section for each command that does something, with its arguments.
pub(crate) fn reference() -> Result<String> {
    let mut out = String::new();
    let mut command = xsched_cli::command();
    command.build();
    section(&command, &mut Vec::new(), &mut out)?;
    Ok(out)
}

fn section<'a>(command: &'a Command, path: &mut Vec<&'a str>, out: &mut String) -> Result<()> {
    path.push(command.get_name());
    let has_children = command.get_subcommands().any(|child| child.get_name() != "help");
    if !has_children {
        let about = command.get_long_about().or_else(|| command.get_about());
        let about = about.with_context(|| format!("`{}` has no text", path.join(" ")))?;
        out.push_str(&format!("## {}\n\n{}\n\n", path.join(" "), paragraph(&about.to_string())));
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            if !["help", "version"].contains(&argument.get_id().as_str()) {
                out.push_str(&line(argument));
            }
        }
        out.push('\n');
    }
    for child in command.get_subcommands() {
        if child.get_name() != "help" && !child.is_hide_set() {
            section(child, path, out)?;
        }
    }
    path.pop();
    Ok(())
}

/// One argument: how it is written, what it means, its values and its default.
fn line(argument: &Arg) -> String {
    let names: Vec<_> = argument.get_value_names().unwrap_or_default().iter().collect();
    let value = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    let takes = argument.get_action().takes_values();
    let written = match argument.get_long() {
        Some(long) if takes => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    };
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut text = help.map(|help| paragraph(&help.to_string())).unwrap_or_default();
    let possible: Vec<_> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if takes && !possible.is_empty() && possible.len() <= 8 {
        text.push_str(&format!(" One of {}.", possible.join(", ")));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes && !defaults.is_empty() {
        text.push_str(&format!(" Default: `{}`.", defaults.join(",")));
    }
    format!("- `{written}`: {text}\n")
}

/// The text on one line, with a full stop at its end and no angle brackets that HTML would take.
fn paragraph(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('<', "&lt;");
    if text.ends_with(['.', '!', ':']) { text } else { format!("{text}.") }
}
