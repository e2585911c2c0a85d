//! Answers whether both threads of the daemon are at work.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::waker::new_eventfd;

/// State of the daemon in short.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Processes that are connected.
    pub processes: usize,
    /// The policy in charge.
    pub policy: &'static str,
}

/// Time at work after which the thread of the connections counts as stuck: longer than it waits
/// for the scheduler's thread, and than a look into a directory of users takes.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// Sign of life of the thread of the connections, without which no process's end is noticed: the
/// scheduler's thread then renews no hold.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    start: Instant,
    /// Milliseconds after the start, from 1, at which the thread woke; 0 while it sleeps.
    busy_since_ms: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { start: Instant::now(), busy_since_ms: Arc::default() }
    }
}

impl Pulse {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The thread has woken, or goes on to the next event.
    pub(crate) fn note_busy(&self) {
        self.busy_since_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// The thread sleeps until there is an event.
    pub(crate) fn note_idle(&self) {
        self.busy_since_ms.store(0, Ordering::Relaxed);
    }

    /// Returns whether the thread has been at one event for too long.
    pub(crate) fn is_stuck(&self) -> bool {
        let since_ms = self.busy_since_ms.load(Ordering::Relaxed);
        let busy_ms = self.now_ms().saturating_sub(since_ms);
        since_ms != 0 && u128::from(busy_ms) > STUCK_AFTER.as_millis()
    }
}

/// Time that a thread has to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits for the end of a thread that was told to end, at most for a second.
pub(crate) fn join(thread: JoinHandle<()>) {
    let begin = Instant::now();
    while !thread.is_finished() && begin.elapsed() < END_TIMEOUT {
        thread::sleep(Duration::from_millis(1));
    }
    let name = thread.thread().name().unwrap_or_default().to_owned();
    if !thread.is_finished() {
        tracing::error!("the daemon's thread `{name}` does not end, and is left behind");
    } else if thread.join().is_err() {
        tracing::error!("the daemon's thread `{name}` panicked");
    }
}

/// Asks the thread of the connections, which asks the scheduler's.
#[derive(Debug)]
pub(crate) struct Check {
    wake: Arc<OwnedFd>,
    answers: Receiver<Summary>,
}

/// Values with which the thread of the connections answers a [`Check`].
#[derive(Debug)]
pub(crate) struct Checked {
    wake: Arc<OwnedFd>,
    answers: Sender<Summary>,
}

/// A check, and the other half of it.
pub(crate) fn check() -> rustix::io::Result<(Check, Checked)> {
    let wake = Arc::new(new_eventfd()?);
    let (sender, answers) = channel();
    Ok((Check { wake: Arc::clone(&wake), answers }, Checked { wake, answers: sender }))
}

impl Check {
    /// `None` if one of the threads does not answer in time.
    pub(crate) fn ask(&self, patience: Duration) -> Option<Summary> {
        // Answers that came too late.
        while self.answers.try_recv().is_ok() {}
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok()?;
        self.answers.recv_timeout(patience).ok()
    }
}

impl Checked {
    /// Readable while the check waits for an answer.
    pub(crate) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    /// Answers what the scheduler's thread says, if it says anything.
    pub(crate) fn answer(&self, ask: impl FnOnce() -> Result<Summary, String>) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        if let Ok(summary) = ask() {
            // It has gone only if the daemon ends.
            let _ = self.answers.send(summary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    fn summary(processes: usize) -> Summary {
        Summary { processes, policy: "hpf" }
    }

    #[test]
    fn a_thread_is_stuck_that_stays_at_one_event() {
        let mut pulse = Pulse::default();
        pulse.start = pulse.start.checked_sub(Duration::from_secs(60)).expect("a time");
        assert!(!pulse.is_stuck());
        pulse.note_busy();
        assert!(!pulse.is_stuck());
        pulse.start = pulse.start.checked_sub(STUCK_AFTER + SOON).expect("a time");
        assert!(pulse.is_stuck());
        pulse.note_idle();
        assert!(!pulse.is_stuck());
    }

    #[test]
    fn a_thread_that_does_not_answer_is_noticed() {
        let (check, checked) = check().expect("an eventfd");
        assert_eq!(check.ask(SOON), None);
        checked.answer(|| Err("the scheduler does not answer".to_owned()));
        assert_eq!(check.ask(SOON), None);
        drop(checked);
        assert_eq!(check.ask(Duration::from_secs(60)), None);
    }

    #[test]
    fn an_answer_to_an_earlier_question_does_not_count() {
        let (check, checked) = check().expect("an eventfd");
        checked.answer(|| Ok(summary(1)));
        assert_eq!(check.ask(SOON), None);
        let other = thread::spawn(move || {
            while rustix::io::read(checked.wake(), &mut [0; 8]).is_err() {
                thread::yield_now();
            }
            checked.answer(|| Ok(summary(2)));
        });
        assert_eq!(check.ask(Duration::from_secs(60)), Some(summary(2)));
        other.join().expect("the other thread");
    }
}
