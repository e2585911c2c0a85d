//! The command line, from clap.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use clap::{Arg, Command};

/// From this many commands on, an argument that is the same in all of them is listed once.
const COMMON: usize = 4;

/// The lines of arguments, with how many commands have them.
type Lines = BTreeMap<String, usize>;

/// The arguments that many commands of `xsched` share, a section for each command, and a table of
/// the commands of `xsched-lab`.
pub(crate) fn reference() -> Result<String> {
    let mut program = xsched_cli::command();
    program.build();
    let mut lines = Lines::new();
    count(&program, &mut lines);
    let common = lines.iter().filter(|(_, times)| **times >= COMMON).map(|(line, _)| line.as_str());
    let common: String = common.collect();
    let global = program.get_arguments().filter(|argument| is_shown(argument));
    let global: String = global.filter(|argument| argument.is_global_set()).map(line).collect();
    let mut out = format!(
        "## Options of all commands\n\n{global}\n## Options of several commands\n\n{common}\n"
    );
    section(&program, &mut Vec::new(), &lines, &mut out)?;
    out.push_str("## xsched-lab\n\n| command | does |\n|---|---|\n");
    rows(&xsched_lab::command(), &mut Vec::new(), &mut out)?;
    Ok(out)
}

/// A row for each command of a program: its name, and the short text of its help.
fn rows<'a>(command: &'a Command, path: &mut Vec<&'a str>, out: &mut String) -> Result<()> {
    path.push(command.get_name());
    let children: Vec<_> =
        command.get_subcommands().filter(|child| child.get_name() != "help").collect();
    if children.is_empty() {
        let name = path.join(" ");
        let about = command.get_about().with_context(|| format!("`{name}` has no text"))?;
        out.push_str(&format!("| `{name}` | {} |\n", paragraph(&about.to_string())));
    }
    for child in children.into_iter().filter(|child| !child.is_hide_set()) {
        rows(child, path, out)?;
    }
    path.pop();
    Ok(())
}

/// The arguments of a command, help, hidden ones and those of all commands left out.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| is_shown(argument) && !argument.is_global_set())
}

fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

fn count(command: &Command, lines: &mut Lines) {
    for argument in arguments(command) {
        *lines.entry(line(argument)).or_default() += 1;
    }
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        count(child, lines);
    }
}

/// The arguments of one command: its own, and by name those that are listed once.
fn own_arguments(command: &Command, lines: &Lines) -> String {
    let is_common = |argument: &Arg| lines.get(&line(argument)).is_some_and(|n| *n >= COMMON);
    let (common, own): (Vec<_>, Vec<_>) = arguments(command).partition(|a| is_common(a));
    let mut out: String = own.into_iter().map(line).collect();
    let names = common.iter().filter_map(|argument| argument.get_long());
    let names: Vec<_> = names.map(|name| format!("`--{name}`")).collect();
    if !names.is_empty() {
        out.push_str(&format!("- Also {}.\n", names.join(", ")));
    }
    out
}

fn section<'a>(
    command: &'a Command,
    path: &mut Vec<&'a str>,
    lines: &Lines,
    out: &mut String,
) -> Result<()> {
    path.push(command.get_name());
    let has_children = command.get_subcommands().any(|child| child.get_name() != "help");
    if !has_children {
        let about = command.get_long_about().or_else(|| command.get_about());
        let about = about.with_context(|| format!("`{}` has no text", path.join(" ")))?;
        out.push_str(&format!("## {}\n\n{}\n\n", path.join(" "), paragraph(&about.to_string())));
        out.push_str(&own_arguments(command, lines));
        out.push('\n');
    }
    for child in command.get_subcommands() {
        if child.get_name() != "help" && !child.is_hide_set() {
            section(child, path, lines, out)?;
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
