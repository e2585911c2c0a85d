//! Parts of the environment in which programs are scheduled.

use std::env;
use std::path::Path;

use serde::Serialize;
use xsched_launch::{Interposers, folders_beside};

use crate::error::CliError;

/// Interposers beside this program.
pub(crate) fn interposers() -> Result<Interposers, CliError> {
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|source| CliError::Read { place: "this program".to_owned(), source })?;
    Ok(Interposers::find(&folders_beside(own.parent().unwrap_or(Path::new("/"))))?)
}

/// A value as JSON text.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
