//! Parts of the environment in which programs are scheduled.

use std::env;
use std::path::Path;

use serde::Serialize;
use xsched_launch::{Decider, Interposers, Scheduling, folders_beside};

use crate::error::CliError;

/// Interposers beside this program.
pub(crate) fn interposers() -> Result<Interposers, CliError> {
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|source| CliError::Read { place: "this program".to_owned(), source })?;
    Ok(Interposers::find(&folders_beside(own.parent().unwrap_or(Path::new("/"))))?)
}

/// Variables of a program that the scheduler of the node schedules, whether one runs now or not,
/// but for preloaded files.
pub(crate) fn variables(scheduling: &Scheduling) -> Vec<(&'static str, String)> {
    let mut variables = scheduling.variables(Some(Decider::Node));
    variables.extend(scheduling.of_hip().map(|(name, value)| (name, value.to_owned())));
    variables
}

/// A value as JSON text.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
