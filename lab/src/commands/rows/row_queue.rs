//! Rows one after the other, on one GPU or on several at the same time.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use xsched_sim::scenario::DeviceSpec;

use crate::error::CommandError;
use crate::rows::document::{Row, Status};
use crate::rows::files::{Folder, NO_TIME, counts, is_done, is_finding, words};
use crate::rows::identity::Identity;
use crate::rows::prestart::{Planned, Prestart};
use crate::rows::run::{Lab, RunError, coming};
use crate::rows::session::Starter;
use crate::rows::table::{Definition, Setting};
use crate::rows::timing::Limit;
use xsched_console::note;
use xsched_console::output::Stream;

/// The time for all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Most {
    /// As long as it takes.
    Free,
    /// Phases are shorter.
    Share(Duration),
    /// Rows that do not fit into this time are not run.
    Stop(Duration),
}

/// The rows, and those that no GPU has taken yet.
pub(super) struct RowQueue<'a> {
    rows: &'a [Definition],
    setting: Setting,
    resume: bool,
    folder: &'a Folder,
    device: Option<DeviceSpec>,
    most: Most,
    began: Instant,
    /// Places of rows.
    to_do: Mutex<VecDeque<usize>>,
}

impl<'a> RowQueue<'a> {
    pub(super) fn new(
        rows: &'a [Definition],
        (setting, resume): (Setting, bool),
        folder: &'a Folder,
        device: Option<DeviceSpec>,
        most: Most,
    ) -> Self {
        let (began, to_do) = (Instant::now(), Mutex::default());
        Self { rows, setting, resume, folder, device, most, began, to_do }
    }

    /// Runs all rows, on as many GPUs as there are starters. Answers whether something went wrong
    /// or missed its goal.
    pub(super) fn run(&self, starters: &[Starter<'_>]) -> Result<bool, CommandError> {
        let mut finding = false;
        let mut to_do = VecDeque::new();
        for (number, row) in self.rows.iter().enumerate() {
            if self.is_to_do(row) {
                to_do.push_back(number);
                continue;
            }
            finding |= self.folder.row(row.plan.id).as_ref().is_some_and(is_finding);
            Stream::Stdout.print(&format!("{}: done before\n", self.head(number)))?;
        }
        if starters.len() > 1 {
            // What takes longest is begun first, so that all end at about the same time.
            let about_s = |number: &usize| self.rows.get(*number).map_or(0.0, Definition::about_s);
            to_do.make_contiguous().sort_by(|a, b| about_s(b).total_cmp(&about_s(a)));
        }
        *self.to_do.lock().unwrap_or_else(PoisonError::into_inner) = to_do;
        let [starter] = starters else { return self.on_each(starters).map(|any| any || finding) };
        self.run_on(starter, 1).map(|any| any || finding)
    }

    /// Has each GPU take rows until there are none.
    fn on_each(&self, starters: &[Starter<'_>]) -> Result<bool, CommandError> {
        let gpus = starters.len();
        thread::scope(|scope| {
            let each = starters.iter().enumerate().map(|(at, starter)| {
                scope.spawn(move || {
                    pin(at, gpus);
                    self.run_on(starter, gpus)
                })
            });
            let each: Vec<_> = each.collect();
            let mut ended = Ok(false);
            for one in each {
                let one = one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                ended = ended.and_then(|any| Ok(one? || any));
            }
            ended
        })
    }

    /// Takes row after row. Programs of the next one are started beside the last ones of a row.
    fn run_on(&self, starter: &Starter<'_>, gpus: usize) -> Result<bool, CommandError> {
        let say = |line: &str| note(|| line.trim().to_owned());
        let (folder, device) = (self.folder.clone(), self.device.clone());
        let lab = Lab { starter, folder, device, say: &say };
        let next = Cell::new(None);
        let take = || {
            // One that was taken before stays the next.
            if next.get().is_some() {
                return Vec::new();
            }
            next.set(self.take());
            next.get().map_or_else(Vec::new, |(_, row)| self.coming(row))
        };
        let mut prestart = Prestart::new(starter, take);
        let mut finding = false;
        loop {
            prestart.expect(take());
            let Some((number, row)) = next.take() else { return Ok(finding) };
            let Some(measured) = self.row(&lab, row, gpus, &mut prestart)? else { continue };
            finding |= is_finding(&measured);
            Stream::Stdout.print(&summary(&self.head(number), &measured))?;
        }
    }

    /// The next row that is to do.
    fn take(&self) -> Option<(usize, &'a Definition)> {
        let number = self.to_do.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        Some((number, self.rows.get(number)?))
    }

    fn coming(&self, row: &Definition) -> Vec<Planned> {
        coming(self.folder, row, self.before(row).as_ref())
    }

    /// Runs a row, if there is time. Nothing if there is none, and an earlier call began it.
    fn row<'s>(
        &self,
        lab: &Lab<'s>,
        row: &Definition,
        gpus: usize,
        prestart: &mut Prestart<'s>,
    ) -> Result<Option<Row>, CommandError> {
        let before = self.before(row);
        let limit = match self.most {
            Most::Free => Limit::None,
            Most::Share(time) => Limit::Shorten(self.share(self.left(time), row, gpus)),
            Most::Stop(time) => Limit::Stop(self.left(time)),
        };
        if let Most::Share(time) | Most::Stop(time) = self.most
            && self.left(time).is_zero()
        {
            return if before.is_some() { Ok(None) } else { not_begun(lab, row).map(Some) };
        }
        match lab.run(row, limit, before, prestart) {
            Ok(measured) => Ok(Some(measured)),
            Err(RunError::Interrupted) => Err(CommandError::Stopped),
            Err(RunError::Command(error)) => Err(error),
        }
    }

    fn left(&self, time: Duration) -> Duration {
        time.saturating_sub(self.began.elapsed())
    }

    /// The part of what is left on all GPUs that a row may take: its part by what it takes.
    fn share(&self, left: Duration, row: &Definition, gpus: usize) -> Duration {
        let to_do = self.to_do.lock().unwrap_or_else(PoisonError::into_inner);
        let others = to_do.iter().filter_map(|number| self.rows.get(*number));
        let all = row.cost() + others.map(Definition::cost).sum::<u32>();
        let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
        (left * row.cost()).saturating_mul(gpus).div_f64(f64::from(all.max(1))).min(left)
    }

    fn is_to_do(&self, row: &Definition) -> bool {
        let kept = self.folder.row(row.plan.id).filter(|_| self.resume);
        !kept.is_some_and(|row| is_done(&row, self.setting.hal.name(), self.setting.quick))
    }

    /// Returns what an earlier call measured of a row, if it counts.
    fn before(&self, row: &Definition) -> Option<Row> {
        let row = self.folder.row(row.plan.id).filter(|_| self.resume);
        let row = row.filter(|row| counts(row, self.setting.hal.name(), self.setting.quick));
        // A row is of one build and machine, whatever others of the folder are.
        row.filter(|row| row.identity == Identity::here())
    }

    fn head(&self, number: usize) -> String {
        let row = self.rows.get(number).map(|row| format!("{} {}", row.plan.id, row.plan.name));
        format!("{}/{} {}", number + 1, self.rows.len(), row.unwrap_or_default())
    }
}

/// Gives this thread, and all that it starts, a part of the processors. Without enough of them, or
/// where the system refuses, all share all.
fn pin(part: usize, of: usize) {
    let Ok(all) = sched_getaffinity(None) else { return };
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
    let each = all.len() / of.max(1);
    let Some(own) = all.get(part * each..(part + 1) * each).filter(|own| !own.is_empty()) else {
        return;
    };
    let mut set = CpuSet::new();
    own.iter().for_each(|cpu| set.set(*cpu));
    // The programs run elsewhere then.
    let _ = sched_setaffinity(None, &set);
}

/// The row as one for which there was no time, which `--resume` runs.
fn not_begun(lab: &Lab<'_>, of: &Definition) -> Result<Row, CommandError> {
    let row = lab.blank(of, Status::NotRun(format!("{NO_TIME}; --resume runs it")));
    lab.folder.write_row(&row, of)?;
    Ok(row)
}

/// Returns the outcome of a row, in a few lines.
fn summary(head: &str, row: &Row) -> String {
    let mut text = format!("{head}: {}, {:.1} s\n", words(row), row.seconds);
    let failed = row.cells.iter().filter_map(|cell| match &cell.status {
        Status::Failed(why) => Some(format!("  {}: failed: {why}\n", cell.name)),
        Status::Measured | Status::NotRun(_) => None,
    });
    text.extend(failed);
    for verdict in &row.verdicts {
        let met = match verdict.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "open",
        };
        let said = [Some(verdict.value()), verdict.open.clone()].into_iter().flatten();
        let said: Vec<String> = said.filter(|said| !said.is_empty()).collect();
        text += &format!("  {met}: {}: {}\n", verdict.goal, said.join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::rows::document::Verdict;
    use crate::rows::plan::{CellPlan, Hal, Way};
    use crate::rows::report::samples;
    use crate::rows::table::all;

    const HOST: Setting = Setting { hal: Hal::Host, quick: true };
    const CUDA: Setting = Setting { hal: Hal::Cuda, quick: true };

    #[test]
    fn an_open_goal_says_why() {
        let mut row = samples::row("7.2.1", "Priority", Vec::new(), Vec::new());
        let verdict = |measured: &str, open: Option<&str>| Verdict {
            goal: "P99 ≤ 1.3".to_owned(),
            whose: "plan".to_owned(),
            measured: measured.to_owned(),
            met: None,
            open: open.map(str::to_owned),
            interval: None,
        };
        row.verdicts = vec![verdict("0.864", Some("too few samples")), verdict("", Some("no P99"))];
        let text = summary("1/1", &row);
        assert!(text.contains("  open: P99 ≤ 1.3: 0.864; too few samples\n"), "{text}");
        assert!(text.ends_with("  open: P99 ≤ 1.3: no P99\n"), "{text}");
    }

    /// Waits until there is one on each GPU.
    const TOGETHER: &str = r#"touch "$CUDA_VISIBLE_DEVICES"
until [ -e GPU-a ] && [ -e GPU-b ]; do sleep 0.01; done"#;
    /// Goes on from steps, and fails when it is started first.
    const FAILS_ONCE: &str = r#"echo '{"step":"imported"}'; read -r go
[ -e failed ] || { touch failed; exit 1; }
echo '{"step":"loaded"}'; read -r go"#;
    /// Says which GPU it sees, and has one request.
    const PROGRAM: &str = r#"
role=$(sed 's/.*"name":"\([^"]*\)".*/\1/' "$1")
echo "{\"ready\":true,\"hardware\":\"$CUDA_VISIBLE_DEVICES\",\"roles\":{\"$role\":{\"request_ns\":5000000}}}"
while read -r order; do
    phase=$(echo "$order" | sed 's/.*"phase":\([0-9]*\).*/\1/')
    echo "{\"phase\":$phase,\"begin_ns\":0,\"end_ns\":3000000000,\"roles\":{\"$role\":{\"begin_ns\":[900000000],\"end_ns\":[905000000]}}}"
done
"#;

    #[test]
    fn rows_share_what_is_left_by_what_they_take_and_those_that_cannot_be_run_have_none() {
        let rows = all(HOST);
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::make(place.path()).unwrap();
        let time = Duration::from_secs(90);
        let mut left = time;
        let queue = RowQueue::new(&rows, (HOST, false), &folder, None, Most::Share(time));
        *queue.to_do.lock().unwrap() = (0..rows.len()).collect();
        while let Some((_, row)) = queue.take() {
            let part = queue.share(left, row, 1);
            let runs = row.plan.cells.iter().any(|cell| cell.unavailable.is_none());
            assert_eq!(part.is_zero(), !runs, "{}", row.plan.id);
            left -= part;
        }
        assert!(left < Duration::from_millis(10), "{left:?}");
    }

    fn starter(stop: &AtomicBool) -> Starter<'_> {
        Starter::new(Hal::Cuda, true, ("python3".into(), None), stop)
    }

    /// A program that begins so, in a folder.
    fn program(place: &Path, begins: &str) -> PathBuf {
        let program = place.join("program");
        let text = format!("#!/bin/sh\ncd \"${{0%/*}}\" || exit\n{begins}{PROGRAM}");
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    /// Rows with a cell of one role.
    fn rows() -> Vec<Definition> {
        let mut rows = all(CUDA);
        rows.retain(|row| ["5.1", "7.3.3", "7.4.1", "7.4.2"].contains(&row.plan.id));
        for row in &mut rows {
            row.plan.cells.retain(|cell| cell.way == Way::Native);
            row.plan.cells.truncate(1);
        }
        rows
    }

    #[test]
    fn a_row_that_was_taken_ahead_runs_also_if_programs_start_again() {
        let place = tempfile::tempdir().unwrap();
        let program = program(place.path(), FAILS_ONCE);
        let folder = Folder::make(&place.path().join("report")).unwrap();
        let mut rows = rows();
        let again = CellPlan { name: "again".to_owned(), ..rows[0].plan.cells[0].clone() };
        rows[0].plan.cells.push(again);
        let stop = AtomicBool::new(false);
        let starter = Starter { instead: Some(program), steps: true, ..starter(&stop) };
        let queue = RowQueue::new(&rows, (CUDA, false), &folder, None, Most::Free);
        queue.run(&[starter]).unwrap();
        let cells = rows.iter().map(|row| folder.row(row.plan.id).unwrap().cells);
        let ended: Vec<Status> = cells.flatten().map(|cell| cell.status).collect();
        assert!(matches!(ended[0], Status::Failed(_)), "{ended:?}");
        assert_eq!(ended[1..], vec![Status::Measured; rows.len()]);
    }

    #[test]
    fn each_gpu_takes_rows_until_there_are_none() {
        let place = tempfile::tempdir().unwrap();
        let program = program(place.path(), TOGETHER);
        let folder = Folder::make(&place.path().join("report")).unwrap();
        let rows = rows();
        let stop = AtomicBool::new(false);
        let on = |gpu: &str| {
            let starter = Starter { instead: Some(program.clone()), ..starter(&stop) };
            Starter { steps: false, ..starter }.on(gpu)
        };
        let queue = RowQueue::new(&rows, (CUDA, false), &folder, None, Most::Free);
        queue.run(&[on("GPU-a"), on("GPU-b")]).unwrap();
        let seen = || {
            let seen = rows.iter().map(|row| folder.row(row.plan.id).unwrap().hardware);
            seen.collect::<Vec<String>>()
        };
        let first = seen();
        let is_on = |gpu: &str| first.iter().any(|seen| seen == gpu);
        assert!(is_on("GPU-a") && is_on("GPU-b") && !is_on(""), "{first:?}");
        let again = RowQueue::new(&rows, (CUDA, true), &folder, None, Most::Free);
        again.run(&[on("GPU-c"), on("GPU-d")]).unwrap();
        assert_eq!(seen(), first, "nothing was to do");
    }
}
