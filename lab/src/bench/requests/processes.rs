//! Requests of processes of their own, which begin at once and say when each of theirs began and
//! ended, by the clock that all processes of a machine share.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Form, Request, commands, warm_up};
use crate::bench::graphs::BERT_BASE_FP32;
use crate::device::{BenchDevice, LabError, PlainStream};

/// Time limit for a process to open its device, seconds where kernels are compiled first.
const START: Duration = Duration::from_secs(60);
/// A request takes less, beside the pause after it.
const REQUEST: Duration = Duration::from_millis(500);
/// Line that a process writes when it may begin.
const READY: &str = "ready";
/// Line that a process is told then.
const GO: &[u8] = b"go\n";

/// Task of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Client {
    /// How its requests are launched.
    pub(crate) form: Form,
    /// How many.
    pub(crate) requests: u32,
    /// Between two, in nanoseconds.
    pub(crate) pause_ns: u64,
}

/// Makes the command line of a process that calls [`client`].
pub(crate) type Launcher<'a> = &'a (dyn Fn(&Client) -> io::Result<Command> + Sync);

/// Nanoseconds of the clock that all processes share.
fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, rest) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// A process's half: gets ready, says so, waits for a line, and writes its requests as one line.
/// Times are of the machine's monotonic clock.
pub(crate) fn client<B: BenchDevice>(
    bench: &B,
    wanted: &Client,
    input: impl io::Read,
    mut output: impl Write,
) -> Result<(), LabError> {
    let commands = commands(bench, wanted.form, &BERT_BASE_FP32.lengths())?;
    let mut stream = bench.stream(false)?;
    warm_up(|| request(&mut stream, &commands).map(drop))?;
    writeln!(output, "{READY}").and_then(|()| output.flush()).map_err(LabError::new)?;
    let mut line = String::new();
    let told = BufReader::new(input).read_line(&mut line).map_err(LabError::new)?;
    if told == 0 {
        return Err(LabError::new("the process that started this one is gone"));
    }
    let mut series = Vec::new();
    for _ in 0..wanted.requests {
        series.push(request(&mut stream, &commands)?);
        thread::sleep(Duration::from_nanos(wanted.pause_ns));
    }
    let line = serde_json::to_string(&series).map_err(LabError::new)?;
    writeln!(output, "{line}").map_err(LabError::new)
}

fn request<C>(stream: &mut impl PlainStream<C>, commands: &[C]) -> Result<Request, LabError> {
    let start_ns = now_ns();
    commands.iter().try_for_each(|command| stream.launch(command))?;
    let submitted_ns = now_ns();
    stream.wait()?;
    Ok(Request { thread: 0, start_ns, submitted_ns, end_ns: now_ns() })
}

/// A process, and the lines that it writes. It is killed when this is dropped.
#[derive(Debug)]
struct Started {
    child: Child,
    lines: Receiver<io::Result<String>>,
}

impl Started {
    fn new(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (send, lines) = channel();
        if let Some(output) = child.stdout.take() {
            // Not joined: it ends with the process, or when the receiver of its lines is gone.
            thread::spawn(move || {
                let mut all = BufReader::new(output).lines();
                while all.next().is_some_and(|line| send.send(line).is_ok()) {}
            });
        }
        Ok(Self { child, lines })
    }

    /// Waits for the next line of the process.
    fn line(&mut self, patience: Duration) -> Result<String, LabError> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => line.map_err(LabError::new),
            Err(RecvTimeoutError::Timeout) => {
                let waited = patience.as_secs();
                Err(LabError::new(format!("a process said nothing for {waited} s")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().map_err(LabError::new)?;
                Err(LabError::new(format!("a process ended early, as it says above: {status}")))
            }
        }
    }

    fn go(&mut self) -> Result<(), LabError> {
        let input = self.child.stdin.as_mut().ok_or_else(|| LabError::new("it has no input"))?;
        input.write_all(GO).and_then(|()| input.flush()).map_err(LabError::new)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that ended by itself is not there to be killed. Nothing depends on the answers.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts these processes, has them begin at once, and returns all their requests, in nanoseconds
/// from that moment.
pub(super) fn series(
    launcher: Launcher<'_>,
    wanted: &Client,
    count: u32,
) -> Result<Vec<Request>, LabError> {
    let start = || Started::new(launcher(wanted)?);
    let started: io::Result<Vec<Started>> = (0..count).map(|_| start()).collect();
    let mut started = started.map_err(LabError::new)?;
    for process in &mut started {
        let said = process.line(START)?;
        if said != READY {
            return Err(LabError::new(format!("a process said `{said}`")));
        }
    }
    let origin_ns = now_ns();
    started.iter_mut().try_for_each(Started::go)?;
    let each = REQUEST + Duration::from_nanos(wanted.pause_ns);
    let patience = START + each.saturating_mul(wanted.requests.saturating_mul(count));
    let mut all = Vec::new();
    for (thread, process) in (0..).zip(&mut started) {
        let line = process.line(patience)?;
        let series: Vec<Request> = serde_json::from_str(&line).map_err(LabError::new)?;
        let from = |ns: u64| ns.saturating_sub(origin_ns);
        all.extend(series.iter().map(|request| Request {
            thread,
            start_ns: from(request.start_ns),
            submitted_ns: from(request.submitted_ns),
            end_ns: from(request.end_ns),
        }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;

    const WANTED: Client = Client { form: Form::Kernels, requests: 2, pause_ns: 1_000 };

    /// Runs a script of the shell in place of a process and returns its requests.
    fn said(script: &'static str) -> Result<Vec<Request>, LabError> {
        let launcher = move |_: &Client| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Ok(command)
        };
        series(&launcher, &WANTED, 2)
    }

    #[test]
    fn a_process_waits_for_its_line_and_then_says_what_it_did() {
        let mut output = Vec::new();
        let before_ns = now_ns();
        client(&Host::open().unwrap(), &WANTED, GO, &mut output).unwrap();
        let output = String::from_utf8(output).unwrap();
        let mut lines = output.lines();
        assert_eq!(lines.next(), Some(READY));
        let series: Vec<Request> = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(series.len(), 2);
        assert!(before_ns < series[0].start_ns && series[0].end_ns < series[1].start_ns);
        let alone = client(&Host::open().unwrap(), &WANTED, io::empty(), io::sink());
        assert!(alone.unwrap_err().to_string().contains("gone"));
    }

    #[test]
    fn requests_of_all_processes_are_told_apart() {
        let script = "echo ready; read go; \
             echo '[{\"thread\":0,\"start_ns\":1,\"submitted_ns\":2,\"end_ns\":3}]'";
        let all = said(script).unwrap();
        assert_eq!(all.iter().map(|request| request.thread).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_process_that_fails_is_an_error_and_is_not_waited_for() {
        let ended = said("exit 3").unwrap_err().to_string();
        assert!(ended.contains("ended") && ended.contains("3"), "{ended}");
        let odd = said("echo no device; exec sleep 1000").unwrap_err().to_string();
        assert!(odd.contains("no device"), "{odd}");
        let unread = said("echo ready; read go; echo nonsense").unwrap_err().to_string();
        assert!(unread.contains("expected"), "{unread}");
    }
}
