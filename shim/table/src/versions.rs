//! The versions of symbols, for a linker.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::list::List;

impl List {
    /// A version script that defines the versions of the list's functions, each after the one
    /// before, with this in front of the numbers. It gives no symbol a version: a library that is
    /// linked with it answers a program that asks for a version by being there.
    #[must_use]
    pub fn version_script(&self, prefix: &str) -> String {
        let versions: BTreeSet<_> = self.functions.iter().filter_map(|known| known.since).collect();
        let (mut out, mut before) = (String::new(), String::new());
        for (major, minor) in versions {
            let name = format!("{prefix}{major}.{minor}");
            // Writing to a text cannot fail.
            let _ = writeln!(out, "{name} {{}}{before};");
            before = format!(" {name}");
        }
        out
    }
}
