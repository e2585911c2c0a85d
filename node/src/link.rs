//! A process's connection with the daemon.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::descriptors::apart;
use crate::follow;
use crate::load::{Load, PagesBelow};
use crate::page::{Holder, PageSource, SharedPage};
use crate::socket::SocketPath;
use crate::wire::{Answer, NodeError, Request, VERSION, Wire};

/// For how long an answer of the daemon is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after the end of a connection, or a try, the next one is made.
const AGAIN: Duration = Duration::from_millis(100);
/// Pause where the daemon has refused this process, so that many such do not keep it busy.
const REFUSED_AGAIN: Duration = Duration::from_secs(2);

/// Pages of other processes that a process holds directly on a GPU, at most. Closing one writes
/// [`GATES_PER_PAGE`](crate::GATES_PER_PAGE) words; what many cost a launch is not measured.
pub const PAGES_BELOW_MAX: usize = 32;

/// Where the daemon listens: what `XSCHED_SOCKET` says, or else `xsched/socket` below
/// `$XDG_RUNTIME_DIR` if that is there, or else `/run/xsched/socket`.
///
/// A daemon that starts later may listen elsewhere: [`SocketPath`] finds that as well.
#[must_use]
pub fn socket_path() -> PathBuf {
    SocketPath::from_env().found()
}

/// A process's connection with the daemon, which a thread of its own watches. When the daemon
/// leaves, all gates open, and the process connects again once there is a daemon.
#[derive(Debug)]
pub struct Link {
    path: SocketPath,
    name: String,
    gang: Option<String>,
    /// Another connection of the process says what becomes of the daemon.
    is_silent: bool,
    state: Mutex<State>,
}

/// A GPU, as the daemon is told of it.
#[derive(Clone, Debug)]
struct Gpu {
    name: String,
    side_by_side: bool,
}

#[derive(Debug)]
struct State {
    priority: i32,
    share: Option<u8>,
    /// `None` while there is no daemon.
    wire: Option<Arc<Wire>>,
    /// Wakes the daemon; that of the connection before while there is none.
    doorbell: Arc<OwnedFd>,
    pages: Vec<(Gpu, Arc<SharedPage>)>,
    units: Vec<Weak<Unit>>,
    /// Further connections of the process.
    beside: Vec<Weak<Link>>,
    /// Says how many launches went past the scheduler, if that is counted.
    past: fn() -> Option<u64>,
    /// Says how many streams have queues of levels 1, 2 and 3, unless that changes just now.
    levels: fn() -> Option<[u32; 3]>,
}

impl Link {
    /// Connects this process with a daemon, now or once there is one: a path, or a [`SocketPath`].
    /// Its gang is what `XSCHED_GANG` says, if that is set.
    ///
    /// # Errors
    /// If the system gives no thread or file descriptor.
    pub fn open(
        path: impl Into<SocketPath>,
        name: &str,
        priority: i32,
        share: Option<u8>,
    ) -> Result<Arc<Self>, NodeError> {
        Self::open_in(gang(), path, name, priority, share)
    }

    /// Connects this process as its environment asks, as [`Link::open`] does: if
    /// `XSCHED_SCHEDULER` is `GLB`, with the priority `XSCHED_AUTO_XQUEUE_PRIORITY` and the share
    /// `XSCHED_AUTO_XQUEUE_UTILIZATION`. `xsched run` sets these. Returns `None` if the environment
    /// does not ask.
    ///
    /// # Errors
    /// If the system gives no thread or file descriptor.
    pub fn from_env(name: &str) -> Result<Option<Arc<Self>>, NodeError> {
        let Some((priority, share)) = asked(|name| std::env::var(name).ok()) else {
            return Ok(None);
        };
        Self::open(SocketPath::from_env(), name, priority, share).map(Some)
    }

    /// Connects this process with a daemon, as [`Link::open`] does, in this gang or none.
    ///
    /// # Errors
    /// If the system gives no thread or file descriptor.
    pub fn open_in(
        gang: Option<String>,
        path: impl Into<SocketPath>,
        name: &str,
        priority: i32,
        share: Option<u8>,
    ) -> Result<Arc<Self>, NodeError> {
        let (path, hello) = (path.into(), hello(name, gang.clone(), priority, share));
        let greeted = greet(&path, &hello).inspect_err(|error| {
            tracing::warn!(
                "no scheduler of the node at {path}: {error}; this process connects later"
            );
        });
        Self::start(path, hello, greeted.ok(), false)
    }

    /// Connects this process once more with the same daemon, for work that is held and released
    /// apart from the rest of the process, such as a stream with a priority of its own. The daemon
    /// has it as another process with the same number and gang, and the same hints at first; its
    /// name has this behind it.
    ///
    /// # Errors
    /// If the system gives no thread or file descriptor.
    pub fn beside(&self, name: &str) -> Result<Arc<Self>, NodeError> {
        let State { priority, share, .. } = *self.state();
        let most = 64_usize.saturating_sub(name.chars().count() + 1);
        let name = format!("{} {name}", self.name.chars().take(most).collect::<String>());
        let hello = hello(&name, self.gang.clone(), priority, share);
        let greeted = greet(&self.path, &hello).ok();
        let link = Self::start(self.path.clone(), hello, greeted, true)?;
        let mut state = self.state();
        state.beside.retain(|other| other.strong_count() > 0);
        state.beside.push(Arc::downgrade(&link));
        Ok(link)
    }

    /// Returns how many holds of this process, also by its further connections, have ended.
    #[must_use]
    pub fn holds_ended(&self) -> u64 {
        let state = self.state();
        let of_page = |(_, page): &(Gpu, Arc<SharedPage>)| {
            u64::from(page.header().holds_ended.load(Ordering::Relaxed))
        };
        let own: u64 = state.pages.iter().map(of_page).sum();
        let beside: Vec<_> = state.beside.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        own + beside.iter().map(|link| link.holds_ended()).sum::<u64>()
    }

    /// Connects this process with a daemon that is there now, as [`Link::open`] does otherwise.
    ///
    /// # Errors
    /// If no daemon takes it, or the system gives no thread.
    pub fn join(
        path: impl Into<SocketPath>,
        name: &str,
        priority: i32,
        share: Option<u8>,
    ) -> Result<Arc<Self>, NodeError> {
        let (path, hello) = (path.into(), hello(name, gang(), priority, share));
        let greeted = greet(&path, &hello)?;
        Self::start(path, hello, Some(greeted), false)
    }

    /// Watches the connection, or the want of one.
    fn start(
        path: SocketPath,
        hello: Hello,
        greeted: Option<Greeted>,
        is_silent: bool,
    ) -> Result<Arc<Self>, NodeError> {
        let Hello { name, gang, priority, share } = hello;
        let (wire, doorbell) = match greeted {
            Some((wire, doorbell, answer)) => {
                tell_lowered(&answer, priority, share);
                (Some(wire), doorbell)
            }
            None => {
                let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
                (None, Arc::new(apart(doorbell)))
            }
        };
        let (pages, units, beside) = (Vec::new(), Vec::new(), Vec::new());
        let (past, levels) = (none, none);
        let state = State { priority, share, wire, doorbell, pages, units, beside, past, levels };
        let state = Mutex::new(state);
        let link = Arc::new(Self { path, name, gang, is_silent, state });
        let watched = Arc::downgrade(&link);
        thread::Builder::new().name("xsched-link".to_owned()).spawn(move || watch(&watched))?;
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is a daemon that has this process now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.state().wire.is_some()
    }

    /// The unit of a GPU, which the daemon knows by this text.
    #[must_use]
    pub fn unit(self: &Arc<Self>, device: String) -> Arc<Unit> {
        self.unit_of(Gpu { name: device, side_by_side: false })
    }

    /// As [`Link::unit`], of a GPU that runs what several processes launch at the same time: those
    /// of equal priority need not take turns.
    #[must_use]
    pub fn unit_side_by_side(self: &Arc<Self>, device: String) -> Arc<Unit> {
        self.unit_of(Gpu { name: device, side_by_side: true })
    }

    fn unit_of(self: &Arc<Self>, gpu: Gpu) -> Arc<Unit> {
        let (load, is_followed) = (Mutex::default(), AtomicBool::new(false));
        let unit = Arc::new(Unit { link: Arc::clone(self), gpu, load, is_followed });
        self.state().units.push(Arc::downgrade(&unit));
        unit
    }

    /// Says what this process wants from now on: its priority, −256 to 255, and its share of each
    /// GPU in percent, if it has one. Without a daemon, the next one is told.
    pub fn set_hints(&self, priority: i32, share: Option<u8>) {
        let mut state = self.state();
        if (state.priority, state.share) == (priority, share) {
            return;
        }
        (state.priority, state.share) = (priority, share);
        let asked = state.wire.as_ref().map(|w| w.ask(&Request::Hints { priority, share }, None));
        match asked {
            Some(Err(error)) => {
                tracing::warn!(%error, "the scheduler of the node did not take a hint");
            }
            Some(Ok((answer, _))) => tell_lowered(&answer, priority, share),
            None => {}
        }
    }

    /// Has the daemon be told, each second, how many launches of this process went past it.
    pub fn set_past(&self, past: fn() -> Option<u64>) {
        self.state().past = past;
        self.tell_counts();
    }

    /// Has the daemon be told, each second, how many streams of this process have queues of levels
    /// 1, 2 and 3.
    pub fn set_levels(&self, levels: fn() -> Option<[u32; 3]>) {
        self.state().levels = levels;
        self.tell_counts();
    }

    /// Writes what is counted into the pages.
    fn tell_counts(&self) {
        let state = self.state();
        let (past, levels) = (state.past, state.levels);
        let units: Vec<_> = state.units.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        let (past, levels) = (past(), levels());
        units.iter().for_each(|unit| unit.note_counts(past, levels));
    }

    /// Asks the daemon for the pages that this process may hold directly, where they have changed.
    fn update_pages_below(&self, wire: &Wire) {
        let units: Vec<_> = self.state().units.iter().filter_map(Weak::upgrade).collect();
        units.iter().for_each(|unit| unit.update_pages_below(wire));
    }

    /// Ends the holds of a daemon that has left.
    fn let_go(&self) {
        let mut state = self.state();
        state.wire = None;
        for (_, page) in &state.pages {
            page.release_all(Holder::DAEMON);
            page.end_direct_hold();
            page.header().forget_scheduler();
            page.wake_follower();
        }
    }

    /// Connects again, and tells the daemon everything.
    fn connect_again(&self) -> Result<Arc<Wire>, NodeError> {
        let mut state = self.state();
        let State { priority, share, .. } = *state;
        let hello = hello(&self.name, self.gang.clone(), priority, share);
        let (wire, doorbell, _) = greet(&self.path, &hello)?;
        for (gpu, page) in &state.pages {
            attach(&wire, gpu, page)?;
        }
        state.wire = Some(Arc::clone(&wire));
        state.doorbell = Arc::clone(&doorbell);
        let units: Vec<_> = state.units.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        units.iter().for_each(|unit| unit.replace_doorbell(&doorbell));
        Ok(wire)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The thread that watches it has it as well, and would notice a second later.
        let wire = self.state().wire.take();
        wire.iter().for_each(|wire| wire.end());
    }
}

/// A count that nothing counts.
const fn none<T>() -> Option<T> {
    None
}

/// First message of this process about itself.
#[derive(Clone, Debug)]
struct Hello {
    name: String,
    gang: Option<String>,
    priority: i32,
    share: Option<u8>,
}

/// A connection, what wakes the daemon, and its answer.
type Greeted = (Arc<Wire>, Arc<OwnedFd>, Answer);

fn hello(name: &str, gang: Option<String>, priority: i32, share: Option<u8>) -> Hello {
    Hello { name: name.chars().take(64).collect(), gang, priority, share }
}

/// The priority and the share that an environment asks a daemon for, if it asks. A number out of
/// range counts as none, as for the C library.
fn asked(variable: impl Fn(&str) -> Option<String>) -> Option<(i32, Option<u8>)> {
    let asks = variable("XSCHED_SCHEDULER")?.trim().eq_ignore_ascii_case("GLB");
    let number = |name, range: RangeInclusive<i32>| {
        let text = variable(name).filter(|text| !text.is_empty())?;
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = range.into_inner();
            tracing::warn!("{name} is `{text}` and is ignored: it can be {least} to {most}");
        }
        number
    };
    asks.then(|| {
        let priority = number("XSCHED_AUTO_XQUEUE_PRIORITY", -256..=255).unwrap_or_default();
        let share = number("XSCHED_AUTO_XQUEUE_UTILIZATION", 0..=100);
        (priority, share.and_then(|share| u8::try_from(share).ok()))
    })
}

/// The gang that the environment names.
fn gang() -> Option<String> {
    std::env::var("XSCHED_GANG").ok().filter(|gang| !gang.is_empty())
}

fn greet(path: &SocketPath, hello: &Hello) -> Result<Greeted, NodeError> {
    let Hello { name, gang, priority, share } = hello.clone();
    let wire = path.connect(PATIENCE)?;
    match wire.ask(&Request::Hello { version: VERSION, name, priority, share, gang }, None)? {
        (
            answer @ (Answer::Welcome { version: VERSION } | Answer::Lowered { .. }),
            Some(doorbell),
        ) => Ok((Arc::new(wire), Arc::new(doorbell), answer)),
        _ => Err(NodeError::Unexpected),
    }
}

/// Says that this process got less than it asked for.
fn tell_lowered(answer: &Answer, asked: i32, asked_share: Option<u8>) {
    let Answer::Lowered { tenant, priority, share } = answer else { return };
    let percent = |share: Option<u8>| share.map_or("none".to_owned(), |share| format!("{share} %"));
    let (share, asked_share) = (percent(*share), percent(asked_share));
    tracing::warn!(
        "the scheduler of the node gives this process priority {priority} and share {share} \
         instead of {asked} and {asked_share}, the most that its tenant `{tenant}` may have"
    );
}

fn attach(wire: &Wire, gpu: &Gpu, page: &SharedPage) -> Result<(), NodeError> {
    let Gpu { name: device, side_by_side } = gpu.clone();
    let request = Request::Attach { device, side_by_side };
    wire.ask(&request, Some(page.as_fd())).map(drop)
}

/// Waits for the end of the connection, again and again, until the link has gone.
fn watch(link: &Weak<Link>) {
    let (mut was_told, mut pause) = (false, AGAIN);
    while let Some(here) = link.upgrade() {
        let Some(wire) = here.state().wire.clone() else {
            drop(here);
            thread::sleep(pause);
            let Some(here) = link.upgrade() else { return };
            let connected = here.connect_again();
            if connected.is_ok() && !here.is_silent {
                tracing::info!("the scheduler of the node is back");
            }
            was_told &= connected.is_err();
            let is_refused = matches!(connected, Err(NodeError::Refused(_)));
            pause = if is_refused { REFUSED_AGAIN } else { AGAIN };
            continue;
        };
        here.tell_counts();
        here.update_pages_below(&wire);
        drop(here);
        // The daemon says nothing unless it is asked: only an end has the socket be ready.
        let mut fds = [PollFd::from_borrowed_fd(wire.as_fd(), PollFlags::RDHUP)];
        let time = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        if poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
            && let Some(here) = link.upgrade()
        {
            here.let_go();
            was_told |= here.is_silent;
            if !std::mem::replace(&mut was_told, true) {
                tracing::warn!("the scheduler of the node has left; this process runs unscheduled");
            }
        }
    }
}

/// A process on one GPU: this one.
#[derive(Debug)]
pub struct Unit {
    link: Arc<Link>,
    gpu: Gpu,
    /// Counts in the first page.
    load: Mutex<Option<Arc<Load>>>,
    /// A thread obeys holds.
    is_followed: AtomicBool,
}

impl Unit {
    fn load(&self) -> MutexGuard<'_, Option<Arc<Load>>> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue got work, or has none any more.
    pub fn note(&self, busy: bool) {
        if let Some(load) = &*self.load() {
            load.note(busy);
        }
    }

    /// Notes that commands have retired that used `used_ns` nanoseconds of device time.
    pub fn note_retired(&self, commands: u64, used_ns: u64) {
        if let Some(load) = &*self.load() {
            load.page().header().count_retired(commands, used_ns);
        }
    }

    /// Has the watch thread of the process call `obey` with whether the scheduler of the node holds
    /// this process on the GPU, until that answers false: for queues that the scheduler does not
    /// hold by their gates alone. It is called when that changes, and each
    /// [`LEASE`](crate::LEASE). If the unit has no page yet, it gets one of `pages`. The first call
    /// counts; later ones do nothing.
    ///
    /// # Errors
    /// If the system gives no page or no thread.
    pub fn follow(
        &self,
        pages: &dyn PageSource,
        obey: impl Fn(bool) -> bool + Send + 'static,
    ) -> io::Result<()> {
        if self.is_followed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let first = self.load().as_ref().map(|load| Arc::clone(load.page()));
        let page = first.map_or_else(|| pages.page(), Ok);
        let started = page.and_then(|page| follow::start(page, obey));
        // The next queue tries again.
        started.inspect_err(|_| self.is_followed.store(false, Ordering::Relaxed))
    }

    fn note_counts(&self, past: Option<u64>, levels: Option<[u32; 3]>) {
        if let Some(load) = &*self.load() {
            let header = load.page().header();
            past.into_iter().for_each(|launches| header.set_bypassed(launches));
            levels.into_iter().for_each(|levels| header.set_levels(levels));
        }
    }

    fn update_pages_below(&self, wire: &Wire) {
        let Some(load) = self.load().clone() else { return };
        let Some(wanted) = load.wanted_below() else { return };
        let mut below = PagesBelow { generation: wanted, pages: Vec::new() };
        while wanted != 0 && below.pages.len() < PAGES_BELOW_MAX {
            let at = below.pages.len() as u32;
            let request = Request::PageBelow { device: self.gpu.name.clone(), at };
            match wire.ask(&request, None) {
                Ok((Answer::PageBelow { generation }, Some(file))) if generation == wanted => {
                    // A page that is none is of no use, and the daemon has checked it.
                    let Ok(page) = SharedPage::from_file(file.into()) else { return };
                    below.pages.push(page);
                }
                Ok((Answer::Done, _)) => break,
                // They change meanwhile: the next second tries again.
                _ => return,
            }
        }
        load.set_below(below);
    }

    fn replace_doorbell(&self, doorbell: &Arc<OwnedFd>) {
        if let Some(load) = &mut *self.load() {
            *load = Arc::new(load.with_doorbell(Arc::clone(doorbell)));
            // What began or ended since the daemon got the page has rung the one before.
            load.ring();
        }
    }
}

impl PageSource for Unit {
    fn page(&self) -> io::Result<Arc<SharedPage>> {
        let page = Arc::new(SharedPage::create()?);
        let mut state = self.link.state();
        if let Some(wire) = &state.wire {
            let attached = attach(wire, &self.gpu, &page);
            if let Err(error) = attached {
                tracing::warn!(%error, "the scheduler of the node did not take a page");
            }
        }
        // Also without a daemon: the next one gets it.
        state.pages.push((self.gpu.clone(), Arc::clone(&page)));
        let doorbell = Arc::clone(&state.doorbell);
        // Before another connection can replace the doorbell, or it would replace nothing.
        self.load().get_or_insert_with(|| Arc::new(Load::new(Arc::clone(&page), doorbell)));
        drop(state);
        Ok(page)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_connects_again_wakes_the_daemon() {
        let nowhere = std::env::temp_dir().join("xsched-no-such-socket");
        let link = Link::open(nowhere, "test", 0, None).expect("a thread");
        let unit = link.unit("gpu".to_owned());
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbell = Arc::new(eventfd(0, flags).expect("an eventfd"));
        let rung = || rustix::io::read(&*doorbell, &mut [0; 8]).is_ok();
        unit.replace_doorbell(&doorbell);
        assert!(!rung(), "it has no page");
        unit.page().expect("a page");
        unit.replace_doorbell(&doorbell);
        assert!(rung());
        assert!(!rung());
    }

    #[test]
    fn an_environment_asks_for_a_daemon_with_a_priority_and_a_share() {
        let of = |set: &[(&str, &str)]| {
            asked(|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let [scheduler, priority, share] =
            ["XSCHED_SCHEDULER", "XSCHED_AUTO_XQUEUE_PRIORITY", "XSCHED_AUTO_XQUEUE_UTILIZATION"];
        assert_eq!(of(&[(priority, "7")]), None);
        assert_eq!(of(&[(scheduler, "LCL"), (priority, "7")]), None);
        assert_eq!(of(&[(scheduler, "glb")]), Some((0, None)));
        let both = [(scheduler, "GLB"), (priority, "-100"), (share, "30")];
        assert_eq!(of(&both), Some((-100, Some(30))));
        let wrong = [(scheduler, "GLB"), (priority, "256"), (share, "-1")];
        assert_eq!(of(&wrong), Some((0, None)));
    }

    #[test]
    fn holds_of_all_connections_of_the_process_count() {
        let nowhere = std::env::temp_dir().join("xsched-no-such-socket");
        let link = Link::open(nowhere, "test", 0, None).expect("a thread");
        let beside = link.beside("stream 1").expect("a thread");
        for of in [&link, &beside] {
            let page = of.unit("gpu".to_owned()).page().expect("a page");
            page.close_all(Holder::DAEMON);
            page.release_all(Holder::DAEMON);
        }
        assert_eq!((link.holds_ended(), beside.holds_ended()), (2, 1));
        drop(beside);
    }

    /// A daemon that takes one process, and says how long it had it once that has left.
    fn daemon_of_one(path: &std::path::Path) -> thread::JoinHandle<Duration> {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
        let flags = SocketFlags::CLOEXEC;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let listener = listener.expect("a socket");
        let address = SocketAddrUnix::new(path).expect("an address");
        rustix::net::bind(&listener, &address).expect("bound");
        rustix::net::listen(&listener, 1).expect("it listens");
        thread::spawn(move || {
            let wire = Wire::new(rustix::net::accept(&listener).expect("a connection"));
            wire.receive::<Request>().expect("a greeting");
            let doorbell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
            wire.send(&Answer::Welcome { version: VERSION }, Some(doorbell.as_fd())).expect("sent");
            let start = std::time::Instant::now();
            while wire.receive::<Request>().is_ok() {}
            start.elapsed()
        })
    }

    #[test]
    fn a_process_finds_a_daemon_that_was_started_later_at_the_preferred_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let [user, system] = ["user", "system"].map(|name| folder.path().join(name));
        let both = SocketPath::any_of([user.clone(), system.clone()]);
        assert_eq!(both.found(), system, "nothing is there");
        let link = Link::open(both.clone(), "test", 0, None).expect("a thread");
        let found = |link: &Link| {
            let begin = std::time::Instant::now();
            while !link.is_connected() && begin.elapsed() < Duration::from_secs(5) {
                thread::sleep(Duration::from_millis(5));
            }
            link.is_connected()
        };
        let daemon = daemon_of_one(&user);
        assert!(found(&link), "it was started later");
        drop(link);
        daemon.join().expect("no panic");
        // That daemon has left its socket, at which none listens.
        let daemon = daemon_of_one(&system);
        let link = Link::join(both, "test", 0, None).expect("the other daemon");
        drop(link);
        daemon.join().expect("no panic");
    }

    #[test]
    fn a_link_that_goes_leaves_the_daemon_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let daemon = daemon_of_one(&path);
        let link = Link::join(path, "test", 0, None).expect("a daemon");
        assert!(link.is_connected());
        // The thread that watches it waits for a second.
        thread::sleep(Duration::from_millis(20));
        drop(link);
        let had = daemon.join().expect("no panic");
        assert!(had < Duration::from_millis(900), "{had:?}");
    }
}
