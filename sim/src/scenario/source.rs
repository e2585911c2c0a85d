//! The text of a scenario: reads the raw layer from it and turns byte ranges into errors.

use std::fmt::Display;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ScenarioError;
use super::explain;
use super::locate::{Place, line_of, locate};
use super::model::SCHEMA_VERSION;
use super::raw::RawScenario;
use super::units::Units;

/// Result of a check.
pub(super) type Result<T> = std::result::Result<T, ScenarioError>;

/// The text of a scenario, its file's name, and the units of its times.
#[derive(Debug)]
pub(super) struct Source<'a> {
    text: &'a str,
    file: &'a Path,
    /// The unit of each time in the text.
    pub(super) units: Units,
}

impl<'a> Source<'a> {
    /// Reads the raw layer. The version comes before everything else: of a later version even the
    /// keys may be unknown.
    pub(super) fn read(text: &'a str, file: &'a Path) -> Result<(Self, RawScenario)> {
        Self::read_as(text, file)
    }

    /// Reads the raw layer of any kind of file.
    pub(super) fn read_as<T: serde::de::DeserializeOwned>(
        text: &'a str,
        file: &'a Path,
    ) -> Result<(Self, T)> {
        let mut source = Source { text, file, units: Units::default() };
        let document = DeTable::parse(text).map_err(|error| source.syntax(&error))?;
        source.version(document.get_ref())?;
        source.units = Units::scan(document.get_ref()).map_err(|twice| {
            let message = format!("given twice, the first time as `{}`", twice.first);
            source.error(twice.span, message)
        })?;
        let raw = T::deserialize(toml::Deserializer::from(document))
            .map_err(|error| source.shape(&error))?;
        Ok((source, raw))
    }

    /// The file's name.
    pub(super) fn file(&self) -> &'a Path {
        self.file
    }

    /// The line, from 1, on which a range begins.
    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        line_of(self.text, span.start)
    }

    /// An error about the value, key or table at a range.
    pub(super) fn error(&self, span: Range<usize>, message: impl Display) -> ScenarioError {
        self.error_at(&locate(self.text, &span), &message.to_string())
    }

    fn error_at(&self, place: &Place, message: &str) -> ScenarioError {
        let key = if place.key.is_empty() { "file" } else { &place.key };
        ScenarioError::new(self.file, place.line, key, message)
    }

    /// An error about a key at the top of the file that is not there.
    pub(super) fn error_at_top(&self, key: &str, message: impl Display) -> ScenarioError {
        ScenarioError::new(self.file, 1, key, &message.to_string())
    }

    /// An error about a key that the table at a range does not have.
    pub(super) fn error_in(
        &self,
        table: &Range<usize>,
        key: &str,
        message: impl Display,
    ) -> ScenarioError {
        let place = locate(self.text, table);
        let key = format!("{}.{key}", place.key);
        ScenarioError::new(self.file, place.line, &key, &message.to_string())
    }

    /// An error about a key of the table at a range: at the key's value if the key is there, at the
    /// table otherwise.
    pub(super) fn error_of(
        &self,
        table: &Range<usize>,
        key: &str,
        value: Option<Range<usize>>,
        message: impl Display,
    ) -> ScenarioError {
        match value {
            Some(span) => self.error(span, message),
            None => self.error_in(table, key, message),
        }
    }

    fn version(&self, document: &DeTable<'_>) -> Result<()> {
        let Some(version) = document.get("version") else {
            let message = format!("missing; this program reads version {SCHEMA_VERSION}");
            return Err(self.error_at_top("version", message));
        };
        let DeValue::Integer(number) = version.get_ref() else {
            return Err(self.error(version.span(), "must be an integer"));
        };
        if number.radix() == 10 && number.as_str() == SCHEMA_VERSION.to_string() {
            return Ok(());
        }
        let message = format!("unsupported; this program reads version {SCHEMA_VERSION}");
        Err(self.error(version.span(), format_args!("{message}, is {number}")))
    }

    /// An error of the TOML grammar.
    fn syntax(&self, error: &toml::de::Error) -> ScenarioError {
        let span = error.span().unwrap_or(0..0);
        let line = self.line(&span);
        let text = self.text.lines().nth(line - 1).unwrap_or_default();
        match explain::key_of_line(text) {
            Some(key) => {
                let message = format!("syntax error: {}", error.message());
                ScenarioError::new(self.file, line, key, &message)
            }
            None => ScenarioError::new(self.file, line, "syntax", error.message()),
        }
    }

    /// An unknown key or a value of the wrong type.
    fn shape(&self, error: &toml::de::Error) -> ScenarioError {
        let span = error.span().unwrap_or(0..0);
        let place = locate(self.text, &span);
        self.error_at(&place, &explain::shape(error.message(), place.is_date))
    }
}

/// The range of a key's value, if the key is there.
pub(super) fn span_of<T>(field: &Option<Spanned<T>>) -> Option<Range<usize>> {
    field.as_ref().map(Spanned::span)
}
