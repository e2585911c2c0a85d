//! One test with one mutant, in a process of its own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::list::Mutant;

/// Line that a model prints if it tried all orders.
const PASSED: &str = " orders in ";
/// Line that the inserted function prints.
const REACHED: &str = "mutant reached: ";
/// How a test program ends after a panic.
const PANICKED: i32 = 101;
/// Texts in loom's own findings.
const LOOM: [&str; 3] = ["deadlock", "maximum number of branches", "Causality violation"];

/// Trial to run.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    pub(super) program: &'a Path,
    pub(super) mutant: &'a Mutant,
    pub(super) module: &'a str,
    pub(super) test: &'a str,
}

/// Complaint of the test, or the reason why the trial failed.
type Verdict = Result<String, String>;

/// Runs all trials, some at a time, and answers in their order.
pub(super) fn run_all(
    trials: &[Trial<'_>],
    at_a_time: usize,
    limit: Duration,
) -> Vec<(Verdict, Duration)> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; trials.len()]);
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some((at, trial)) = take(&next, trials) {
                    let start = Instant::now();
                    let verdict =
                        trial.run(limit).unwrap_or_else(|error| Err(format!("{error:#}")));
                    let mut outcomes = outcomes.lock().expect("no thread panics with it");
                    outcomes[at] = Some((verdict, start.elapsed()));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no thread panics with it");
    outcomes.into_iter().map(|outcome| outcome.expect("each was run")).collect()
}

fn take<'a, 'b>(next: &AtomicUsize, trials: &'a [Trial<'b>]) -> Option<(usize, &'a Trial<'b>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, trials.get(at)?))
}

/// The names of all tests in a test program.
pub(super) fn tests(program: &Path) -> Result<BTreeSet<String>> {
    let output = Command::new(program).args(["--list", "--format", "terse"]).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "{} cannot list its tests", program.display());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

impl Trial<'_> {
    fn run(&self, limit: Duration) -> Result<Verdict> {
        let log = self.log();
        let stderr =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(self.program);
        command.args(["--exact", "--nocapture", "--include-ignored"]);
        command
            .arg(format!("{}::{}", self.module, self.test))
            .env("XSCHED_MUTANT", &self.mutant.name);
        command.env_remove("XSCHED_LOOM_LONG").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(stderr).spawn().context("cannot start the test")?;
        let status = wait(child, limit)?;
        let text = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        fs::remove_file(log)?;
        Ok(self.judge(status, &String::from_utf8_lossy(&text)))
    }

    /// Where the test's complaint goes, beside the program.
    fn log(&self) -> PathBuf {
        let plain = |text: &str| text.replace(|c: char| !c.is_alphanumeric(), "-");
        let (mutant, test) = (plain(&self.mutant.name), plain(self.test));
        self.program.with_extension(format!("{mutant}.{test}.log"))
    }

    /// Judges by its end and its output whether the test noticed the mutant.
    fn judge(&self, status: Option<ExitStatus>, text: &str) -> Verdict {
        let Some(status) = status else { return Err("the test did not end in time".to_owned()) };
        if status.success() || text.contains(PASSED) {
            return Err("the test passes, it does not notice the mutant".to_owned());
        }
        if !text.lines().any(|line| line.strip_prefix(REACHED) == Some(&self.mutant.name)) {
            return Err(format!("the test failed before it reached the mutant:\n{text}"));
        }
        self.complaint(status, text).map_err(|error| format!("{error}; the test wrote:\n{text}"))
    }

    /// Message of the test's panic, in short.
    fn complaint(&self, status: ExitStatus, text: &str) -> Result<String> {
        ensure!(status.code() == Some(PANICKED), "{status} is not how a test ends that failed");
        let mut lines = text.lines().skip_while(|line| !line.contains("panicked at "));
        let Some((_, place)) = lines.next().and_then(|line| line.split_once("panicked at ")) else {
            bail!("there is no panic");
        };
        let message = lines.next().unwrap_or_default();
        let module = format!("src/{}", self.module.replace("::", "/"));
        let is_own = [".rs:", "/"].iter().any(|end| place.contains(&(module.clone() + end)));
        let is_finding = is_own || LOOM.iter().any(|say| message.contains(say));
        ensure!(is_finding, "neither an assertion of a test nor a finding of loom at {place}");
        if let Some(says) = &self.mutant.says {
            ensure!(text.contains(says), "the complaint does not contain `{says}`");
        }
        // Of a deadlock, the state of all threads follows.
        Ok(message.split("; ").next().unwrap_or_default().to_owned())
    }
}

/// How the process ended; nothing if it had to be ended.
fn wait(mut child: Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const MUTANT: &str = "name = 'x'\nfile = ''\ntests = []\nfind = ''\nwith = ''\n";
    const REACHED: &str = "mutant reached: x\n";
    const ASSERTION: &str = "panicked at runtime/src/models/a.rs:1:2:\nit went missing\n";

    fn trial<'a>(mutant: &'a Mutant, module: &'a str) -> Trial<'a> {
        Trial { program: Path::new("x"), mutant, module, test: "x" }
    }

    fn judged(code: i32, text: &str, says: &str) -> Verdict {
        let mutant = toml::from_str(&format!("{MUTANT}says = '{says}'")).expect("a mutant");
        trial(&mutant, "models").judge(Some(ExitStatus::from_raw(code << 8)), text)
    }

    fn refused(code: i32, text: &str, says: &str) -> String {
        judged(code, text, says).expect_err("not noticed")
    }

    #[test]
    fn findings_of_models_and_of_loom_count() {
        let text = format!("{REACHED}{ASSERTION}");
        assert_eq!(judged(101, &text, "missing").as_deref(), Ok("it went missing"));
        let text = format!("{REACHED}panicked at /x/loom-0.7/src/rt.rs:1:2:\ndeadlock; threads\n");
        assert!(judged(101, &text, "deadlock").is_ok());
    }

    #[test]
    fn an_assertion_counts_in_the_module_of_the_tests() {
        let mutant = toml::from_str(MUTANT).expect("a mutant");
        let judged = |module| {
            let text = format!("{REACHED}panicked at sim/src/engine/sound.rs:1:2:\nit is not\n");
            trial(&mutant, module).judge(Some(ExitStatus::from_raw(101 << 8)), &text)
        };
        assert_eq!(judged("engine::sound").as_deref(), Ok("it is not"));
        assert_eq!(judged("engine").as_deref(), Ok("it is not"));
        assert!(judged("engine::so").is_err_and(|why| why.contains("neither an assertion")));
    }

    #[test]
    fn no_other_end_counts() {
        let text = format!("{REACHED}a::b: 7 orders in 0.1 s\n");
        assert!(refused(0, &text, "").contains("does not notice"));
        assert!(refused(101, ASSERTION, "").contains("before it reached"));
        assert!(refused(101, &format!("mutant reached: y\n{ASSERTION}"), "").contains("before"));
        let text = format!("{REACHED}{ASSERTION}");
        assert!(refused(2, &text, "").contains("is not how"));
        assert!(refused(101, &text, "deadlock").contains("does not contain"));
        let elsewhere = format!("{REACHED}panicked at runtime/src/hub.rs:1:2:\nindex\n");
        assert!(refused(101, &elsewhere, "").contains("neither an assertion"));
        assert!(refused(101, REACHED, "").contains("no panic"));
        let mutant = toml::from_str(MUTANT).expect("a mutant");
        let trial = trial(&mutant, "models");
        assert!(trial.judge(None, REACHED).is_err_and(|why| why.contains("in time")));
        let killed = ExitStatus::from_raw(9);
        assert!(trial.judge(Some(killed), &text).is_err_and(|why| why.contains("is not how")));
    }
}
