//! The scenario as it stands in the file: every key optional, nothing checked but the types.
//!
//! The derived structs refuse unknown keys. Every field keeps the byte range it came from, so that
//! the checks that follow can name the line and the key. A time has one field for all its units;
//! see [`super::units`].

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

/// A key that may be absent, and where its value stands.
pub(super) type Field<T> = Option<Spanned<T>>;

/// An integer of any size, so that a wrong one can be shown in the message about its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer(pub(super) i128);

/// An integer or a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

/// An array of tables.
#[derive(Debug)]
pub(super) struct Tables<T>(pub(super) Vec<Spanned<T>>);

impl<T> Default for Tables<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The top of the file.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScenario {
    #[expect(dead_code, reason = "checked before the raw layer is read")]
    pub(super) version: Field<Integer>,
    pub(super) name: Field<String>,
    pub(super) description: Field<String>,
    pub(super) seed: Field<Integer>,
    pub(super) seeds: Field<Integer>,
    #[serde(rename = "duration_us", alias = "duration_ms", alias = "duration_s")]
    pub(super) duration: Field<Number>,
    #[serde(rename = "warmup_us", alias = "warmup_ms", alias = "warmup_s")]
    pub(super) warmup: Field<Number>,
    pub(super) policy: Field<String>,
    pub(super) k: Field<Integer>,
    #[serde(rename = "timeslice_us", alias = "timeslice_ms", alias = "timeslice_s")]
    pub(super) timeslice: Field<Number>,
    #[serde(rename = "ageing_us", alias = "ageing_ms", alias = "ageing_s")]
    pub(super) ageing: Field<Number>,
    pub(super) floor: Field<Number>,
    pub(super) system: Field<String>,
    #[serde(default, deserialize_with = "sub_table")]
    pub(super) comparators: Field<RawComparators>,
    pub(super) level: Field<Integer>,
    #[serde(rename = "scheduler_latency_us", alias = "scheduler_latency_ms")]
    pub(super) scheduler_latency: Field<Number>,
    #[serde(default, deserialize_with = "sub_table")]
    pub(super) daemon: Field<RawDaemon>,
    #[serde(default)]
    pub(super) fitted: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) device: Tables<RawDevice>,
    #[serde(default)]
    pub(super) process: Tables<RawProcess>,
    #[serde(default)]
    pub(super) task: Tables<RawTask>,
    #[serde(default)]
    pub(super) reference: Tables<RawReference>,
}

/// `[daemon]`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDaemon {
    #[serde(default, deserialize_with = "sub_table")]
    pub(super) wake: Field<RawDist>,
    #[serde(rename = "decide_us", alias = "decide_ms")]
    pub(super) decide: Field<Number>,
    #[serde(rename = "spin_us", alias = "spin_ms")]
    pub(super) spin: Field<Number>,
    #[serde(rename = "idle_us", alias = "idle_ms")]
    pub(super) idle: Field<Number>,
}

/// `[comparators]`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawComparators {
    #[serde(rename = "slice_us", alias = "slice_ms")]
    pub(super) slice: Field<Number>,
    #[serde(rename = "switch_us", alias = "switch_ms")]
    pub(super) switch: Field<Number>,
    pub(super) mps_percent: Field<Integer>,
    #[serde(rename = "vcuda_window_us", alias = "vcuda_window_ms")]
    pub(super) vcuda_window: Field<Number>,
    #[serde(rename = "tgs_interval_us", alias = "tgs_interval_ms")]
    pub(super) tgs_interval: Field<Number>,
    #[serde(rename = "tgs_window_us", alias = "tgs_window_ms")]
    pub(super) tgs_window: Field<Number>,
    pub(super) tgs_tolerance: Field<Number>,
    pub(super) tgs_increase: Field<Number>,
    pub(super) tgs_decrease: Field<Number>,
    pub(super) tgs_start: Field<Number>,
    pub(super) paella_in_flight: Field<Integer>,
    #[serde(rename = "paella_deficit_us", alias = "paella_deficit_ms")]
    pub(super) paella_deficit: Field<Number>,
    pub(super) triton_running: Field<Integer>,
}

/// `[[device]]`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDevice {
    pub(super) name: Field<String>,
    pub(super) file: Field<String>,
    pub(super) concurrency: Field<String>,
    pub(super) contention: Field<Number>,
    #[serde(rename = "launch_latency_us", alias = "launch_latency_ms")]
    pub(super) launch_latency: Field<Number>,
    #[serde(rename = "host_launch_us", alias = "host_launch_ms")]
    pub(super) host_launch: Field<Number>,
    #[serde(rename = "host_sync_us", alias = "host_sync_ms")]
    pub(super) host_sync: Field<Number>,
    #[serde(rename = "detect_us", alias = "detect_ms")]
    pub(super) detect: Field<Number>,
    #[serde(rename = "fence_us", alias = "fence_ms")]
    pub(super) fence: Field<Number>,
    pub(super) launch_queue: Field<Integer>,
    pub(super) max_level: Field<Integer>,
    #[serde(rename = "gate_us", alias = "gate_ms")]
    pub(super) gate: Field<Number>,
    #[serde(rename = "gate_close_us", alias = "gate_close_ms")]
    pub(super) gate_close: Field<Number>,
    #[serde(rename = "gate_spacing_us", alias = "gate_spacing_ms")]
    pub(super) gate_spacing: Field<Number>,
    #[serde(rename = "save_fixed_us", alias = "save_fixed_ms")]
    pub(super) save_fixed: Field<Number>,
    #[serde(rename = "save_context_us", alias = "save_context_ms")]
    pub(super) save_context: Field<Number>,
    #[serde(rename = "restore_fixed_us", alias = "restore_fixed_ms")]
    pub(super) restore_fixed: Field<Number>,
    #[serde(rename = "restore_context_us", alias = "restore_context_ms")]
    pub(super) restore_context: Field<Number>,
    #[serde(rename = "grace_us", alias = "grace_ms")]
    pub(super) grace: Field<Number>,
    #[serde(rename = "resume_us", alias = "resume_ms")]
    pub(super) resume: Field<Number>,
    pub(super) interrupt_stops: Field<String>,
    pub(super) batches: Field<bool>,
    #[serde(rename = "wake_us", alias = "wake_ms")]
    pub(super) wake: Field<Vec<Spanned<Number>>>,
    #[serde(rename = "queue_wake_us", alias = "queue_wake_ms")]
    pub(super) queue_wake: Field<Vec<Spanned<Number>>>,
}

/// A device file.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDeviceFile {
    #[expect(dead_code, reason = "checked before the raw layer is read")]
    pub(super) version: Field<Integer>,
    pub(super) description: Field<String>,
    #[serde(default, deserialize_with = "sub_table")]
    pub(super) device: Field<RawDevice>,
    pub(super) origin: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
}

/// `[[process]]`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProcess {
    pub(super) name: Field<String>,
    pub(super) lock: Field<String>,
    #[serde(rename = "lock_switch_us", alias = "lock_switch_ms")]
    pub(super) lock_switch: Field<Number>,
    #[serde(rename = "lock_handoff_us", alias = "lock_handoff_ms")]
    pub(super) lock_handoff: Field<Number>,
    pub(super) lock_on_return: Field<bool>,
    pub(super) lock_percent: Field<Integer>,
}

/// `[[task]]`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTask {
    pub(super) name: Field<String>,
    pub(super) count: Field<Integer>,
    pub(super) device: Field<String>,
    pub(super) process: Field<String>,
    #[serde(rename = "start_us", alias = "start_ms")]
    pub(super) start: Field<Number>,
    #[serde(default, deserialize_with = "sub_table")]
    pub(super) arrival: Field<RawArrival>,
    pub(super) requests: Field<Integer>,
    pub(super) commands: Field<Integer>,
    #[serde(default, deserialize_with = "sub_table")]
    pub(super) command: Field<RawDist>,
    pub(super) waves: Field<Integer>,
    pub(super) urgent_stream: Field<bool>,
    pub(super) claim: Field<String>,
    pub(super) outstanding: Field<Integer>,
    pub(super) sync: Field<String>,
    #[serde(rename = "host_launch_us", alias = "host_launch_ms")]
    pub(super) host_launch: Field<Number>,
    #[serde(rename = "dispatch_us", alias = "dispatch_ms")]
    pub(super) dispatch: Field<Number>,
    pub(super) threshold: Field<Integer>,
    pub(super) batch: Field<Integer>,
    pub(super) window: Field<String>,
    pub(super) capacity: Field<Integer>,
    pub(super) level: Field<Integer>,
    pub(super) context: Field<Number>,
    pub(super) counted: Field<Number>,
    pub(super) priority: Field<Integer>,
    #[serde(rename = "deadline_us", alias = "deadline_ms")]
    pub(super) deadline: Field<Number>,
    #[serde(rename = "laxity_us", alias = "laxity_ms")]
    pub(super) laxity: Field<Number>,
    pub(super) critical_priority: Field<Integer>,
    pub(super) active_window: Field<bool>,
    pub(super) cpu_priority: Field<Integer>,
    pub(super) share: Field<Integer>,
    pub(super) weight: Field<Integer>,
    pub(super) after: Field<String>,
}

/// `arrival = { kind = ... }`, with the keys of all kinds.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArrival {
    pub(super) kind: Field<String>,
    #[serde(rename = "think_us", alias = "think_ms")]
    pub(super) think_time: Field<Number>,
    #[serde(default, deserialize_with = "sub_table")]
    pub(super) think: Field<RawDist>,
    #[serde(rename = "jitter_us", alias = "jitter_ms")]
    pub(super) jitter: Field<Number>,
    #[serde(rename = "period_us", alias = "period_ms")]
    pub(super) period: Field<Number>,
    pub(super) rate_per_s: Field<Number>,
    #[serde(rename = "mean_us", alias = "mean_ms")]
    pub(super) mean: Field<Number>,
    pub(super) sigma: Field<Number>,
    pub(super) file: Field<String>,
}

/// A distribution of times, `{ kind = ... }`, with the keys of all kinds.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDist {
    pub(super) kind: Field<String>,
    #[serde(rename = "us", alias = "ms")]
    pub(super) value: Field<Number>,
    #[serde(rename = "mean_us", alias = "mean_ms")]
    pub(super) mean: Field<Number>,
    #[serde(rename = "median_us", alias = "median_ms")]
    pub(super) median: Field<Number>,
    pub(super) sigma: Field<Number>,
    #[serde(rename = "values_us", alias = "values_ms")]
    pub(super) values: Field<Vec<Spanned<Number>>>,
    pub(super) weights: Field<Vec<Spanned<Number>>>,
    #[serde(rename = "min_us", alias = "min_ms")]
    pub(super) min: Field<Number>,
    #[serde(rename = "max_us", alias = "max_ms")]
    pub(super) max: Field<Number>,
}

/// `[[reference]]`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReference {
    pub(super) metric: Field<String>,
    pub(super) value: Field<Number>,
    pub(super) within_percent: Field<Number>,
    pub(super) in_band: Field<bool>,
    pub(super) source: Field<String>,
}

/// The visits that bring an integer, whatever its width.
macro_rules! visit_integers {
    ($make:expr; $($visit:ident: $int:ty),*) => {
        $(fn $visit<E>(self, value: $int) -> Result<Self::Value, E> {
            Ok($make(i128::from(value)))
        })*
    };
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntegerVisitor;
        impl Visitor<'_> for IntegerVisitor {
            type Value = Integer;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }
            visit_integers!(Integer; visit_i64: i64, visit_u64: u64, visit_i128: i128);
        }
        deserializer.deserialize_any(IntegerVisitor)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            visit_integers!(Number::Int; visit_i64: i64, visit_u64: u64, visit_i128: i128);
            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number::Float(value))
            }
        }
        deserializer.deserialize_any(NumberVisitor)
    }
}

/// A table and nothing else: a derived struct alone would also take an array of its fields.
struct Table<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TableVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
            type Value = Table<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Table)
            }
        }
        deserializer.deserialize_any(TableVisitor(PhantomData))
    }
}

fn unwrap_table<T>(table: Spanned<Table<T>>) -> Spanned<T> {
    let span = table.span();
    Spanned::new(span, table.into_inner().0)
}

/// A key that holds a table.
fn sub_table<'de, D, T>(deserializer: D) -> Result<Field<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Spanned::<Table<T>>::deserialize(deserializer).map(|table| Some(unwrap_table(table)))
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tables<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TablesVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TablesVisitor<T> {
            type Value = Tables<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of tables, with double brackets around its name")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tables<T>, A::Error> {
                let mut tables = Vec::new();
                while let Some(table) = seq.next_element::<Spanned<Table<T>>>()? {
                    tables.push(unwrap_table(table));
                }
                Ok(Tables(tables))
            }
        }
        deserializer.deserialize_any(TablesVisitor(PhantomData))
    }
}
