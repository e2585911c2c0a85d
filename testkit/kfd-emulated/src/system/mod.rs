//! The driver behind real system calls: a child opens `/dev/kfd` and makes its `ioctl`s, and this
//! process answers them.
//!
//! The child gets a seccomp filter whose calls with paths, and all `ioctl`s, arrive here. What is
//! not the driver's goes on as if there were no filter. It needs no privileges, and works for raw
//! system calls and static programs as well.
//!
//! * `/dev/kfd` is a file in memory that shows the [`crate::page`] to `mmap`. Each process has its
//!   own, and a file that is used in another process than the one that opened it answers `EBADF`.
//! * Paths below `/sys/class/kfd`, `/sys/devices/virtual/kfd` and `/sys/module/amdgpu` lead to a
//!   [`Tree`], and so do `/dev/kmsg` and `/etc/xsched/kfd-off`.
//! * Render nodes are one file in memory for all GPUs and processes, of which allocations are
//!   pieces, so that they can be mapped as the real ones are.
//! * A call that blocks is not answered until something lets it go on, or its process is killed.
//! * A process that ends takes its queues with it.
//!
//! Not emulated: a process that replaces itself by `exec` keeps its queues here, and relative paths
//! that lead to the driver are not recognised.

mod files;
mod filter;
mod host;
mod notify;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::config::Config;
use crate::control;
use crate::model::{Block, CallResult, Caller, Change, Model};
use crate::page::{Page, State};
use crate::tree::Tree;
use host::System;
use notify::{Answer, Call, Listener};

/// `queue_preemption_timeout_ms` of the module, as it is by default.
const PREEMPTION_TIMEOUT_MS: u32 = 9_000;
/// How often it is looked at what runs, or at what blocks, while something does.
const LOOK: Duration = Duration::from_micros(30);
/// How often it is looked at the child, if nothing happens.
const REST: Duration = Duration::from_millis(50);

/// How a command is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The driver and its GPUs.
    pub config: Config,
    /// All processes may do what `CAP_CHECKPOINT_RESTORE` allows, as root may.
    pub as_root: bool,
    /// How long the driver waits for what runs to stop, in milliseconds, before it answers `ETIME`
    /// and resets the GPUs. 9000 unless set otherwise, as in the module.
    pub preemption_timeout_ms: u32,
    /// A library that plays the hardware, preloaded into all processes behind those that they
    /// preload anyway. Without one no packet is carried out.
    pub hardware: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let config = Config::default();
        let preemption_timeout_ms = PREEMPTION_TIMEOUT_MS;
        Self { config, as_root: false, preemption_timeout_ms, hardware: None }
    }
}

/// Report of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How the command ended.
    pub status: ExitStatus,
    /// Calls that the real driver has and the emulator does not, as numbers and operations.
    pub unmodelled: Vec<(u8, u32)>,
}

/// Runs a command on the emulated driver until it ends. What it has started and left behind has no
/// driver from then on. The command is prepared for this run, and cannot be used for another.
///
/// # Errors
/// If it cannot be started, the kernel refuses the filter, or no temporary folder can be made.
pub fn run(options: &Options, command: &mut Command) -> io::Result<Report> {
    let folder = tempfile::tempdir()?;
    let tree = Tree::write(folder.path(), &options.config)?;
    let memory = files::memory_file(&options.config)?;
    if let Some(library) = &options.hardware {
        preload(command, library)?;
    }
    let (mut child, listener) = filter::spawn(command)?;
    let mut supervisor = Supervisor {
        memory,
        listener: Listener(listener),
        model: Model::new(options.config.clone()),
        tree,
        as_root: options.as_root,
        patience: Duration::from_millis(options.preemption_timeout_ms.into()),
        opened: BTreeMap::new(),
        controls: Vec::new(),
        pending: Vec::new(),
        start: Instant::now(),
    };
    let status = supervisor.serve(&mut child);
    if status.is_err() {
        // Without answers it would hang for ever.
        let _ = child.kill();
        let _ = child.wait();
    }
    Ok(Report { status: status?, unmodelled: supervisor.model.unmodelled() })
}

/// Has a command preload a library, behind those that it preloads anyway.
fn preload(command: &mut Command, library: &Path) -> io::Result<()> {
    const VARIABLE: &str = "LD_PRELOAD";
    let own = command.get_envs().find(|(name, _)| *name == VARIABLE);
    let own = own.map_or_else(|| std::env::var_os(VARIABLE), |(_, value)| value.map(Into::into));
    let mut value = own.unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library.canonicalize()?);
    command.env(VARIABLE, value);
    Ok(())
}

/// In the environment of a program that [`enter`] has started.
const INSIDE: &str = "XSCHED_ON_EMULATED_KFD";
/// Has the emulated HIP runtime make its rings queues of the driver.
const RINGS: &str = "XSCHED_EMULATED_KFD";

/// Runs this program once more on the emulated driver, with these arguments, and its own standard
/// streams. `None` in the program that was started so: it goes on. The emulated HIP runtime there
/// makes its rings queues of the driver.
///
/// # Errors
/// As [`run`].
pub fn enter<S: AsRef<OsStr>>(
    options: &Options,
    arguments: impl IntoIterator<Item = S>,
) -> io::Result<Option<Report>> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(None);
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).env(INSIDE, "1").env(RINGS, "1");
    run(options, &mut command).map(Some)
}

/// A process that opened the driver.
#[derive(Debug)]
struct Opened {
    /// File of the driver.
    file: OwnedFd,
    /// By which that is recognised.
    inode: u64,
    page: Page,
    /// Readable when the process has ended.
    process: OwnedFd,
}

/// A call that is not answered yet.
#[derive(Debug)]
struct Pending {
    call: u64,
    /// The request and where its argument is.
    asked: (u32, u64),
    caller: Caller,
    outcome: CallResult,
    /// Queues that the call stopped, and that may still run.
    stopping: Vec<(u32, u32)>,
    since: Instant,
}

struct Supervisor {
    listener: Listener,
    /// File of the render nodes.
    memory: OwnedFd,
    model: Model,
    tree: Tree,
    as_root: bool,
    patience: Duration,
    opened: BTreeMap<u32, Opened>,
    controls: Vec<OwnedFd>,
    pending: Vec<Pending>,
    start: Instant,
}

impl Supervisor {
    fn serve(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let (calls, lines, ended) = self.wait()?;
            // In this order: what a process does after another one's end, or after a line that was
            // answered, sees its effects.
            for pid in ended {
                self.exit(pid)?;
            }
            // From the last on: one that was closed goes, and those behind it move up.
            for control in lines.into_iter().rev() {
                self.line(control);
            }
            if calls && let Some(call) = self.listener.take()? {
                self.call(call)?;
            }
            self.look_at_pending()?;
        }
    }

    /// Waits for something to happen: whether there are calls, which controls have a line, which
    /// processes have ended.
    fn wait(&self) -> io::Result<(bool, Vec<usize>, Vec<u32>)> {
        let mut files = vec![PollFd::new(&self.listener.0, PollFlags::IN)];
        files.extend(self.controls.iter().map(|file| PollFd::new(file, PollFlags::IN)));
        let processes = self.opened.values().map(|opened| &opened.process);
        files.extend(processes.map(|file| PollFd::new(file, PollFlags::IN)));
        let rest = if self.pending.is_empty() { REST } else { self.next_look() };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(rest.subsec_nanos()) };
        match poll(&mut files, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready: Vec<_> = files.iter().map(|file| !file.revents().is_empty()).collect();
        let calls = files[0].revents().contains(PollFlags::IN);
        let (lines, ended) = ready[1..].split_at(self.controls.len());
        let lines = (0..lines.len()).filter(|at| lines[*at]).collect();
        let pids = self.opened.keys().zip(ended).filter(|(_, ended)| **ended);
        Ok((calls, lines, pids.map(|(pid, _)| *pid).collect()))
    }

    /// How long nothing needs to be looked at.
    fn next_look(&self) -> Duration {
        let now_ns = self.now_ns();
        let next = self.pending.iter().map(|pending| match pending.outcome {
            _ if !pending.stopping.is_empty() => LOOK,
            CallResult::Answer { at_ns, .. } => Duration::from_nanos(at_ns.saturating_sub(now_ns)),
            CallResult::Blocks(Block::Events { until_ns, .. }) => {
                Duration::from_nanos(until_ns.saturating_sub(now_ns))
            }
            CallResult::Blocks(_) => REST,
        });
        next.min().unwrap_or(REST).min(REST)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn exit(&mut self, pid: u32) -> io::Result<()> {
        self.model.exit(pid);
        self.opened.remove(&pid);
        self.apply_changes()?;
        self.tree.exit(pid)
    }

    /// Carries out a line of [`control`]. A file that was closed is forgotten.
    fn line(&mut self, control: usize) {
        let mut line = [0; control::LINE_BYTES_MAX];
        let Some(file) = self.controls.get(control) else { return };
        match rustix::io::read(file, &mut line) {
            Ok(bytes) if bytes > 0 => {
                let text = String::from_utf8_lossy(&line[..bytes]);
                let answer = control::carry_out_on_files(&self.tree, text.trim());
                let answer =
                    answer.unwrap_or_else(|| control::carry_out(&mut self.model, text.trim()));
                // The client may be gone.
                let _ = rustix::io::write(file, answer.as_bytes());
            }
            _ => {
                self.controls.remove(control);
            }
        }
        // A reset stops queues.
        let _ = self.apply_changes();
    }

    /// Publishes what has changed, and returns the queues that were stopped.
    fn apply_changes(&mut self) -> io::Result<Vec<(u32, u32)>> {
        let mut stopped = Vec::new();
        for change in self.model.take_changes() {
            self.tree.apply(&change)?;
            let (pid, id, state) = match change {
                Change::Opened { pid } => {
                    self.look_after(pid)?;
                    continue;
                }
                Change::Active { pid, id, is_active } => (pid, id, State::of(is_active)),
                Change::Destroyed { pid, id } => (pid, id, State::Inactive),
                Change::Lost { pid, id } => (pid, id, State::Reset),
                Change::Freed { offset, bytes } => {
                    files::forget(&self.memory, offset, bytes)?;
                    continue;
                }
                Change::Created { .. } => continue,
            };
            if let Some(opened) = self.opened.get(&pid) {
                opened.page.set(pid, id, state);
                stopped.retain(|other| *other != (pid, id));
                if state == State::Inactive {
                    stopped.push((pid, id));
                }
            }
        }
        Ok(stopped)
    }

    fn call(&mut self, call: Call) -> io::Result<()> {
        if call.number == libc::SYS_ioctl {
            return self.ioctl(call);
        }
        let answer = self.path_call(&call);
        if let Some(answer) = answer {
            self.listener.answer(call.id, answer);
        }
        Ok(())
    }

    fn ioctl(&mut self, call: Call) -> io::Result<()> {
        let [file, request, address, ..] = call.arguments;
        let owner = self.owner(call.thread, file as u32);
        let process = owner.and_then(|owner| Some((owner, host::process_of(call.thread)?)));
        let Some((opened_by, pid)) = process else {
            self.listener.answer(call.id, Answer::GoOn);
            return Ok(());
        };
        let caller = Caller { pid, opened_by, now_ns: self.now_ns() };
        let listener = &self.listener;
        let (as_root, opened) = (self.as_root, &self.opened);
        let mut system = System { listener, call: call.id, as_root, opened };
        let asked = (request as u32, address);
        let outcome = self.model.call(caller, asked.0, asked.1, &mut system);
        let stopping = self.apply_changes()?;
        let since = Instant::now();
        self.pending.push(Pending { call: call.id, asked, caller, outcome, stopping, since });
        Ok(())
    }

    /// Answers what can be answered by now.
    fn look_at_pending(&mut self) -> io::Result<()> {
        let now_ns = self.now_ns();
        for mut pending in std::mem::take(&mut self.pending) {
            if !self.listener.waits(pending.call) {
                continue;
            }
            if let CallResult::Blocks(block) = pending.outcome {
                pending = self.ask_again(pending, block, now_ns)?;
            }
            pending.stopping.retain(|(pid, id)| {
                self.opened.get(pid).is_some_and(|opened| !opened.page.has_stopped(*id))
            });
            if !pending.stopping.is_empty() && pending.since.elapsed() > self.patience {
                self.give_up(&mut pending)?;
            }
            match pending.outcome {
                CallResult::Answer { result, at_ns }
                    if pending.stopping.is_empty() && at_ns <= self.now_ns() =>
                {
                    self.listener.answer(pending.call, Answer::Result(result));
                }
                _ => self.pending.push(pending),
            }
        }
        Ok(())
    }

    fn ask_again(&mut self, pending: Pending, block: Block, now_ns: u64) -> io::Result<Pending> {
        let caller = Caller { now_ns, ..pending.caller };
        let (as_root, opened, listener) = (self.as_root, &self.opened, &self.listener);
        let mut system = System { listener, call: pending.call, as_root, opened };
        let (request, address) = pending.asked;
        let ask = |model: &mut Model| model.call(caller, request, address, &mut system);
        let outcome = self.model.again(caller, block, ask);
        let stopping = self.apply_changes()?;
        Ok(Pending { caller, outcome, stopping, ..pending })
    }

    /// Gives up: running work does not stop, so the GPU is reset.
    fn give_up(&mut self, pending: &mut Pending) -> io::Result<()> {
        pending.stopping.clear();
        pending.outcome = CallResult::Answer { result: Err(Errno::TIME), at_ns: 0 };
        for gpu in 0..self.model.config().gpus.len() {
            self.model.start_reset(gpu);
        }
        self.apply_changes()?;
        Ok(())
    }

    fn gpus(&self) -> usize {
        self.model.config().gpus.len()
    }

    /// A process opens the driver.
    fn opened(&mut self, pid: u32) -> Result<&Opened, Errno> {
        self.model.open(pid);
        self.apply_changes()
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))?;
        self.opened.get(&pid).ok_or(Errno::SRCH)
    }

    /// The driver knows a process from now on, and watches for its end. One that has
    /// ended by now is forgotten.
    fn look_after(&mut self, pid: u32) -> io::Result<()> {
        let number = Pid::from_raw(pid.cast_signed()).ok_or(Errno::SRCH)?;
        let process = match pidfd_open(number, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return self.exit(pid),
            process => process?,
        };
        let (file, inode) = files::page_file(self.gpus())?;
        let page = Page::map(file.as_fd())?;
        self.opened.insert(pid, Opened { file, inode, page, process });
        Ok(())
    }
}
