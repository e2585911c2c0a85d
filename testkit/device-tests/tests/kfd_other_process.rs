//! Queues of another process, suspended by the driver's calls for debuggers: a program on the
//! emulated HIP runtime, and one that attaches to it, both on the emulated driver with real system
//! calls and real tracing. No GPU is involved.
//!
//! Each test runs itself on the emulated driver, and from there in the other roles.
#![allow(unsafe_code, reason = "drivers' handles")]

#[path = "../../../hal-hip/tests/common/mod.rs"]
mod common;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdin};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use xsched_hal_hip::{HipApi, HipStream, Rings};
use xsched_hal_kfd::mechanism::{DebugTrap, Mechanism};
use xsched_hal_kfd::uapi;
use xsched_hal_kfd::{Driver, Kfd, KfdError, KfdQueue, Versioned};
use xsched_hal_stream::StreamApi;
use xsched_kfd_emulated::system::{Options, run};
use xsched_kfd_emulated::{Config, control};
use zerocopy::IntoBytes;

use common::{Kernels, counter, launch, throughout, until};

/// Role of this process.
const ROLE: &str = "XSCHED_TEST_ROLE";
/// The process that it attaches to.
const TARGET: &str = "XSCHED_TEST_TARGET";
/// Exit code of a target that ends in order.
const IN_ORDER: i32 = 7;
/// The start of lines that are meant for the parent process.
const MARK: &str = "> ";

/// Returns the command for this test in a role, on the emulated driver if it is in none yet.
fn role(test: &str, role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("tests are programs"));
    command.args(["--exact", test, "--nocapture"]).env(ROLE, role);
    command
}

/// As [`is_scheduler_on`], on an MI308X.
fn is_scheduler(test: &str) -> bool {
    is_scheduler_on(test, Config::mi308x())
}

/// Plays a role that is not the scheduler's. True if this process is the scheduler, on the emulated
/// driver; false if that was run and succeeded.
fn is_scheduler_on(test: &str, config: Config) -> bool {
    match env::var(ROLE).as_deref() {
        Ok("target") => target(),
        Ok("bare target") => bare_target(),
        Ok("attacher") => attacher(),
        Ok(_) => true,
        Err(_) => {
            let mut command = role(test, "scheduler");
            command.env("XSCHED_EMULATED_KFD", "1");
            let options = Options { config, ..Options::default() };
            let report = run(&options, &mut command).expect("the emulated driver");
            assert!(report.status.success(), "{test} ended with {}", report.status);
            assert_eq!(report.unmodelled, []);
            false
        }
    }
}

/// Sends a line to the parent process.
fn say(what: impl std::fmt::Display) {
    println!("\n{MARK}{what}");
}

/// The parent's next request. Exits if the parent has ended.
fn asked() -> String {
    let mut line = String::new();
    let bytes = stdin().read_line(&mut line).expect("a line");
    if bytes == 0 {
        exit(IN_ORDER);
    }
    line.trim().to_owned()
}

/// A process in another role.
struct Other {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Other {
    /// Starts it, and waits until it is ready.
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("tests are programs");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut other = Self { child, stdin, stdout };
        assert_eq!(other.heard(), "ready");
        other
    }

    fn target(test: &str) -> Self {
        Self::start(&mut role(test, "target"))
    }

    fn attacher(test: &str, target: u32) -> Self {
        Self::start(role(test, "attacher").env(TARGET, target.to_string()))
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing that it says.
    fn heard(&mut self) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.stdout.read_line(&mut line).expect("text");
            assert!(bytes > 0, "it ended before it answered");
            if let Some(said) = line.trim().strip_prefix(MARK) {
                return said.to_owned();
            }
        }
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.stdin, "{what}").expect("it listens");
    }

    fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.heard()
    }

    /// Kernels that it has run.
    fn count(&mut self) -> u32 {
        self.ask("count").parse().expect("a number")
    }

    fn goes_on(&mut self) {
        let before = self.count();
        until("its kernels go on", || self.count() > before);
    }

    fn stands_still(&mut self) {
        let before = self.count();
        throughout("nothing of it runs", || self.count() == before);
    }

    /// How it ends, which it has to soon.
    fn ended(&mut self) -> std::process::ExitStatus {
        until("it ends", || self.child.try_wait().expect("it is ours").is_some());
        self.child.wait().expect("it is ours")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // After a failed test the process still runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that keeps streams busy, each in a ring of its own.
fn target() -> ! {
    // Any process may trace it, where otherwise only parents may.
    // SAFETY: the call takes numbers alone.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
    // As long as the process is there.
    let api: &HipApi = Box::leak(Box::new(common::open(Rings::Own)));
    let kernels = Kernels::load(api);
    let (word, busy) = (counter(), stream(api));
    std::thread::spawn(move || keep_busy(api, &kernels, busy, word));
    say("ready");
    loop {
        match asked().as_str() {
            "count" => say(word.load(Ordering::Acquire)),
            "stream" => {
                stream(api);
                say("made");
            }
            _ => exit(IN_ORDER),
        }
    }
}

/// A stream with a ring, and so a queue, of its own.
fn stream(api: &HipApi) -> HipStream {
    let _entered = api.enter().expect("the device becomes current");
    api.create_stream(None).expect("a stream")
}

/// Launches kernel after kernel, a few ahead.
fn keep_busy(api: &HipApi, kernels: &Kernels, stream: HipStream, word: &'static AtomicU32) {
    for launched in 1_u32.. {
        launch(api, &kernels.add(1, word), stream);
        while word.load(Ordering::Acquire) + 4 < launched {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }
}

/// A program that has the driver open, and that starts its runtime on request.
fn bare_target() -> ! {
    let driver = Kfd::open().expect("the emulated driver");
    Versioned::ask(&driver).expect("it answers");
    say("ready");
    while asked() == "enable" {
        let mode = uapi::MODE_ENABLE;
        let mut enable = uapi::RuntimeEnable { r_debug: 0, mode, capabilities: 0 };
        // SAFETY: the argument names no memory.
        let answer = unsafe { driver.ioctl(uapi::RUNTIME_ENABLE.request, enable.as_mut_bytes()) };
        say(format!("{answer:?}"));
    }
    exit(IN_ORDER)
}

/// The session with a process, and the queues that it has.
fn attach(pid: u32) -> Result<DebugTrap<Kfd>, KfdError> {
    DebugTrap::other(Arc::new(Versioned::open()?), pid)
}

fn queues(trap: &DebugTrap<Kfd>) -> Vec<Arc<KfdQueue>> {
    let facts = trap.queues().expect("it can be asked");
    facts.into_iter().map(|facts| Arc::new(KfdQueue::new(facts).expect("it can be"))).collect()
}

/// A second scheduler.
fn attacher() -> ! {
    let target = env::var(TARGET).expect("it is given").parse().expect("a number");
    say("ready");
    let mut session = None;
    loop {
        match asked().as_str() {
            "attach" => match attach(target) {
                Ok(trap) => {
                    session = Some(trap);
                    say("attached");
                }
                Err(error) => say(error),
            },
            "suspend" => {
                let trap = session.as_ref().expect("it is attached");
                let answers = trap.suspend(&queues(trap));
                say(format!("{answers:?}"));
            }
            _ => exit(IN_ORDER),
        }
    }
}

/// Returns the process that traces another one.
fn tracer(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.expect("a line").trim().to_owned()
}

/// Returns what the emulated driver says of a queue.
fn shown(pid: u32, id: u32) -> String {
    control::send(&format!("queue {pid} {id}")).expect("it is there")
}

#[test]
fn queues_of_another_process_stop_and_go_on() {
    let test = "queues_of_another_process_stop_and_go_on";
    if !is_scheduler(test) {
        return;
    }
    let mut target = Other::target(test);
    let pid = target.pid();
    let trap = attach(pid).expect("it is a child of this process");
    assert_eq!((trap.pid(), tracer(pid).as_str()), (pid, "0"), "tracing has ended");
    target.goes_on();
    let first = queues(&trap);
    assert_eq!(first.len(), 1);
    assert_eq!(trap.suspend(&first), [Ok(())]);
    assert!(shown(pid, first[0].id()).starts_with("active 0 suspended 1"));
    target.stands_still();
    assert_eq!(trap.resume(&first), [Ok(())]);
    target.goes_on();
    // What it makes later can be suspended as well, and both together.
    assert_eq!(target.ask("stream"), "made");
    let both = queues(&trap);
    assert_eq!(both.len(), 2);
    assert_eq!(trap.suspend(&both), [Ok(()), Ok(())]);
    target.stands_still();
    // No other debugger can attach meanwhile.
    let mut second = Other::attacher(test, pid);
    let refused = second.ask("attach");
    assert_eq!(refused, KfdError::DebuggerAttached { pid }.to_string());
    target.stands_still();
    // The end of the session is the end of its holds, and the next one can come.
    assert_eq!(trap.release(), Ok(()));
    target.goes_on();
    assert_eq!(second.ask("attach"), "attached");
    target.tell("end");
    assert_eq!(target.ended().code(), Some(IN_ORDER), "it is unharmed");
}

#[test]
fn nothing_stays_suspended_when_the_one_that_attached_is_killed() {
    let test = "nothing_stays_suspended_when_the_one_that_attached_is_killed";
    if !is_scheduler(test) {
        return;
    }
    let mut target = Other::target(test);
    let mut other = Other::attacher(test, target.pid());
    assert_eq!(other.ask("attach"), "attached");
    assert_eq!(other.ask("suspend"), "[Ok(())]");
    target.stands_still();
    other.child.kill().expect("it is ours");
    assert_eq!(other.ended().signal(), Some(libc::SIGKILL));
    target.goes_on();
    let trap = attach(target.pid()).expect("the other debugger has ended");
    assert_eq!(trap.suspend(&queues(&trap)), [Ok(())]);
    target.stands_still();
    drop(trap);
    target.goes_on();
    target.tell("end");
    assert_eq!(target.ended().code(), Some(IN_ORDER), "it is unharmed");
}

#[test]
fn a_target_that_dies_in_the_middle_is_named() {
    let test = "a_target_that_dies_in_the_middle_is_named";
    if !is_scheduler(test) {
        return;
    }
    let mut target = Other::target(test);
    let pid = target.pid();
    let trap = attach(pid).expect("it is a child of this process");
    let all = queues(&trap);
    assert_eq!(trap.suspend(&all), [Ok(())]);
    target.child.kill().expect("it is ours");
    assert_eq!(target.ended().signal(), Some(libc::SIGKILL), "how it ended is not lost");
    assert_eq!(trap.resume(&all), [Err(KfdError::NoSuchProcess { pid })]);
    assert!(trap.held().is_empty() && !trap.is_open());
    assert_eq!(trap.resume(&all), [Ok(())], "it is suspended no more");
    assert_eq!(trap.suspend(&all), [Err(KfdError::SessionEnded)]);
    assert_eq!(
        (trap.release(), attach(pid).err()),
        (Ok(()), Some(KfdError::NoSuchProcess { pid }))
    );
    assert_eq!(control::send(&format!("queues {pid}")).expect("an answer"), "");
}

#[test]
fn a_target_that_ends_its_runtime_does_not_wait() {
    let test = "a_target_that_ends_its_runtime_does_not_wait";
    if !is_scheduler(test) {
        return;
    }
    let mut target = Other::target(test);
    let trap = attach(target.pid()).expect("it is a child of this process");
    assert_eq!(trap.suspend(&queues(&trap)), [Ok(())]);
    target.stands_still();
    // Its runtime says to the driver that it ends, which waits for the debugger otherwise.
    target.tell("end");
    assert_eq!(target.ended().code(), Some(IN_ORDER));
}

#[test]
fn a_runtime_that_has_not_started_is_not_made_to_wait() {
    let test = "a_runtime_that_has_not_started_is_not_made_to_wait";
    if !is_scheduler(test) {
        return;
    }
    let mut target = Other::start(&mut role(test, "bare target"));
    let pid = target.pid();
    assert_eq!(attach(pid).err(), Some(KfdError::RuntimeNotEnabled));
    assert_eq!(tracer(pid), "0");
    assert_eq!(target.ask("enable"), "Ok(0)");
    let trap = attach(pid).expect("it is enabled");
    assert_eq!(trap.queues(), Ok(vec![]));
    assert_eq!(
        target.ask("enable"),
        "Err(Os { code: 16, kind: ResourceBusy, message: \"Device or resource busy\" })"
    );
    target.tell("end");
    assert_eq!(target.ended().code(), Some(IN_ORDER));
}

#[test]
fn a_driver_that_wants_debuggers_to_trace_all_the_time_is_refused() {
    let test = "a_driver_that_wants_debuggers_to_trace_all_the_time_is_refused";
    if !is_scheduler_on(test, Config { debugger_traces: true, ..Config::mi308x() }) {
        return;
    }
    let mut target = Other::target(test);
    let error = attach(target.pid()).expect_err("it would be refused later");
    assert!(matches!(error, KfdError::NotSupported { errno: rustix::io::Errno::PERM, .. }));
    target.goes_on();
    target.tell("end");
    assert_eq!(target.ended().code(), Some(IN_ORDER), "nothing makes it wait");
}
