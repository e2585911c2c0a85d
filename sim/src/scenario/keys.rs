//! The keys of a scenario file, for people.

use std::fmt;

/// A table of a scenario file and its keys. Its `Display` form is a table in Markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReference {
    /// The table as the file writes it, such as `[[device]]` or `[comparators]`; empty for the top
    /// of the file.
    pub name: &'static str,
    /// Subject of the table, in a sentence.
    pub about: &'static str,
    /// Keys, in the order of the documentation.
    pub keys: Vec<KeyReference>,
}

/// A key of a scenario file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyReference {
    /// The key. That of a time ends with a unit; `_us` and `_ms` can take each other's place.
    pub name: &'static str,
    /// The type of its value.
    pub kind: &'static str,
    /// Range of accepted values; empty if the type says it.
    pub range: &'static str,
    /// The value if the key is absent, or `required`.
    pub default: &'static str,
    /// Meaning of the key.
    pub meaning: &'static str,
}

/// Every table of a scenario file with every key, for a manual. Tests compare it with the parser.
///
/// ```
/// let tables = xsched_sim::scenario::reference();
/// let device = tables.iter().find(|table| table.name == "[[device]]").expect("a table");
/// assert!(device.to_string().contains("| `max_level` | integer | 1 to 3 | 3 |"));
/// ```
#[must_use]
pub fn reference() -> Vec<TableReference> {
    include_str!("keys.md").split("\n## ").skip(1).filter_map(table).collect()
}

/// A section of the file: a heading, a sentence and a table, with empty lines between.
fn table(section: &'static str) -> Option<TableReference> {
    let mut parts = section.splitn(3, "\n\n");
    let (name, about, table) = (parts.next()?, parts.next()?, parts.next()?);
    let name = if name.starts_with('[') { name } else { "" };
    Some(TableReference { name, about, keys: table.lines().skip(2).filter_map(key).collect() })
}

fn key(line: &'static str) -> Option<KeyReference> {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let mut cell = || cells.next();
    let name = cell()?.trim_matches('`');
    let (kind, range, default) = (cell()?, cell()?, cell()?);
    Some(KeyReference { name, kind, range, default, meaning: cell()? })
}

impl fmt::Display for TableReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| Key | Type | Range | Default | Meaning |\n|---|---|---|---|---|\n")?;
        for KeyReference { name, kind, range, default, meaning } in &self.keys {
            writeln!(f, "| `{name}` | {kind} | {range} | {default} | {meaning} |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;
    use serde::de::value::Error;
    use serde::de::{Deserializer, Visitor};
    use serde::forward_to_deserialize_any;

    use super::super::{raw, units};
    use super::*;

    /// Takes the names of a structure's fields, and gives no value.
    struct Fields<'a>(&'a mut BTreeSet<String>);

    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(serde::de::Error::custom("not a structure"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Error> {
            self.0.extend(fields.iter().map(|field| stem(field)));
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }

    /// A key with `_` in place of its unit.
    fn stem(key: &str) -> String {
        units::split(key).map_or_else(|| key.to_owned(), |(stem, _)| format!("{stem}_"))
    }

    fn fields<'de, T: Deserialize<'de>>() -> BTreeSet<String> {
        let mut fields = BTreeSet::new();
        let parsed = T::deserialize(Fields(&mut fields));
        assert!(parsed.is_err(), "no value was given");
        fields
    }

    #[test]
    fn the_reference_has_exactly_the_keys_of_the_parser() {
        let parsed = [
            fields::<raw::RawScenario>(),
            fields::<raw::RawDevice>(),
            fields::<raw::RawProcess>(),
            fields::<raw::RawTask>(),
            fields::<raw::RawArrival>(),
            fields::<raw::RawDist>(),
            fields::<raw::RawDaemon>(),
            fields::<raw::RawComparators>(),
            fields::<raw::RawReference>(),
        ];
        let tables = reference();
        assert_eq!(parsed.len(), tables.len());
        for (fields, table) in parsed.iter().zip(&tables) {
            let keys: BTreeSet<_> = table.keys.iter().map(|key| stem(key.name)).collect();
            assert_eq!(keys.len(), table.keys.len(), "{}: a key is there twice", table.name);
            assert_eq!(&keys, fields, "{}", table.name);
        }
    }

    #[test]
    fn every_key_has_a_type_a_default_and_a_sentence() {
        for key in reference().iter().flat_map(|table| &table.keys) {
            assert!(key.meaning.ends_with('.'), "{}: {}", key.name, key.meaning);
            assert!(!key.kind.is_empty() && !key.default.is_empty(), "{}", key.name);
        }
    }
}
