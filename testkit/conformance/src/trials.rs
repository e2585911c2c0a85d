//! Checks as tests that are listed, filtered and reported like any other.

use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Trial};

use crate::check::Check;
use crate::subject::Subject;
use crate::verdict::Verdict;

/// The checks as tests of `libtest_mimic`, named `name::check`.
pub fn trials<S: Subject>(name: &str, checks: Vec<Check<S>>, subject: S) -> Vec<Trial> {
    let subject = Arc::new(subject);
    let trial = |check: Check<S>| {
        let subject = Arc::clone(&subject);
        Trial::ignorable_test(format!("{name}::{}", check.name), move || {
            match check.run(&*subject) {
                Verdict::Passed => Ok(Completion::Completed),
                Verdict::Skipped(why) => Ok(Completion::ignored_with(why)),
                Verdict::Failed(why) => Err(format!("{why}\n  about: {}", check.about).into()),
            }
        })
    };
    checks.into_iter().map(trial).collect()
}

/// Runs the checks on the subjects as the arguments of the process say (the same as for any test),
/// one after the other by default, because checks that run at once disturb each other. Ends the
/// process.
pub fn main<S: Subject>(subjects: impl IntoIterator<Item = (&'static str, Vec<Check<S>>, S)>) -> ! {
    let all = subjects.into_iter().flat_map(|(name, checks, s)| trials(name, checks, s));
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(1));
    libtest_mimic::run(&arguments, all.collect()).exit()
}
