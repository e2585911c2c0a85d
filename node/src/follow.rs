//! Holds as orders, for what a process holds itself: queues without gates that the scheduler of the
//! node closes, and those at Lv3.
//!
//! The scheduler closes and opens the gates of a page in any case. The watch thread of the process
//! sees it, and obeys what the first gate says.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::LEASE;
use crate::page::{Holder, SharedPage};
use crate::watch::{unwatch_page, watch, watch_page};

/// Has the watch thread follow a page until `obey` answers false. That is called with whether the
/// scheduler holds the process, also when nothing has changed.
pub(crate) fn start(
    page: Arc<SharedPage>,
    obey: impl Fn(bool) -> bool + Send + 'static,
) -> io::Result<()> {
    watch_page(&page);
    let watched = Arc::clone(&page);
    let mut lease = Lease::default();
    let started = watch(move |now| {
        let next = look(&page, &obey, &mut lease, now);
        if next.is_none() {
            unwatch_page(&page);
        }
        next
    });
    started.inspect_err(|_| unwatch_page(&watched))
}

/// How long the next look may take, or `None` if `obey` ends it.
fn look(
    page: &SharedPage,
    obey: &dyn Fn(bool) -> bool,
    lease: &mut Lease,
    now: Instant,
) -> Option<Duration> {
    let is_held = page.is_held_by(0, Holder::DAEMON);
    if !obey(is_held) {
        return None;
    }
    if !is_held {
        *lease = Lease::default();
        return Some(LEASE);
    }
    let left = lease.left(page.header().heartbeat.load(Ordering::Relaxed), now);
    if left.is_zero() {
        page.release_all(Holder::DAEMON);
        tracing::warn!("the scheduler of the node was silent for too long; its hold has ended");
    }
    Some(left)
}

/// The last heartbeat, and when it was first seen.
#[derive(Debug, Default)]
struct Lease(Option<(u32, Instant)>);

impl Lease {
    /// How long it lasts yet.
    fn left(&mut self, heartbeat: u32, now: Instant) -> Duration {
        let known = self.0.filter(|(beat, _)| *beat == heartbeat);
        let (_, since) = *self.0.insert(known.unwrap_or((heartbeat, now)));
        LEASE.saturating_sub(now.saturating_duration_since(since))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

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
            daemon.close_all(Holder::DAEMON);
            daemon.wake_follower();
            assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
            daemon.release_all(Holder::DAEMON);
            daemon.wake_follower();
            assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
        }
    }

    #[test]
    fn a_daemon_that_wakes_no_thread_is_obeyed_as_well() {
        let (_, daemon, told) = followed();
        daemon.close_all(Holder::DAEMON);
        while told.recv_timeout(PATIENCE) == Ok(false) {}
        daemon.release_all(Holder::DAEMON);
        assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
    }

    #[test]
    fn a_daemon_that_is_silent_loses_its_hold_and_one_that_renews_it_does_not() {
        let (ours, daemon, told) = followed();
        daemon.close_all(Holder::DAEMON);
        let begun = Instant::now();
        while begun.elapsed() < LEASE * 3 {
            daemon.close_all(Holder::DAEMON);
            thread::sleep(LEASE / 8);
        }
        assert!(ours.is_held_by(0, Holder::DAEMON));
        let silent = Instant::now();
        while told.recv_timeout(PATIENCE) != Ok(true) {}
        assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
        assert!(silent.elapsed() > LEASE / 2);
        assert!((0..crate::GATES_PER_PAGE).all(|gate| !ours.is_closed(gate)));
    }

    #[test]
    fn the_thread_ends_with_what_it_holds() {
        let (ours, daemon, told) = followed();
        let end = Instant::now() + PATIENCE;
        while ours.header().follower.load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
        drop(told);
        daemon.close_all(Holder::DAEMON);
        daemon.wake_follower();
        while ours.header().follower.load(Ordering::SeqCst) == 1 {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }
}
