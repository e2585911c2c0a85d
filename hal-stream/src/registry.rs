//! The gates of a device, and the watch that forces them open when a launch is blocked.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::blocked::{LaunchWatch, LongLaunch, list};
use crate::connections::Connections;
use crate::gate::Gate;
use crate::launches::Call;
use crate::member::Member;
use crate::sync::{AtomicU64, Condvar, Mutex, Word, count, lock};
use crate::thread_state::{System, Threads};

/// The poll delay of the watch while a gate is closed.
const POLL_DELAY: Duration = Duration::from_micros(650);
/// The poll delay of the watch after it has seen a launch under way.
const CONFIRM_DELAY: Duration = Duration::from_micros(100);
/// The poll delay of the watch while a launch is blocked.
const BLOCKED_POLL_DELAY: Duration = Duration::from_micros(50);
/// With all gates open, the watch wakes this often where another process has pages for its holds.
const UNIT_POLL_DELAY: Duration = Duration::from_millis(20);
/// With all gates open, the watch wakes this often.
const IDLE_POLL_DELAY: Duration = Duration::from_millis(500);

/// The queues of a device.
#[derive(Debug)]
pub(crate) struct GateRegistry<W> {
    pub(crate) members: Mutex<Members<W>>,
    /// Notified when the first queue becomes held.
    pub(crate) queue_held: Condvar,
    /// Queues that are held.
    pub(crate) held: AtomicU64,
    /// 1 from when on queues are counted by [`Connections`].
    pub(crate) counts: AtomicU64,
    /// Connections of the device may be too few.
    pub(crate) is_limited: bool,
    /// How often the watch has forced gates open.
    forced: AtomicU64,
    /// Launches that only waited for a processor when they would have counted as blocked.
    spared: AtomicU64,
    /// A launch that takes longer while a gate is closed counts as blocked by it.
    blocked_after: Duration,
    /// Another process that holds a gate and is silent for longer counts as dead.
    lease: Duration,
}

/// The queues, and how many calls force all of them open now.
#[derive(Debug)]
pub(crate) struct Members<W> {
    pub(crate) list: Vec<Weak<Member<W>>>,
    pub(crate) forced_open: u32,
    pub(crate) connections: Connections,
    /// Queues that the scheduler holds, as far as that is noted.
    pub(crate) wished: usize,
    /// How many such calls have ended.
    ended: u64,
}

impl<W> Members<W> {
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Member<W>>> {
        self.list.iter().filter_map(Weak::upgrade)
    }
}

impl<W: Word + 'static> GateRegistry<W> {
    /// The same for a device on which none do.
    #[cfg(test)]
    pub(crate) fn new(blocked_after: Duration, lease: Duration) -> Self {
        Self::limited(blocked_after, lease, usize::MAX)
    }

    /// A registry without a watch, for a device on which so many queues with work share no
    /// connection.
    pub(crate) fn limited(blocked_after: Duration, lease: Duration, most: usize) -> Self {
        let connections = Connections::new(most);
        let is_limited = connections.are_limited();
        Self {
            members: Mutex::new(Members {
                list: Vec::new(),
                forced_open: 0,
                connections,
                wished: 0,
                ended: 0,
            }),
            queue_held: Condvar::new(),
            held: AtomicU64::new(0),
            counts: AtomicU64::new(0),
            is_limited,
            forced: AtomicU64::new(0),
            spared: AtomicU64::new(0),
            blocked_after,
            lease,
        }
    }

    /// Has a watch run until the registry is dropped.
    pub(crate) fn start(self) -> std::io::Result<Arc<Self>> {
        self.start_with(System)
    }

    /// The same with a watch that has another view of threads.
    fn start_with(self, threads: impl Threads + Send + 'static) -> std::io::Result<Arc<Self>> {
        let gates = Arc::new(self);
        let weak = Arc::downgrade(&gates);
        thread::Builder::new()
            .name("xsched-gates".to_owned())
            .spawn(move || watch(&weak, &threads))?;
        Ok(gates)
    }

    /// Ends the holds of other processes whose lease has run out.
    fn end_overdue_holds(&self, leases: &mut LeaseWatch, now: Instant) {
        for member in leases.overdue(&self.all(), now, self.lease) {
            member.gate.end_foreign_holds();
            count(&self.forced);
            tracing::warn!(
                "another process held a queue and was silent for longer than the lease, so its \
                 hold was ended"
            );
        }
    }

    /// How often gates were forced open because a launch was blocked or a lease ran out.
    pub(crate) fn forced(&self) -> u64 {
        self.forced.load(Ordering::Relaxed)
    }

    /// How many launches only waited for a processor when they would have counted as blocked.
    pub(crate) fn spared(&self) -> u64 {
        self.spared.load(Ordering::Relaxed)
    }

    /// Forces all gates open until the guard is dropped.
    pub(crate) fn open_all(&self) -> GatesOpen<'_, W> {
        let mut members = lock(&self.members);
        members.forced_open += 1;
        let opens = Self::is_partly_held(members.all());
        let closed = members.all().filter(|member| member.gate.force_open(opens)).count();
        GatesOpen { gates: self, closed }
    }

    /// A hold that began within a call counts as one that was there before.
    fn open_for_calls(&self) {
        let members = lock(&self.members);
        if members.forced_open > 0 && Self::is_partly_held(members.all()) {
            members.all().for_each(|member| member.gate.open_for_call());
        }
    }

    /// Whether another process holds queues of this one apart from others, and lets some run: what
    /// those wait for may be held.
    fn is_partly_held(members: impl Iterator<Item = Arc<Member<W>>>) -> bool {
        let (mut held, mut runs) = (false, false);
        for member in members {
            let (gate, word) = (&member.gate, member.gate.word());
            let is_held = gate.foreign_heartbeat().is_some();
            held |= is_held && word.is_alone();
            runs |= !is_held && (word.is_alone() || word.is_of_unit());
        }
        held && runs
    }

    /// Opens the gates whose words this chooses, and leaves them open.
    pub(crate) fn stay_open(&self, is_one: impl Fn(&W) -> bool) {
        let members = lock(&self.members);
        members.all().filter(|member| is_one(member.gate.word())).for_each(|member| {
            member.gate.stay_open();
        });
        self.settle(&members);
    }

    /// Whether all gates are forced open, or those of blocking queues have to be, or those of
    /// queues with work where that of others waits.
    pub(crate) fn all_open(&self) -> bool {
        let members = lock(&self.members);
        members.forced_open > 0 || Self::are_awaited(&members) || Self::are_beyond(&members)
    }

    /// Whether another process holds all gates of this one.
    pub(crate) fn is_unit_held(&self) -> bool {
        let members = lock(&self.members);
        members.all().any(|member| {
            member.gate.word().is_of_unit() && member.gate.foreign_heartbeat().is_some()
        })
    }

    /// Forces all gates open until these launches have ended.
    fn let_return(&self, members: &[Arc<Member<W>>], blocked: &[LongLaunch<W>]) {
        // With all gates forced open already, the launch waits for something else, such as the
        // call for which they were opened.
        let is_alone = members.iter().any(|member| member.gate.is_held_alone());
        let closed = is_alone || Self::is_partly_held(members.iter().cloned());
        let is_unit_held = |gate: &Gate<W>| gate.foreign_heartbeat().is_some();
        if !closed && members.iter().any(|member| is_unit_held(&member.gate)) {
            // Where the whole process is held its launches wait, and opening a gate helps none.
            return;
        }
        if closed {
            // Before the gates open, so that a reader that sees them open sees the count too.
            count(&self.forced);
        }
        let open = self.open_all();
        if closed {
            tracing::warn!(
                gates = open.closed,
                calls = list(blocked),
                "calls into the driver did not return while queues were held, so all gates are \
                 open until they do; load kernels, set stack limits and free memory while no \
                 queue is held, or within `with_gates_open`"
            );
        }
        while blocked.iter().any(LongLaunch::is_under_way) {
            thread::sleep(BLOCKED_POLL_DELAY);
        }
    }

    /// Has all gates open while queues that another process holds apart may be in front of others
    /// in the connections that they share. `are_open`: they are, as it found when it looked last.
    fn let_share(&self, are_open: &mut bool) {
        let members = lock(&self.members);
        let is_kept = |member: Arc<Member<W>>| {
            // What is held has work while the gates are open as well.
            member.is_busy() && (*are_open || member.gate.foreign_heartbeat().is_none())
        };
        let opens = members.connections.are_shared()
            && (*are_open || Self::is_partly_held(members.all()))
            && members.all().any(is_kept);
        drop(members);
        if opens && !*are_open {
            // They stay so until a later look.
            std::mem::forget(self.open_all());
        } else if !opens && *are_open {
            drop(GatesOpen { gates: self, closed: 0 });
        }
        *are_open = opens;
    }

    fn all(&self) -> Vec<Arc<Member<W>>> {
        lock(&self.members).all().collect()
    }

    fn members_and_ended(&self) -> (Vec<Arc<Member<W>>>, u64) {
        let members = lock(&self.members);
        (members.all().collect(), members.ended)
    }

    /// Waits until a queue is held, for half a second at most. True if one is. A hold of another
    /// process notifies nothing, so the wait ends for it only with the half second.
    pub(crate) fn wait_for_hold(&self) -> bool {
        let members = lock(&self.members);
        if self.is_any_closed(&members) {
            return true;
        }
        let is_in_page = |word: &W| word.is_of_unit() || word.is_alone();
        let in_page = members.all().any(|member| is_in_page(member.gate.word()));
        let delay = if in_page { UNIT_POLL_DELAY } else { IDLE_POLL_DELAY };
        drop(self.queue_held.wait_timeout(members, delay));
        let members = lock(&self.members);
        self.is_any_closed(&members)
    }

    /// Whether this process or another one holds a queue.
    fn is_any_closed(&self, members: &Members<W>) -> bool {
        self.held.load(Ordering::Relaxed) > 0
            || members.all().any(|member| member.gate.foreign_heartbeat().is_some())
    }
}

/// All gates of a device are forced open until this is dropped.
#[derive(Debug)]
pub(crate) struct GatesOpen<'a, W: Word + 'static> {
    gates: &'a GateRegistry<W>,
    /// How many gates were closed before.
    pub(crate) closed: usize,
}

impl<W: Word + 'static> Drop for GatesOpen<'_, W> {
    fn drop(&mut self) {
        let mut members = lock(&self.gates.members);
        members.forced_open = members.forced_open.saturating_sub(1);
        members.ended += 1;
        members.all().for_each(|member| member.gate.end_force_open());
    }
}

/// Looks for blocked launches while a gate is closed, until the registry is dropped.
fn watch<W: Word + 'static>(gates: &Weak<GateRegistry<W>>, threads: &impl Threads) {
    let (mut launches, mut leases) = (LaunchWatch::default(), LeaseWatch::default());
    let mut are_let_share = false;
    while let Some(gates) = gates.upgrade() {
        gates.end_overdue_holds(&mut leases, Instant::now());
        gates.let_share(&mut are_let_share);
        if !gates.wait_for_hold() {
            launches = LaunchWatch::default();
            continue;
        }
        gates.open_for_calls();
        let delay =
            if launches.is_empty() { POLL_DELAY } else { gates.blocked_after.max(CONFIRM_DELAY) };
        thread::sleep(delay);
        let (members, ended) = gates.members_and_ended();
        let found = launches.at(&members, ended, Instant::now(), gates.blocked_after, threads);
        for launch in &found.starved {
            count(&gates.spared);
            tracing::debug!(call = %launch, "a launch is late, as its thread had no processor");
        }
        let stuck = found.stuck(&members);
        if !stuck.is_empty() {
            gates.let_return(&members, &stuck);
        }
    }
}

impl<W: Word + Default + 'static> GateRegistry<W> {
    /// Makes a call every `every` while a gate is closed, on a thread of its own, until the
    /// registry is dropped, it is not wanted any more, or the call answers false. A call that does
    /// not return counts as a blocked launch. So the watch notices a call of the program that
    /// blocks all calls into the driver, even if no queue launches.
    pub(crate) fn probe(
        self: &Arc<Self>,
        every: Duration,
        is_wanted: impl Fn() -> bool + Send + 'static,
        call: impl Fn() -> bool + Send + 'static,
    ) -> std::io::Result<()> {
        let member = Arc::new(Member::new(W::default(), String::new()));
        self.add(&member);
        let weak = Arc::downgrade(self);
        let run = move || probe(&weak, &member, every, is_wanted, call);
        thread::Builder::new().name("xsched-probe".to_owned()).spawn(run).map(drop)
    }
}

fn probe<W: Word + 'static>(
    gates: &Weak<GateRegistry<W>>,
    member: &Member<W>,
    every: Duration,
    is_wanted: impl Fn() -> bool,
    call: impl Fn() -> bool,
) {
    let mut answered = true;
    while answered
        && is_wanted()
        && let Some(gates) = gates.upgrade()
    {
        if !gates.wait_for_hold() {
            continue;
        }
        thread::sleep(every);
        let closed = gates.is_any_closed(&lock(&gates.members));
        if closed {
            // This may drop the registry, and then the watch has ended.
            drop(gates);
            let inside = member.launches.begin(Call::Probe);
            answered = call();
            drop(inside);
        }
    }
}

/// Gates that other processes hold, each with its last heartbeat and when that was first seen.
#[derive(Debug, Default)]
struct LeaseWatch(Vec<(usize, u32, Instant)>);

impl LeaseWatch {
    /// The gates whose holders were silent for longer than the lease.
    fn overdue<W: Word>(
        &mut self,
        members: &[Arc<Member<W>>],
        now: Instant,
        lease: Duration,
    ) -> Vec<Arc<Member<W>>> {
        let before = std::mem::take(&mut self.0);
        let mut overdue = Vec::new();
        for member in members {
            let Some(beat) = member.gate.foreign_heartbeat() else { continue };
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::blocked::{COPY_MAX, STARVED_MAX};
    use crate::flags::FlagWord;
    use crate::reach::Reach;
    use crate::thread_state::{Reading, State};

    const BLOCKED_AFTER: Duration = Duration::from_millis(2);

    /// A word that no device waits for.
    type Unshared = Option<FlagWord>;

    /// A device with a watch that sees threads like this, and a queue that is held.
    fn watched(
        threads: impl Threads + Send + 'static,
    ) -> (Arc<GateRegistry<Unshared>>, Arc<Member<Unshared>>) {
        let gates = GateRegistry::new(BLOCKED_AFTER, Duration::MAX).start_with(threads);
        let gates = gates.expect("a thread for the watch");
        let member = Arc::new(Member::new(None, "7".to_owned()));
        gates.add(&member);
        gates.set_held(&member, true);
        (gates, member)
    }

    fn until(what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_launch_whose_thread_has_no_processor_opens_no_gate_until_it_takes_very_long() {
        let waits = Some(Reading { state: State::Waits, waited_ns: 0 });
        let (gates, member) = watched(waits);
        let start = Instant::now();
        let inside = member.launches.begin(Call::Launch);
        until("it is not noticed", || gates.spared() > 0);
        let (forced, closed) = (gates.forced(), member.gate.is_closed());
        // The test itself may be without a processor.
        if start.elapsed() < BLOCKED_AFTER * STARVED_MAX {
            assert_eq!((forced, closed), (0, true));
        }
        until("it holds up the queue for good", || gates.forced() == 1);
        assert!(start.elapsed() >= BLOCKED_AFTER * STARVED_MAX);
        assert_eq!(gates.spared(), 1, "one launch counts once");
        drop(inside);
        until("the gate stays open", || member.gate.is_closed());
    }

    #[test]
    fn a_launch_whose_thread_sleeps_opens_the_gates() {
        let sleeps = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        for reading in [sleeps, None] {
            let (gates, member) = watched(reading);
            let inside = member.launches.begin(Call::Launch);
            until("no gate is opened", || gates.forced() == 1 && !member.gate.is_closed());
            assert_eq!(gates.spared(), 0);
            drop(inside);
            until("the gate stays open", || member.gate.is_closed());
        }
    }

    /// A word that another process holds, with those of the whole process or alone.
    #[derive(Debug, Default)]
    struct InPage {
        word: std::sync::atomic::AtomicU32,
        is_alone: bool,
    }

    impl Word for InPage {
        fn set(&self, bits: u32) {
            self.word.fetch_or(bits, Ordering::SeqCst);
        }
        fn clear(&self, bits: u32) {
            self.word.fetch_and(!bits, Ordering::SeqCst);
        }
        fn foreign_heartbeat(&self) -> Option<u32> {
            (self.word.load(Ordering::SeqCst) & !1 != 0).then_some(7)
        }
        fn is_of_unit(&self) -> bool {
            !self.is_alone
        }
        fn is_alone(&self) -> bool {
            self.is_alone
        }
    }

    /// Two queues that another process holds apart, and the watch.
    fn apart() -> (Arc<GateRegistry<InPage>>, [Arc<Member<InPage>>; 2]) {
        apart_on(usize::MAX)
    }

    /// The same on a device on which so many queues with work share no connection.
    fn apart_on(most: usize) -> (Arc<GateRegistry<InPage>>, [Arc<Member<InPage>>; 2]) {
        let sleeps = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        let gates = GateRegistry::limited(BLOCKED_AFTER, Duration::MAX, most).start_with(sleeps);
        let gates = gates.expect("a watch");
        let members = [0; 2].map(|_| {
            let word = InPage { is_alone: true, ..InPage::default() };
            Arc::new(Member::new(word, String::new()))
        });
        members.iter().for_each(|member| gates.add(member));
        (gates, members)
    }

    #[test]
    fn a_call_opens_a_queue_that_is_held_apart_unless_all_are_held() {
        let (gates, [low, urgent]) = apart();
        low.gate.word().set(2);
        let open = gates.open_all();
        assert_eq!((open.closed, low.gate.foreign_heartbeat()), (1, None));
        drop(open);
        low.gate.word().set(2);
        urgent.gate.word().set(2);
        assert_eq!(gates.open_all().closed, 0);
        assert!(low.gate.foreign_heartbeat().is_some(), "it is held as the whole process is");
    }

    #[test]
    fn a_queue_that_is_held_apart_goes_on_while_one_that_goes_on_may_share_its_connection() {
        let (gates, [low, urgent]) = apart_on(1);
        gates.begin(&low, 1, Reach::Ring);
        low.gate.word().set(2);
        thread::sleep(BLOCKED_AFTER * 50);
        assert_eq!(low.gate.foreign_heartbeat(), Some(7));
        gates.begin(&urgent, 1, Reach::Ring);
        until("no gate is opened", || low.gate.foreign_heartbeat().is_none());
        gates.end(&urgent, 1);
        until("the call does not end", || lock(&gates.members).forced_open == 0);
    }

    #[test]
    fn a_hold_that_begins_within_a_call_is_opened_as_well() {
        let (gates, [low, urgent]) = apart();
        let open = gates.open_all();
        assert_eq!(open.closed, 0);
        low.gate.word().set(2);
        until("the call waits for it", || low.gate.foreign_heartbeat().is_none());
        drop((open, urgent));
    }

    #[test]
    fn a_launch_into_a_queue_that_is_held_apart_waits_and_one_beside_it_opens_the_gate() {
        let (gates, [low, urgent]) = apart();
        low.gate.word().set(2);
        let waits = low.launches.begin(Call::Launch);
        thread::sleep(BLOCKED_AFTER * 50);
        assert_eq!((gates.forced(), low.gate.foreign_heartbeat()), (0, Some(7)));
        let inside = urgent.launches.begin(Call::Launch);
        until("no gate is opened", || low.gate.foreign_heartbeat().is_none());
        drop((inside, waits));
    }

    #[test]
    fn a_copy_that_waits_opens_no_gate_unless_the_probe_waits_as_well() {
        let sleeps = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        let (gates, member) = watched(sleeps);
        let other = Arc::new(Member::new(None, "8".to_owned()));
        gates.add(&other);
        let copy = other.launches.begin(Call::Copy);
        thread::sleep(BLOCKED_AFTER * 50);
        assert_eq!((gates.forced(), member.gate.is_closed()), (0, true));
        let probed = Arc::new(Member::new(None, String::new()));
        gates.add(&probed);
        let inside = probed.launches.begin(Call::Probe);
        until("no gate is opened", || gates.forced() == 1 && !member.gate.is_closed());
        drop((inside, copy));
        until("the gate stays open", || member.gate.is_closed());
    }

    #[test]
    fn a_copy_that_a_held_one_may_keep_opens_the_gates_after_a_while() {
        let sleeps = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        let (gates, held) = watched(sleeps);
        let other = Arc::new(Member::new(None, "8".to_owned()));
        gates.add(&other);
        let start = Instant::now();
        let (keeps, waits) = [&held, &other].map(|member| member.launches.begin(Call::Copy)).into();
        until("no gate is opened", || gates.forced() == 1 && !held.gate.is_closed());
        assert!(start.elapsed() >= COPY_MAX, "it may have had much to do");
        drop(waits);
        until("the gate stays open", || held.gate.is_closed());
        // The held one waits for its own stream.
        thread::sleep(2 * COPY_MAX);
        assert_eq!((gates.forced(), held.gate.is_closed()), (1, true));
        drop(keeps);
    }

    /// The same of queues that another process holds apart.
    #[test]
    fn a_copy_that_waits_beside_one_in_a_queue_that_is_held_apart_opens_the_gate() {
        let (gates, [low, urgent]) = apart();
        low.gate.word().set(2);
        let keeps = low.launches.begin(Call::Copy);
        let waits = urgent.launches.begin(Call::Copy);
        until("no gate is opened", || low.gate.foreign_heartbeat().is_none());
        drop((waits, keeps, gates));
    }

    #[test]
    fn a_launch_of_a_unit_that_is_held_opens_no_gate_before_the_lease_ends() {
        let lease = Duration::from_millis(300);
        let sleeps = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        let gates = GateRegistry::new(BLOCKED_AFTER, lease).start_with(sleeps).expect("a watch");
        let member = Arc::new(Member::new(InPage::default(), String::new()));
        gates.add(&member);
        member.gate.word().set(2);
        let start = Instant::now();
        let inside = member.launches.begin(Call::Launch);
        drop(gates.open_all());
        assert!(member.gate.foreign_heartbeat().is_some(), "a call has opened the unit's gate");
        until("the lease does not end", || member.gate.foreign_heartbeat().is_none());
        assert!(start.elapsed() >= lease, "it was opened for a launch");
        drop(inside);
    }

    /// The calling thread, as the system sees it.
    #[test]
    fn a_thread_that_sleeps_in_a_launch_opens_the_gates() {
        let (gates, member) = watched(System);
        let inside = member.launches.begin(Call::Launch);
        until("no gate is opened", || gates.forced() == 1);
        drop(inside);
    }
}
