//! Names and parameters of the systems that XSched is compared with.

use std::fmt;
use std::str::FromStr;

/// A system that XSched is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Concurrent streams, no scheduling.
    Native,
    /// One process on the device at a time, in slices.
    Timeslice,
    /// Processes side by side, each with a share of the units.
    Mps,
    /// A quota of device time for each process.
    Vcuda,
    /// Launch rates that give way to the most important task.
    Tgs,
    /// Kernels of the shortest request first.
    Paella,
    /// Whole requests one after the other, by priority.
    Triton,
    /// Highest priority first with one command in flight.
    Sync,
}

impl System {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Native,
        Self::Timeslice,
        Self::Mps,
        Self::Vcuda,
        Self::Tgs,
        Self::Paella,
        Self::Triton,
        Self::Sync,
    ];

    /// The name in scenario files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Timeslice => "timeslice",
            Self::Mps => "mps",
            Self::Vcuda => "vcuda",
            Self::Tgs => "tgs",
            Self::Paella => "paella",
            Self::Triton => "triton",
            Self::Sync => "sync",
        }
    }

    /// All names, with commas between.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No system has that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown system; known are {}", System::names())]
pub struct UnknownSystem;

impl FromStr for System {
    type Err = UnknownSystem;

    /// Ignores case, as the names of policies do.
    fn from_str(name: &str) -> Result<Self, UnknownSystem> {
        let found = Self::ALL.into_iter().find(|system| system.name().eq_ignore_ascii_case(name));
        found.ok_or(UnknownSystem)
    }
}

/// The system of a scenario, if it has one, and the parameters of all of them. The documentation
/// says where each default comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparators {
    /// The system to run instead of a policy when the command line names neither.
    pub system: Option<System>,
    /// `timeslice`: how long a process has the device while other processes want it.
    pub slice_ns: u64,
    /// `timeslice`: device time of changing from one process to another.
    pub switch_ns: u64,
    /// `mps`: share of the units that a process may use unless its tasks have a `share`, 1 to 100
    /// percent.
    pub mps_percent: u32,
    /// `vcuda`: period after which quotas are renewed.
    pub vcuda_window_ns: u64,
    /// `tgs`: how often the rate of the production tasks is judged.
    pub tgs_interval_ns: u64,
    /// `tgs`: period for which the opportunistic tasks get their allowance.
    pub tgs_window_ns: u64,
    /// `tgs`: drop of the production rate that is put up with, 0 to 1.
    pub tgs_tolerance: f64,
    /// `tgs`: what is added to the opportunistic rate, as a part of the production rate.
    pub tgs_increase: f64,
    /// `tgs`: part by which the opportunistic rate is cut, 0 to 1.
    pub tgs_decrease: f64,
    /// `tgs`: opportunistic rate to begin with, in device time per time.
    pub tgs_start: f64,
    /// `paella`: kernels on a device at a time.
    pub paella_in_flight: u32,
    /// `paella`: device time that a task may fall behind its fair part before it goes first.
    pub paella_deficit_ns: u64,
    /// `triton`: requests that execute on a device at a time.
    pub triton_running: u32,
}

impl Default for Comparators {
    fn default() -> Self {
        const MS: u64 = 1_000_000;
        Self {
            system: None,
            slice_ns: 2 * MS,
            switch_ns: 40_000,
            mps_percent: 100,
            vcuda_window_ns: 120 * MS,
            tgs_interval_ns: 5_000 * MS,
            tgs_window_ns: 50 * MS,
            tgs_tolerance: 0.03,
            tgs_increase: 0.025,
            tgs_decrease: 0.08,
            tgs_start: 0.01,
            paella_in_flight: 2,
            paella_deficit_ns: 50 * MS,
            triton_running: 1,
        }
    }
}
