//! A background in a process of its own, held from this one by words in shared memory.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched::policies::hpf::Hpf;
use xsched::{Runtime, XQueue};
use xsched_core::level::Level;
use xsched_hal_stream::{Holder, SharedPage};

use crate::device::mode::{Apart, Mode};
use crate::device::task::{Background, Runner};
use crate::device::{BenchDevice, LabError};

/// Words of the page: the gate, a request to launch nothing, commands launched, and what the
/// background is about.
const GATE: usize = 0;
const PAUSE: usize = 1;
const LAUNCHED: usize = 2;
const STATE: usize = 3;
/// The background runs.
const RUNNING: u32 = 1;
/// The process is to end.
const END: u32 = 2;

/// Between two looks at the request to launch nothing.
const LOOK: Duration = Duration::from_micros(20);
/// Time limit for a process to open its device, seconds where kernels are compiled first.
const START: Duration = Duration::from_secs(60);
/// Time limit for a process to end by itself, behind what it has submitted.
const LEAVE: Duration = Duration::from_secs(60);

/// Task of a background process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The file of the page that both have.
    pub(crate) page: PathBuf,
    /// How the two are kept apart.
    pub(crate) apart: Apart,
    /// Device time of its commands, in nanoseconds.
    pub(crate) command_ns: u64,
    /// Waves of blocks of the commands.
    pub(crate) waves: u32,
    /// Commands in flight.
    pub(crate) threshold: u32,
}

/// Makes the command line of a process that calls [`background`].
pub(crate) type Launcher<'a> = &'a (dyn Fn(&Request) -> io::Result<Command> + Sync);

/// A background process, as the foreground sees it.
#[derive(Debug)]
pub(crate) struct BackgroundProcess {
    child: Child,
    page: SharedPage,
    apart: Apart,
    holder: Holder,
}

impl BackgroundProcess {
    /// Starts it, and waits until it runs.
    pub(crate) fn start(launcher: Launcher<'_>, mut request: Request) -> Result<Self, LabError> {
        let page = SharedPage::create().map_err(LabError::new)?;
        request.page = page.path();
        let spawn = || launcher(&request)?.stdin(Stdio::piped()).spawn();
        let child = spawn();
        let holder = Holder::new(1).ok_or_else(|| LabError::new("no such holder"));
        child.map_err(LabError::new).and_then(|child| {
            let mut started = Self { child, page, apart: request.apart, holder: holder? };
            started.wait_until_running().map(|()| started)
        })
    }

    fn wait_until_running(&mut self) -> Result<(), LabError> {
        let start = Instant::now();
        while self.state().load(Ordering::Acquire) != RUNNING {
            if let Some(status) = self.child.try_wait().map_err(LabError::new)? {
                return Err(LabError::new(format!("the background process ended: {status}")));
            }
            if start.elapsed() > START {
                return Err(LabError::new("the background process does not come to run"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn state(&self) -> &AtomicU32 {
        &self.page.gate(STATE).word
    }

    /// Holds it.
    pub(crate) fn hold(&self) {
        match self.apart {
            Apart::Plain => {}
            Apart::Lv1 => self.page.gate(PAUSE).word.store(1, Ordering::SeqCst),
            Apart::Gate => self.page.close(GATE, self.holder),
        }
    }

    /// Lets it go on.
    pub(crate) fn release(&self) {
        match self.apart {
            Apart::Plain => {}
            Apart::Lv1 => self.page.gate(PAUSE).word.store(0, Ordering::SeqCst),
            Apart::Gate => self.page.release(GATE, self.holder),
        }
    }

    /// Commands that it has launched; begins anew after 2^32.
    pub(crate) fn commands(&self) -> u32 {
        self.page.gate(LAUNCHED).word.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> Result<(), LabError> {
        match self.leave().map_err(LabError::new)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(LabError::new(format!("the background process failed: {status}"))),
            None => Err(LabError::new("the background process did not end and was killed")),
        }
    }

    /// Asks it to end, and waits. `None` if it had to be killed.
    fn leave(&mut self) -> io::Result<Option<ExitStatus>> {
        self.release();
        self.state().store(END, Ordering::Release);
        drop(self.child.stdin.take());
        let start = Instant::now();
        while start.elapsed() < LEAVE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.child.kill()?;
        self.child.wait().map(|_| None)
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        // What it says was of interest in `end` only.
        let _ = self.leave();
    }
}

/// The background's half: runs commands until the other process says so or is gone.
pub(crate) fn background<B: BenchDevice>(bench: &B, request: &Request) -> Result<(), LabError> {
    let page = || SharedPage::open(&request.page).map_err(LabError::new);
    let ours = Arc::new(page()?);
    let runtime = Runtime::new(Hpf::default()).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let command = bench.command(request.command_ns, request.waves)?;
    let (_, way) = Mode::Processes(request.apart).ways(request.threshold);
    let mut runner = match request.apart {
        Apart::Gate => Runner::held_elsewhere(bench, &device, way, page()?, GATE)?,
        Apart::Plain | Apart::Lv1 => Runner::new(bench, &device, way)?,
    };
    let queue = runner.queue().filter(|_| request.apart == Apart::Lv1);
    let task = Background::default();
    thread::scope(|scope| {
        let running = scope.spawn(|| task.run(&mut runner, &command, request.threshold));
        // It is not waited for: it may still read when all else has ended.
        let for_reader = Arc::clone(&ours);
        ours.gate(STATE).word.store(RUNNING, Ordering::Release);
        thread::spawn(move || wait_for_the_end_of_input(&for_reader));
        attend(&ours, &task, queue.as_ref(), || running.is_finished());
        task.stop();
        running.join().map_err(|_| LabError::new("the background panicked"))?
    })
}

/// Ends this process when its parent is gone.
fn wait_for_the_end_of_input(page: &SharedPage) {
    let mut rest = [0; 16];
    while io::stdin().read(&mut rest).is_ok_and(|read| read > 0) {}
    page.gate(STATE).word.store(END, Ordering::Release);
    thread::sleep(LEAVE);
    std::process::exit(1);
}

/// Does what the words of the page ask for, and keeps the count, until it is to end.
fn attend<C: Clone + Send + Sync + 'static>(
    page: &SharedPage,
    task: &Background,
    queue: Option<&XQueue<C>>,
    failed: impl Fn() -> bool,
) {
    let mut paused = false;
    while page.gate(STATE).word.load(Ordering::Acquire) == RUNNING && !failed() {
        let pause = page.gate(PAUSE).word.load(Ordering::SeqCst) != 0;
        if let Some(queue) = queue
            && pause != paused
        {
            if pause {
                queue.suspend(Level::Block);
            } else {
                queue.resume();
            }
            paused = pause;
        }
        page.gate(LAUNCHED).word.store(task.commands() as u32, Ordering::Relaxed);
        thread::sleep(LOOK);
    }
    if let Some(queue) = queue.filter(|_| paused) {
        queue.resume();
    }
}
