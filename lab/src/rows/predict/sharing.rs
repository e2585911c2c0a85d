//! How the ways of sharing a device are simulated.

use xsched_sim::scenario::{DaemonSpec, System};

use crate::rows::plan::{CellPlan, Hal, Program, Way};

/// A user's policy by default.
const POLICY: &str = "hpf";
/// How long its turns are in the daemon (`TURN` in `daemon/src/config.rs`).
const TURN_NS: u64 = 10_000_000;
/// How long a process has an NVIDIA GPU while another one wants it, and what changing takes: 20
/// kernels of 0.1 ms beside a process that is always busy took 2.0 to 4.3 ms, 3.2 ms at the median,
/// whether the other's kernels had 0.1, 0.5 or 2 ms
/// (`benches/results/h200-2026-11-21/fixed-priority-processes.json`).
pub(super) const SLICE_NS: u64 = 2_200_000;
pub(super) const SWITCH_NS: u64 = 50_000;
/// Time that a process waits for the GPU beyond the gates of the other: in the same file, beside
/// kernels of 0.1 ms with a gate each, 0.17 ms more than alone, of which half a kernel is 0.05.
pub(super) const HANDOVER_NS: u64 = 110_000;

/// The end of a queue's last command is looked for once it has not been submitted to for 0.1 ms
/// (`ATTENDED` in `runtime/src/queue/retire.rs`), and a sleeping thread wakes 0.05 ms later.
const IDLE_NS: u64 = 150_000;

/// Kernels that are shorter on average do not fill an NVIDIA GPU, and run beside those of other
/// streams. By how much of its own time each of the others makes one longer is fitted to six graphs
/// of BERT-base on an H100, with kernels of 14 µs on average, each with pauses of 20 ms: alone 5.3
/// ms in the mean, in six streams of a process 7.5 ms, and 8.2 ms as six clients of MPS
/// (row 5.4 in `short` of the record h100-2026-11-25-lab, at commit 97e27741).
pub(super) const SHORT_NS: u64 = 100_000;
pub(super) const CONTENTION_STREAMS: f64 = 0.35;
pub(super) const CONTENTION_MPS: f64 = 0.5;

/// Mechanism that decides who runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sharing {
    /// The device, or a model of another system.
    System(System),
    /// XSched within a process, at the level that the tasks have.
    Threads(&'static str),
    /// XSched's daemon.
    Daemon(&'static str, DaemonSpec),
}

impl Sharing {
    /// The sharing of a cell.
    pub(super) fn of(cell: &CellPlan, hal: Hal) -> Self {
        let several = processes(cell) > 1;
        match cell.way {
            Way::Native | Way::Priorities if several && hal == Hal::Cuda => {
                Self::System(System::Timeslice)
            }
            // Kernels of processes that fill the device take turns under MPS, as those of streams
            // do (`fixed-priority-processes-mps.json`).
            Way::Native | Way::Priorities | Way::Mps => Self::System(System::Native),
            Way::MpsPercent => Self::System(System::Mps),
            Way::TritonPriorities | Way::TritonRateLimiter => Self::System(System::Triton),
            Way::Xsched | Way::MpsXsched => {
                let policy = cell.policy.unwrap_or(POLICY);
                match several && hal != Hal::Host {
                    true => {
                        let daemon = DaemonSpec { idle_ns: IDLE_NS, ..DaemonSpec::default() };
                        Self::Daemon(policy, daemon)
                    }
                    false => Self::Threads(policy),
                }
            }
        }
    }

    /// The name that the simulator knows it by.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::System(system) => system.name(),
            Self::Threads(policy) | Self::Daemon(policy, _) => policy,
        }
    }

    /// The timeslice that the policy is given.
    pub(super) fn timeslice_ns(&self) -> Option<u64> {
        matches!(self, Self::Daemon("hpf", _)).then_some(TURN_NS)
    }

    /// Returns whether XSched decides.
    pub(super) const fn is_scheduled(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}

/// Processes that use the device. A model of Triton's Python backend is a process.
pub(super) fn processes(cell: &CellPlan) -> usize {
    let of = |program, roles| if program == Program::Triton { roles } else { 1 };
    cell.processes.iter().map(|process| of(process.program, process.roles.len())).sum()
}
