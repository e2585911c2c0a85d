//! The checks.

mod commit;
mod contract;
mod deactivate;
mod failure;
mod fence;
mod interrupt;
mod level;
mod lifetime;
mod order;
mod quiet;
mod retire;
mod threads;
mod wake;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::subject::Subject;
use crate::verdict::{Step, Verdict};

/// One thing that every backend must do.
pub struct Check<S> {
    /// Name: what it is about, and what is true if it passes.
    pub name: &'static str,
    /// Subject: an invariant of ARCHITECTURE.md or the documentation of a trait.
    pub about: &'static str,
    run: fn(&S) -> Step,
}

impl<S> fmt::Debug for Check<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, about, .. } = self;
        f.debug_struct("Check").field("name", name).field("about", about).finish_non_exhaustive()
    }
}

impl<S: Subject> Check<S> {
    /// Runs it. A panic of the backend fails it.
    #[must_use]
    pub fn run(&self, subject: &S) -> Verdict {
        match catch_unwind(AssertUnwindSafe(|| (self.run)(subject))) {
            Ok(end) => end.into(),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Verdict::Failed(format!("panicked: {}", text.unwrap_or_default()))
            }
        }
    }
}

/// All checks.
#[must_use]
pub fn checks<S: Subject>() -> Vec<Check<S>> {
    let groups = [
        order::checks(),
        fence::checks(),
        retire::checks(),
        wake::checks(),
        deactivate::checks(),
        interrupt::checks(),
        quiet::checks(),
        commit::checks(),
        level::checks(),
        failure::checks(),
        threads::checks(),
        lifetime::checks(),
        contract::checks(),
    ];
    groups.into_iter().flatten().collect()
}

/// `Check`s from lines of name, what it stands for, and function.
macro_rules! list {
    ($($name:literal, $about:literal, $run:ident;)+) => {
        vec![$(Check { name: $name, about: $about, run: $run }),+]
    };
}
pub(crate) use list;
