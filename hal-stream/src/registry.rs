//! The gates of a device, and the watch that forces them open when a launch is blocked.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use xsched_hal_process::calls::Calls;
use xsched_node::LEASE;

use crate::blocked::{CallsWatch, LaunchWatch, LongLaunch, list};
use crate::connections::Connections;
use crate::gated_stream::GatedStream;
use crate::launches::Call;
use crate::sync::{AtomicU64, Condvar, Mutex, Word, count, lock};
use crate::thread_state::{State, System, Threads};

/// The least poll interval while a gate is closed.
const POLL_MIN: Duration = Duration::from_micros(100);

/// The queues of a device.
#[derive(Debug)]
pub(crate) struct GateRegistry<W> {
    pub(crate) members: Mutex<Members<W>>,
    /// Signal that the probe waits for.
    pub(crate) held_signal: Arc<HeldSignal>,
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
    /// Calls of the program that may wait for a whole device.
    pub(crate) calls: &'static Calls,
}

/// Calls of this process.
pub static CALLS: Calls = Calls::new();

/// The queues, and what opens the gates of all of them.
#[derive(Debug)]
pub(crate) struct Members<W> {
    pub(crate) list: Vec<Weak<GatedStream<W>>>,
    pub(crate) connections: Connections,
    /// Queues that the scheduler holds.
    pub(crate) holds_requested: usize,
    /// See [`DeviceView`](crate::gate_closure::DeviceView).
    pub(crate) device_calls: u32,
    pub(crate) blocked_calls: u32,
    /// How often such calls have ended.
    ended: u64,
}

impl<W> Members<W> {
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<GatedStream<W>>> {
        self.list.iter().filter_map(Weak::upgrade)
    }
}

impl<W: Word + 'static> GateRegistry<W> {
    /// Registry for a device on which no queues share a connection.
    #[cfg(test)]
    pub(crate) fn new(blocked_after: Duration, lease: Duration) -> Self {
        Self::limited(blocked_after, lease, usize::MAX)
    }

    /// Registry without a watch, for a device on which `most` queues with work share no connection.
    pub(crate) fn limited(blocked_after: Duration, lease: Duration, most: usize) -> Self {
        let connections = Connections::new(most);
        let is_limited = connections.are_limited();
        Self {
            members: Mutex::new(Members {
                list: Vec::new(),
                connections,
                holds_requested: 0,
                device_calls: 0,
                blocked_calls: 0,
                ended: 0,
            }),
            held_signal: Arc::new(HeldSignal::new()),
            held: AtomicU64::new(0),
            counts: AtomicU64::new(0),
            is_limited,
            forced: AtomicU64::new(0),
            spared: AtomicU64::new(0),
            blocked_after,
            lease,
            calls: &CALLS,
        }
    }

    /// Has the watch thread of the process look at it until it is dropped.
    pub(crate) fn start(self) -> std::io::Result<Arc<Self>> {
        self.start_with(System)
    }

    /// Starts a watch that has another view of threads.
    fn start_with(self, threads: impl Threads + Send + 'static) -> std::io::Result<Arc<Self>> {
        let gates = Arc::new(self);
        let (weak, mut watch) = (Arc::downgrade(&gates), Watch::new());
        xsched_node::watch(move |now| Some(watch.look(&*weak.upgrade()?, &threads, now)))?;
        Ok(gates)
    }

    /// How long until the next look at launches while a gate is closed. The second look at a launch
    /// that does not return opens the gates, so that they open one to two intervals after its
    /// begin: within 0.6 ms by default.
    fn poll_interval(&self) -> Duration {
        (self.blocked_after + self.blocked_after / 2).clamp(POLL_MIN, LEASE)
    }

    /// Ends the holds of other processes whose lease has run out.
    fn end_overdue_holds(&self, leases: &mut LeaseWatch, now: Instant) {
        let overdue = leases.overdue(&self.all(), now, self.lease);
        for member in &overdue {
            member.gate.set_overdue();
            count(&self.forced);
            tracing::warn!(
                "another process held a queue and was silent for longer than the lease, so its \
                 hold was ended"
            );
        }
        if !overdue.is_empty() {
            self.recompute_gates(&lock(&self.members));
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

    /// Has all gates open until the guard is dropped.
    pub(crate) fn open_all(&self) -> GatesOpen<'_, W> {
        let mut members = lock(&self.members);
        members.device_calls += 1;
        self.recompute_gates(&members);
        GatesOpen { gates: self }
    }

    /// Gates that were [left open](GatesOpen::leave_open), until the guard is dropped.
    pub(crate) fn left_open(&self) -> GatesOpen<'_, W> {
        GatesOpen { gates: self }
    }

    /// Opens the gates whose words this chooses, and leaves them open.
    pub(crate) fn stay_open(&self, is_one: impl Fn(&W) -> bool) {
        let members = lock(&self.members);
        members.all().filter(|member| is_one(member.gate.word())).for_each(|member| {
            member.gate.stay_open();
        });
        self.recompute_gates(&members);
    }

    /// Returns whether all gates are open for calls, or those of blocking queues have to be, or
    /// those of queues with work where that of others waits.
    pub(crate) fn all_open(&self) -> bool {
        let members = lock(&self.members);
        members.device_calls > 0 || members.blocked_calls > 0 || Self::are_left_open(&members)
    }

    /// Returns whether another process holds all gates of this one.
    pub(crate) fn is_unit_held(&self) -> bool {
        let members = lock(&self.members);
        members.all().any(|member| {
            member.gate.word().is_of_unit() && member.gate.foreign_heartbeat().is_some()
        })
    }

    /// Has gates open until these launches have ended, and calls if there are any, if that opens
    /// any gate: else they wait for something else, such as the hold of the whole process. Whether
    /// it does.
    fn open_for_blocked(&self, blocked: &[LongLaunch<W>], has_calls: bool) -> bool {
        let mut members = lock(&self.members);
        let launches = u32::try_from(blocked.len()).unwrap_or(u32::MAX);
        members.blocked_calls = launches.saturating_add(has_calls.into());
        let opened = Self::decide(&members).opened();
        if opened == 0 {
            members.blocked_calls = 0;
            return false;
        }
        // Before the gates open, so that a reader that sees them open sees the count too.
        count(&self.forced);
        self.recompute_gates(&members);
        drop(members);
        if blocked.is_empty() {
            tracing::debug!(gates = opened, "a call that waits for the device opens gates");
            return true;
        }
        tracing::warn!(
            gates = opened,
            calls = list(blocked),
            "calls into the driver did not return while queues were held, so all gates are open \
             until they do; load kernels, set stack limits and free memory while no queue is \
             held, or within `with_gates_open`"
        );
        true
    }

    /// The launches for which gates were opened have ended.
    fn close_after_blocked(&self) {
        let mut members = lock(&self.members);
        members.blocked_calls = 0;
        members.ended += 1;
        self.recompute_gates(&members);
    }

    fn all(&self) -> Vec<Arc<GatedStream<W>>> {
        lock(&self.members).all().collect()
    }

    fn members_and_ended(&self) -> (Vec<Arc<GatedStream<W>>>, u64) {
        let members = lock(&self.members);
        (members.all().collect(), members.ended)
    }

    /// Returns whether this process or another one holds a queue.
    fn is_any_closed(&self, members: &Members<W>) -> bool {
        self.held.load(Ordering::Relaxed) > 0
            || members.all().any(|member| member.gate.foreign_heartbeat().is_some())
    }
}

/// All gates of a device are open until this is dropped.
#[derive(Debug)]
pub(crate) struct GatesOpen<'a, W: Word + 'static> {
    gates: &'a GateRegistry<W>,
}

impl<W: Word + 'static> GatesOpen<'_, W> {
    /// Leaves the gates open after this: see [`GateRegistry::left_open`].
    pub(crate) fn leave_open(self) {
        std::mem::forget(self);
    }
}

impl<W: Word + 'static> Drop for GatesOpen<'_, W> {
    fn drop(&mut self) {
        let mut members = lock(&self.gates.members);
        members.device_calls = members.device_calls.saturating_sub(1);
        members.ended += 1;
        self.gates.recompute_gates(&members);
    }
}

/// State of the watch of a device.
#[derive(Debug)]
struct Watch<W> {
    launches: LaunchWatch,
    leases: LeaseWatch,
    calls: CallsWatch,
    /// Launches for which the gates are open.
    blocked: Vec<LongLaunch<W>>,
    /// Number of launches that had ended when the gates were opened for calls, while they are open.
    open_for_calls: Option<u64>,
}

impl<W: Word + 'static> Watch<W> {
    const fn new() -> Self {
        Self {
            launches: LaunchWatch::new(),
            leases: LeaseWatch(Vec::new()),
            calls: CallsWatch::new(),
            blocked: Vec::new(),
            open_for_calls: None,
        }
    }

    /// Looks for blocked launches and for holds of other processes. How soon to look again, unless
    /// a hold begins before.
    fn look(&mut self, gates: &GateRegistry<W>, threads: &impl Threads, now: Instant) -> Duration {
        gates.end_overdue_holds(&mut self.leases, now);
        let members = lock(&gates.members);
        // Holds of other processes begin and end without a word to this one.
        let of_others = |member: &Arc<GatedStream<W>>| member.gate.word().may_be_held_by_others();
        let has_others = members.all().any(|member| of_others(&member));
        if has_others {
            gates.recompute_gates(&members);
        }
        let is_held = gates.is_any_closed(&members);
        gates.held_signal.set(is_held);
        drop(members);
        if is_held || self.has_opened() {
            self.look_at_launches(gates, threads, now);
            return gates.poll_interval();
        }
        (self.launches, self.calls) = (LaunchWatch::new(), CallsWatch::new());
        if has_others { gates.lease.min(LEASE) } else { Duration::MAX }
    }

    fn look_at_launches(&mut self, gates: &GateRegistry<W>, threads: &impl Threads, now: Instant) {
        let calls = gates.calls.view();
        if self.has_opened() {
            self.blocked.retain(LongLaunch::is_under_way);
            let goes_on = |ended: &u64| calls.is_any && calls.ended == *ended;
            self.open_for_calls = self.open_for_calls.filter(goes_on);
            if !self.has_opened() {
                gates.close_after_blocked();
            }
            return;
        }
        let (members, ended) = gates.members_and_ended();
        let found = self.launches.at(&members, ended, now, gates.blocked_after, threads);
        for launch in &found.starved {
            count(&gates.spared);
            tracing::debug!(call = %launch, "a launch is late, as its thread had no processor");
        }
        let stuck = found.stuck(&members);
        let has_calls = self.calls.do_not_return(calls, || {
            threads.look(calls.thread).is_some_and(|reading| reading.state == State::Waits)
        });
        if (!stuck.is_empty() || has_calls) && gates.open_for_blocked(&stuck, has_calls) {
            self.blocked = stuck;
            self.open_for_calls = has_calls.then_some(calls.ended);
        }
    }

    /// Returns whether gates are open for launches or calls that do not return.
    fn has_opened(&self) -> bool {
        !self.blocked.is_empty() || self.open_for_calls.is_some()
    }
}

impl<W> Drop for GateRegistry<W> {
    fn drop(&mut self) {
        self.held_signal.end();
        // It looks no more.
        xsched_node::wake_watch();
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
        let member = Arc::new(GatedStream::new(W::default(), String::new()));
        self.add(&member);
        let (weak, held) = (Arc::downgrade(self), Arc::clone(&self.held_signal));
        let run = move || {
            while held.wait(&is_wanted) {
                thread::sleep(every);
                let is_closed = |gates: Arc<Self>| gates.is_any_closed(&lock(&gates.members));
                if weak.upgrade().is_some_and(is_closed) {
                    let inside = member.launches.begin(Call::Probe);
                    let answered = call();
                    drop(inside);
                    if !answered {
                        break;
                    }
                }
            }
        };
        thread::Builder::new().name("xsched-probe".to_owned()).spawn(run).map(drop)
    }

    /// Has the threads of probes end that are not wanted any more, and wait for a hold.
    pub(crate) fn end_unwanted_probes(&self) {
        self.held_signal.notify();
    }
}

/// Signal that a gate is closed, for a thread that waits until one is.
#[derive(Debug)]
pub(crate) struct HeldSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalState {
    Open,
    Held,
    /// The registry has gone.
    Ended,
}

impl HeldSignal {
    fn new() -> Self {
        Self { state: Mutex::new(SignalState::Open), changed: Condvar::new() }
    }

    pub(crate) fn set(&self, is_held: bool) {
        let mut state = lock(&self.state);
        *state = if is_held { SignalState::Held } else { SignalState::Open };
        if is_held {
            self.changed.notify_all();
        }
    }

    fn end(&self) {
        *lock(&self.state) = SignalState::Ended;
        self.changed.notify_all();
    }

    /// Has threads that wait look whether they are wanted.
    fn notify(&self) {
        // Who has looked just before waits by now.
        drop(lock(&self.state));
        self.changed.notify_all();
    }

    /// Waits until a gate is closed. False if the registry has gone, or the thread is not wanted.
    pub(crate) fn wait(&self, is_wanted: impl Fn() -> bool) -> bool {
        let mut state = lock(&self.state);
        while *state == SignalState::Open && is_wanted() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        *state == SignalState::Held && is_wanted()
    }
}

/// Gates that other processes hold, each with its last heartbeat and when that was first seen.
#[derive(Debug, Default)]
struct LeaseWatch(Vec<(usize, u32, Instant)>);

impl LeaseWatch {
    /// The gates whose holders were silent for longer than the lease.
    fn overdue<W: Word>(
        &mut self,
        members: &[Arc<GatedStream<W>>],
        now: Instant,
        lease: Duration,
    ) -> Vec<Arc<GatedStream<W>>> {
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
    use std::sync::atomic::AtomicBool;

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
    ) -> (Arc<GateRegistry<Unshared>>, Arc<GatedStream<Unshared>>) {
        let gates = GateRegistry::new(BLOCKED_AFTER, Duration::MAX).start_with(threads);
        let gates = gates.expect("a thread for the watch");
        let member = Arc::new(GatedStream::new(None, "7".to_owned()));
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
    fn a_probe_that_is_not_wanted_any_more_ends_without_a_hold() {
        let gates = Arc::new(GateRegistry::<Unshared>::new(BLOCKED_AFTER, Duration::MAX));
        let (wanted, alive) = (Arc::new(AtomicBool::new(true)), Arc::new(()));
        let (is_wanted, of_thread) = (Arc::clone(&wanted), Arc::clone(&alive));
        let probe = move || Arc::strong_count(&of_thread) > 0;
        let started = gates.probe(BLOCKED_AFTER, move || is_wanted.load(Ordering::Acquire), probe);
        started.expect("a thread");
        wanted.store(false, Ordering::Release);
        gates.end_unwanted_probes();
        until("it waits on", || Arc::strong_count(&alive) == 1);
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

    #[test]
    fn a_call_that_does_not_return_opens_the_gates_until_it_does() {
        let sleeps = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        let calls: &'static Calls = Box::leak(Box::default());
        let mut gates = GateRegistry::<Unshared>::new(BLOCKED_AFTER, Duration::MAX);
        gates.calls = calls;
        let gates = gates.start_with(sleeps).expect("a thread for the watch");
        let member = Arc::new(GatedStream::new(None, "7".to_owned()));
        gates.add(&member);
        gates.set_held(&member, true);
        assert!(calls.is_any_held());
        for _ in 0..1_000 {
            calls.begin(7);
            calls.end();
        }
        assert!(member.gate.is_closed());
        calls.begin(7);
        until("no gate is opened", || !member.gate.is_closed());
        calls.end();
        until("the gate stays open", || member.gate.is_closed());
        gates.set_held(&member, false);
        assert!(!calls.is_any_held());
    }

    /// A word that another process holds, with those of the whole process or alone.
    #[derive(Debug, Default)]
    struct InPage {
        own: AtomicBool,
        requested: AtomicBool,
        in_call: AtomicBool,
        is_alone: bool,
    }

    impl InPage {
        /// The other process holds it, or does not.
        fn hold(&self, held: bool) {
            self.requested.store(held, Ordering::SeqCst);
        }
    }

    impl Word for InPage {
        fn set(&self, _: u32) {
            self.own.store(true, Ordering::SeqCst);
        }
        fn clear(&self, _: u32) {
            self.own.store(false, Ordering::SeqCst);
        }
        fn foreign_heartbeat(&self) -> Option<u32> {
            (self.is_hold_requested() && !self.in_call.load(Ordering::SeqCst)).then_some(7)
        }
        fn is_hold_requested(&self) -> bool {
            self.requested.load(Ordering::SeqCst)
        }
        fn end_foreign(&self) {
            self.hold(false);
        }
        fn begin_call(&self) {
            self.in_call.store(true, Ordering::SeqCst);
        }
        fn end_call(&self) {
            self.in_call.store(false, Ordering::SeqCst);
        }
        fn is_of_unit(&self) -> bool {
            !self.is_alone
        }
        fn is_alone(&self) -> bool {
            self.is_alone
        }
    }

    /// Two queues that another process holds apart, and the watch.
    fn apart() -> (Arc<GateRegistry<InPage>>, [Arc<GatedStream<InPage>>; 2]) {
        apart_on(usize::MAX)
    }

    /// Two queues on a device on which `most` queues with work share no connection.
    fn apart_on(most: usize) -> (Arc<GateRegistry<InPage>>, [Arc<GatedStream<InPage>>; 2]) {
        let sleeps = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        let gates = GateRegistry::limited(BLOCKED_AFTER, Duration::MAX, most).start_with(sleeps);
        let gates = gates.expect("a watch");
        let members = [0; 2].map(|_| {
            let word = InPage { is_alone: true, ..InPage::default() };
            Arc::new(GatedStream::new(word, String::new()))
        });
        members.iter().for_each(|member| gates.add(member));
        (gates, members)
    }

    #[test]
    fn a_call_opens_a_queue_that_is_held_apart_unless_all_are_held() {
        let (gates, [low, urgent]) = apart();
        low.gate.word().hold(true);
        let open = gates.open_all();
        assert_eq!(low.gate.foreign_heartbeat(), None);
        drop(open);
        assert!(low.gate.foreign_heartbeat().is_some(), "the hold comes back");
        urgent.gate.word().hold(true);
        let _open = gates.open_all();
        assert!(low.gate.foreign_heartbeat().is_some(), "it is held as the whole process is");
    }

    #[test]
    fn a_queue_that_is_held_apart_goes_on_while_one_that_goes_on_may_share_its_connection() {
        let (gates, [low, urgent]) = apart_on(1);
        gates.begin(&low, 1, Reach::Ring);
        low.gate.word().hold(true);
        thread::sleep(BLOCKED_AFTER * 50);
        assert_eq!(low.gate.foreign_heartbeat(), Some(7));
        gates.begin(&urgent, 1, Reach::Ring);
        until("no gate is opened", || low.gate.foreign_heartbeat().is_none());
        gates.end(&urgent, 1);
        until("the hold does not come back", || low.gate.foreign_heartbeat().is_some());
    }

    #[test]
    fn a_hold_that_begins_within_a_call_is_opened_as_well() {
        let (gates, [low, urgent]) = apart();
        let open = gates.open_all();
        low.gate.word().hold(true);
        until("the call waits for it", || low.gate.foreign_heartbeat().is_none());
        drop((open, urgent));
    }

    #[test]
    fn a_launch_into_a_queue_that_is_held_apart_waits_and_one_beside_it_opens_the_gate() {
        let (gates, [low, urgent]) = apart();
        low.gate.word().hold(true);
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
        let other = Arc::new(GatedStream::new(None, "8".to_owned()));
        gates.add(&other);
        let copy = other.launches.begin(Call::Copy);
        thread::sleep(BLOCKED_AFTER * 50);
        assert_eq!((gates.forced(), member.gate.is_closed()), (0, true));
        let probed = Arc::new(GatedStream::new(None, String::new()));
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
        let other = Arc::new(GatedStream::new(None, "8".to_owned()));
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

    /// Case of queues that another process holds apart.
    #[test]
    fn a_copy_that_waits_beside_one_in_a_queue_that_is_held_apart_opens_the_gate() {
        let (gates, [low, urgent]) = apart();
        low.gate.word().hold(true);
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
        let member = Arc::new(GatedStream::new(InPage::default(), String::new()));
        gates.add(&member);
        member.gate.word().hold(true);
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
