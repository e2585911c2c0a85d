//! The list as a whole.

use std::collections::HashMap;

use serde::Deserialize;
use toml::Spanned;

use crate::entry::{Class, Entry, Function};
use crate::error::{Error, Problem};

/// A checked list.
#[derive(Clone, Debug)]
pub struct List {
    /// The groups, in the order of the list.
    pub groups: Vec<Group>,
    /// The functions, sorted by name.
    pub functions: Vec<Function>,
    /// Names that the library exports beyond them.
    pub left_out: LeftOut,
}

/// Functions that are of a class for the same reason.
#[derive(Clone, Debug)]
pub struct Group {
    /// Heading of the group.
    pub title: String,
    /// The class of its functions.
    pub class: Class,
    /// Why.
    pub reason: String,
    /// Where its functions have their stream, if no parameter is one.
    pub stream: Option<String>,
    /// True if the group's functions return only when the device has done something. Those of the
    /// class for calls that wait may have to wait otherwise.
    pub waits: bool,
    /// True if the group's functions have the device call a function of the program.
    pub calls: bool,
    /// True if a call that waits leaves the gates of streams as they are: it waits for nothing but
    /// the stream or the event that it names.
    pub keeps_gates: bool,
    /// The entries as they are written, without parameters.
    pub entries: Vec<String>,
}

/// Names that the library exports and the interposer does not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Why.
    pub reason: String,
    /// Prefixes of the names.
    pub prefixes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    left_out: LeftOut,
    group: Vec<WrittenGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGroup {
    title: Spanned<String>,
    class: Spanned<String>,
    reason: Option<String>,
    stream: Option<String>,
    #[serde(default)]
    waits: bool,
    #[serde(default)]
    calls: bool,
    #[serde(default)]
    keeps_gates: bool,
    functions: Vec<Spanned<String>>,
}

impl List {
    /// Reads and checks a list.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Error { line: line(text, at), problem: Problem::Toml(error.message().to_owned()) }
        })?;
        let mut list = Self { groups: vec![], functions: vec![], left_out: written.left_out };
        for group in written.group {
            list.add(&group, text)?;
        }
        list.functions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(list)
    }

    fn add(&mut self, written: &WrittenGroup, text: &str) -> Result<(), Error> {
        let group = group(written, text)?;
        let mut lines: HashMap<_, _> =
            self.functions.iter().map(|known| (known.name.clone(), known.line)).collect();
        for function in &written.functions {
            let line = line(text, function.span().start);
            let fail = |problem| Error { line, problem };
            let entry = Entry::read(function.get_ref()).map_err(fail)?;
            check(&entry, function.get_ref(), &group).map_err(fail)?;
            let Entry { names, parameters, since } = entry;
            for name in names {
                if let Some(first) = lines.insert(name.clone(), line) {
                    return Err(fail(Problem::Duplicate { name, first }));
                }
                let (class, group) = (group.class, self.groups.len());
                let parameters = parameters.clone();
                self.functions.push(Function { name, class, parameters, since, group, line });
            }
        }
        self.groups.push(group);
        Ok(())
    }

    /// The place of a function in the list; `None` if it is not in it.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<usize> {
        self.functions.binary_search_by(|known| known.name.as_str().cmp(name)).ok()
    }
}

fn group(written: &WrittenGroup, text: &str) -> Result<Group, Error> {
    let title = written.title.get_ref().clone();
    let class = Class::ALL.into_iter().find(|class| class.name() == written.class.get_ref());
    let class = class.ok_or_else(|| Error {
        line: line(text, written.class.span().start),
        problem: Problem::Class(written.class.get_ref().clone()),
    })?;
    let reason = written.reason.as_ref().filter(|reason| !reason.trim().is_empty());
    let reason = reason.ok_or_else(|| Error {
        line: line(text, written.title.span().start),
        problem: Problem::Reason(title.clone()),
    })?;
    let entries = written.functions.iter().map(|entry| without_parameters(entry.get_ref()));
    Ok(Group {
        title,
        class,
        reason: reason.split_whitespace().collect::<Vec<_>>().join(" "),
        stream: written.stream.clone(),
        waits: written.waits,
        calls: written.calls,
        keeps_gates: written.keeps_gates,
        entries: entries.collect(),
    })
}

/// Checks that an entry has what its class asks for.
fn check(entry: &Entry, text: &str, group: &Group) -> Result<(), Problem> {
    let name = || without_parameters(text);
    let Some(parameters) = &entry.parameters else {
        let forwarded = group.class == Class::Forwarded;
        return if forwarded { Ok(()) } else { Err(Problem::Parameters(name())) };
    };
    let has_stream = parameters.iter().any(|parameter| parameter.kind == "stream");
    if group.class == Class::Launch && !has_stream && group.stream.is_none() {
        return Err(Problem::Stream(name()));
    }
    Ok(())
}

fn without_parameters(entry: &str) -> String {
    match (entry.split_once('('), entry.rsplit_once(')')) {
        (Some((names, _)), Some((_, rest))) => format!("{names}{rest}"),
        _ => entry.to_owned(),
    }
}

/// The line of a place in a text, from 1.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
