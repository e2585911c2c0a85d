//! Loom models of what the runtime's workers share. They run the code of the runtime itself, on a
//! device made of a lock and a condition, in every order of steps that a bound on preemptions
//! allows. `cargo xtask loom` runs them; `cargo xtask loom --list` lists them.
//!
//! Each model has mutants: deliberate defects in the code, that it must notice. They are in
//! `testkit/mutants/runtime.toml`; `cargo xtask mutants` applies them to a copy.

mod baton;
mod begun;
mod board;
mod commit;
mod fail_open;
mod harness;
mod holding;
mod mailbox;
mod pump;
mod question;
mod reaper;
mod recorder;
mod shutdown;
mod waiting;
mod window;

use std::sync::Arc;
use std::time::Duration;

use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::queue::QueueConfig;
use xsched_core::window::WindowConfig;

use crate::queue::{Api, MachineParams, QueueParams, SharedQueue};
use crate::scheduler::{ScheduledQueue, SchedulerHandle};
use crate::stats::Label;
use crate::sync::mpsc;
use crate::workers::{OwnPump, Reaper, Workers, commit_round, pump_round};

use board::{Board, Launcher, Preempter, Retirer};
use harness::{explore, join, long, start};

/// The queue that the models are about.
type Subject = SharedQueue<Launcher, Retirer, Preempter>;

/// Sender whose end would end the watchdog's thread.
fn watchdog() -> mpsc::Sender<()> {
    mpsc::channel().0
}

/// A queue with everything it needs, and no threads.
#[derive(Clone)]
struct Bench {
    queue: Arc<Subject>,
    board: Arc<Board>,
    scheduler: Arc<SchedulerHandle>,
    workers: Arc<Workers>,
    /// Commands with their names.
    submitted: Arc<std::sync::Mutex<Vec<(CmdId, u64)>>>,
}

/// The first that a scheduler gives away.
const ID: QueueId = QueueId::new(0, 1);

impl Bench {
    /// A queue with a window of this many commands.
    fn new(threshold: u32) -> Self {
        Self::with(Board::new(u64::from(threshold), false), Duration::from_secs(1))
    }

    /// A queue on this device, with a lease.
    fn with(board: Board, lease: Duration) -> Self {
        Self::with_own_pump(board, lease, None)
    }

    /// A queue as [`Bench::with`] makes it, whose commands its own pump launches, if it has one.
    fn with_own_pump(board: Board, lease: Duration, own_pump: Option<OwnPump>) -> Self {
        let workers = Arc::new(Workers::new(board.stages()));
        let handle = Arc::new(SchedulerHandle::new(lease, watchdog()));
        let board = Arc::new(board);
        let threshold = u32::try_from(board.window()).expect("windows are small");
        let (submit, retire, preempt) = Board::halves(&board);
        let level = Level::Deactivate;
        let window = WindowConfig::fixed(threshold, 1);
        let caps = Caps::up_to(level, 64);
        let machine_config = QueueConfig { window, level, ..QueueConfig::default() };
        let queue = SharedQueue::new(QueueParams {
            id: ID,
            label: Label { name: None, device: "board-0".into() },
            machine: MachineParams { config: machine_config, caps, capacity: 4 },
            submit,
            retire,
            preempt,
            scheduler: Arc::clone(&handle),
            workers: Arc::clone(&workers),
            watch: None,
            own_pump,
        });
        Self { queue, board, scheduler: handle, workers, submitted: Arc::default() }
    }

    /// Submits a command under this name.
    fn submit(&self, name: u64) -> CmdId {
        let cmd = self.queue.submit(name, None).expect("there is room");
        self.submitted.lock().expect("no thread panics").push((cmd, name));
        cmd
    }

    /// Commands submitted, with names.
    fn submitted(&self) -> Vec<(CmdId, u64)> {
        self.submitted.lock().expect("no thread panics").clone()
    }

    /// True if everything was launched, each command once and in its turn.
    fn assert_launched(&self) {
        self.board.assert_launched(self.submitted());
    }

    /// As when the last handle goes. What threads there are end once there is nothing left to do.
    fn close(self) -> Arc<Board> {
        self.queue.close();
        self.board
    }

    /// Ends without a reaper: no thread will look at what is left.
    fn end_without_reaper(&self) {
        self.workers.stop();
        self.workers.reaper().forget();
    }

    /// Starts the reaper, which ends when there is nothing left to see to and no thread that could
    /// change that.
    fn start_reaper(&self) -> loom::thread::JoinHandle<()> {
        let work = Arc::clone(self.workers.reaper());
        start(move || {
            let mut reaper = Reaper::default();
            while reaper.round(&work) {}
        })
    }

    /// Starts the pump, which ends as the reaper does.
    fn start_pump(&self) -> loom::thread::JoinHandle<()> {
        let work = Arc::clone(self.workers.pump_list());
        start(move || {
            let mut members = Vec::new();
            while pump_round(&work, &mut members) {}
        })
    }

    /// Starts the thread that commits, which ends as the reaper does.
    fn start_committer(&self) -> loom::thread::JoinHandle<()> {
        let committer = Arc::clone(self.workers.committer().expect("the board stages"));
        let board = Arc::clone(&self.board);
        start(move || {
            let mut members = Vec::new();
            let mut commit = || {
                board.commit();
                Ok(())
            };
            while commit_round(&committer, &mut members, &mut commit) {}
        })
    }

    /// Starts a device that ends once it has completed this many commands.
    fn start_device(&self, commands: u64) -> loom::thread::JoinHandle<()> {
        let board = Arc::clone(&self.board);
        start(move || board.complete(commands))
    }
}
