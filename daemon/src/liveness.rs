//! Whether both threads of the daemon are at work.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::scheduler::new_eventfd;

/// What the daemon says of itself in short.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Processes that are connected.
    pub processes: usize,
    /// The policy in charge.
    pub policy: &'static str,
}

/// Asks the thread of the connections, which asks the scheduler's.
#[derive(Debug)]
pub(crate) struct Check {
    wake: Arc<OwnedFd>,
    answers: Receiver<Summary>,
}

/// What the thread of the connections has to answer a [`Check`].
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
        let other = std::thread::spawn(move || {
            while rustix::io::read(checked.wake(), &mut [0; 8]).is_err() {
                std::thread::yield_now();
            }
            checked.answer(|| Ok(summary(2)));
        });
        assert_eq!(check.ask(Duration::from_secs(60)), Some(summary(2)));
        other.join().expect("the other thread");
    }
}
