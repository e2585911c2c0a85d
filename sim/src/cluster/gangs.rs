//! Cost of holds that are not at the same time on all nodes of a gang.
//!
//! A gang of one process per node computes a step and then reduces over all nodes. The reduction is
//! a kernel on each node that waits there, on the GPU, until it runs on every node; it is not
//! interrupted. Holds come from turns with another gang, whose phase differs between nodes, or from
//! requests of urgent processes, which come at random on each node.

use rand::RngExt;
use serde::{Serialize, Serializer};

use crate::sample::{Rng, Sampler, generator, jitter};
use crate::scenario::Dist;
use crate::stats::Band;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Sizes of a gang, in nodes.
const NODES: [usize; 3] = [2, 8, 64];
/// Draws of the phases of all nodes for each cell.
const DRAWS: u64 = 40;
/// Turns with another gang: the daemon's `timeslice_us` by default, and Slurm's
/// `SchedulerTimeSlice` by default. Steps of these lengths.
const TURNS: [(u64, u64); 3] = [(10 * MS, 20 * MS), (10 * MS, 100 * MS), (30_000 * MS, 100 * MS)];
/// Part of a step that is the reduction, in percent: assumed.
const REDUCTION_PERCENT: u64 = 10;
/// How far the rest of a step may be from its mean, in percent: assumed. All nodes have the same
/// work in a step; without this, steps and turns could keep in step with each other.
const JITTER_PERCENT: u64 = 25;
/// An urgent request and the mean time between two of them: those of `beside.py`.
const BURST: (u64, u64) = (5 * MS, 20 * MS);

/// Largest difference between the phases of two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// Phases are within this time, in nanoseconds.
    Within(u64),
    /// Each node has its own turns.
    Independent,
    /// Each node is held by its own urgent requests.
    Requests,
}

impl Skew {
    /// The rows for turns.
    pub const OF_TURNS: [Self; 5] = [
        Self::Within(10 * US),
        Self::Within(MS),
        Self::Within(10 * MS),
        Self::Within(100 * MS),
        Self::Independent,
    ];
}

impl Serialize for Skew {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Within(ns) => serializer.collect_str(&format_args!("{} µs", ns / US)),
            Self::Independent => serializer.serialize_str("independent"),
            Self::Requests => serializer.serialize_str("requests"),
        }
    }
}

/// One kind of holds on one size of a gang.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GangCell {
    /// Length of a turn, or of an urgent request.
    pub turn_ms: f64,
    /// Length of a step that is not held.
    pub step_ms: f64,
    /// Skew.
    pub skew: Skew,
    /// Nodes.
    pub nodes: usize,
    /// Steps per time, over those of a gang whose nodes are all held at the same times.
    pub kept: Band,
    /// Part of the GPU time in which a reduction waits for other nodes.
    pub spun: Band,
}

/// All cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GangStudy {
    /// Seed.
    pub seed: u64,
    /// By kind of holds, then by skew, then by nodes.
    pub cells: Vec<GangCell>,
}

/// Runs all cells.
#[must_use]
pub fn gangs(seed: u64) -> GangStudy {
    let mut cells = Vec::new();
    for (turn_ns, step_ns) in TURNS {
        for skew in Skew::OF_TURNS {
            cells.extend(NODES.map(|nodes| cell(turn_ns, step_ns, skew, nodes, seed)));
        }
    }
    for step_ns in [20 * MS, 100 * MS] {
        cells.extend(NODES.map(|nodes| cell(BURST.0, step_ns, Skew::Requests, nodes, seed)));
    }
    GangStudy { seed, cells: cells.into_iter().flatten().collect() }
}

fn cell(turn_ns: u64, step_ns: u64, skew: Skew, nodes: usize, seed: u64) -> Option<GangCell> {
    let step = Step { work_ns: step_ns - step_ns * REDUCTION_PERCENT / 100, step_ns };
    // Long enough for 20 turns, and for 100 steps.
    let until_ns = (40 * turn_ns).max(200 * step_ns);
    let mut kept = Vec::new();
    let mut spun = Vec::new();
    for draw in 0..DRAWS {
        let mut rng = generator(seed, draw);
        let mut all = holds(turn_ns, skew, nodes, &mut rng);
        let outcome = step.run(&mut all, until_ns, &mut generator(seed, DRAWS + draw));
        let mut together = holds(turn_ns, skew, 1, &mut generator(seed, draw));
        let alone = step.run(&mut together, until_ns, &mut generator(seed, DRAWS + draw));
        kept.push(outcome.steps_per_s / alone.steps_per_s);
        spun.push(outcome.spun);
    }
    Some(GangCell {
        turn_ms: turn_ns as f64 / MS as f64,
        step_ms: step_ns as f64 / MS as f64,
        skew,
        nodes,
        kept: Band::of(kept)?,
        spun: Band::of(spun)?,
    })
}

fn holds(turn_ns: u64, skew: Skew, nodes: usize, rng: &mut Rng) -> Vec<Holds> {
    let holds = |_| match skew {
        Skew::Within(skew_ns) => Holds::turns(turn_ns, rng.random_range(0..=skew_ns)),
        Skew::Independent => Holds::turns(turn_ns, rng.random_range(0..2 * turn_ns)),
        Skew::Requests => Holds::requests(generator(rng.random(), 0)),
    };
    (0..nodes).map(holds).collect()
}

/// When a node may run the gang.
#[derive(Clone, Debug)]
enum Holds {
    /// For the first half of a period that begins at an offset.
    Turns { turn_ns: u64, offset_ns: u64 },
    /// Except for requests; the next begins and ends then.
    Requests { from_ns: u64, to_ns: u64, gap: Sampler, rng: Rng },
}

impl Holds {
    fn turns(turn_ns: u64, offset_ns: u64) -> Self {
        Self::Turns { turn_ns, offset_ns: offset_ns % (2 * turn_ns) }
    }

    fn requests(rng: Rng) -> Self {
        let (burst_ns, every_ns) = BURST;
        let gap = Sampler::new(&Dist::Exponential { mean_ns: (every_ns - burst_ns) as f64 });
        Self::Requests { from_ns: 0, to_ns: 0, gap, rng }
    }

    /// Returns the first time from `at_ns` on at which the gang may run, and until when.
    fn window(&mut self, at_ns: u64) -> (u64, u64) {
        match self {
            Self::Turns { turn_ns, offset_ns } => {
                let period_ns = 2 * *turn_ns;
                let into_ns = (at_ns + period_ns - *offset_ns) % period_ns;
                let begin_ns = at_ns - into_ns.min(at_ns);
                if into_ns < *turn_ns {
                    return (at_ns, at_ns + *turn_ns - into_ns);
                }
                let next_ns = if into_ns > at_ns { *offset_ns } else { begin_ns + period_ns };
                (next_ns, next_ns + *turn_ns)
            }
            Self::Requests { from_ns, to_ns, gap, rng } => {
                while *to_ns <= at_ns {
                    *from_ns = *to_ns + gap.draw(rng);
                    *to_ns = *from_ns + BURST.0;
                }
                if at_ns < *from_ns {
                    return (at_ns, *from_ns);
                }
                let open_ns = *to_ns;
                *from_ns = open_ns + gap.draw(rng).max(1);
                *to_ns = *from_ns + BURST.0;
                (open_ns, *from_ns)
            }
        }
    }

    /// When work that begins at `at_ns` has ended.
    fn end_of(&mut self, mut at_ns: u64, mut work_ns: u64) -> u64 {
        loop {
            let (from_ns, to_ns) = self.window(at_ns);
            if work_ns <= to_ns - from_ns {
                return from_ns + work_ns;
            }
            work_ns -= to_ns - from_ns;
            at_ns = to_ns;
        }
    }
}

/// Step of a gang.
#[derive(Clone, Copy, Debug)]
struct Step {
    work_ns: u64,
    step_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    steps_per_s: f64,
    spun: f64,
}

impl Step {
    fn run(self, nodes: &mut [Holds], until_ns: u64, rng: &mut Rng) -> Outcome {
        let (mut now_ns, mut steps, mut spun_ns) = (0, 0_u64, 0_u64);
        while now_ns < until_ns {
            let work_ns = jitter(self.work_ns, self.work_ns * JITTER_PERCENT / 100, rng);
            let (mut last_ns, mut sum_ns) = (0, 0);
            for node in &mut *nodes {
                let end_ns = node.end_of(now_ns, work_ns);
                let ready_ns = node.window(end_ns).0;
                last_ns = last_ns.max(ready_ns);
                sum_ns += ready_ns;
            }
            spun_ns += last_ns * nodes.len() as u64 - sum_ns;
            now_ns = last_ns + (self.step_ns - self.work_ns);
            steps += 1;
        }
        let gpu_ns = now_ns as f64 * nodes.len() as f64;
        Outcome { steps_per_s: steps as f64 / now_ns as f64 * 1e9, spun: spun_ns as f64 / gpu_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(skew: Skew, nodes: usize, step_ns: u64) -> Outcome {
        let step = Step { work_ns: step_ns * 9 / 10, step_ns };
        let nodes = &mut holds(10 * MS, skew, nodes, &mut generator(1, 0));
        step.run(nodes, 20_000 * MS, &mut generator(2, 0))
    }

    #[test]
    fn work_ends_where_its_turns_allow() {
        // Turns of 10 ms from 3 ms on, 23 ms, ...
        let mut node = Holds::turns(10 * MS, 3 * MS);
        let end = |node: &mut Holds, at: u64, work: u64| node.end_of(at * MS, work * MS) / MS;
        assert_eq!(end(&mut node, 0, 4), 7);
        assert_eq!(end(&mut node, 5, 8), 13);
        assert_eq!(end(&mut node, 5, 9), 24);
        assert_eq!(end(&mut node, 14, 25), 68);
        assert_eq!(node.window(13 * MS), (23 * MS, 33 * MS));
    }

    #[test]
    fn nodes_that_are_held_together_lose_nothing() {
        let one = run(Skew::Within(0), 1, 20 * MS);
        let many = run(Skew::Within(0), 64, 20 * MS);
        assert_eq!(one.steps_per_s.to_bits(), many.steps_per_s.to_bits());
        assert!(many.spun == 0.0);
    }

    #[test]
    fn skew_and_nodes_cost() {
        for nodes in NODES {
            let kept = |skew| run(skew, nodes, 20 * MS).steps_per_s;
            assert!(kept(Skew::Independent) < kept(Skew::Within(MS)), "{nodes} nodes");
        }
        let kept = |nodes| run(Skew::Requests, nodes, 20 * MS).steps_per_s;
        assert!(kept(64) < kept(8) && kept(8) < kept(2), "the slowest of more nodes is slower");
    }

    #[test]
    fn requests_take_their_part() {
        // A quarter of the time, so a step of compute alone takes 4/3 of its time.
        let step = Step { work_ns: 100 * MS, step_ns: 100 * MS };
        let nodes = &mut holds(0, Skew::Requests, 1, &mut generator(1, 0));
        let outcome = step.run(nodes, 200_000 * MS, &mut generator(2, 0));
        assert!((outcome.steps_per_s - 7.5).abs() < 0.1, "{outcome:?}");
    }

    #[test]
    fn a_seed_stands_for_one_study() {
        let one = cell(10 * MS, 20 * MS, Skew::Independent, 8, 5);
        assert_eq!(one, cell(10 * MS, 20 * MS, Skew::Independent, 8, 5));
        assert_ne!(one, cell(10 * MS, 20 * MS, Skew::Independent, 8, 6));
    }
}
