//! Plan of a seed: processes, a policy, and what happens to them and to the daemon.

use rand::RngExt;
use xsched_policies::Any;

use super::super::pick;
use crate::sample::{Rng, below, generator};

/// Things go wrong in this first part of a run.
pub(super) const TROUBLE_NS: u64 = 3_000_000_000;
/// The version of the messages that processes speak.
pub(super) const VERSION: u32 = 1;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// GPUs.
pub(super) const DEVICES: usize = 2;
/// Of so many seeds, one has processes that wait for others on the GPU, and one a daemon whose
/// thread for connections is stuck. All others mean what they meant without these.
const EVERY: u64 = 11;
const WAITING: u64 = 0;
const STUCK: u64 = 9;

/// A drawn run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) policy: &'static str,
    pub(super) processes: Vec<ProcessPlan>,
    pub(super) disturbances: Vec<Planned>,
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct ProcessPlan {
    pub(super) start_ns: u64,
    pub(super) priority: i32,
    pub(super) share: Option<u8>,
    pub(super) queues: Vec<QueuePlan>,
}

/// A queue of a process: requests one after the other with pauses, each of several commands.
#[derive(Clone, Debug)]
pub(super) struct QueuePlan {
    pub(super) device: usize,
    /// Gate is in a page of its own.
    pub(super) own_page: bool,
    pub(super) start_ns: u64,
    pub(super) requests: u32,
    pub(super) commands: u64,
    pub(super) command_ns: u64,
    pub(super) think_ns: u64,
    /// On the GPU, each request waits until this queue of this other process has run as many. No
    /// scheduler is told.
    pub(super) awaits: Option<(usize, usize)>,
}

/// Something that happens: after this time, when the daemon or a process has made this many steps
/// more. So it comes between two of them that belong together more often than by chance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) at_ns: u64,
    pub(super) steps: u32,
    pub(super) what: Disturbance,
}

/// Disturbance of a process or of the daemon.
#[derive(Clone, Copy, Debug)]
pub(super) enum Disturbance {
    /// `kill -9`. The daemon's supervisor starts another one after a time.
    KillDaemon { again_ns: u64 },
    /// `kill -STOP`, and `kill -CONT` after a time.
    StopDaemon { ns: u64 },
    /// The daemon's thread for connections is in a call that takes this time.
    StickControl { ns: u64 },
    /// The daemon ends, and one that speaks this version of the messages starts after a time.
    Upgrade { again_ns: u64, version: u32 },
    /// A process is killed.
    KillProcess { process: usize },
    /// A process is stopped for a time.
    StopProcess { process: usize, ns: u64 },
    /// A connection ends, for both sides.
    LoseConnection { process: usize },
    /// A user changes a priority, at the daemon that there is.
    Prioritise { process: usize, priority: i32 },
    /// A user holds a process, or ends that.
    Hold { process: usize, hold: bool },
    /// A user changes the policy.
    Policy { name: &'static str },
}

impl Plan {
    /// Draws the plan of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let rng = &mut generator(seed, 81);
        let count = rng.random_range(2..=5);
        let processes = (0..count).map(|_| draw_process(rng)).collect();
        let disturbances = (0..rng.random_range(2..=10)).map(|_| draw_planned(count, rng));
        let disturbances = disturbances.collect();
        let mut plan = Self { disturbances, processes, policy: draw_policy(rng) };
        let rng = &mut generator(seed, 83);
        match seed % EVERY {
            WAITING => draw_waits(&mut plan.processes, rng),
            STUCK => plan.disturbances.extend(draw_stuck(count, rng)),
            _ => {}
        }
        plan
    }
}

/// Has processes wait for others before them, which are less urgent: the one that waits may hold
/// what it waits for.
fn draw_waits(processes: &mut [ProcessPlan], rng: &mut Rng) {
    for at in 1..processes.len() {
        let (before, from) = processes.split_at_mut(at);
        let Some(process) = from.first_mut() else { return };
        process.priority = at as i32;
        for queue in &mut process.queues {
            let device = queue.device;
            let mut on_it = Vec::new();
            for (number, other) in before.iter().enumerate() {
                let queues = other.queues.iter().enumerate();
                let queues = queues.filter(|(_, other)| other.device == device);
                on_it.extend(queues.map(|(at, _)| (number, at)));
            }
            let awaits = !on_it.is_empty() && rng.random_bool(0.7);
            queue.awaits = awaits.then(|| on_it[below(on_it.len(), rng)]);
        }
    }
}

/// A process is held, by a user, and the thread is stuck for longer than after which it counts as
/// that, while another process may end.
fn draw_stuck(processes: usize, rng: &mut Rng) -> [Planned; 3] {
    let at_ns = rng.random_range(0..TROUBLE_NS / 3);
    let hold = Disturbance::Hold { process: below(processes, rng), hold: true };
    let stick = Disturbance::StickControl { ns: rng.random_range(3_000 * MS..10_000 * MS) };
    let kill = Disturbance::KillProcess { process: below(processes, rng) };
    [(hold, 0), (stick, 20 * MS), (kill, 40 * MS)].map(|(what, after_ns)| Planned {
        at_ns: at_ns + after_ns,
        steps: 0,
        what,
    })
}

/// Highest priority first half of the time: what it decides is known without asking it.
fn draw_policy(rng: &mut Rng) -> &'static str {
    if rng.random_bool(0.5) { "hpf" } else { Any::NAMES[below(Any::NAMES.len(), rng)] }
}

fn draw_process(rng: &mut Rng) -> ProcessPlan {
    let queues = (0..rng.random_range(1..=3)).map(|_| draw_queue(rng)).collect();
    ProcessPlan {
        start_ns: if rng.random_bool(0.5) { 0 } else { rng.random_range(0..TROUBLE_NS) },
        priority: rng.random_range(-2..=2),
        share: rng.random_bool(0.5).then(|| rng.random_range(20..=100)),
        queues,
    }
}

fn draw_queue(rng: &mut Rng) -> QueuePlan {
    let command_ns = pick(&[200 * US, MS, 5 * MS], rng);
    let request_ns = pick(&[MS, 10 * MS, 100 * MS, 400 * MS], rng);
    let think_ns = pick(&[0, 50 * US, 2 * MS, 100 * MS], rng);
    // About a second of work and pauses.
    let requests = (1_000 * MS / (request_ns + think_ns)).clamp(2, 60) as u32;
    QueuePlan {
        device: usize::from(rng.random_bool(0.3)),
        own_page: rng.random_bool(0.3),
        start_ns: pick(&[0, 0, MS, 500 * MS], rng),
        requests: rng.random_range(1..=requests),
        commands: (request_ns / command_ns).max(1),
        command_ns,
        think_ns,
        awaits: None,
    }
}

fn draw_planned(processes: usize, rng: &mut Rng) -> Planned {
    let at_ns = rng.random_range(0..TROUBLE_NS);
    Planned { at_ns, steps: rng.random_range(0..40), what: draw_disturbance(processes, rng) }
}

fn draw_disturbance(processes: usize, rng: &mut Rng) -> Disturbance {
    let process = below(processes, rng);
    let again_ns = pick(&[0, 20 * US, MS, 50 * MS, 500 * MS], rng);
    match rng.random_range(0..16) {
        0..=2 => Disturbance::KillDaemon { again_ns },
        // Shortly, about the lease, or for seconds.
        3 => Disturbance::StopDaemon { ns: rng.random_range(10 * US..3 * MS) },
        4 => Disturbance::StopDaemon { ns: rng.random_range(70 * MS..150 * MS) },
        5 => Disturbance::StopDaemon { ns: rng.random_range(150 * MS..8_000 * MS) },
        6..=8 => {
            let version = if rng.random_bool(0.2) { VERSION + 1 } else { VERSION };
            Disturbance::Upgrade { again_ns, version }
        }
        9 | 10 => Disturbance::LoseConnection { process },
        11 => Disturbance::KillProcess { process },
        12 => Disturbance::StopProcess { process, ns: rng.random_range(MS..1_000 * MS) },
        13 => Disturbance::Prioritise { process, priority: rng.random_range(-3..=3) },
        14 => Disturbance::Hold { process, hold: rng.random_bool(0.7) },
        _ => Disturbance::Policy { name: draw_policy(rng) },
    }
}
