//! The one suite of checks that every device backend must pass.
//!
//! A backend's author implements [`Subject`] in an integration test. It says how a device is
//! opened, what the device claims, and how a command of a given duration is made. Every [`Check`]
//! becomes a test of its own:
//!
//! ```no_run
//! # use xsched_conformance::Subject;
//! # fn subjects<S: Subject>(mine: S) {
//! xsched_conformance::main([("mine", xsched_conformance::checks(), mine)]);
//! # }
//! ```
//!
//! with `harness = false` for that test in `Cargo.toml`. A check that a device can show nothing
//! about is *ignored*, with the reason; it never passes silently.
//! The option `--list` of that test lists the checks.
//!
//! The suite is not published. A backend in another repository names it by git, at the revision of
//! the `xsched-core` that it implements:
//!
//! ```toml
//! [dev-dependencies]
//! xsched-conformance = { git = "URL of XSched's repository", rev = "…" }
//!
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! `xsched-core` has to come from the same place in that test, or Cargo builds two of them, whose
//! traits are different ones. `[patch.crates-io]` does that: `xsched-core = { git = "…", rev = "…"
//! }`.
//!
//! `tests/minimal_backend` is a complete example: a backend at Lv1 in under 100 lines, and its
//! [`Subject`].
//!
//! A command writes what it does into a [`Log`] through a [`Note`]: when it started, that it makes
//! progress, when it ended. The suite compares what the device *reports* with what *happened*.
//! Asserts about order and holds are strict. A check that shows something only if a step comes in
//! time, such as while a command runs, is repeated with longer commands before it fails.
//!
//! [`broken`] wraps any device and adds one defect at a time. The suite's own tests show that each
//! check fails for its defect.

pub mod broken;
mod check;
mod log;
mod rig;
pub mod staged;
mod subject;
mod trials;
mod verdict;

pub use check::{Check, checks};
pub use log::{Log, Note, Notes};
pub use subject::{Claims, PreemptOf, RetireOf, Subject, SubmitOf, Work};
pub use trials::{main, trials};
pub use verdict::Verdict;
