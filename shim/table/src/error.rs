//! Errors in a list.

use thiserror::Error;

/// A fault of a list, with its place.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// Problem at that line.
    pub problem: Problem,
}

/// Problem of a list, and what to do about it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Text that is no TOML, or has other keys than a list has.
    #[error("{0}")]
    Toml(String),
    /// A class that there is not.
    #[error("`{0}` is no class; use launch, ordered, waits, lifetime or forwarded")]
    Class(String),
    /// A group without a reason.
    #[error("the group `{0}` has no reason; say why its functions are of that class")]
    Reason(String),
    /// A function that is in the list already.
    #[error("`{name}` is in line {first} already; remove one of the two")]
    Duplicate {
        /// The function.
        name: String,
        /// The line of the first.
        first: usize,
    },
    /// An entry that is not written as one.
    #[error("`{0}` is no entry; write `name{{,_v2}}(parameter: type, …) since 12.3`")]
    Entry(String),
    /// A parameter's type that there is not.
    #[error("`{0}` is no type of a parameter; add it to shim/table/src/types.rs")]
    Type(String),
    /// A function that needs parameters and has none.
    #[error("`{0}` needs its parameters, since only forwarded functions go without")]
    Parameters(String),
    /// A launch of which it is unknown where it has its stream.
    #[error("`{0}` has no parameter of type `stream`; give the group a key `stream`")]
    Stream(String),
}
