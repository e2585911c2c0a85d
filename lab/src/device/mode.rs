//! How tasks are kept apart.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xsched_core::level::Level;

use crate::device::task::LaunchPath;
use crate::device::{Described, LabError, QueueParams};

/// The default spacing of gates, in microseconds.
pub(crate) const SPACING_US: u32 = 300;
/// Priorities of the two tasks.
const PRIORITIES: (i32, i32) = (10, 0);
/// Commands that the foreground may have in flight.
const FOREGROUND_WINDOW: u32 = 64;

/// How tasks are kept apart. Read and written as `plain`, `priority`, `lv1`, `gate` (one for each
/// command), `gate@200` (200 microseconds apart), `gate+priority`, `lv3`, `processes-plain`,
/// `processes-lv1` and `processes-gate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) enum Mode {
    /// Plain streams.
    Plain,
    /// Plain streams, the urgent one with the most urgent priority.
    Priority,
    /// XSched at Lv1.
    Lv1,
    /// XSched at Lv2.
    Gate {
        /// Predicted work between two gates, in microseconds; 0 for a gate for each command.
        spacing_us: u32,
    },
    /// XSched at Lv2 with a gate for each command, and stream priorities.
    GatePriority,
    /// XSched at Lv3.
    Lv3,
    /// Two processes, one task in each.
    Processes(Apart),
}

/// How tasks in two processes are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Apart {
    /// By the device alone.
    Plain,
    /// By a word in shared memory that asks the other process to launch nothing.
    Lv1,
    /// By a word in shared memory that the other process's gates wait for.
    Gate,
}

impl Mode {
    /// Returns the modes that make sense on a device, up to a level.
    pub(crate) fn of(device: &Described, level_max: u8) -> Vec<Self> {
        let modes = [
            Self::Plain,
            Self::Priority,
            Self::Lv1,
            Self::Gate { spacing_us: 0 },
            Self::Gate { spacing_us: SPACING_US },
            Self::GatePriority,
            Self::Lv3,
            Self::Processes(Apart::Plain),
            Self::Processes(Apart::Lv1),
            Self::Processes(Apart::Gate),
        ];
        let level = level_max.min(device.level);
        // To the processor as a device, neither priorities nor gates at intervals mean anything,
        // and each process has its own.
        let for_host = |mode: &Self| {
            matches!(mode, Self::Plain | Self::Lv1 | Self::Lv3)
                || *mode == Self::Gate { spacing_us: 0 }
        };
        let applies =
            |mode: &Self| mode.level() <= level && (device.hal != "host" || for_host(mode));
        modes.into_iter().filter(applies).collect()
    }

    /// Returns the mode that a user gets without saying anything, on a device with this highest
    /// level: its level, with gates at the default spacing. To the processor as a device a gate at
    /// intervals means nothing.
    pub(crate) fn by_default(hal: &str, level: u8) -> Self {
        match level {
            3.. => Self::Lv3,
            2 if hal == "host" => Self::Gate { spacing_us: 0 },
            2 => Self::Gate { spacing_us: SPACING_US },
            _ => Self::Lv1,
        }
    }

    /// The number of the level that it needs, 1 to 3.
    pub(crate) fn level(self) -> u8 {
        self.making(false).level
    }

    /// How a queue is made. Plain streams count as Lv1.
    pub(crate) fn making(self, urgent: bool) -> QueueParams {
        let (level, spacing_us) = match self {
            Self::Gate { spacing_us } => (Level::Deactivate, spacing_us),
            Self::GatePriority | Self::Processes(Apart::Gate) => (Level::Deactivate, 0),
            Self::Lv3 => (Level::Interrupt, 0),
            Self::Plain | Self::Priority | Self::Lv1 | Self::Processes(_) => (Level::Block, 0),
        };
        QueueParams { spacing_ns: u64::from(spacing_us) * 1_000, urgent, ..QueueParams::at(level) }
    }

    /// Name for people.
    pub(crate) fn label(self) -> String {
        self.to_string().replace("lv", "Lv")
    }

    /// Place among all ways, whatever the spacing of gates: figures have colours by it.
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Lv1 => 1,
            Self::Gate { spacing_us: 0 } => 2,
            Self::Gate { .. } => 3,
            Self::Lv3 => 4,
            Self::Priority => 5,
            Self::GatePriority => 6,
            Self::Processes(Apart::Plain) => 7,
            Self::Processes(Apart::Lv1) => 8,
            Self::Processes(Apart::Gate) => 9,
        }
    }

    /// Past the runtime.
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::Priority | Self::Processes(Apart::Plain))
    }

    /// How the foreground and the background reach the device.
    pub(crate) fn ways(self, threshold: u32) -> (LaunchPath, LaunchPath) {
        let urgent = matches!(self, Self::Priority | Self::GatePriority);
        if self.is_plain() {
            return (LaunchPath::Plain { urgent }, LaunchPath::Plain { urgent: false });
        }
        let (high, low) = PRIORITIES;
        // It is never held, so it needs no gates, which would cost time.
        let making = QueueParams { urgent, ..QueueParams::at(Level::Block) };
        let foreground = LaunchPath::Queue {
            making,
            priority: high,
            threshold: FOREGROUND_WINDOW,
            batch: FOREGROUND_WINDOW / 4,
        };
        let background =
            LaunchPath::Queue { making: self.making(false), priority: low, threshold, batch: 1 };
        (foreground, background)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Priority => "priority",
            Self::Lv1 => "lv1",
            Self::Gate { spacing_us: 0 } => "gate",
            Self::Gate { spacing_us } => return write!(f, "gate@{spacing_us}"),
            Self::GatePriority => "gate+priority",
            Self::Lv3 => "lv3",
            Self::Processes(Apart::Plain) => "processes-plain",
            Self::Processes(Apart::Lv1) => "processes-lv1",
            Self::Processes(Apart::Gate) => "processes-gate",
        })
    }
}

impl FromStr for Mode {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Ok(match text {
            "plain" => Self::Plain,
            "priority" => Self::Priority,
            "lv1" => Self::Lv1,
            "gate" => Self::Gate { spacing_us: 0 },
            // As first records have it.
            "spaced" => Self::Gate { spacing_us: 200 },
            "gate+priority" | "gate_priority" => Self::GatePriority,
            "lv3" => Self::Lv3,
            "processes-plain" => Self::Processes(Apart::Plain),
            "processes-lv1" => Self::Processes(Apart::Lv1),
            "processes-gate" => Self::Processes(Apart::Gate),
            other => {
                let spacing = other.strip_prefix("gate@").map(str::parse);
                let Some(Ok(spacing_us)) = spacing else {
                    return Err(LabError::new(format!(
                        "there is no way `{other}`; there are plain, priority, lv1, gate, \
                         gate@200 (µs between gates), gate+priority, lv3, processes-plain, \
                         processes-lv1 and processes-gate"
                    )));
                };
                Self::Gate { spacing_us }
            }
        })
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.to_string()
    }
}

impl TryFrom<String> for Mode {
    type Error = LabError;

    fn try_from(text: String) -> Result<Self, LabError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_devices_level_with_the_default_spacing() {
        let spacing = xsched_hal_stream::Spacing::default().ns();
        assert_eq!(u64::from(SPACING_US) * 1_000, spacing, "what benches take for the default");
        assert_eq!(xsched::XQueueConfig::default().level, Level::Interrupt);
        let of = |hal, level| Mode::by_default(hal, level).to_string();
        assert_eq!(of("cuda", 2), "gate@300");
        assert_eq!((of("hip", 1), of("kfd", 3)), ("lv1".to_owned(), "lv3".to_owned()));
        assert_eq!((of("host", 3), of("host", 2)), ("lv3".to_owned(), "gate".to_owned()));
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        let device = Described {
            hal: "cuda",
            device: String::new(),
            driver: String::new(),
            pci: String::new(),
            level: 3,
            no_gate: None,
            entries_max: 1,
        };
        let modes = Mode::of(&device, 3);
        assert_eq!(modes.len(), 10);
        for mode in modes {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("spaced".parse(), Ok(Mode::Gate { spacing_us: 200 }));
        let error = "gate@x".parse::<Mode>().unwrap_err().to_string();
        assert!(error.contains("processes-gate"), "{error}");
        let host = Described { hal: "host", ..device };
        assert_eq!(Mode::of(&host, 2).len(), 3);
    }
}
