//! Kernels that check their results, to be interrupted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{LabError, Victim};

/// Work of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Computes in registers.
    Alu,
    /// Exchanges values through memory that a workgroup shares.
    Lds,
    /// Multiplies matrices in the matrix cores.
    Mfma,
    /// Reads and writes the device's memory.
    Memory,
    /// Adds to shared counters atomically.
    Atomics,
    /// Waits for the rest of its workgroup again and again.
    Barrier,
    /// Waits for all other workgroups again and again, launched as any other kernel.
    Meeting,
    /// Waits as `Meeting` does, launched by the call for such kernels. On AMD's GPUs that carries
    /// it out in a ring of the device's own, which a hold of the stream's does not reach.
    Cooperative,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Alu,
        Self::Lds,
        Self::Mfma,
        Self::Memory,
        Self::Atomics,
        Self::Barrier,
        Self::Meeting,
        Self::Cooperative,
    ];

    /// Returns whether it runs in the ring of the queue in which it is launched, as far as is
    /// known, so that a hold of the queue has to stop it.
    pub(crate) const fn is_in_its_ring(self) -> bool {
        !matches!(self, Self::Cooperative)
    }

    /// Name of the kind in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alu => "alu",
            Self::Lds => "lds",
            Self::Mfma => "mfma",
            Self::Memory => "memory",
            Self::Atomics => "atomics",
            Self::Barrier => "barrier",
            Self::Meeting => "meeting",
            Self::Cooperative => "cooperative",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            LabError::new(format!("there is no kind of kernel `{text}`; there are {names}"))
        })
    }
}

/// How much of the device a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Share {
    /// One workgroup.
    One,
    /// Half of the compute units.
    Half,
    /// All of it.
    Full,
}

impl Share {
    /// Name of the share in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Half => "half",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A kernel to be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Work of the kernels.
    pub(crate) kind: Kind,
    /// How much of the device it takes.
    pub(crate) share: Share,
    /// Device time, in nanoseconds; about.
    pub(crate) ns: u64,
}

/// Results that commands checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckedCounts {
    /// Commands that ran to their end.
    pub(crate) finished: u64,
    /// Commands with a wrong result.
    pub(crate) wrong: u64,
}

/// Commands that write down when they run and whether their results are right, for one queue.
pub(crate) trait Worker: Victim {
    /// Returns the results that the commands have checked up to now.
    fn sums(&mut self) -> Result<CheckedCounts, LabError>;

    /// Device time of a command, in nanoseconds, as measured: about what was asked for, and more
    /// where the device is so slow that there is no shorter one that could be stopped in between.
    fn command_ns(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "dpp".parse::<Kind>().unwrap_err().to_string();
        assert!(error.contains("cooperative"), "{error}");
        assert_eq!(format!("{:5}{}", Share::One, Share::Full), "one  full");
    }
}
