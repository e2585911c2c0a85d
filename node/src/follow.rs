//! Holds as orders, for what a process holds itself: queues without gates that the scheduler of the
//! node closes, and those at Lv3.
//!
//! The scheduler closes and opens the gates of a page in any case. A thread of the process sleeps
//! on one of them, and obeys what it says.

use std::io;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(all(test, loom))]
use loom::sync::atomic::fence;
#[cfg(not(all(test, loom)))]
use std::sync::atomic::fence;

use xsched_hal_stream::SharedPage;

use crate::LEASE;
use crate::load::Number;
use crate::wire::holder;

/// Where the header of a page says that a thread sleeps on its gates.
const FOLLOWED: usize = 14;
/// The gate that it sleeps on: all of a page are closed and opened together.
const GATE: usize = 1;
/// The thread looks this often by itself: for the end of what it holds, for a scheduler that is
/// silent, and for one of an earlier version, which wakes no thread.
const PAUSE: Duration = Duration::from_millis(20);

/// For the daemon: wakes the process's thread that holds what has no gates, if there is one. After
/// the gates were closed or opened. Never blocks.
pub fn tell(page: &SharedPage) {
    if is_followed(page.header(FOLLOWED)) {
        page.wake(GATE);
    }
}

/// Whether a thread that may not have seen what was written before this has to be woken.
pub(crate) fn is_followed(followed: &impl Number) -> bool {
    // One of the two sees what the other has written.
    fence(Ordering::SeqCst);
    followed.get() != 0
}

/// Says that a thread follows, and answers what it goes by first.
pub(crate) fn begin_to_follow(followed: &impl Number, gate: &impl Number) -> u32 {
    followed.put(1);
    // One of the two sees what the other has written.
    fence(Ordering::SeqCst);
    gate.get()
}

/// Starts the thread that follows a page until `obey` answers false. That is called with whether
/// the scheduler holds the process, also when nothing has changed.
pub(crate) fn start(
    page: std::sync::Arc<SharedPage>,
    obey: impl Fn(bool) -> bool + Send + 'static,
) -> io::Result<()> {
    let run = move || follow(&page, &obey);
    thread::Builder::new().name("xsched-orders".to_owned()).spawn(run).map(drop)
}

fn follow(page: &SharedPage, obey: &dyn Fn(bool) -> bool) {
    let mut seen = begin_to_follow(page.header(FOLLOWED), page.word(GATE));
    let mut lease = Lease::default();
    loop {
        let is_held = page.is_held_by(GATE, holder());
        if !obey(is_held) {
            break;
        }
        if is_held && lease.is_over(page.heartbeat(), Instant::now()) {
            page.release_all(holder());
            tracing::warn!("the scheduler of the node was silent for too long; its hold has ended");
        } else {
            if !is_held {
                lease = Lease::default();
            }
            // If the gate was changed since it was looked at, this returns at once.
            page.sleep(GATE, seen, PAUSE);
        }
        seen = page.word(GATE).load(Ordering::SeqCst);
    }
    page.header(FOLLOWED).put(0);
}

/// The last heartbeat, and when it was first seen.
#[derive(Debug, Default)]
struct Lease(Option<(u32, Instant)>);

impl Lease {
    fn is_over(&mut self, heartbeat: u32, now: Instant) -> bool {
        let known = self.0.filter(|(beat, _)| *beat == heartbeat);
        let (_, since) = *self.0.insert(known.unwrap_or((heartbeat, now)));
        now.saturating_duration_since(since) > LEASE
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A page of a process with a thread that follows it, the daemon's view of it, and what the
    /// thread was told, as often as that changed.
    fn followed() -> (Arc<SharedPage>, SharedPage, Receiver<bool>) {
        let ours = Arc::new(SharedPage::create().expect("a page"));
        let file = ours.as_fd().try_clone_to_owned().expect("a descriptor").into();
        let theirs = SharedPage::from_file(file).expect("the same page");
        let (tell, told) = channel();
        let last = std::sync::Mutex::new(None);
        let obey = move |hold| {
            let before = last.lock().expect("no panic").replace(hold);
            before == Some(hold) || tell.send(hold).is_ok()
        };
        start(Arc::clone(&ours), obey).expect("a thread");
        (ours, theirs, told)
    }

    #[test]
    fn a_hold_is_obeyed_and_its_end() {
        let (_, daemon, told) = followed();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
        for _ in 0..20 {
            daemon.close_all(holder());
            tell(&daemon);
            assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
            daemon.release_all(holder());
            tell(&daemon);
            assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
        }
    }

    #[test]
    fn a_daemon_that_wakes_no_thread_is_obeyed_as_well() {
        let (_, daemon, told) = followed();
        daemon.close_all(holder());
        while told.recv_timeout(PATIENCE) == Ok(false) {}
        daemon.release_all(holder());
        assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
    }

    #[test]
    fn a_daemon_that_is_silent_loses_its_hold_and_one_that_renews_it_does_not() {
        let (ours, daemon, told) = followed();
        daemon.close_all(holder());
        let begun = Instant::now();
        while begun.elapsed() < LEASE * 3 {
            daemon.renew_all(holder());
            thread::sleep(LEASE / 8);
        }
        assert!(ours.is_held_by(GATE, holder()));
        let silent = Instant::now();
        while told.recv_timeout(PATIENCE) != Ok(true) {}
        assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
        assert!(silent.elapsed() > LEASE / 2);
        assert!((1..xsched_hal_stream::SHARED_WORDS).all(|word| !ours.is_held_by(word, holder())));
    }

    #[test]
    fn the_thread_ends_with_what_it_holds() {
        let (ours, daemon, told) = followed();
        let end = Instant::now() + PATIENCE;
        while ours.header(FOLLOWED).load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
        drop(told);
        daemon.close_all(holder());
        tell(&daemon);
        while ours.header(FOLLOWED).load(Ordering::SeqCst) == 1 {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }
}
