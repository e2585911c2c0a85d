//! All gates of a device, and the watch that opens them when a launch is blocked.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::gate::Gate;
use crate::sync::{AtomicU64, Condvar, Mutex, Word, count, lock};
use crate::watch::Entries;

/// Between two looks of the watch while a gate is closed.
const PERIOD: Duration = Duration::from_micros(650);
/// The same after a look that has found a launch under way.
const SECOND_LOOK: Duration = Duration::from_micros(100);
/// Between two looks at a blocked launch.
const GLANCE: Duration = Duration::from_micros(50);
/// With all gates open, the watch looks this often whether it is still needed.
const REST: Duration = Duration::from_millis(500);

/// A queue as the board knows it, or a probe.
#[derive(Debug)]
pub(crate) struct Member<W> {
    pub(crate) gate: Gate<W>,
    pub(crate) entries: Entries,
}

impl<W: Word> Member<W> {
    pub(crate) fn new(word: W) -> Self {
        Self { gate: Gate::new(word), entries: Entries::new() }
    }
}

/// All queues of a device.
#[derive(Debug)]
pub(crate) struct Board<W> {
    members: Mutex<Members<W>>,
    bell: Condvar,
    /// Gates that are wanted closed.
    wanted: AtomicU64,
    /// How often the watch has opened the gates.
    forced: AtomicU64,
    /// A launch that takes longer while a gate is closed is taken to be blocked by it.
    patience: Duration,
    /// Other processes that hold a gate and are silent for longer are taken to be dead.
    lease: Duration,
}

/// The queues, and how often all of them are lifted now.
#[derive(Debug)]
struct Members<W> {
    list: Vec<Weak<Member<W>>>,
    lifts: u32,
    /// Lifts that have ended.
    ended: u64,
}

impl<W> Members<W> {
    fn all(&self) -> impl Iterator<Item = Arc<Member<W>>> {
        self.list.iter().filter_map(Weak::upgrade)
    }
}

impl<W: Word + 'static> Board<W> {
    /// A board without a watch.
    pub(crate) fn new(patience: Duration, lease: Duration) -> Self {
        Self {
            members: Mutex::new(Members { list: Vec::new(), lifts: 0, ended: 0 }),
            bell: Condvar::new(),
            wanted: AtomicU64::new(0),
            forced: AtomicU64::new(0),
            patience,
            lease,
        }
    }

    /// A board, whose watch runs until it is dropped.
    pub(crate) fn start(patience: Duration, lease: Duration) -> std::io::Result<Arc<Self>> {
        let board = Arc::new(Self::new(patience, lease));
        let weak = Arc::downgrade(&board);
        thread::Builder::new().name("xsched-gates".to_owned()).spawn(move || watch(&weak))?;
        Ok(board)
    }

    /// A queue that comes while all gates are lifted is lifted as well.
    pub(crate) fn add(&self, member: &Arc<Member<W>>) {
        let mut members = lock(&self.members);
        members.list.retain(|member| member.strong_count() > 0);
        (0..members.lifts).for_each(|_| _ = member.gate.lift());
        members.list.push(Arc::downgrade(member));
    }

    /// Closes a gate, or opens it.
    pub(crate) fn want(&self, member: &Member<W>, closed: bool) {
        if !member.gate.want(closed) {
            return;
        }
        if !closed {
            self.wanted.fetch_sub(1, Ordering::Relaxed);
        } else if self.wanted.fetch_add(1, Ordering::Relaxed) == 0 {
            // With the lock, so that a watch that is about to rest is not missed.
            drop(lock(&self.members));
            self.bell.notify_all();
        }
    }

    /// Opens what other processes hold that have been silent for too long.
    fn open_overdue(&self, silent: &mut Silent, now: Instant) {
        for member in silent.overdue(&self.all(), now, self.lease) {
            member.gate.forget_others();
            count(&self.forced);
            tracing::warn!(
                "another process held a queue and was silent for longer than the lease, so its \
                 hold was ended"
            );
        }
    }

    /// How often gates were opened because a launch was blocked, or another process silent.
    pub(crate) fn forced(&self) -> u64 {
        self.forced.load(Ordering::Relaxed)
    }

    /// Opens all gates until the answer is dropped.
    pub(crate) fn lift(&self) -> Lifted<'_, W> {
        let mut members = lock(&self.members);
        members.lifts += 1;
        let closed = members.all().filter(|member| member.gate.lift()).count();
        Lifted { board: self, closed }
    }

    /// Whether all gates are open for the moment.
    pub(crate) fn is_lifted(&self) -> bool {
        lock(&self.members).lifts > 0
    }

    fn all(&self) -> Vec<Arc<Member<W>>> {
        lock(&self.members).all().collect()
    }

    fn members_and_ended_lifts(&self) -> (Vec<Arc<Member<W>>>, u64) {
        let members = lock(&self.members);
        (members.all().collect(), members.ended)
    }

    /// Rests until a gate is closed, or for a while. True if one is. Other processes close theirs
    /// without a word, so that is found after the while only.
    pub(crate) fn rest(&self) -> bool {
        let members = lock(&self.members);
        if self.is_any_closed(&members) {
            return true;
        }
        drop(self.bell.wait_timeout(members, REST));
        let members = lock(&self.members);
        self.is_any_closed(&members)
    }

    /// Whether a gate is wanted closed, by us or by another process.
    fn is_any_closed(&self, members: &Members<W>) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
            || members.all().any(|member| member.gate.others().is_some())
    }
}

/// All gates of a device are open.
#[derive(Debug)]
pub(crate) struct Lifted<'a, W: Word + 'static> {
    board: &'a Board<W>,
    /// Gates that were closed before.
    pub(crate) closed: usize,
}

impl<W: Word + 'static> Drop for Lifted<'_, W> {
    fn drop(&mut self) {
        let mut members = lock(&self.board.members);
        members.lifts = members.lifts.saturating_sub(1);
        members.ended += 1;
        members.all().for_each(|member| member.gate.put_down());
    }
}

/// Looks for blocked launches while a gate is closed, until the board is gone.
fn watch<W: Word + 'static>(board: &Weak<Board<W>>) {
    let (mut look, mut silent) = (Look::default(), Silent::default());
    while let Some(board) = board.upgrade() {
        board.open_overdue(&mut silent, Instant::now());
        if !board.rest() {
            look = Look::default();
            continue;
        }
        let nap = if look.inside.is_empty() { PERIOD } else { board.patience.max(SECOND_LOOK) };
        thread::sleep(nap);
        let (members, ended) = board.members_and_ended_lifts();
        if let Some(blocked) = look.at(&members, ended, Instant::now(), board.patience) {
            // If they are lifted already it waits for something else, such as the call for which
            // they were.
            let is_closed = |gate: &Gate<W>| gate.is_closed() || gate.others().is_some();
            let closed = members.iter().any(|member| is_closed(&member.gate));
            if closed {
                // First, so that whoever sees what comes of it knows why.
                count(&board.forced);
            }
            let lifted = board.lift();
            if closed {
                tracing::warn!(
                    gates = lifted.closed,
                    "calls into the driver did not come back while queues were held, so they were \
                     let go for as long as it takes; load kernels, set stack limits and free \
                     memory while no queue is held, or within `with_gates_open`"
                );
            }
            while blocked.iter().any(|(member, count)| member.entries.inside() == Some(*count)) {
                thread::sleep(GLANCE);
            }
        }
    }
}

impl<W: Word + Default + 'static> Board<W> {
    /// Makes calls now and then while a gate is closed, on a thread of their own, to see whether
    /// they come back: until the board is gone, or `call` says that it is over. A call that does
    /// not come back counts as a blocked launch. So calls of the program's own that keep others
    /// from coming back are noticed, though nobody launches.
    pub(crate) fn probe(
        self: &Arc<Self>,
        every: Duration,
        call: impl Fn() -> bool + Send + 'static,
    ) -> std::io::Result<()> {
        let member = Arc::new(Member::new(W::default()));
        self.add(&member);
        let weak = Arc::downgrade(self);
        let run = move || probe(&weak, &member, every, call);
        thread::Builder::new().name("xsched-probe".to_owned()).spawn(run).map(drop)
    }
}

fn probe<W: Word + 'static>(
    board: &Weak<Board<W>>,
    member: &Member<W>,
    every: Duration,
    call: impl Fn() -> bool,
) {
    let mut goes_on = true;
    while goes_on && let Some(board) = board.upgrade() {
        if !board.rest() {
            continue;
        }
        thread::sleep(every);
        let closed = board.is_any_closed(&lock(&board.members));
        if closed {
            // If it is the last to have the board, the watch has ended.
            drop(board);
            let inside = member.entries.enter();
            goes_on = call();
            drop(inside);
        }
    }
}

/// Gates that other processes hold, each with what they said last and since when.
#[derive(Debug, Default)]
struct Silent(Vec<(usize, u32, Instant)>);

impl Silent {
    /// The gates whose holders have said nothing for longer than the lease.
    fn overdue<W: Word>(
        &mut self,
        members: &[Arc<Member<W>>],
        now: Instant,
        lease: Duration,
    ) -> Vec<Arc<Member<W>>> {
        let before = std::mem::take(&mut self.0);
        let mut overdue = Vec::new();
        for member in members {
            let Some(beat) = member.gate.others() else { continue };
            let key = Arc::as_ptr(member) as usize;
            let known = before.iter().find(|(k, b, _)| *k == key && *b == beat);
            let since = known.map_or(now, |(_, _, since)| *since);
            if now.saturating_duration_since(since) > lease {
                overdue.push(Arc::clone(member));
            } else {
                self.0.push((key, beat, since));
            }
        }
        overdue
    }
}

/// What the watch saw last.
#[derive(Debug, Default)]
struct Look {
    /// Launches that were under way, each since when.
    inside: Vec<(usize, u64, Instant)>,
    /// Lifts that had ended.
    ended: u64,
}

type Blocked<W> = Vec<(Arc<Member<W>>, u64)>;

impl Look {
    /// The launches that have been under way for too long. What was kept by a call for which gates
    /// were lifted comes back a moment after, so nothing before the end of a lift counts.
    fn at<W: Word>(
        &mut self,
        members: &[Arc<Member<W>>],
        ended: u64,
        now: Instant,
        patience: Duration,
    ) -> Option<Blocked<W>> {
        let mut before = std::mem::take(&mut self.inside);
        if std::mem::replace(&mut self.ended, ended) != ended {
            before.clear();
        }
        let mut blocked = Vec::new();
        for member in members {
            let Some(count) = member.entries.inside() else { continue };
            let key = Arc::as_ptr(member) as usize;
            let known = before.iter().find(|(k, c, _)| *k == key && *c == count);
            let since = known.map_or(now, |(_, _, since)| *since);
            if now.saturating_duration_since(since) >= patience {
                blocked.push((Arc::clone(member), count));
            }
            self.inside.push((key, count, since));
        }
        (!blocked.is_empty()).then_some(blocked)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_while_gates_were_lifted_is_waited_for_anew() {
        let member = Arc::new(Member::new(None::<crate::flags::FlagWord>));
        let members = [Arc::clone(&member)];
        let (start, patience) = (Instant::now(), Duration::from_millis(1));
        let _inside = member.entries.enter();
        let mut look = Look::default();
        let mut blocked =
            |ended, ms| look.at(&members, ended, start + patience * ms, patience).is_some();
        assert!(!blocked(0, 0));
        assert!(!blocked(1, 2));
        assert!(blocked(1, 3));
    }
}
