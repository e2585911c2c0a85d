//! Names that other tables of the file refer to.

use std::collections::HashMap;

/// How many names a message lists at most.
const MAX_LISTED: usize = 10;

/// The names of all devices, say, in order.
#[derive(Debug)]
pub(super) struct Names<'a> {
    /// Kind of thing that has the names, in the singular.
    what: &'static str,
    list: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    pub(super) fn new(what: &'static str, names: impl Iterator<Item = &'a str>) -> Self {
        let list: Vec<_> = names.collect();
        let index = list.iter().copied().zip(0..).collect();
        Self { what, list, index }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The index of a name, or a message that lists the names there are.
    pub(super) fn find(&self, name: &str) -> Result<usize, String> {
        let missing = || format!("no {} is called {name:?}; {}", self.what, self.known());
        self.index.get(name).copied().ok_or_else(missing)
    }

    /// The names there are, for a message.
    pub(super) fn known(&self) -> String {
        let shown = &self.list[..self.list.len().min(MAX_LISTED)];
        match self.list.len() - shown.len() {
            _ if shown.is_empty() => format!("there is no {}", self.what),
            0 => format!("known: {}", shown.join(", ")),
            more => format!("known: {} and {more} more", shown.join(", ")),
        }
    }
}
