//! The log of what commands did, which the commands write themselves.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Notes on one command: seven words of 64 bits, so that a device without pointers to host code can
/// write them, given the address.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Notes {
    /// How often it started.
    pub starts: AtomicU64,
    /// How often it ended.
    pub ends: AtomicU64,
    /// The log's clock at its first start.
    pub first_start: AtomicU64,
    /// The log's clock at its last end.
    pub last_end: AtomicU64,
    /// Goes up while it runs.
    pub progress: AtomicU64,
    /// `progress` as the command itself counted it, in a register: not the same if stopping it did
    /// not keep its state.
    pub counted: AtomicU64,
    /// Not used.
    pub reserved: AtomicU64,
}

/// Log of the commands of one hardware queue. Its memory does not move or grow, and is touched with
/// atomic operations only, so that an accelerator may write to it.
#[derive(Debug)]
pub struct Log {
    /// The last of them holds the clock, so that all is in one place.
    notes: Box<[Notes]>,
}

impl Log {
    /// A log for this many commands.
    #[must_use]
    pub fn new(commands: usize) -> Arc<Self> {
        let notes: Box<[_]> = (0..=commands).map(|_| Notes::default()).collect();
        let log = Arc::new(Self { notes });
        log.clock().store(1, Ordering::Relaxed);
        log
    }

    /// The clock, which counts starts and ends.
    #[must_use]
    pub fn clock(&self) -> &AtomicU64 {
        &self.parts().0.starts
    }

    fn parts(&self) -> (&Notes, &[Notes]) {
        #[expect(clippy::expect_used, reason = "`new` makes one more than there are commands")]
        self.notes.split_last().expect("a clock")
    }

    pub(crate) fn len(&self) -> usize {
        self.parts().1.len()
    }

    /// Notes of a command, if there is room for them.
    #[must_use]
    pub fn notes(&self, command: u64) -> Option<&Notes> {
        usize::try_from(command).ok().and_then(|at| self.parts().1.get(at))
    }

    fn sum(&self, commands: Range<u64>, of: impl Fn(&Notes) -> &AtomicU64) -> u64 {
        let noted = commands.filter_map(|command| self.notes(command));
        noted.map(|notes| of(notes).load(Ordering::Acquire)).sum()
    }

    pub(crate) fn starts(&self, commands: Range<u64>) -> u64 {
        self.sum(commands, |notes| &notes.starts)
    }

    pub(crate) fn ends(&self, commands: Range<u64>) -> u64 {
        self.sum(commands, |notes| &notes.ends)
    }

    pub(crate) fn progress(&self, commands: Range<u64>) -> u64 {
        self.sum(commands, |notes| &notes.progress)
    }

    /// Starts, progress and ends: a number that changes if any of them does.
    pub(crate) fn activity(&self, commands: Range<u64>) -> u64 {
        let of = || commands.clone();
        self.starts(of()) + self.progress(of()) + self.ends(of())
    }

    /// Returns what is wrong with the order in which `commands` ran, if anything is. With
    /// `restarts`, a command may have started again after it was stopped.
    pub(crate) fn disorder(&self, commands: Range<u64>, restarts: bool) -> Option<String> {
        let mut end_before = 0;
        for command in commands {
            let notes = self.notes(command)?;
            let of = |word: &AtomicU64| word.load(Ordering::Acquire);
            let (starts, ends) = (of(&notes.starts), of(&notes.ends));
            if starts == 0 || ends != 1 || starts > 1 && !restarts {
                return Some(format!("command {command} started {starts}×, ended {ends}×"));
            }
            if of(&notes.first_start) < end_before {
                return Some(format!("command {command} started before the end of the last one"));
            }
            let (counted, progress) = (of(&notes.counted), of(&notes.progress));
            if counted != progress && !restarts {
                return Some(format!("command {command} counted {counted}, not {progress}"));
            }
            end_before = of(&notes.last_end);
        }
        None
    }
}

/// Time between two ticks that counts as device time at most: more means that the command did not
/// run.
const TICK_MAX_NS: u128 = 20_000;

/// A command's place in a [`Log`]. Neither allocates nor locks, so it may be used in a command that
/// is stopped at any instruction. A command that cannot call it does the same with atomic
/// operations on [`Note::notes`]; `run_for` says what.
#[derive(Clone, Debug)]
pub struct Note {
    log: Arc<Log>,
    command: u64,
}

impl Note {
    pub(crate) const fn new(log: Arc<Log>, command: u64) -> Self {
        Self { log, command }
    }

    /// The log's clock and the words to write to. They live as long as this note.
    #[must_use]
    pub fn notes(&self) -> Option<(&AtomicU64, &Notes)> {
        Some((self.log.clock(), self.log.notes(self.command)?))
    }

    /// All that the log's commands write to, its clock included, for a device that has to be told
    /// which memory that is. It lives as long as this note.
    #[must_use]
    pub fn memory(&self) -> &[Notes] {
        &self.log.notes
    }

    /// True if it has started and not ended.
    pub(crate) fn runs(&self) -> bool {
        let of = |word: &AtomicU64| word.load(Ordering::Acquire);
        self.notes().is_some_and(|(_, notes)| of(&notes.starts) > of(&notes.ends))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.notes().is_some_and(|(_, notes)| notes.ends.load(Ordering::Acquire) > 0)
    }

    /// The command starts: first adds 1 to the clock, then takes the time if it is the first start.
    pub fn start(&self) {
        let Some((clock, notes)) = self.notes() else { return };
        let at = clock.fetch_add(1, Ordering::AcqRel);
        let _ = notes.first_start.compare_exchange(0, at, Ordering::AcqRel, Ordering::Relaxed);
        notes.starts.fetch_add(1, Ordering::AcqRel);
    }

    /// The command makes progress.
    pub fn tick(&self) {
        if let Some((_, notes)) = self.notes() {
            notes.progress.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The command ends, having ticked `counted` times.
    pub fn end(&self, counted: u64) {
        let Some((clock, notes)) = self.notes() else { return };
        notes.counted.store(counted, Ordering::Release);
        notes.last_end.store(clock.fetch_add(1, Ordering::AcqRel), Ordering::Release);
        notes.ends.fetch_add(1, Ordering::AcqRel);
    }

    /// Runs for `ns` nanoseconds on a CPU, not counting times when it is stopped. `stop` is called
    /// at each tick; a command that is stopped by it for good answers true there, and is not noted
    /// to have ended.
    pub fn run_for(&self, ns: u64, mut stop: impl FnMut() -> bool) {
        self.start();
        let (mut left, mut counted, mut before) = (u128::from(ns), 0, Instant::now());
        while left > 0 {
            if stop() {
                return;
            }
            self.tick();
            counted += 1;
            let now = Instant::now();
            left = left.saturating_sub(now.duration_since(before).as_nanos().min(TICK_MAX_NS));
            before = now;
        }
        self.end(counted);
    }
}
