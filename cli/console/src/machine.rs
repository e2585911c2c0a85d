//! Machine that a figure was measured on.

use std::fmt;
use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::table::number;

/// Text for something that the system does not tell.
const UNKNOWN: &str = "unknown";

/// How many threads to use by default: one for each processor that this program may use.
#[must_use]
pub fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// The machine that a program runs on, and the moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this program may use.
    pub cores: usize,
    /// Release of the operating system's kernel.
    pub kernel: String,
    /// Moment in UTC, as in RFC 3339.
    pub date: String,
    /// Threads of all programs that ran or wanted to, on average over the minute before.
    pub load: Option<f64>,
}

impl Machine {
    /// Describes this machine, now.
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: default_threads(),
            kernel: if kernel.is_empty() { UNKNOWN.to_owned() } else { kernel },
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()),
        }
    }

    /// A machine of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        let unknown = || UNKNOWN.to_owned();
        Self { cpu: unknown(), cores: 0, kernel: unknown(), date: unknown(), load: None }
    }

    /// Warns people before they believe a figure: a line if other programs may have been in the
    /// way, nothing otherwise.
    pub fn warning(&self) -> String {
        match self.load {
            // One processor is for the device.
            Some(load) if load > (self.cores as f64 - 1.0).max(0.5) => format!(
                "note: other programs were running (load {load:.1} on {} cores), so figures are \
                 noisy, the tails above all\n",
                self.cores
            ),
            _ => String::new(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, kernel, date, load } = self;
        let plural = if *cores == 1 { "" } else { "s" };
        let load = number(*load, 1);
        write!(f, "{cpu}, {cores} core{plural}, kernel {kernel}, {date}, load before {load}")
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let model = model.filter(|(key, _)| key.trim() == "model name").map(|(_, name)| name.trim());
    model.into_iter().next().unwrap_or(UNKNOWN).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let text = "processor\t: 0\nmodel name\t: One @ 2 GHz\n\nmodel name\t: Two\n";
        assert_eq!(cpu_model(text), "One @ 2 GHz");
        assert_eq!(cpu_model("processor : 0"), UNKNOWN);
    }

    #[test]
    fn a_line_names_everything() {
        let machine = Machine {
            cpu: "A".into(),
            cores: 1,
            kernel: "6.1".into(),
            date: "today".into(),
            load: Some(0.25),
        };
        assert_eq!(machine.to_string(), "A, 1 core, kernel 6.1, today, load before 0.2");
        assert!(Machine::here().date.ends_with('Z'));
        assert_eq!(machine.warning(), "");
        let busy = Machine { load: Some(1.4), ..machine };
        assert!(busy.warning().contains("load 1.4 on 1 cores"));
        assert_eq!(Machine { cores: 4, ..busy }.warning(), "");
    }
}
