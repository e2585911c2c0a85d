//! Records that benches write as JSON, read again, and the form of the test plan.

pub(crate) mod experiment;

use serde::Deserialize;

use crate::error::CommandError;

/// Fields that all records have.
#[derive(Debug, Deserialize)]
pub(crate) struct Head {
    pub(crate) bench: String,
    pub(crate) device: Device,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Device {
    pub(crate) device: String,
}

/// Reads what is wanted of a record with this text, from this place.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a str, place: &str) -> Result<T, CommandError> {
    serde_json::from_str(text)
        .map_err(|source| CommandError::BenchRecord { place: place.to_owned(), source })
}

#[cfg(test)]
mod tests;
