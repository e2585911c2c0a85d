//! A node with a daemon and the emulated driver, and programs on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use xsched_daemon::{Daemon, Settings};
use xsched_node::Status;
use xsched_policies::Any;

use crate::programs::PROGRAM;

pub(crate) struct Node {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) driver: PathBuf,
    pub(crate) daemon: Option<Daemon>,
}

/// Where the daemon is to listen that this test runs as a process of its own.
pub(crate) const OWN: &str = "XSCHED_TEST_DAEMON";

/// A daemon in a process of its own.
pub(crate) struct Own(Child);

impl Own {
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Program that [`Node::start_apart`] starts; nothing otherwise.
#[test]
fn a_daemon_in_a_process_of_its_own() {
    let Some(socket) = std::env::var_os(OWN) else { return };
    let policy = "hpf".parse::<Any>().expect("a policy");
    let settings = Settings { socket: socket.into(), policy, is_open: false };
    let _daemon = Daemon::start(&settings).expect("a daemon");
    loop {
        thread::park();
    }
}

impl Node {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
        let source = folder.path().join("program.c");
        fs::write(&source, PROGRAM).expect("a file");
        let mut node = Self { folder, driver, daemon: None };
        node.compile(&source);
        node.start();
        node
    }

    /// Compiles a program, whose name is that of its source without the `.c`.
    pub(crate) fn compile(&self, source: &Path) {
        let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compile.arg(source).arg(&self.driver).args(["-ldl", "-pthread"]);
        compile.arg("-o").arg(source.with_extension(""));
        assert!(compile.status().expect("a C compiler").success());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(crate) fn start(&mut self) {
        let policy = "hpf".parse::<Any>().expect("a policy");
        let settings = Settings { socket: self.socket(), policy, is_open: false };
        self.daemon = Some(Daemon::start(&settings).expect("a daemon"));
    }

    /// Starts a daemon in a process of its own, and waits until it answers.
    pub(crate) fn start_apart(&self) -> Own {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "node::a_daemon_in_a_process_of_its_own"]).env(OWN, self.socket());
        let own = Own(command.stdout(Stdio::null()).spawn().expect("a process"));
        self.until("no daemon", |node| node.tell(&["ps"]).status.success());
        own
    }

    pub(crate) fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn xsched(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
        for variable in ["LD_PRELOAD", "XSCHED_POLICY", "XSCHED_SCHEDULER"] {
            command.env_remove(variable);
        }
        command.args(arguments).env("XSCHED_SOCKET", self.socket());
        command.env("XSCHED_CUDA_DRIVER", &self.driver);
        command
    }

    pub(crate) fn tell(&self, arguments: &[&str]) -> Output {
        self.xsched(arguments).output().expect("it runs")
    }

    pub(crate) fn status(&self) -> Status {
        let output = self.tell(&["ps", "--json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// A program in the background that counts into a file of this name.
    pub(crate) fn background(&self, name: &str, options: &[&str]) -> Background {
        self.background_with(name, options, &[])
    }

    /// Starts a program as `background` does, with these variables.
    pub(crate) fn background_with(
        &self,
        name: &str,
        options: &[&str],
        variables: &[(&str, &str)],
    ) -> Background {
        let counter = self.folder.path().join(name);
        fs::write(&counter, "0\n").expect("a file");
        let mut command = self.xsched(&["run"]);
        command.args(options).arg("--").arg(self.folder.path().join("program")).arg(&counter);
        command.envs(variables.iter().copied());
        let child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        Background { child: Some(child), counter }
    }
}

pub(crate) struct Background {
    pub(crate) child: Option<Child>,
    pub(crate) counter: PathBuf,
}

impl Background {
    pub(crate) fn pid(&self) -> i32 {
        self.child.as_ref().map_or(0, |child| child.id() as i32)
    }

    pub(crate) fn count(&self) -> u64 {
        count(&self.counter)
    }

    /// Returns whether the program counts on.
    pub(crate) fn goes_on(&self) -> bool {
        let (before, start) = (self.count(), Instant::now());
        while start.elapsed() < Duration::from_secs(20) {
            if self.count() > before + 20 {
                return true;
            }
            thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Returns whether the program stands still, once what was launched has run.
    pub(crate) fn stands_still(&self) -> bool {
        thread::sleep(Duration::from_millis(50));
        let before = self.count();
        thread::sleep(Duration::from_millis(150));
        self.count() == before
    }

    /// Ends it, and answers what it said.
    pub(crate) fn end(mut self) -> String {
        fs::remove_file(&self.counter).expect("the file");
        let child = self.child.take().expect("a program");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn count(path: &Path) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
