//! Rate control like that of TGS: on each device the tasks of the highest priority are production,
//! all further tasks are opportunistic. The control watches at what rate the production tasks
//! launch work. It learns their undisturbed rate while the opportunistic tasks wait, then lets
//! these launch a little in every window and more and more of it while the production rate stays
//! near the learnt one: by a factor at first, then by additions; when the rate drops, the allowance
//! is cut by a factor. Production tasks that launch nothing for a whole interval free the device
//! for the opportunistic tasks. Kernels are never stopped, and one may always go in each window,
//! however long it is.
//!
//! Source: Wu, Zhang, Bai, Liu and Jin, "Transparent GPU Sharing in Container Clouds for Deep
//! Learning Workloads" (NSDI 2023), and the constants of the authors' public code: a window of
//! 50 ms, a tolerance of 3 %, growth by half at first, additions of 2.5 % of the production rate,
//! cuts of 8 %, a tenth and a new start after a drop of three tolerances, and a judgement every 5 s
//! (so it takes a minute or two to converge). The code counts thread blocks, the model device time.

use super::{Admit, Comparators, LaunchGate};
use crate::scenario::TaskSpec;

/// Growth of the allowance at the start.
const SLOW_START: f64 = 1.5;
/// Intervals in which the undisturbed rate is learnt.
const PROBES: u32 = 2;
/// After a drop of this many tolerances the allowance becomes a tenth and growth starts afresh.
const COLLAPSE: f64 = 3.0;
/// The allowance is at most this many times what the opportunistic tasks used.
const AHEAD: f64 = 3.0;
/// After this many intervals in a row with a drop above this, the learnt rate is thought too high,
/// and becomes this part of itself.
const DOUBTS: u32 = 20;
const DOUBTFUL: f64 = 0.12;
const DOUBT: f64 = 0.8;

/// The control of all devices.
#[derive(Debug)]
pub(super) struct RateControl {
    parameters: Comparators,
    /// For each task its device and whether it is a production task.
    tasks: Vec<(usize, bool)>,
    devices: Vec<Control>,
}

/// How far the control of a device has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No production task is active.
    Free,
    /// The undisturbed rate is being learnt, for this many intervals so far.
    Probe(u32),
    SlowStart,
    Avoidance,
}

/// The control of a device. Rates are device time per time.
#[derive(Debug)]
struct Control {
    phase: Phase,
    /// When the present interval ends.
    judged_at_ns: u64,
    /// Work that was launched in it, by production and by opportunistic tasks.
    produced_ns: u64,
    taken_ns: u64,
    /// Production rate without opportunistic tasks.
    learnt: f64,
    /// Opportunistic rate that is allowed.
    allowed: f64,
    doubts: u32,
    /// The present window, and what the opportunistic tasks launched in it.
    window: u64,
    used_ns: u64,
}

impl RateControl {
    pub(super) fn new(parameters: &Comparators, tasks: &[TaskSpec]) -> Self {
        let devices = tasks.iter().map(|task| task.device).max().map_or(0, |most| most + 1);
        let top = |device| {
            tasks.iter().filter(|task| task.device == device).map(|task| task.priority).max()
        };
        let role = |task: &TaskSpec| (task.device, Some(task.priority) == top(task.device));
        Self {
            parameters: parameters.clone(),
            tasks: tasks.iter().map(role).collect(),
            devices: (0..devices).map(|_| Control::new()).collect(),
        }
    }
}

impl Control {
    const fn new() -> Self {
        Self {
            phase: Phase::Free,
            judged_at_ns: 0,
            produced_ns: 0,
            taken_ns: 0,
            learnt: 0.0,
            allowed: 0.0,
            doubts: 0,
            window: 0,
            used_ns: 0,
        }
    }

    /// Judges the intervals that are over.
    fn catch_up(&mut self, now_ns: u64, parameters: &Comparators) {
        while self.phase != Phase::Free && self.judged_at_ns <= now_ns {
            let interval_ns = parameters.tgs_interval_ns as f64;
            let produced = std::mem::take(&mut self.produced_ns) as f64 / interval_ns;
            let taken = std::mem::take(&mut self.taken_ns) as f64 / interval_ns;
            self.judge(produced, taken, parameters);
            self.judged_at_ns += parameters.tgs_interval_ns;
        }
    }

    /// An interval is over in which production and opportunistic tasks launched at these rates.
    fn judge(&mut self, produced: f64, taken: f64, parameters: &Comparators) {
        if produced == 0.0 {
            self.phase = Phase::Free;
            return;
        }
        let drop = if self.learnt > 0.0 { 1.0 - produced / self.learnt } else { 0.0 };
        let kept = drop <= parameters.tgs_tolerance;
        match self.phase {
            Phase::Free => return,
            Phase::Probe(seen) => {
                self.learnt = self.learnt.max(produced);
                self.phase =
                    if seen + 1 < PROBES { Phase::Probe(seen + 1) } else { self.start(parameters) };
                return;
            }
            Phase::SlowStart if kept => self.allowed *= SLOW_START,
            Phase::SlowStart => {
                self.allowed /= SLOW_START;
                self.phase = Phase::Avoidance;
            }
            Phase::Avoidance if kept => self.allowed += parameters.tgs_increase * self.learnt,
            Phase::Avoidance => {
                self.allowed *= 1.0 - parameters.tgs_decrease;
                if drop >= COLLAPSE * parameters.tgs_tolerance {
                    self.allowed /= 10.0;
                    self.phase = Phase::SlowStart;
                }
            }
        }
        self.allowed = self.allowed.min((AHEAD * taken).max(parameters.tgs_start));
        self.doubt(drop);
    }

    fn start(&mut self, parameters: &Comparators) -> Phase {
        self.allowed = parameters.tgs_start;
        self.doubts = 0;
        Phase::SlowStart
    }

    /// A rate that stays far below what was learnt is what production does now.
    fn doubt(&mut self, drop: f64) {
        self.doubts = if drop >= DOUBTFUL { self.doubts + 1 } else { 0 };
        if self.doubts >= DOUBTS {
            self.learnt *= DOUBT;
            self.allowed /= 2.0;
            self.doubts = 0;
            self.phase = Phase::SlowStart;
        }
    }
}

impl LaunchGate for RateControl {
    fn admit(&mut self, now_ns: u64, task: usize, _: u64) -> Admit {
        let (device, production) = self.tasks[task];
        let control = &mut self.devices[device];
        control.catch_up(now_ns, &self.parameters);
        if production || control.phase == Phase::Free {
            return Admit::Now;
        }
        if matches!(control.phase, Phase::Probe(_)) {
            return Admit::At(control.judged_at_ns);
        }
        let window_ns = self.parameters.tgs_window_ns;
        let window = now_ns / window_ns;
        if window != control.window {
            (control.window, control.used_ns) = (window, 0);
        }
        if control.used_ns == 0 || (control.used_ns as f64) < control.allowed * window_ns as f64 {
            return Admit::Now;
        }
        Admit::At((window + 1).saturating_mul(window_ns))
    }

    fn launched(&mut self, now_ns: u64, task: usize, work_ns: u64) {
        let (device, production) = self.tasks[task];
        let control = &mut self.devices[device];
        control.catch_up(now_ns, &self.parameters);
        if !production {
            control.taken_ns += work_ns;
            control.used_ns += work_ns;
            return;
        }
        if control.phase == Phase::Free {
            *control = Control { phase: Phase::Probe(0), ..Control::new() };
            control.judged_at_ns = now_ns.saturating_add(self.parameters.tgs_interval_ns);
        }
        control.produced_ns += work_ns;
    }
}
