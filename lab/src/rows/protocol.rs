//! Protocol of `xsched-lab` and the programs that it starts: an object of JSON a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::counts::Counts;

/// The version of [`Spec`].
pub(crate) const VERSION: u32 = 1;

/// How requests of a role come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Load {
    /// A request, a pause, and so on.
    Closed {
        /// The pause.
        pause_ms: f64,
        /// Most by which the pause is longer or shorter, evenly drawn.
        #[serde(default)]
        jitter_ms: f64,
        /// Number of requests after which the role is idle.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requests: Option<u32>,
    },
    /// A request at a fixed interval, whether the last has ended or not.
    Periodic {
        /// Between two arrivals.
        every_ms: f64,
    },
    /// Arrivals at random, independent of each other.
    Poisson {
        /// Arrivals a second.
        per_s: f64,
    },
    /// Log-normal times between arrivals.
    Lognormal {
        /// Arrivals a second.
        per_s: f64,
        /// The deviation of the logarithm.
        sigma: f64,
    },
    /// Always busy.
    Endless {
        /// Requests in flight.
        in_flight: u32,
    },
}

/// Specification of a program, as the file has it that it gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// `cuda`, `hip` or `host`.
    pub(crate) device: String,
    /// Seed of random choices.
    pub(crate) seed: u64,
    /// With few samples.
    pub(crate) quick: bool,
    /// Set if the program waits at each [`Step`] until it is told to [`Go`] on.
    #[serde(default)]
    pub(crate) steps: bool,
    /// How the device is shared, as [`super::plan::Way::name`].
    pub(crate) way: String,
    /// The roles of the program.
    pub(crate) roles: Vec<RoleSpec>,
}

/// A model or a job with a stream of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoleSpec {
    /// Name of the role, one of its kind in the cell.
    pub(crate) name: String,
    /// The model or job, as `bert-base`.
    pub(crate) work: String,
    /// The type of its numbers, as `fp32`.
    pub(crate) dtype: String,
    /// Inputs of a request.
    pub(crate) batch: u32,
    /// As one graph instead of kernel by kernel.
    pub(crate) graph: bool,
    /// The highest stream priority if above 0, the lowest if below; 0 is between them where a role
    /// of the program is below.
    pub(crate) priority: i32,
    /// Part of the device in percent, where the way gives parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<u8>,
    /// A request should end within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_ms: Option<f64>,
    /// The processor that its thread keeps to in phases: its place among those of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) processor: Option<usize>,
    /// Further settings of the work.
    #[serde(default)]
    pub(crate) options: Map<String, Value>,
}

/// Needs of a role alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Device time of each kernel of a request, in order.
    #[serde(default)]
    pub(crate) kernels_ns: Vec<u64>,
    /// Median of lone requests.
    pub(crate) request_ns: u64,
    /// Until the launching calls of a request return.
    #[serde(default)]
    pub(crate) host_ns: u64,
    /// Digest of what it computed, shortened SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
}

/// A program has come so far, and waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// [`IMPORTED`] or [`LOADED`].
    pub(crate) step: String,
}

/// The step of a program that has not used the device yet.
pub(crate) const IMPORTED: &str = "imported";
/// The step of a program that is warm, and has not measured what it needs alone.
pub(crate) const LOADED: &str = "loaded";

/// A program is told to go on from a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Go {
    /// Always true.
    pub(crate) go: bool,
    /// Set if its kernels are to be measured, where they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) measure: Option<bool>,
}

/// A program has loaded everything and is warm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Always true.
    pub(crate) ready: bool,
    /// Versions by name.
    #[serde(default)]
    pub(crate) software: BTreeMap<String, String>,
    /// The device's name.
    #[serde(default)]
    pub(crate) hardware: String,
    /// Needs of each role alone.
    pub(crate) roles: BTreeMap<String, Profile>,
}

/// A program is told to have its roles work for some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The number of the phase.
    pub(crate) phase: u32,
    /// Part of what is measured in several phases: each part has arrivals of its own, which are the
    /// same in all ways.
    #[serde(default)]
    pub(crate) part: u32,
    /// For how long requests are begun.
    pub(crate) seconds: f64,
    /// The loads; roles that are not named are idle.
    pub(crate) load: BTreeMap<String, Load>,
}

/// Requests of a role in a phase, by CLOCK_MONOTONIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoleAnswer {
    /// Arrivals of requests.
    pub(crate) begin_ns: Vec<u64>,
    /// When the same requests ended.
    pub(crate) end_ns: Vec<u64>,
    /// Digest of what they computed, shortened SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// When the first token of each request was there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) first_token_ns: Vec<u64>,
    /// Tokens of all requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<u64>,
}

/// Answer of a program after a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The number of the phase.
    pub(crate) phase: u32,
    /// When it began.
    pub(crate) begin_ns: u64,
    /// When all had run.
    pub(crate) end_ns: u64,
    /// Processor time of the program.
    #[serde(default)]
    pub(crate) cpu_ns: u64,
    /// Launches by what became of them up to now, where no interposer counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<Counts>,
    /// Requests of each role.
    pub(crate) roles: BTreeMap<String, RoleAnswer>,
}
