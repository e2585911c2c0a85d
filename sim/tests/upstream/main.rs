//! The policies of the C++ library (v1.2.0), with the defects that they were seen to have when they
//! were run, and the same checks for ours. Each check must catch the one and pass the other: a
//! check that a broken policy passes would say nothing about a sound one.
//!
//! `rules`, `shares` and `switching` drive policies in the scheduler machine alone (`rig`),
//! `simulated` in the simulator.

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
mod simulated;
mod switching;
mod up;

use xsched_core::policy::{Policy, Urgency, Verdict};
use xsched_policies::Any;

use checks::{Found, Tried};

const RUN: Verdict = Verdict::Run;
const HOLD: Verdict = Verdict::Hold(Urgency::NOW);

/// The names that the C++ library has.
const NAMES: [&str; 11] =
    ["hpf", "hhpf", "chpf", "up", "pup", "spup", "kedf", "lax", "awf", "cfs", "mlfq"];

/// A policy as the C++ library has it. Defect: one of its names has nothing behind it.
fn upstream(name: &str) -> Option<Tried> {
    Some(match name {
        "hpf" => Box::<hpf::Hpf>::default(),
        "hhpf" => Box::<hhpf::Hhpf>::default(),
        "chpf" => Box::<chpf::Chpf>::default(),
        "up" => Box::<up::Up>::default(),
        "pup" => Box::<pup::Pup>::default(),
        "kedf" => Box::<kedf::Kedf>::default(),
        "lax" => Box::<lax::Lax>::default(),
        "awf" => Box::<awf::Awf>::default(),
        "cfs" => Box::<cfs::Cfs>::default(),
        "mlfq" => Box::<mlfq::Mlfq>::default(),
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
