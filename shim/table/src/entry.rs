//! One entry: a function's names, parameters and first version.

use crate::error::Problem;
use crate::types;

/// Treatment of a function by an interposer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Work of a stream, which goes through the stream's queue.
    Launch,
    /// Stays in order with the stream's launches, and is forwarded.
    Ordered,
    /// May wait for the device.
    Waits,
    /// Begins, ends or changes streams, contexts, events, executable graphs and captures.
    Lifetime,
    /// None of these.
    Forwarded,
}

impl Class {
    /// All of them, in the order in which readers want them.
    pub const ALL: [Self; 5] =
        [Self::Launch, Self::Ordered, Self::Waits, Self::Lifetime, Self::Forwarded];

    /// Name of the class in a list.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Ordered => "ordered",
            Self::Waits => "waits",
            Self::Lifetime => "lifetime",
            Self::Forwarded => "forwarded",
        }
    }
}

/// The default stream that a function means by stream 0, or by no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultStream {
    /// The context's stream, which waits for every blocking stream.
    Legacy,
    /// The calling thread's stream.
    PerThread,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: String,
    /// Type of the parameter in the list.
    pub kind: String,
    /// A Rust type with the same ABI.
    pub rust: String,
}

/// A function of the list, of one ABI version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name that the library exports.
    pub name: String,
    /// The function's class.
    pub class: Class,
    /// The parameters; `None` if the list does not say, which only forwarded functions may.
    pub parameters: Option<Vec<Parameter>>,
    /// The first version of the interface that has it; `None` if that is older than the list.
    pub since: Option<(u32, u32)>,
    /// The place of its group in the list.
    pub group: usize,
    /// Line of the function in the list, from 1.
    pub line: usize,
}

impl Function {
    /// Returns the stream that the function means by stream 0, or by no stream.
    #[must_use]
    pub fn default_stream(&self) -> DefaultStream {
        let per_thread = ["_ptsz", "_ptds", "_spt"].iter().any(|end| self.name.ends_with(end));
        if per_thread { DefaultStream::PerThread } else { DefaultStream::Legacy }
    }
}

/// An entry as it is written: several names with the same parameters.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) names: Vec<String>,
    pub(crate) parameters: Option<Vec<Parameter>>,
    pub(crate) since: Option<(u32, u32)>,
}

impl Entry {
    /// Reads `name{,_v2}(parameter: type, …) since 12.3`.
    pub(crate) fn read(text: &str) -> Result<Self, Problem> {
        let wrong = || Problem::Entry(text.to_owned());
        let (rest, since) = match text.split_once(" since ") {
            Some((rest, version)) => (rest, Some(version_of(version).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let (names, parameters) = match rest.split_once('(') {
            Some((names, list)) => {
                let list = list.strip_suffix(')').ok_or_else(wrong)?;
                (names, Some(parameters(list, text)?))
            }
            None => (rest, None),
        };
        Ok(Self { names: expand(names).ok_or_else(wrong)?, parameters, since })
    }
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The names that `name{,_v2}` stands for.
fn expand(text: &str) -> Option<Vec<String>> {
    let Some((stem, endings)) = text.split_once('{') else {
        return is_name(text).then(|| vec![text.to_owned()]);
    };
    let endings = endings.strip_suffix('}')?.split(',');
    endings.map(|ending| Some(format!("{stem}{ending}")).filter(|name| is_name(name))).collect()
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn parameters(list: &str, entry: &str) -> Result<Vec<Parameter>, Problem> {
    let written = list.split(',').map(str::trim).filter(|_| !list.is_empty());
    let read = |text: &str| {
        let pair = text.split_once(": ").filter(|(name, _)| is_name(name));
        let (name, kind) = pair.ok_or_else(|| Problem::Entry(entry.to_owned()))?;
        let rust = types::rust(kind).ok_or_else(|| Problem::Type(kind.to_owned()))?;
        Ok(Parameter { name: name.to_owned(), kind: kind.to_owned(), rust })
    };
    written.map(read).collect()
}
