//! Goals of a row, and what the plan's form has of it.

use xsched_sim::stats::Goal;

/// Part of a core that scheduling may use, in percent, by the plan.
pub(super) const CORES_MAX_PERCENT: f64 = 5.0;

/// A value that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct GoalPlan {
    /// In words, as `P99 of high over its P99 alone`.
    pub(crate) what: String,
    /// Origin of the goal: `plan`, or `ours` where the plan has none or has another load.
    pub(crate) whose: &'static str,
    /// The cell that decides.
    pub(crate) cell: String,
    /// The role.
    pub(crate) role: &'static str,
    /// The quantity, see [`super::super::plan`].
    pub(crate) quantity: &'static str,
    /// Bound of the value.
    pub(crate) goal: Goal,
    /// Set if it is a time that only makes sense on a GPU.
    pub(crate) is_time: bool,
}

impl GoalPlan {
    pub(super) fn new(
        whose: &'static str,
        what: &str,
        (cell, role, quantity): (&str, &'static str, &'static str),
        goal: Goal,
    ) -> Self {
        Self {
            what: what.to_owned(),
            whose,
            cell: cell.to_owned(),
            role,
            quantity,
            goal,
            is_time: false,
        }
    }

    pub(super) fn time(self) -> Self {
        Self { is_time: true, ..self }
    }
}

/// A result by the plan's own name.
#[derive(Clone, Debug)]
pub(crate) struct ResultPlan {
    /// The name.
    pub(crate) key: &'static str,
    /// The cell that it is of.
    pub(crate) cell: String,
    /// The role.
    pub(crate) role: &'static str,
    /// The quantity.
    pub(crate) quantity: &'static str,
}

/// Results by the plan's names, each with its cell, role and quantity.
pub(super) fn results<const N: usize>(
    named: [(&'static str, &str, &'static str, &'static str); N],
) -> Vec<ResultPlan> {
    let one = |(key, cell, role, quantity): (_, &str, _, _)| ResultPlan {
        key,
        cell: cell.to_owned(),
        role,
        quantity,
    };
    named.into_iter().map(one).collect()
}
