//! The policies of the C++ library (v1.2.0), with the defects that they were seen to have when they
//! were run, and the same checks for ours. Each check must catch the one and pass the other: a
//! check that a broken policy passes would say nothing about a sound one.
//!
//! Policies are driven in the scheduler machine alone (`rig`). `policy-conformance` holds ours
//! against what they promise in the simulator as well, and the swarm looks for violated invariants.

mod awf;
mod cfs;
mod checks;
mod chpf;
mod hhpf;
mod hints;
mod hpf;
mod kedf;
mod lax;
mod mlfq;
mod pup;
mod rig;
mod rules;
mod shares;
mod switching;
mod up;

use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, Policy, Urgency, Verdict};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;
use xsched_policies::Any;

use checks::{Found, Tried};

const RUN: Verdict = Verdict::Run;
const HOLD: Verdict = Verdict::Hold(Urgency::NOW);

/// The names that the C++ library has.
const NAMES: [&str; 11] =
    ["hpf", "hhpf", "chpf", "up", "pup", "spup", "kedf", "lax", "awf", "cfs", "mlfq"];

/// An algorithm of the C++ library, which looks at all queues whenever it is asked.
trait Algorithm {
    const NAME: &'static str;

    fn configure(&mut self, _: PolicyHint) -> bool {
        false
    }

    fn observe(&mut self, _: QueueId, _: Event, _: &QueueTable<'_>) {}

    fn decide(&mut self, now: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>);
}

/// An algorithm as a policy.
struct Asked<A>(A);

impl<A: Algorithm> Policy for Asked<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        self.0.configure(hint)
    }

    fn observe(&mut self, _: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        self.0.observe(queue, event, queues);
    }

    fn decide(
        &mut self,
        now: Instant,
        _: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        self.0.decide(now, queues, out);
    }
}

fn tried<A: Algorithm + Default + 'static>() -> Tried {
    Box::new(Asked(A::default()))
}

/// A policy as the C++ library has it. Defect: one of its names has nothing behind it.
fn upstream(name: &str) -> Option<Tried> {
    Some(match name {
        "hpf" => tried::<hpf::Hpf>(),
        "hhpf" => tried::<hhpf::Hhpf>(),
        "chpf" => tried::<chpf::Chpf>(),
        "up" => tried::<up::Up>(),
        "pup" => tried::<pup::Pup>(),
        "kedf" => tried::<kedf::Kedf>(),
        "lax" => tried::<lax::Lax>(),
        "awf" => tried::<awf::Awf>(),
        "cfs" => tried::<cfs::Cfs>(),
        "mlfq" => tried::<mlfq::Mlfq>(),
        _ => return None,
    })
}

fn ours(name: &str) -> Option<Tried> {
    name.parse::<Any>().ok().map(|policy| Box::new(policy) as Box<dyn Policy>)
}

/// The check finds this in the C++ library's policy.
fn caught(name: &str, check: impl Fn(Tried) -> Found, words: &str) {
    let policy = upstream(name).expect("one that is built");
    let found = check(policy).expect_err("the defect goes unnoticed");
    assert!(found.contains(words), "{name}: {found}");
}

/// The check finds nothing in these policies of ours.
fn kept(names: &[&str], check: impl Fn(Tried) -> Found) {
    for name in names {
        let policy = ours(name).unwrap_or_else(|| panic!("no policy is called {name}"));
        if let Err(found) = check(policy) {
            panic!("{name}: {found}");
        }
    }
}
