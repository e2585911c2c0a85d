//! Settings of the environment. `docs/src/reference/environment.md` has the table.

use std::str::FromStr;

use xsched_core::window::WindowConfig;
use xsched_policies::any::Any;

use crate::policies;
use crate::types::{PRIORITY_NO_EXECUTE, XSchedulerType};

/// Commands that an XQueue has room for, unless `XSCHED_QUEUE_CAPACITY` says otherwise.
const CAPACITY: u64 = 8_192;

/// Settings of the environment, with the defaults for what it does not say.
#[derive(Clone, Debug)]
pub(crate) struct Env {
    /// Scheduler that decides at first.
    pub(crate) scheduler: XSchedulerType,
    /// The policy, if that is the local scheduler.
    pub(crate) policy: Any,
    /// XQueues for streams whose program asks for none.
    pub(crate) auto: Option<AutoQueue>,
    /// Graphs that the program launches get gates, where their stream has any.
    pub(crate) graphs: bool,
    /// Commands that an XQueue has room for, 64 to 65,536.
    pub(crate) capacity: usize,
    /// Predicted work between two gates of a stream at level 2, if not as by default; 0 is a gate
    /// for each command.
    pub(crate) gate_spacing_us: Option<u32>,
    /// The scheduler of the node holds this process as a whole.
    pub(crate) global: bool,
    /// The scheduler of the node holds each stream by itself, where it can.
    pub(crate) streams_apart: bool,
    /// Calls are refused that the C++ XSched takes though it cannot do what they say.
    pub(crate) strict: bool,
    /// How much is logged.
    pub(crate) log: Log,
}

/// Levels that are logged to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    Errors,
    Warnings,
    Info,
    Debug,
}

/// How an XQueue is made that the program did not ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AutoQueue {
    /// Streams are scheduled one by one from the start, and not only once something tells them
    /// apart.
    pub(crate) one_by_one: bool,
    /// 1 to 3.
    pub(crate) level: i64,
    /// 1 to 65,536.
    pub(crate) threshold: Option<i64>,
    /// 1 to the threshold.
    pub(crate) batch: i64,
    /// −256 to 255.
    pub(crate) priority: Option<i32>,
    /// 0 to 100, in percent.
    pub(crate) utilization: Option<i32>,
    /// 100 to 10,000,000.
    pub(crate) timeslice_us: Option<i64>,
    /// At least 1.
    pub(crate) deadline_us: Option<i64>,
    /// Queues that run at once, at least 1.
    pub(crate) k: Option<usize>,
    /// At least 1. Until then the queue has the priority above, then the highest.
    pub(crate) laxity_us: Option<i64>,
}

/// With the node's scheduler, the process's own has its streams run by their priorities.
const SCHEDULERS: [(&str, XSchedulerType); 3] = [
    ("APP", XSchedulerType::kSchedulerAppManaged),
    ("LCL", XSchedulerType::kSchedulerLocal),
    ("GLB", XSchedulerType::kSchedulerLocal),
];

const SWITCH: [(&str, bool); 2] = [("ON", true), ("OFF", false)];

/// `process`: as one, until something tells its streams apart.
const UNITS: [(&str, bool); 2] = [("process", false), ("streams", true)];

const LOGS: [(&str, Log); 4] =
    [("ERRO", Log::Errors), ("WARN", Log::Warnings), ("INFO", Log::Info), ("DEBG", Log::Debug)];

/// Reads variables, and notes those that make no sense.
struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    complaints: Vec<String>,
}

impl Reader<'_> {
    /// Value of the variable; none if it is not set or empty.
    fn text(&self, name: &str) -> Option<String> {
        (self.get)(name).filter(|text| !text.is_empty())
    }

    fn one_of<T: Copy>(&mut self, name: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        let found = known.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text));
        if found.is_none() {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            self.complaints
                .push(format!("{name} is `{text}` and is ignored; it can be {}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    /// The policy of this name, of the list that all interfaces use.
    fn policy(&mut self) -> Option<Any> {
        let name = "XSCHED_POLICY";
        let text = self.text(name)?;
        let found = policies::named(&text);
        if found.is_none() {
            let known = Any::NAMES.join(", ");
            self.complaints.push(format!("{name} is `{text}` and is ignored; it can be {known}"));
        }
        found
    }

    fn number<T>(&mut self, name: &str, min: T, max: T) -> Option<T>
    where
        T: FromStr + PartialOrd + Copy + std::fmt::Display,
    {
        let text = self.text(name)?;
        let value = text.parse().ok().filter(|value| (min..=max).contains(value));
        if value.is_none() {
            self.complaints
                .push(format!("{name} is `{text}` and is ignored; it can be {min} to {max}"));
        }
        value
    }
}

impl Env {
    /// Reads it by a function, and says what was ignored.
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut reader = Reader { get, complaints: Vec::new() };
        let log = reader.one_of("XLOG_LEVEL", &LOGS).unwrap_or(Log::Warnings);
        let policy = reader.policy();
        let scheduler = match (&policy, scheduler(&mut reader)) {
            // As with the C++ XSched, a policy alone is enough.
            (Some(_), _) => XSchedulerType::kSchedulerLocal,
            (None, chosen) => chosen.unwrap_or(XSchedulerType::kSchedulerAppManaged),
        };
        let capacity = reader.number("XSCHED_QUEUE_CAPACITY", 64, 65_536).unwrap_or(CAPACITY);
        let gate_spacing_us = reader.number("XSCHED_GATE_SPACING_US", 0, 1_000_000);
        let strict = reader.one_of("XSCHED_STRICT", &SWITCH).unwrap_or(false);
        let global =
            reader.text("XSCHED_SCHEDULER").is_some_and(|text| text.eq_ignore_ascii_case("GLB"));
        let auto = AutoQueue::read(&mut reader);
        let graphs = reader.one_of("XSCHED_AUTO_XQUEUE_GRAPHS", &SWITCH).unwrap_or(true);
        // A policy decides within the process.
        let streams_apart = policy.is_none() && auto.as_ref().is_some_and(|auto| auto.one_by_one);
        let env = Self {
            scheduler,
            policy: policy.unwrap_or(policies::DEFAULT),
            auto,
            graphs,
            capacity: capacity as usize,
            gate_spacing_us,
            global,
            streams_apart,
            strict,
            log,
        };
        (env, reader.complaints)
    }

    /// Returns whether the environment says that streams are held whatever the policy.
    pub(crate) fn holds_apart(&self) -> bool {
        self.auto.as_ref().is_some_and(|auto| auto.priority == Some(PRIORITY_NO_EXECUTE))
    }

    /// Returns whether streams that get XQueues are scheduled one by one from the start.
    ///
    /// They are if that is asked for, or if the policy or a hint has a stream wait though all have
    /// the same hints.
    pub(crate) fn tells_apart(&self) -> bool {
        self.auto.as_ref().is_some_and(|auto| {
            auto.one_by_one
                || self.holds_apart()
                || auto.deadline_us.is_some()
                || auto.laxity_us.is_some()
                || auto.k.is_some()
                || !matches!(self.policy, Any::Hpf(_) | Any::Up(_))
        })
    }
}

fn scheduler(reader: &mut Reader<'_>) -> Option<XSchedulerType> {
    reader.one_of("XSCHED_SCHEDULER", &SCHEDULERS)
}

/// The threshold where none is set: that of the C++ XSched. Gates hold what was launched as well,
/// so with them as much may be in flight as the hardware queue has room for.
const fn threshold_of(has_gates: bool) -> i64 {
    if has_gates { WindowConfig::THRESHOLD_MAX as i64 } else { 16 }
}

impl AutoQueue {
    /// The in-flight threshold of a queue that has gates, or has none.
    pub(crate) fn threshold(&self, has_gates: bool) -> i64 {
        self.threshold.unwrap_or(threshold_of(has_gates))
    }

    /// The others are read also if it is off, so that one learns what is wrong with them.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let on = reader.one_of("XSCHED_AUTO_XQUEUE", &SWITCH).unwrap_or(false);
        let level = reader.number("XSCHED_AUTO_XQUEUE_LEVEL", 1, 3).unwrap_or(1);
        let set = reader.number("XSCHED_AUTO_XQUEUE_THRESHOLD", 1, 65_536);
        let threshold = set.unwrap_or(threshold_of(level > 1));
        let batch = reader.number("XSCHED_AUTO_XQUEUE_BATCH_SIZE", 1, 65_536);
        if let Some(batch) = batch.filter(|batch| *batch > threshold) {
            reader.complaints.push(format!(
                "XSCHED_AUTO_XQUEUE_BATCH_SIZE is `{batch}` and is ignored; it can be 1 to the \
                 threshold, {threshold}"
            ));
        }
        let day_us = 86_400_000_000;
        let auto = Self {
            one_by_one: reader.one_of("XSCHED_AUTO_XQUEUE_UNIT", &UNITS).unwrap_or(false),
            level,
            threshold: set,
            batch: batch.unwrap_or(8).min(threshold),
            priority: reader.number("XSCHED_AUTO_XQUEUE_PRIORITY", -256, 255),
            utilization: reader.number("XSCHED_AUTO_XQUEUE_UTILIZATION", 0, 100),
            timeslice_us: reader.number("XSCHED_AUTO_XQUEUE_TIMESLICE", 100, 10_000_000),
            deadline_us: reader.number("XSCHED_AUTO_XQUEUE_DEADLINE", 1, day_us),
            k: reader.number("XSCHED_AUTO_XQUEUE_KDEADLINE", 1, 65_536),
            laxity_us: reader.number("XSCHED_AUTO_XQUEUE_LAXITY", 1, day_us),
        };
        on.then_some(auto)
    }
}

#[cfg(test)]
mod tests {
    use xsched_core::policy::Policy;

    use super::*;

    fn read(set: &[(&str, &str)]) -> (Env, Vec<String>) {
        Env::read(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn nothing_set_is_the_program_in_charge() {
        let (env, complaints) = read(&[("XLOG_LEVEL", "")]);
        assert_eq!(env.scheduler, XSchedulerType::kSchedulerAppManaged);
        assert_eq!((env.auto, env.log, env.capacity), (None, Log::Warnings, 8_192));
        assert_eq!(complaints, [""; 0]);
    }

    #[test]
    fn each_policy_has_its_name_and_a_policy_means_the_local_scheduler() {
        for name in Any::NAMES {
            let upper = name.to_uppercase();
            for set in [name, upper.as_str()] {
                let (env, complaints) =
                    read(&[("XSCHED_POLICY", set), ("XSCHED_SCHEDULER", "APP")]);
                assert_eq!((env.policy.name(), complaints.len()), (*name, 0));
                assert_eq!(env.scheduler, XSchedulerType::kSchedulerLocal);
            }
        }
        let (env, _) = read(&[("XSCHED_SCHEDULER", "lcl")]);
        assert_eq!(env.scheduler, XSchedulerType::kSchedulerLocal);
        assert_eq!(env.policy.name(), "hpf");
    }

    #[test]
    fn what_makes_no_sense_is_named_once_with_what_can_be() {
        let set = [
            ("XSCHED_POLICY", "GBL"),
            ("XSCHED_SCHEDULER", "GLOB"),
            ("XLOG_LEVEL", "loud"),
            ("XSCHED_AUTO_XQUEUE", "yes"),
            ("XSCHED_AUTO_XQUEUE_LEVEL", "4"),
            ("XSCHED_AUTO_XQUEUE_GRAPHS", "some"),
            ("XSCHED_AUTO_XQUEUE_BATCH_SIZE", "17"),
            ("XSCHED_QUEUE_CAPACITY", "1"),
        ];
        let (env, complaints) = read(&set);
        assert_eq!(env.scheduler, XSchedulerType::kSchedulerAppManaged);
        for (name, _) in set {
            let about = |line: &&String| line.starts_with(&format!("{name} "));
            assert_eq!(complaints.iter().filter(about).count(), 1, "{name}");
        }
        let policy = complaints.iter().find(|line| line.contains("GBL")).expect("a line");
        assert!(policy.ends_with(&format!("it can be {}", Any::NAMES.join(", "))), "{policy}");
    }

    #[test]
    fn some_settings_tell_streams_apart() {
        let tells =
            |name, value| read(&[("XSCHED_AUTO_XQUEUE", "ON"), (name, value)]).0.tells_apart();
        for (name, value) in [
            ("XSCHED_AUTO_XQUEUE_UNIT", "Process"),
            ("XSCHED_SCHEDULER", "LCL"),
            ("XSCHED_AUTO_XQUEUE_PRIORITY", "7"),
            ("XSCHED_AUTO_XQUEUE_UTILIZATION", "30"),
            ("XSCHED_AUTO_XQUEUE_LEVEL", "2"),
            ("XSCHED_POLICY", "hpf"),
            ("XSCHED_POLICY", "up"),
        ] {
            assert!(!tells(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("XSCHED_AUTO_XQUEUE_UNIT", "STREAMS"),
            ("XSCHED_AUTO_XQUEUE_PRIORITY", "-256"),
            ("XSCHED_AUTO_XQUEUE_DEADLINE", "1000"),
            ("XSCHED_AUTO_XQUEUE_LAXITY", "1000"),
            ("XSCHED_AUTO_XQUEUE_KDEADLINE", "2"),
            ("XSCHED_POLICY", "edf"),
        ] {
            assert!(tells(name, value), "{name}={value}");
        }
        assert!(!read(&[("XSCHED_AUTO_XQUEUE_UNIT", "streams")]).0.tells_apart(), "it is off");
    }

    #[test]
    fn an_automatic_queue_has_what_is_set() {
        let (env, complaints) = read(&[
            ("XSCHED_AUTO_XQUEUE", "ON"),
            ("XSCHED_AUTO_XQUEUE_THRESHOLD", "4"),
            ("XSCHED_AUTO_XQUEUE_PRIORITY", "-256"),
            ("XSCHED_AUTO_XQUEUE_LAXITY", "2000"),
        ]);
        assert_eq!(complaints, [""; 0]);
        let auto = env.auto.expect("it is on");
        assert_eq!((auto.level, auto.threshold, auto.batch, env.graphs), (1, Some(4), 4, true));
        assert_eq!((auto.priority, auto.laxity_us, auto.k), (Some(-256), Some(2_000), None));
    }
}
