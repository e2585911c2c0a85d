//! Checks of single values: times, numbers in a range, names and choices.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use xsched_core::hint::{OutOfRange, PolicyHint};
use xsched_core::time::Duration;

use super::error::ScenarioError;
use super::names::Names;
use super::raw::{Field, Integer, Number};
use super::source::{Result, Source};
use super::units::Unit;

/// The longest time that a scenario can name: 10^15 ns, about 11.5 days.
pub(super) const MAX_TIME_NS: u64 = 1_000_000_000_000_000;
/// The longest name of a scenario, device, process or task, in characters.
const MAX_NAME: usize = 64;

impl Number {
    fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            // The debug form is short for very large and very small values, too.
            Self::Float(value) => format!("{value:?}"),
        }
    }
}

/// A time in whole nanoseconds, or what is wrong with it.
pub(super) fn to_ns(number: Number, unit_ns: u32) -> std::result::Result<u64, String> {
    let value = number.as_f64();
    if !value.is_finite() {
        return Err(format!("must be finite, is {}", number.text()));
    }
    if value < 0.0 {
        return Err(format!("must not be negative, is {}", number.text()));
    }
    let ns = value * f64::from(unit_ns);
    if ns > MAX_TIME_NS as f64 {
        let text = number.text();
        return Err(format!("must be at most {MAX_TIME_NS} ns (about 11.5 days), is {text}"));
    }
    Ok(ns.round() as u64)
}

impl Source<'_> {
    /// The unit of the value at a range; microseconds if its key names none.
    pub(super) fn unit_at(&self, span: &Range<usize>) -> Unit {
        self.units.at(span.start).unwrap_or(Unit::Microseconds)
    }

    /// A time in nanoseconds, 0 to [`MAX_TIME_NS`].
    pub(super) fn time(&self, field: &Field<Number>) -> Result<Option<u64>> {
        let Some(number) = field else { return Ok(None) };
        self.time_in(number, self.unit_at(&number.span())).map(Some)
    }

    /// A time in nanoseconds with the unit of an enclosing key.
    pub(super) fn time_in(&self, number: &Spanned<Number>, unit: Unit) -> Result<u64> {
        to_ns(*number.get_ref(), unit.ns()).map_err(|message| self.error(number.span(), message))
    }

    /// A time in nanoseconds, 1 to [`MAX_TIME_NS`].
    pub(super) fn positive_time(&self, field: &Field<Number>) -> Result<Option<u64>> {
        let Some(number) = field else { return Ok(None) };
        let ns = self.time_in(number, self.unit_at(&number.span()))?;
        if ns == 0 {
            let text = number.get_ref().text();
            return Err(self.error(number.span(), format_args!("must be at least 1 ns, is {text}")));
        }
        Ok(Some(ns))
    }

    /// A time that is a hint for the policy, in nanoseconds.
    pub(super) fn hint(
        &self,
        field: &Field<Number>,
        hint: fn(Duration) -> std::result::Result<PolicyHint, OutOfRange>,
    ) -> Result<Option<u64>> {
        let ns = self.positive_time(field)?;
        if let (Some(field), Some(ns)) = (field, ns) {
            let hint = hint(Duration::from_ns(ns));
            hint.map_err(|error| self.error(field.span(), error.to_string()))?;
        }
        Ok(ns)
    }

    /// An integer in a range.
    pub(super) fn integer<T: TryFrom<i128>>(
        &self,
        field: &Field<Integer>,
        range: RangeInclusive<i128>,
    ) -> Result<Option<T>> {
        let Some(field) = field else { return Ok(None) };
        let Integer(value) = *field.get_ref();
        let converted = T::try_from(value).ok().filter(|_| range.contains(&value));
        match converted {
            Some(value) => Ok(Some(value)),
            None if value < *range.start() => {
                Err(self.too_small(field.span(), range.start(), value))
            }
            None => Err(self.too_large(field.span(), range.end(), value)),
        }
    }

    /// A number in a range.
    pub(super) fn number(
        &self,
        field: &Field<Number>,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>> {
        field.as_ref().map(|number| self.number_in(number, range)).transpose()
    }

    /// A number in a range.
    pub(super) fn number_in(
        &self,
        number: &Spanned<Number>,
        range: RangeInclusive<f64>,
    ) -> Result<f64> {
        let value = number.get_ref().as_f64();
        let text = number.get_ref().text();
        if value.is_nan() {
            Err(self.error(number.span(), "must be a number, is NaN"))
        } else if value < *range.start() {
            Err(self.too_small(number.span(), range.start(), text))
        } else if value > *range.end() {
            Err(self.too_large(number.span(), range.end(), text))
        } else {
            Ok(value)
        }
    }

    fn too_small(
        &self,
        span: Range<usize>,
        min: impl std::fmt::Display,
        value: impl std::fmt::Display,
    ) -> ScenarioError {
        self.error(span, format_args!("must be at least {min}, is {value}"))
    }

    fn too_large(
        &self,
        span: Range<usize>,
        max: impl std::fmt::Display,
        value: impl std::fmt::Display,
    ) -> ScenarioError {
        self.error(span, format_args!("must be at most {max}, is {value}"))
    }

    /// A name: 1 to 64 characters of `[A-Za-z0-9._-]`.
    pub(super) fn name(&self, field: &Field<String>) -> Result<Option<String>> {
        let Some(field) = field else { return Ok(None) };
        let name = field.get_ref();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let problem = if name.is_empty() {
            "must not be empty".to_owned()
        } else if let Some(c) = name.chars().find(|c| !allowed(*c)) {
            format!("must consist of letters, digits, `.`, `_` and `-`, has {c:?}")
        } else if name.len() > MAX_NAME {
            format!("must have at most {MAX_NAME} characters, has {}", name.len())
        } else {
            return Ok(Some(name.clone()));
        };
        Err(self.error(field.span(), problem))
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        field: &Field<String>,
        choices: &[(&str, T)],
    ) -> Result<Option<T>> {
        let Some(field) = field else { return Ok(None) };
        let found = choices.iter().find(|(word, _)| word == field.get_ref());
        if let Some((_, value)) = found {
            return Ok(Some(*value));
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let words = words.join(", ");
        let message = format!("must be one of {words}, is {:?}", field.get_ref());
        Err(self.error(field.span(), message))
    }

    /// The value of a key that the table at a range must have.
    pub(super) fn required<T>(
        &self,
        table: &Range<usize>,
        key: &str,
        value: Option<T>,
    ) -> Result<T> {
        value.ok_or_else(|| self.error_in(table, key, "missing"))
    }

    /// Refuses a key that has no meaning here; `when` says when it has.
    pub(super) fn unused(&self, span: Option<Range<usize>>, when: &str) -> Result<()> {
        match span {
            Some(span) => Err(self.error(span, format_args!("only used {when}"))),
            None => Ok(()),
        }
    }

    /// The index of a name that a key refers to.
    pub(super) fn find(&self, field: &Spanned<String>, names: &Names<'_>) -> Result<usize> {
        names.find(field.get_ref()).map_err(|message| self.error(field.span(), message))
    }
}
