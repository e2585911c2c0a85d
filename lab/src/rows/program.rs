//! A program that speaks the protocol of [`super::protocol`], whatever it does: it may end, hang or
//! say nonsense, and then it is ended with all that it started.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use super::protocol::{Answer, Go, Order, Ready, Step};

/// Limit of a line in bytes: the answer for a million requests has fewer.
const LINE_MAX: u64 = 64 << 20;
/// Lines that are no objects of JSON, as libraries print them, of one program.
const CHATTER_MAX: usize = 10_000;
/// Between two looks at whether the user wants to end.
const LOOK: Duration = Duration::from_millis(50);
/// For how long a program may take to end by itself.
const ENDING: Duration = Duration::from_secs(5);
/// Limit of what an error quotes of a program's output, in characters.
const QUOTED: usize = 300;

/// Why a program did not do what it was told.
#[derive(Debug, Error)]
pub(crate) enum ProgramError {
    /// The program cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// As it was named.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// A file for it or of it cannot be used.
    #[error("cannot write {}: {source}", place.display())]
    File {
        /// The file.
        place: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The program has ended.
    #[error("the program ended ({how}) and did not say `{what}`: {said}")]
    Ended {
        /// With which code.
        how: String,
        /// Step that was waited for.
        what: &'static str,
        /// The last line of its errors.
        said: String,
    },
    /// The program says nothing.
    #[error("the program did not say `{what}` within {seconds:.0} s and was ended")]
    Late {
        /// Step that was waited for.
        what: &'static str,
        /// For how long.
        seconds: f64,
    },
    /// The program says something else.
    #[error("the program said what is no `{what}`: {why}: {line}")]
    Nonsense {
        /// Step that was waited for.
        what: &'static str,
        /// Reason for which the line was refused.
        why: String,
        /// The line.
        line: String,
    },
    /// The program says that it failed.
    #[error("the program failed: {0}")]
    Failed(String),
    /// The program says that something is not there.
    #[error("{0}")]
    Missing(String),
    /// The user ends everything.
    #[error("interrupted")]
    Interrupted,
}

/// Lines that the reader hands on.
enum Said {
    Line(String),
    TooLong,
}

/// A process and all that it started, which end with this.
#[derive(Debug)]
pub(crate) struct Grouped(pub(crate) Child);

impl Drop for Grouped {
    fn drop(&mut self) {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            // There may be none left.
            let _ = kill_process_group(id, Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Grouped,
    input: Option<ChildStdin>,
    lines: Receiver<Said>,
    errors: PathBuf,
    chatter: usize,
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Line(line) => line,
            Self::TooLong => "a line that is too long",
        })
    }
}

impl Running {
    /// Starts a program in a process group of its own. What it says is kept in `raw` with the
    /// ending `jsonl`, its errors with `err.txt`.
    pub(crate) fn start(mut command: Command, raw: &Path) -> Result<Self, ProgramError> {
        let file = |ending: &str| {
            let place = beside(raw, ending);
            let file = File::create(&place);
            file.map_err(|source| ProgramError::File { place: place.clone(), source })
                .map(|file| (place, file))
        };
        let (_, kept) = file("jsonl")?;
        let (errors, errors_file) = file("err.txt")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors_file).process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let cannot = |source| ProgramError::Start { program: name.clone(), source };
        let mut child = match command.spawn() {
            Ok(child) => Grouped(child),
            Err(source) => return Err(cannot(source)),
        };
        let (sender, lines) = mpsc::sync_channel(16);
        let input = child.0.stdin.take();
        if let Some(output) = child.0.stdout.take() {
            let read = move || read(output, kept, &sender);
            thread::Builder::new().name("said".to_owned()).spawn(read).map_err(cannot)?;
        }
        Ok(Self { child, input, lines, errors, chatter: 0 })
    }

    /// Waits until the program is ready.
    pub(crate) fn ready(
        &mut self,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<Ready, ProgramError> {
        self.hear("ready", within, stop)
    }

    /// Waits until the program has come to a step.
    pub(crate) fn step(
        &mut self,
        step: &str,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<(), ProgramError> {
        let said: Step = self.hear("step", within, stop)?;
        if said.step == step {
            return Ok(());
        }
        let why = format!("it is at `{}` and not at `{step}`", said.step);
        Err(ProgramError::Nonsense { what: "step", why, line: String::new() })
    }

    /// Tells the program to go on from a step.
    pub(crate) fn go(&mut self, go: &Go) -> Result<(), ProgramError> {
        self.write(go, "step")
    }

    /// Tells the program to begin a phase.
    pub(crate) fn tell(&mut self, order: &Order) -> Result<(), ProgramError> {
        self.write(order, "phase")
    }

    fn write(&mut self, order: &impl Serialize, what: &'static str) -> Result<(), ProgramError> {
        let written = serde_json::to_vec(order).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            input.write_all(&line)?;
            input.flush()
        });
        written.map_err(|_| self.ended(what))
    }

    /// Waits until a phase has ended.
    pub(crate) fn answer(
        &mut self,
        phase: u32,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<Answer, ProgramError> {
        let answer: Answer = self.hear("phase", within, stop)?;
        if answer.phase == phase {
            return Ok(answer);
        }
        let why = format!("it is of phase {} and not {phase}", answer.phase);
        Err(ProgramError::Nonsense { what: "phase", why, line: String::new() })
    }

    /// Lets the program end by itself.
    pub(crate) fn let_end(&mut self) {
        self.input = None;
    }

    /// Lets the program end by itself, and ends it if it does not.
    pub(crate) fn finish(mut self) {
        self.let_end();
        let start = Instant::now();
        while start.elapsed() < ENDING {
            match self.child.0.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
    }

    /// The next object that has the key `what`.
    fn hear<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<T, ProgramError> {
        let start = Instant::now();
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(ProgramError::Interrupted);
            }
            let left = within.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(ProgramError::Late { what, seconds: within.as_secs_f64() });
            }
            match self.lines.recv_timeout(left.min(LOOK)) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(what)),
                Ok(Said::TooLong) => {
                    let why = format!("the line has more than {LINE_MAX} bytes");
                    return Err(ProgramError::Nonsense { what, why, line: String::new() });
                }
                Ok(Said::Line(line)) if line.starts_with('{') => return understand(what, &line),
                Ok(Said::Line(line)) => self.count_chatter(what, &line)?,
            }
        }
    }

    /// Libraries print lines of their own, but not without an end.
    fn count_chatter(&mut self, what: &'static str, line: &str) -> Result<(), ProgramError> {
        self.chatter += 1;
        if self.chatter <= CHATTER_MAX {
            return Ok(());
        }
        let why = format!("{CHATTER_MAX} lines are no objects of JSON");
        Err(ProgramError::Nonsense { what, why, line: quoted(line) })
    }

    /// How it ended. The output may end before the program does.
    fn ended(&mut self, what: &'static str) -> ProgramError {
        let start = Instant::now();
        let how = loop {
            match self.child.0.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if start.elapsed() < ENDING => thread::sleep(Duration::from_millis(5)),
                Ok(None) => break "its output is closed".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        let said = fs::read(&self.errors).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        ProgramError::Ended { how, what, said: quoted(last.unwrap_or("it said nothing")) }
    }
}

/// A path with one more ending, whatever dots its name has.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Hands on the lines of a program until they end, and keeps them.
fn read(output: impl Read, mut kept: File, to: &SyncSender<Said>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let Ok(count) = output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) else { return };
        if count == 0 {
            return;
        }
        // It is for people, and not needed.
        let _ = kept.write_all(&line);
        let is_whole = line.last() == Some(&b'\n') || (count as u64) < LINE_MAX;
        let said = match is_whole {
            true => Said::Line(String::from_utf8_lossy(&line).trim().to_owned()),
            false => Said::TooLong,
        };
        if to.send(said).is_err() || !is_whole {
            return;
        }
    }
}

/// Reads what a line says, if it is what was waited for.
fn understand<T: DeserializeOwned>(what: &'static str, line: &str) -> Result<T, ProgramError> {
    let nonsense = |why: String| ProgramError::Nonsense { what, why, line: quoted(line) };
    let said: Value = serde_json::from_str(line).map_err(|error| nonsense(error.to_string()))?;
    let words = |key: &str| {
        let value = said.get(key)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    if let Some(why) = words("missing") {
        return Err(ProgramError::Missing(why));
    }
    if let Some(why) = words("error") {
        return Err(ProgramError::Failed(quoted(&why)));
    }
    if said.get(what).is_none() {
        return Err(nonsense(format!("there is no `{what}`")));
    }
    serde_json::from_value(said).map_err(|error| nonsense(error.to_string()))
}

/// The beginning of a text.
pub(crate) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(QUOTED).collect();
    if short.len() < text.len() { short + " …" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> (tempfile::TempDir, Running) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let running = Running::start(command, &folder.path().join("said")).unwrap();
        (folder, running)
    }

    fn ready(script: &str, within: Duration) -> Result<Ready, ProgramError> {
        shell(script).1.ready(within, &AtomicBool::new(false))
    }

    #[test]
    fn what_libraries_print_is_passed_over_and_kept() {
        let script = r#"echo loading; echo '{"ready":true,"roles":{"a":{"request_ns":5}}}'"#;
        let (folder, mut running) = shell(script);
        let ready = running.ready(SOON, &AtomicBool::new(false)).unwrap();
        assert_eq!(ready.roles["a"].request_ns, 5);
        let kept = fs::read_to_string(folder.path().join("said.jsonl")).unwrap();
        assert!(kept.starts_with("loading\n{"), "{kept}");
    }

    #[test]
    fn what_is_missing_or_failed_is_told_apart() {
        let missing = ready(r#"echo '{"missing":"no TorchVision"}'"#, SOON).unwrap_err();
        assert!(matches!(&missing, ProgramError::Missing(why) if why == "no TorchVision"));
        let failed = ready(r#"echo '{"error":"out of memory"}'"#, SOON).unwrap_err();
        assert_eq!(failed.to_string(), "the program failed: out of memory");
    }

    #[test]
    fn a_program_that_ends_hangs_or_says_nonsense_is_an_error_with_the_reason() {
        let ended = ready("echo first >&2; echo no driver >&2; exit 3", SOON).unwrap_err();
        let text = ended.to_string();
        assert!(text.contains("exit status: 3") && text.ends_with("no driver"), "{text}");
        let late = ready("exec sleep 1000", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(late, ProgramError::Late { what: "ready", .. }), "{late}");
        for line in ["{", r#"{"ready":1}"#, r#"{"phase":1}"#, r#"{"ready":true,"roles":[]}"#] {
            let nonsense = ready(&format!("echo '{line}'"), SOON).unwrap_err();
            assert!(matches!(nonsense, ProgramError::Nonsense { .. }), "{line}: {nonsense}");
        }
        let flood = ready("while :; do echo again; done", SOON).unwrap_err();
        assert!(flood.to_string().contains("no objects of JSON"), "{flood}");
    }

    #[test]
    fn the_answer_is_of_the_phase_that_was_asked_for() {
        let script = r#"read order; echo '{"phase":7,"begin_ns":1,"end_ns":2,"roles":{}}'; read e"#;
        let order = Order { phase: 7, part: 0, seconds: 0.0, load: [].into() };
        let stop = AtomicBool::new(false);
        let (_folder, mut running) = shell(script);
        running.tell(&order).unwrap();
        assert_eq!(running.answer(7, SOON, &stop).unwrap().end_ns, 2);
        let (_folder, mut running) = shell(script);
        running.tell(&order).unwrap();
        assert!(running.answer(8, SOON, &stop).unwrap_err().to_string().contains("phase 7"));
    }

    #[test]
    fn what_a_program_started_ends_with_it() {
        let (folder, running) = shell("sleep 1000 & echo $!; echo; wait");
        let place = folder.path().join("said.jsonl");
        let start = Instant::now();
        let child = loop {
            let said = fs::read_to_string(&place).unwrap();
            if let Some((id, _)) = said.split_once('\n') {
                break id.to_owned();
            }
            assert!(start.elapsed() < SOON, "it says nothing");
        };
        drop(running);
        let state = || {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next())
        };
        // It may be there until its new parent has seen its end.
        while state().is_some_and(|state| state != 'Z') {
            assert!(start.elapsed() < SOON, "process {child} runs on");
        }
    }

    #[test]
    fn the_user_can_end_it() {
        let stop = AtomicBool::new(true);
        let (_folder, mut running) = shell("exec sleep 1000");
        assert!(matches!(running.ready(SOON, &stop), Err(ProgramError::Interrupted)));
    }
}
