//! `xsched top` in a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use xsched_daemon::{Daemon, Settings};
use xsched_policies::Any;

const PATIENCE: Duration = Duration::from_secs(20);
/// Text that a terminal is told when the view is left.
const LEFT: &str = "\u{1b}[?1049l";

fn daemon(socket: &Path) -> Daemon {
    let policy = "hpf".parse::<Any>().expect("a policy");
    let settings = Settings { socket: socket.to_owned(), policy, is_open: false };
    Daemon::start(&settings).expect("a daemon")
}

fn top(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(["top", "--interval", "50ms"]).env("XSCHED_SOCKET", socket);
    command.env_remove("COLUMNS").env("TERM", "xterm");
    command
}

/// The view in a terminal of its own.
struct View {
    child: Child,
    /// Both ends of the terminal.
    ours: OwnedFd,
    theirs: OwnedFd,
    shown: Arc<Mutex<String>>,
    modes: Termios,
    _folder: tempfile::TempDir,
    socket: PathBuf,
}

impl View {
    fn new() -> (Self, Daemon) {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let daemon = daemon(&socket);
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal");
        let path = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("a name");
        let theirs = File::options().read(true).write(true).open(path).expect("a terminal");
        let theirs = OwnedFd::from(theirs);
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).expect("a size");
        let modes = tcgetattr(&theirs).expect("modes");
        let end = || Stdio::from(theirs.try_clone().expect("a terminal"));
        let child = top(&socket).stdin(end()).stdout(end()).stderr(end()).spawn().expect("it runs");
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reader, to) = (File::from(ours.try_clone().expect("it")), Arc::clone(&shown));
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                to.lock().expect("text").push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let view = Self { child, ours, theirs, shown, modes, _folder: folder, socket };
        view.until("policy hpf");
        (view, daemon)
    }

    /// Waits until a text was written since the last call. Only what changes of a line is written.
    fn until(&self, text: &str) {
        let start = Instant::now();
        loop {
            let mut shown = self.shown.lock().expect("text");
            if shown.contains(text) {
                shown.clear();
                return;
            }
            assert!(start.elapsed() < PATIENCE, "no {text:?} in {:?}", shown.get(..500));
            drop(shown);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&self, keys: &str) {
        rustix::io::write(&self.ours, keys.as_bytes()).expect("written");
    }

    /// Waits until it has ended well and the terminal is as before.
    fn ended(mut self) {
        self.until(LEFT);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        let modes = tcgetattr(&self.theirs).expect("modes");
        assert_eq!(modes.local_modes, self.modes.local_modes);
        assert_eq!(modes.input_modes, self.modes.input_modes);
        assert_eq!(modes.output_modes, self.modes.output_modes);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_goes_on_without_a_daemon_and_leaves_the_terminal_as_it_was() {
    let (view, first) = View::new();
    assert_ne!(tcgetattr(&view.theirs).expect("modes").local_modes, view.modes.local_modes);
    drop(first);
    view.until("gap since");
    let _second = daemon(&view.socket);
    view.until("there was no daemon");
    view.press("q");
    view.ended();
}

#[test]
fn control_c_and_signals_leave_the_terminal_as_it_was() {
    let (view, _daemon) = View::new();
    view.press("\u{3}");
    view.ended();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let (view, _daemon) = View::new();
        kill_process(Pid::from_child(&view.child), signal).expect("it is there");
        view.ended();
    }
}

#[test]
fn without_a_terminal_it_prints_one_frame() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let output = top(&socket).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("is xschedd running?"), "{text}");
    let _daemon = daemon(&socket);
    let output = top(&socket).arg("--once").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("xsched: policy hpf with a floor of 5 %, up 0."), "{text}");
    assert!(text.contains("PROGRAM") && !text.contains('\u{1b}'), "{text}");
}
