//! Outcome of the launches of a cell's programs, and whether that is what the cell is about.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node::has_daemon;
use super::plan::{CellPlan, Program};

/// Reasons for which a launch is past XQueues that concern no work of the device: the graph, or the
/// launch around it, is counted by itself.
const COUNTED_OTHERWISE: [&str; 2] = ["while a stream was being captured", "within another launch"];
/// One launch in this number may be past XQueues: goals are of 1 % and more.
const PAST_PART: u64 = 100;

/// Counts of all programs of a cell, from their start to their end. Cells that are measured with
/// the same programs have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Launches through XQueues.
    pub(crate) scheduled: u64,
    /// Launches that went to the driver at once, since nothing required scheduling.
    pub(crate) alone: u64,
    /// Launches past XQueues.
    pub(crate) past: u64,
    /// Streams with gates.
    pub(crate) gated_streams: u64,
    /// Holds of processes, or of the XQueues of one process.
    pub(crate) holds: u64,
    /// Holds of processes with work, where that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preemptions: Option<u64>,
}

impl Counts {
    /// Reads what an interposer wrote of a process.
    pub(crate) fn of_interposer(said: &Value) -> Self {
        let sum = |key: &str| -> u64 {
            let all = said.get(key).and_then(Value::as_object).into_iter().flatten();
            all.filter_map(|(_, count)| count.as_u64()).sum()
        };
        let past = said.get("past").and_then(Value::as_object).into_iter().flatten();
        let otherwise = past.filter(|(why, _)| COUNTED_OTHERWISE.contains(&why.as_str()));
        let otherwise: u64 = otherwise.filter_map(|(_, count)| count.as_u64()).sum();
        let streams = said.get("streams").and_then(Value::as_array).into_iter().flatten();
        let number = |of: &Value, key: &str| of.get(key).and_then(Value::as_u64).unwrap_or(0);
        let gated = streams.filter(|row| number(row, "level") > 1);
        let (launches, scheduled, alone) = (sum("launches"), sum("scheduled"), sum("alone"));
        Self {
            scheduled: scheduled.saturating_sub(alone),
            alone,
            past: launches.saturating_sub(scheduled).saturating_sub(otherwise),
            gated_streams: gated.map(|row| number(row, "streams")).sum(),
            ..Self::default()
        }
    }

    /// Reads what the scheduler of a node says of its processes.
    pub(crate) fn of_node(status: &Value) -> Self {
        let all = || status.get("processes").and_then(Value::as_array).into_iter().flatten();
        let sum = |key: &str| all().filter_map(|one| one.get(key)?.as_u64()).sum();
        Self { holds: sum("holds"), preemptions: Some(sum("waits")), ..Self::default() }
    }

    /// Adds those of another process.
    pub(crate) fn add(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.alone += other.alone;
        self.past += other.past;
        self.gated_streams += other.gated_streams;
        self.holds += other.holds;
        let both = [self.preemptions, other.preemptions];
        self.preemptions = both.into_iter().flatten().reduce(|one, more| one + more);
    }
}

/// Effect that a verdict on a cell requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Nothing: XSched does not schedule, or programs are only started by it.
    Nothing,
    /// Launches go through XQueues.
    Scheduled,
    /// Processes are held.
    Held,
}

impl Treatment {
    /// Returns the treatment of a cell.
    pub(crate) fn of(cell: &CellPlan) -> Self {
        let is_script = cell.processes.iter().any(|one| one.program == Program::Script);
        let has_streams = |option: &String| option == super::session::STREAMS;
        let all_streams = !has_daemon(cell)
            || cell.processes.iter().all(|one| one.options.iter().any(has_streams));
        match (cell.way.is_scheduled() && !is_script, cell.has_beside) {
            (true, true) if has_daemon(cell) => Self::Held,
            (true, _) if all_streams => Self::Scheduled,
            _ => Self::Nothing,
        }
    }

    /// Why it was not in effect, if it was not.
    pub(crate) fn absence(self, counts: Option<&Counts>) -> Option<String> {
        let Some(counts) = counts else {
            let why = "not known to be in effect: the programs left no counts";
            return (self != Self::Nothing).then(|| why.to_owned());
        };
        let others = counts.alone + counts.past;
        match self {
            Self::Scheduled if counts.scheduled == 0 || others > counts.scheduled / PAST_PART => {
                let all = counts.scheduled + others;
                Some(format!(
                    "not in effect: {} of {all} launches were scheduled",
                    counts.scheduled
                ))
            }
            Self::Held if counts.holds == 0 => Some("not in effect: nothing was held".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::plan::{Hal, Way};
    use super::super::table::{Setting, all};
    use super::*;

    #[test]
    fn counts_of_processes_and_of_the_node_are_added() {
        let mut all = Counts::of_interposer(&json!({
            "launches": { "cuLaunchKernel": 20, "cuGraphLaunch": 4 },
            "scheduled": { "cuLaunchKernel": 12, "cuGraphLaunch": 4 },
            "alone": { "cuLaunchKernel": 2 },
            "past": { "while a stream was being captured": 5, "their stream is not known": 3 },
            "streams": [{ "level": 2, "why": "", "streams": 3 }, { "level": 1, "streams": 4 }],
        }));
        assert_eq!((all.scheduled, all.alone, all.past, all.gated_streams), (14, 2, 3, 3));
        let node = json!({ "processes": [{ "holds": 5, "waits": 2 }, { "holds": 1, "waits": 1 }] });
        all.add(Counts::of_node(&node));
        assert_eq!((all.scheduled, all.holds, all.preemptions), (14, 6, Some(3)));
    }

    #[test]
    fn a_treatment_is_in_effect_by_its_counts() {
        let absence = |of: Treatment, counts| of.absence(Some(&counts));
        let launches = |scheduled, alone| Counts { scheduled, alone, ..Counts::default() };
        assert_eq!(absence(Treatment::Scheduled, launches(2_101, 0)), None);
        assert_eq!(
            absence(Treatment::Scheduled, launches(0, 2_101)).as_deref(),
            Some("not in effect: 0 of 2101 launches were scheduled")
        );
        assert!(absence(Treatment::Scheduled, launches(100, 2)).is_some());
        assert!(absence(Treatment::Scheduled, launches(0, 0)).is_some());
        assert!(absence(Treatment::Held, launches(9, 0)).is_some());
        assert_eq!(absence(Treatment::Held, Counts { holds: 1, ..launches(0, 9) }), None);
        assert_eq!(absence(Treatment::Nothing, launches(0, 9)), None);
        assert!(Treatment::Scheduled.absence(None).is_some_and(|why| why.contains("no counts")));
    }

    #[test]
    fn rows_about_the_cost_of_scheduling_schedule() {
        for row in all(Setting { hal: Hal::Cuda, quick: false }) {
            for cell in row.plan.cells.iter().filter(|cell| cell.way == Way::Xsched) {
                let treatment = Treatment::of(cell);
                match row.plan.id {
                    "7.3.3" | "7.4.1" | "7.4.2" if !cell.name.ends_with("started") => {
                        assert_eq!(treatment, Treatment::Scheduled, "{}", cell.name);
                    }
                    "7.2.1" | "7.2.2" | "8.1.1" | "8.1.2" | "8.2.1" | "8.3.1" => {
                        assert_eq!(treatment, Treatment::Held, "{}", cell.name);
                    }
                    _ => {}
                }
            }
        }
    }
}
