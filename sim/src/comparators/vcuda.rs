//! Quotas like those of vCUDA containers: each process may use a fixed part of the device time, and
//! its launches wait once the part of the present window is used up. What it does not use is lost
//! for all processes, so the device idles although there is work. A command that
//! overdraws the quota is paid for by the following windows.
//!
//! Source: Gu et al., "GaiaGPU: Sharing GPUs in Container Clouds" (ISPA 2018), and the public code
//! of its vcuda-controller, which adjusts its launch tokens every 120 ms; that is the window here.
//! The code measures utilisation through the driver and approaches the quota from below by
//! feedback; the model charges the exact device time, so it is the best case of such a system.

use super::{Admit, Comparators, LaunchGate, clients, shares};
use crate::scenario::TaskSpec;

/// The quotas of all processes on all devices.
#[derive(Debug)]
pub(super) struct Quotas {
    window_ns: u64,
    /// For each task its budget.
    of: Vec<usize>,
    budgets: Vec<Budget>,
}

/// Budget of a process on a device.
#[derive(Clone, Copy, Debug)]
struct Budget {
    quota_ns: i64,
    /// Of the window with this number; below 0 if it was overdrawn.
    left_ns: i64,
    window: u64,
}

impl Quotas {
    pub(super) fn new(parameters: &Comparators, tasks: &[TaskSpec]) -> Self {
        let clients = clients(tasks);
        let processes = clients.iter().max().map_or(0, |most| most + 1);
        let devices = tasks.iter().map(|task| task.device).max().map_or(0, |most| most + 1);
        let mut budgets = Vec::with_capacity(processes * devices);
        for device in 0..devices {
            let here = |client| {
                let mut tasks = tasks.iter().zip(&clients);
                tasks.any(|(task, &other)| task.device == device && other == client)
            };
            let present = (0..processes).filter(|&client| here(client)).count().max(1);
            let equal = 100.0 / present as f64;
            for share in shares(tasks, &clients, device) {
                let percent = share.map_or(equal, f64::from);
                let quota_ns = (parameters.vcuda_window_ns as f64 * percent / 100.0) as i64;
                budgets.push(Budget { quota_ns, left_ns: quota_ns, window: 0 });
            }
        }
        let budget = |(task, client): (&TaskSpec, &usize)| task.device * processes + client;
        let of = tasks.iter().zip(&clients).map(budget).collect();
        Self { window_ns: parameters.vcuda_window_ns, of, budgets }
    }
}

impl Budget {
    fn renew(&mut self, window: u64) {
        let windows = i64::try_from(window - self.window).unwrap_or(i64::MAX);
        let more = self.quota_ns.saturating_mul(windows);
        self.left_ns = self.left_ns.saturating_add(more).min(self.quota_ns);
        self.window = window;
    }

    /// The first window in which something is left.
    fn next_window(&self) -> Option<u64> {
        let missing = self.left_ns.min(0).unsigned_abs();
        Some(self.window + 1 + missing.checked_div(self.quota_ns.unsigned_abs())?)
    }
}

impl LaunchGate for Quotas {
    fn admit(&mut self, now_ns: u64, task: usize, _: u64) -> Admit {
        let budget = &mut self.budgets[self.of[task]];
        budget.renew(now_ns / self.window_ns);
        if budget.left_ns > 0 {
            return Admit::Now;
        }
        let next = budget.next_window();
        next.map_or(Admit::Later, |window| Admit::At(window.saturating_mul(self.window_ns)))
    }

    fn launched(&mut self, _: u64, task: usize, work_ns: u64) {
        let budget = &mut self.budgets[self.of[task]];
        budget.left_ns = budget.left_ns.saturating_sub_unsigned(work_ns);
    }
}
