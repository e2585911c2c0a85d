//! One thread of a process that sees what schedulers in other processes write into its pages.
//!
//! The thread sleeps on the words of the first gates of pages, which the daemon changes and then
//! wakes, and on a word of the process. Each look says when to look again at the latest, so a
//! process that nothing holds wakes no more often than its leases need.

use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::LEASE;
use crate::page::SharedPage;
use crate::wakeup::{begin_to_follow, change_for_sleeper};

/// Words that one call of Linux can wait for (`FUTEX_WAITV_MAX`).
const WORDS_MAX: usize = 128;
/// Without such a call, before Linux 5.16, the thread looks as often as the daemon renews its
/// holds.
const WITHOUT_CALL: Duration = Duration::from_millis(LEASE.as_millis() as u64 / 4);

/// Not 0 while the thread may sleep.
static SLEEPS: AtomicU32 = AtomicU32::new(0);
/// Changes with each [`wake_watch`].
static WAKES: AtomicU32 = AtomicU32::new(0);
static WATCH: Mutex<Watch> = Mutex::new(Watch { new: Vec::new(), pages: Vec::new(), runs: false });

type Look = Box<dyn FnMut(Instant) -> Option<Duration> + Send>;

/// Words that the thread watches, and its way to answer.
struct Watch {
    /// Looks that the thread has not taken yet.
    new: Vec<Look>,
    /// Pages, once for each that watches them.
    pages: Vec<Weak<SharedPage>>,
    runs: bool,
}

fn state() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the watch thread of the process call `look` now, whenever a [watched page](watch_page) or
/// [`wake_watch`] wakes the thread, and after the time that `look` answered last. `None` ends that.
/// All looks are made by one thread, so none may wait for long.
///
/// # Errors
/// If the system gives no thread.
pub fn watch(look: impl FnMut(Instant) -> Option<Duration> + Send + 'static) -> io::Result<()> {
    let mut state = state();
    state.new.push(Box::new(look));
    if !state.runs {
        let thread = thread::Builder::new().name("xsched-watch".to_owned()).spawn(run);
        if let Err(error) = thread {
            state.new.pop();
            return Err(error);
        }
        state.runs = true;
    }
    drop(state);
    wake_watch();
    Ok(())
}

/// Has the watch thread woken by the scheduler of the node that changes the first gate of a page,
/// until the page is dropped.
pub fn watch_page(page: &Arc<SharedPage>) {
    state().pages.push(Arc::downgrade(page));
    wake_watch();
}

/// Ends one [`watch_page`].
pub(crate) fn unwatch_page(page: &Arc<SharedPage>) {
    let mut state = state();
    let is_it = |other: &Weak<SharedPage>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(page));
    if let Some(at) = state.pages.iter().position(is_it) {
        state.pages.swap_remove(at);
    }
    if !state.pages.iter().any(is_it) {
        page.header().follower.store(0, Ordering::SeqCst);
    }
}

/// Has the watch thread look again, after a change that its looks depend on. Never blocks.
pub fn wake_watch() {
    if change_for_sleeper(&SLEEPS, &WAKES) {
        let _ = futex::wake(&WAKES, futex::Flags::PRIVATE, 1);
    }
}

/// A look, and when the next one is due; `None` is only when the thread is woken.
struct Watched {
    look: Look,
    due: Option<Instant>,
}

/// A word of a page by its address, and what it was. The page may be gone meanwhile.
type Seen = (*mut c_void, u32);

fn run() {
    let mut watched: Vec<Watched> = Vec::new();
    let mut before = (0, Vec::new());
    loop {
        // Before the looks: what changes after this ends the sleep at once.
        let seen = begin_to_follow(&SLEEPS, &WAKES);
        let Some(words) = take_new(&mut watched) else { return };
        let now_seen = (seen, words);
        let woken = before != now_seen;
        let now = Instant::now();
        watched.retain_mut(|watched| {
            if woken || watched.due.is_some_and(|due| due <= now) {
                let Some(next) = (watched.look)(now) else { return false };
                watched.due = now.checked_add(next);
            }
            true
        });
        let due = watched.iter().filter_map(|watched| watched.due).min();
        let at_most = due.map(|due| due.saturating_duration_since(Instant::now()));
        if !watched.is_empty() && at_most != Some(Duration::ZERO) {
            sleep(seen, &now_seen.1, at_most);
        }
        SLEEPS.store(0, Ordering::SeqCst);
        before = now_seen;
    }
}

/// Takes new looks, and answers the words of pages that live. `None` if there are no looks: the
/// thread ends.
fn take_new(watched: &mut Vec<Watched>) -> Option<Vec<Seen>> {
    let mut state = state();
    watched.extend(state.new.drain(..).map(|look| Watched { look, due: Some(Instant::now()) }));
    state.runs = !watched.is_empty();
    state.pages.retain(|page| page.strong_count() > 0);
    let words = state.pages.iter().filter_map(Weak::upgrade).map(|page| {
        let word = std::ptr::from_ref(&page.gate(0).word);
        (word.cast_mut().cast(), page.begin_to_follow())
    });
    let mut words: Vec<Seen> = words.collect();
    words.dedup_by_key(|(word, _)| *word);
    // With a word of the process beside.
    words.truncate(WORDS_MAX - 1);
    state.runs.then_some(words)
}

/// Sleeps until [`WAKES`] or a word is not as it was seen any more, or is woken, or for this time.
fn sleep(seen: u32, words: &[Seen], at_most: Option<Duration>) {
    if !words.is_empty() && sleep_on_all(seen, words, at_most) {
        return;
    }
    let at_most = match at_most {
        _ if words.is_empty() => at_most,
        Some(time) => Some(time.min(WITHOUT_CALL)),
        None => Some(WITHOUT_CALL),
    };
    // Whatever it answers, the caller looks again.
    let time = at_most.map(timespec);
    let _ = futex::wait(&WAKES, futex::Flags::PRIVATE, seen, time.as_ref());
}

/// Returns whether this system can sleep on several words.
fn sleep_on_all(seen: u32, words: &[Seen], at_most: Option<Duration>) -> bool {
    let wait = |word: *mut c_void, seen: u32, flags| {
        let mut wait = futex::Wait::new();
        wait.val = seen.into();
        wait.uaddr = futex::WaitPtr::new(word);
        wait.flags = flags | futex::WaitFlags::SIZE_U32;
        wait
    };
    let own = std::ptr::from_ref(&WAKES).cast_mut().cast();
    let own = wait(own, seen, futex::WaitFlags::PRIVATE);
    let of_pages = words.iter().map(|(word, seen)| wait(*word, *seen, futex::WaitFlags::empty()));
    let waits: Vec<_> = std::iter::once(own).chain(of_pages).collect();
    let end = at_most.map(|time| clock_gettime(ClockId::Monotonic) + timespec(time));
    let flags = futex::WaitvFlags::empty();
    match futex::waitv(&waits, flags, end.as_ref(), ClockId::Monotonic) {
        // The page of a word has gone, which the next look at the pages sees.
        Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT | Errno::FAULT) => true,
        Err(_) => false,
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::page::Holder;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// A look that tells of each time, and what it was told.
    fn told(next: Duration) -> std::sync::mpsc::Receiver<()> {
        let (tell, told) = channel();
        watch(move |_| tell.send(()).is_ok().then_some(next)).expect("a thread");
        told.recv_timeout(PATIENCE).expect("the first look");
        told
    }

    #[test]
    fn a_holder_wakes_the_thread_by_any_page() {
        let pages = [0; 3].map(|_| Arc::new(SharedPage::create().expect("a page")));
        pages.iter().for_each(watch_page);
        let told = told(PATIENCE);
        for page in &pages {
            thread::sleep(Duration::from_millis(20));
            while told.try_recv().is_ok() {}
            let begun = Instant::now();
            page.close_all(Holder::DAEMON);
            page.wake_follower();
            told.recv_timeout(PATIENCE).expect("it is woken");
            assert!(begun.elapsed() < PATIENCE / 2, "it was only due");
        }
        pages.iter().for_each(unwatch_page);
    }

    #[test]
    fn a_look_is_repeated_when_it_is_due() {
        let told = told(Duration::from_millis(2));
        (0..10).for_each(|_| told.recv_timeout(PATIENCE).expect("it is due"));
    }

    #[test]
    fn the_process_wakes_the_thread() {
        let told = told(Duration::MAX);
        wake_watch();
        told.recv_timeout(PATIENCE).expect("it is woken");
    }
}
