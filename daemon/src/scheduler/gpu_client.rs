//! A process on a GPU: its pages, and what the daemon knows of it.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use xsched_core::hint::Priority;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::message::{Order, Report};
use xsched_core::time::{Duration, Instant};
use xsched_node::entity::{
    Accounting, EntityState, GangState, GateWrite, HoldCause, RunInterval, SchedEntity, SelfReport,
    Trial,
};
use xsched_node::{Holder, LEASE, NodeRank, PageHeader, SharedPage};

use super::account::Account;
use super::on_gpu::{PageOf, RunSums, Standing};

/// Renewals of a hold of which one looks at each gate, which takes sixty cache lines of a page:
/// once in a lease, as holds are renewed four times in each.
const CLOSE_EVERY: u32 = 4;

/// Time in which a process retires a command or makes a launch at most once: a driver's call takes
/// a microsecond and more, and a process may have ten threads that call it.
const CLAIM_EVERY: Duration = Duration::from_ns(100);

/// Time after which a process that runs while others are held is looked at: that after which holds
/// are renewed, so that this takes no wake-ups of its own.
const HOST_CHECK: Duration = Duration::from_ms(LEASE.as_millis() as u64 / 4);

/// How the daemon hears that a process's work begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WakeMode {
    /// The process wakes the daemon.
    Event,
    /// The daemon looks every [`POLL_INTERVAL`](xsched_node::entity::POLL_INTERVAL) while the
    /// process runs.
    Poll,
    /// The daemon looks once a second: the process alone has work on its GPU, where nothing is to
    /// be decided, and such a process costs no wake-ups.
    Sleep,
}

/// A process on a GPU.
#[derive(Debug)]
pub(crate) struct GpuClient {
    pub(crate) device: DeviceId,
    /// Queue of the process in the scheduler machine.
    pub(crate) queue: QueueId,
    /// Pages of gates. The first has the header.
    pages: Vec<SharedPage>,
    entity: SchedEntity,
    priority: Priority,
    /// The rank is what the process was told.
    standing: Standing,
    /// The process was told that it has the GPU in turns with others.
    is_time_sliced: bool,
    wake_mode: WakeMode,
    /// Set while the process is in the driver's list of those whose gates are to be written.
    is_listed: bool,
    /// Since when it is idle, running or held.
    pub(crate) since: Instant,
    pub(crate) holds: u64,
    pub(crate) account: Account,
    /// Commands, and launches past the scheduler, that it had counted before this daemon.
    retired_before: u64,
    past_before: u64,
    /// When it connected, and the most that it has claimed of both since, within bounds.
    begun: Instant,
    claimed: Cell<[u64; 2]>,
    /// Renewals of its hold.
    renewals: u32,
    /// The process says that its GPU runs what several processes launch at the same time.
    pub(crate) says_concurrent: bool,
    /// The connection of its process.
    pub(crate) connection: u64,
    /// Sums over the time of its GPU when it was charged last.
    charged: RunSums,
    charged_at: Instant,
    /// When it is to be visited although nothing happens, and when it is while others wait.
    pub(super) due: Option<Instant>,
    pub(super) host_due: Option<Instant>,
    /// The scheduler wants a report.
    pub(super) is_report_due: bool,
    /// Pages that its process was given to hold directly, and its direct holds that have ended.
    pub(super) below: Vec<PageOf>,
    direct_holds_ended: u32,
}

impl GpuClient {
    /// A process that has handed its first page over.
    pub(crate) fn new(device: DeviceId, queue: QueueId, page: SharedPage, now: Instant) -> Self {
        let mut gpu_client = Self {
            device,
            queue,
            pages: Vec::new(),
            entity: SchedEntity::new(page.header().used_ns.load(Relaxed), now),
            priority: Priority::default(),
            standing: Standing { rank: NodeRank::Alone, is_lowest: false, pages_below: 0 },
            is_time_sliced: false,
            wake_mode: WakeMode::Sleep,
            is_listed: false,
            since: now,
            holds: 0,
            account: Account::new(now),
            retired_before: page.header().retired.load(Relaxed),
            past_before: page.header().bypassed().unwrap_or(0),
            begun: now,
            claimed: Cell::default(),
            renewals: 0,
            says_concurrent: false,
            connection: 0,
            charged: RunSums::default(),
            charged_at: now,
            due: None,
            host_due: None,
            is_report_due: false,
            below: Vec::new(),
            direct_holds_ended: page.header().direct_holds.load(Relaxed),
        };
        gpu_client.add(page);
        gpu_client.tell_direct_holds_ended(gpu_client.direct_holds_ended);
        gpu_client
    }

    /// Adds a page, whose gates are closed if the others are.
    pub(crate) fn add(&mut self, page: SharedPage) {
        if self.is_held() {
            page.close_all(Holder::DAEMON);
        } else {
            // A daemon before this one may have closed them.
            page.release_all(Holder::DAEMON);
        }
        page.end_direct_hold();
        page.header().pages_below.store(self.standing.pages_below, Release);
        page.header().set_time_sliced(self.is_time_sliced);
        page.header().set_rank(self.standing.rank);
        self.pages.push(page);
        self.wake_follower();
    }

    /// Says whether its GPU runs what several processes launch at the same time.
    pub(crate) const fn set_concurrent(&mut self, is_concurrent: bool) {
        if is_concurrent {
            self.entity.run_concurrently();
        } else {
            self.entity.run_in_turns();
        }
    }

    /// Has lower priorities be tried like this beside it.
    pub(crate) const fn set_trial(&mut self, trial: Trial) {
        self.entity.set_trial(trial);
    }

    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns whether the process has work, or is in a short pause.
    pub(crate) const fn is_ready(&self) -> bool {
        self.entity.is_ready()
    }

    /// Returns whether the process is ready and may run.
    pub(crate) const fn is_running(&self) -> bool {
        self.entity.is_running()
    }

    /// Returns whether the gates of the process are to be closed.
    pub(crate) const fn is_held(&self) -> bool {
        self.entity.is_held()
    }

    /// Returns whether this cause holds the process.
    pub(crate) const fn is_held_by(&self, cause: HoldCause) -> bool {
        self.entity.is_held_by(cause)
    }

    /// Returns whether the GPU mostly waits for the process's host.
    pub(crate) const fn is_host_bound(&self) -> bool {
        self.entity.is_host_bound()
    }

    /// Has the process's launches scheduled, and the process wake the daemon when its work begins
    /// or ends, if there are others on its GPU or it is to be held. True if that is so from now on:
    /// it has to be refreshed after this.
    pub(crate) fn update_scheduling(&mut self, has_others: bool) -> bool {
        let is_scheduled = has_others || self.may_be_held_alone() || self.gang().is_some();
        if is_scheduled != self.is_alone() {
            return false;
        }
        self.tell_rank(if is_scheduled { NodeRank::Contended } else { NodeRank::Alone });
        self.set_wanted(is_scheduled)
    }

    /// Tells the process its rank on its GPU, if it is scheduled. A gate takes some of the device,
    /// and one that comes first can do without.
    pub(crate) fn set_standing(&mut self, standing: Standing) {
        self.standing.is_lowest = standing.is_lowest;
        let is_free = !self.is_alone() && self.gang().is_none();
        self.tell_pages_below(if is_free { standing.pages_below } else { 0 });
        if !self.is_alone() {
            let may_be_held = self.may_be_held_alone() || self.gang().is_some();
            let is_spared = standing.rank == NodeRank::Highest;
            self.tell_rank(if is_spared && may_be_held {
                NodeRank::Contended
            } else {
                standing.rank
            });
        }
    }

    fn tell_rank(&mut self, rank: NodeRank) {
        if std::mem::replace(&mut self.standing.rank, rank) != rank {
            self.pages.iter().for_each(|page| page.header().set_rank(rank));
        }
    }

    fn tell_pages_below(&mut self, generation: u32) {
        if std::mem::replace(&mut self.standing.pages_below, generation) != generation {
            self.pages.iter().for_each(|page| page.header().pages_below.store(generation, Release));
        }
    }

    /// The generation of the pages that it holds directly; 0 if it may hold none.
    pub(crate) const fn pages_below(&self) -> u32 {
        self.standing.pages_below
    }

    /// A page of it.
    pub(crate) fn page(&self, at: usize) -> Option<&SharedPage> {
        self.pages.get(at)
    }

    /// Direct holds that its process has begun, as it says.
    pub(crate) fn direct_holds(&self) -> u32 {
        self.header().map_or(0, |header| header.direct_holds.load(Acquire))
    }

    /// Direct holds that its process has begun, if not all of them have ended.
    pub(crate) fn new_direct_holds(&self) -> Option<u32> {
        Some(self.direct_holds()).filter(|holds| *holds != self.direct_holds_ended)
    }

    /// Tells its process that these direct holds have ended.
    pub(crate) fn tell_direct_holds_ended(&mut self, holds: u32) {
        self.direct_holds_ended = holds;
        let header = self.header();
        header.into_iter().for_each(|header| header.direct_holds_ended.store(holds, Release));
    }

    /// Ends the direct holds of it by others.
    pub(crate) fn end_direct_hold(&self) {
        self.pages.iter().for_each(SharedPage::end_direct_hold);
    }

    /// Header, where the process says how it is.
    fn header(&self) -> Option<&PageHeader> {
        self.pages.first().map(SharedPage::header)
    }

    /// Tells the process whether others run at the same time, in turns.
    pub(crate) fn tell_concurrency(&mut self, running: u64) {
        let is_so = running > 1 && self.is_running() && !self.entity.is_concurrent();
        if std::mem::replace(&mut self.is_time_sliced, is_so) != is_so {
            self.pages.iter().for_each(|page| page.header().set_time_sliced(is_so));
        }
    }

    pub(crate) const fn priority(&self) -> Priority {
        self.priority
    }

    /// Has this priority from now on.
    pub(crate) const fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// Returns whether the process may be held where it is alone on its GPU.
    pub(crate) fn may_be_held_alone(&self) -> bool {
        self.is_held_by(HoldCause::User) || self.priority == Priority::NO_EXECUTE
    }

    /// Returns the gang's decision about the process; `None` if the gang has nothing to decide.
    pub(crate) const fn gang(&self) -> Option<GangState> {
        self.entity.gang()
    }

    /// Has its gang hold it or not, or have nothing to decide. True if it wakes the daemon from now
    /// on: it has to be refreshed after this.
    pub(crate) fn set_gang(&mut self, gang: Option<GangState>, now: Instant) -> bool {
        let write = self.entity.set_gang(gang, now);
        self.apply(write, now);
        gang.is_some() && self.set_wanted(true)
    }

    /// Says whether the process is to wake the daemon, which it does at most while its launches are
    /// scheduled. True if it does from now on: it has to be refreshed after this.
    pub(crate) fn set_wanted(&mut self, is_wanted: bool) -> bool {
        let is_wanted = (is_wanted || self.gang().is_some()) && !self.is_alone();
        match (is_wanted, self.wake_mode) {
            (true, WakeMode::Sleep) => self.set_wake_mode(WakeMode::Event),
            (false, _) => self.set_wake_mode(WakeMode::Sleep),
            (true, _) => false,
        }
    }

    /// True if the process wakes the daemon from now on: its work may have begun or ended before.
    fn set_wake_mode(&mut self, mode: WakeMode) -> bool {
        let has_changed = std::mem::replace(&mut self.wake_mode, mode) != mode;
        match self.header().filter(|_| has_changed) {
            Some(header) if mode == WakeMode::Event => _ = header.request_wakeups(),
            Some(header) => header.end_wakeups(),
            None => {}
        }
        has_changed && mode == WakeMode::Event
    }

    /// Returns whether the process wakes the daemon, or is polled. If not, it may long have had no
    /// work.
    pub(crate) const fn is_watched(&self) -> bool {
        !matches!(self.wake_mode, WakeMode::Sleep)
    }

    /// Returns whether something hangs on when exactly the process's work begins and ends, where
    /// the policy spares the highest priority: others are held for it and do not run beside it.
    pub(crate) fn needs_events(&self) -> bool {
        let is_decisive = !self.is_host_bound() && !self.standing.is_lowest;
        is_decisive || self.may_be_held_alone() || self.gang().is_some()
    }

    pub(crate) const fn is_polled(&self) -> bool {
        matches!(self.wake_mode, WakeMode::Poll)
    }

    /// Returns whether the process is polled, although it needs events or may not be.
    pub(crate) fn is_wrongly_polled(&self, may_poll: bool) -> bool {
        self.is_polled() && (!may_poll || self.needs_events() || !self.is_running())
    }

    /// Has it be polled while it runs, if that may be and nothing hangs on it, or wake the daemon.
    /// True if it does from now on: it has to be refreshed after this.
    pub(crate) fn update_wake_mode(&mut self, may_poll: bool) -> bool {
        let polls = may_poll && !self.needs_events() && self.is_running() && self.has_work();
        self.is_watched()
            && self.set_wake_mode(if polls { WakeMode::Poll } else { WakeMode::Event })
    }

    fn has_work(&self) -> bool {
        self.header().is_some_and(PageHeader::is_loaded)
    }

    /// Reads whether the process has work. One that is polled wakes the daemon again if it has
    /// none.
    fn read_work(&mut self) -> bool {
        self.has_work()
            || self.is_polled() && self.set_wake_mode(WakeMode::Event) && self.has_work()
    }

    /// Takes note of whether it has work. True if [`GpuClient::is_ready`] has changed.
    pub(crate) fn refresh(&mut self, now: Instant) -> bool {
        let (has_work, was_ready) = (self.read_work(), self.is_ready());
        let write = self.entity.refresh(has_work, self.self_report(true), now);
        if matches!(write, GateWrite::Close | GateWrite::Open) {
            self.write_gates();
        }
        let has_changed = self.is_ready() != was_ready;
        if has_changed {
            self.since = now;
            self.account.note(&self.entity, now);
        }
        has_changed
    }

    /// Accounts for the time up to now, by the sums over the time of its GPU. `waits_matter`: it is
    /// of use whether its host waits. To be called before anything of it changes.
    pub(crate) fn account_time(
        &mut self,
        sums: RunSums,
        waits_matter: bool,
        now: Instant,
    ) -> Accounting {
        let RunSums { elapsed, share, overrun } =
            sums.since(std::mem::replace(&mut self.charged, sums));
        self.charged_at = now;
        if !self.is_ready() {
            return Accounting::default();
        }
        let ran = match (self.is_running(), self.is_known()) {
            (false, _) => RunInterval::NONE,
            (true, false) => RunInterval::unknown(elapsed),
            (true, true) => RunInterval { elapsed, share },
        };
        if self.is_running() {
            self.entity.charge_overrun(overrun);
        }
        let said = self.self_report(waits_matter);
        self.entity.account(ran, said, now)
    }

    /// Returns whether it is known that it has work while it runs.
    const fn is_known(&self) -> bool {
        self.is_watched() && (!self.is_polled() || self.is_host_bound())
    }

    fn self_report(&self, waits_matter: bool) -> SelfReport {
        let used_ns = self.header().map_or(0, |header| header.used_ns.load(Relaxed));
        let waited_us = self.host_waited_us().filter(|_| waits_matter);
        SelfReport { used_ns, ended: self.ended(), waited_us }
    }

    /// Time until [`GpuClient::account_time`] is due to find whether it is bound by its host: each
    /// [`HOST_CHECK`], and more often where it may be.
    pub(crate) fn next_host_check_in(&self, now: Instant) -> Duration {
        if !self.is_running() || self.entity.is_concurrent() {
            return Duration::MAX;
        }
        self.entity.next_host_check_in(now).min(HOST_CHECK - now.since(self.charged_at))
    }

    /// Time until it is to be visited although nothing happens: the scheduler wants a report of one
    /// that runs, what has ended of one that is held is to be looked at, or a pause is no longer
    /// short. [`Duration::MAX`] for never. `is_measured`: what has ended is wanted for metrics.
    pub(crate) fn next_visit_in(&self, is_measured: bool, now: Instant) -> Duration {
        // Of one that is silent it is not known whether it still has work.
        let is_reported = self.is_running() && self.is_known();
        let report = if is_reported { self.entity.report_due_in() } else { Duration::MAX };
        report.min(self.next_refresh_in(is_measured, now))
    }

    fn next_refresh_in(&self, is_measured: bool, now: Instant) -> Duration {
        if self.is_ready() { self.entity.next_refresh_in(is_measured, now) } else { Duration::MAX }
    }

    /// Device time that it has used.
    pub(crate) const fn used(&self) -> Duration {
        self.entity.used()
    }

    /// Commands that have ended since it connected, as it says.
    fn ended(&self) -> u64 {
        self.header().map_or(0, |h| h.retired.load(Relaxed)).wrapping_sub(self.retired_before)
    }

    /// Commands that have retired, and launches of its process past the scheduler, since it
    /// connected: the most that it has claimed so far, and no more than one in each
    /// [`CLAIM_EVERY`]. So no process has sums of them overflow or go back.
    pub(crate) fn claims(&self, now: Instant) -> [u64; 2] {
        // What it says may be newer than `now` by as much as the daemon may be late.
        let most = (now.since(self.begun) + LEASE.into()).as_ns() / CLAIM_EVERY.as_ns();
        let past = self.past().unwrap_or(0).saturating_sub(self.past_before);
        let [retired, launches] = self.claimed.get();
        let claims = [retired.max(self.ended().min(most)), launches.max(past.min(most))];
        self.claimed.set(claims);
        claims
    }

    /// Queues with work, as it says.
    pub(crate) fn queues(&self) -> u32 {
        self.header().map_or(0, |header| header.loaded_queues.load(Relaxed))
    }

    /// Streams of its process with queues of levels 1, 2 and 3, as it says.
    pub(crate) fn levels(&self) -> [u32; 3] {
        self.header().map_or([0; 3], PageHeader::levels)
    }

    /// Time that its host has waited for the GPU in microseconds, if it says so.
    pub(crate) fn host_waited_us(&self) -> Option<u32> {
        self.header().and_then(PageHeader::waited_us)
    }

    /// Launches of its process past the scheduler, if it says so.
    pub(crate) fn past(&self) -> Option<u64> {
        self.header().and_then(PageHeader::bypassed)
    }

    /// Ends the window over which its share is taken.
    pub(crate) fn sample(&mut self, now: Instant) {
        self.account.sample(self.entity.used(), now);
    }

    /// The report for the scheduler, and the queue that it is of.
    pub(crate) const fn take_report(&mut self) -> (QueueId, Report) {
        self.is_report_due = false;
        (self.queue, self.entity.take_report())
    }

    /// The key by which it is found.
    pub(crate) const fn key(&self) -> u32 {
        self.queue.index() as u32
    }

    /// Obeys the scheduler. True if that is to have a report.
    pub(crate) fn obey(&mut self, order: Order, now: Instant) -> bool {
        let (write, is_reported) = self.entity.obey(order, now);
        self.apply(write, now);
        is_reported
    }

    /// Holds it for a user, or ends that.
    pub(crate) fn suspend(&mut self, suspends: bool, now: Instant) {
        let write = self.entity.suspend(suspends, now);
        self.apply(write, now);
    }

    /// Writes the gates after a hold or a release. What has no work is held as well, so that its
    /// first command does not slip through, but others need not wait for that.
    fn apply(&mut self, write: GateWrite, now: Instant) {
        if let GateWrite::Close | GateWrite::Open = write {
            self.write_gates();
            self.since = now;
            self.holds += u64::from(write == GateWrite::Close);
        }
        self.account.note(&self.entity, now);
    }

    /// True if its gates still have to be written and this was not known, so that
    /// [`GpuClient::flush_deferred_gates`] is to be called.
    pub(crate) fn defer_gate_update(&mut self) -> bool {
        self.entity.state().is_deferred() && !std::mem::replace(&mut self.is_listed, true)
    }

    /// Writes its gates if they still have to be.
    pub(crate) fn flush_deferred_gates(&mut self) {
        self.is_listed = false;
        if self.entity.state().is_deferred() {
            self.write_gates();
        }
    }

    /// Closes or opens all its gates, whatever they were.
    pub(crate) fn write_gates(&mut self) {
        for page in &self.pages {
            if self.is_held() {
                page.close_all(Holder::DAEMON);
            } else {
                page.release_all(Holder::DAEMON);
            }
        }
        self.entity.gates_written();
        self.wake_follower();
    }

    /// Wakes the process's thread that holds what has no gates, if it has one.
    fn wake_follower(&self) {
        self.pages.iter().take(1).for_each(SharedPage::wake_follower);
    }

    /// Renews the lease of its hold, and closes what has been opened meanwhile.
    pub(crate) fn renew(&mut self) {
        if self.entity.state().is_deferred() {
            return self.write_gates();
        }
        self.renewals = self.renewals.wrapping_add(1);
        let closes = self.renewals.is_multiple_of(CLOSE_EVERY);
        for page in &self.pages {
            if !page.renew_all(Holder::DAEMON) || closes {
                page.close_all(Holder::DAEMON);
                // The process may be about to open them.
                self.renewals = if closes { self.renewals } else { CLOSE_EVERY - 1 };
            }
        }
    }

    /// Opens its gates for the last time.
    pub(crate) fn let_go(&self) {
        self.pages.iter().for_each(|page| page.release_all(Holder::DAEMON));
        self.end_direct_hold();
        self.wake_follower();
    }

    /// Returns whether the process is alone on its GPU, so that nothing of it is scheduled or
    /// measured.
    pub(crate) const fn is_alone(&self) -> bool {
        matches!(self.standing.rank, NodeRank::Alone)
    }

    /// `alone`, `idle`, `running` or `held`.
    pub(crate) const fn state(&self) -> &'static str {
        use EntityState::{Grace, Held, HeldGrace, Idle, Parked, Parking, Running, Unparking};
        match self.entity.state() {
            _ if self.is_alone() => "alone",
            _ if self.is_held_by(HoldCause::User) => "held",
            Idle | Parking | Parked | Unparking => "idle",
            Held | HeldGrace => "held",
            Running | Grace => "running",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use xsched_core::level::Level;

    use super::*;

    #[test]
    fn a_renewal_closes_what_was_opened_too_late() {
        let page = SharedPage::create().expect("a page");
        let (now, queue) = (Instant::ZERO, QueueId::new(0, 1));
        let mut client = GpuClient::new(DeviceId(0), queue, page, now);
        let open = |client: &GpuClient| !client.pages[0].is_closed(0);
        assert!(client.obey(Order::Hold { epoch: 1, level: Level::Deactivate }, now));
        client.flush_deferred_gates();
        assert!(!open(&client));
        // The watch of the process, which has seen that the lease ran out.
        client.pages[0].release_all(Holder::DAEMON);
        assert!(open(&client));
        client.renew();
        assert!(!open(&client));
        // The process opens a gate after the daemon has closed all of them.
        client.pages[0].release(0, Holder::DAEMON);
        client.renew();
        assert!(!open(&client), "the one after is as thorough");
        client.pages[0].release(0, Holder::DAEMON);
        let renewals = (0..CLOSE_EVERY).take_while(|_| {
            client.renew();
            open(&client)
        });
        assert!(renewals.count() < CLOSE_EVERY as usize, "so is one in each lease");
    }

    #[test]
    fn what_has_no_work_is_held_later_and_at_the_latest_with_its_first_work() {
        let page = SharedPage::create().expect("a page");
        let header = the_same(&page);
        let (now, queue) = (Instant::ZERO, QueueId::new(0, 1));
        let mut client = GpuClient::new(DeviceId(0), queue, page, now);
        let is_open = || !header.is_closed(0);
        let hold = |epoch| Order::Hold { epoch, level: Level::Deactivate };
        assert!(client.obey(hold(1), now) && is_open());
        assert!(client.defer_gate_update() && !client.defer_gate_update(), "it is noted once");
        // It may run before its gates were closed, so they never are.
        assert!(client.obey(Order::Run { epoch: 2 }, now));
        client.flush_deferred_gates();
        assert!(is_open() && !client.defer_gate_update());
        assert!(client.obey(hold(3), now) && client.defer_gate_update());
        client.flush_deferred_gates();
        assert!(!is_open());
        assert!(client.obey(Order::Run { epoch: 4 }, now) && !is_open());
        assert!(client.obey(hold(5), now) && !client.defer_gate_update());
        assert!(client.obey(Order::Run { epoch: 6 }, now) && client.defer_gate_update());
        let load = xsched_node::Load::new(
            std::sync::Arc::new(the_same(&header)),
            std::sync::Arc::new(crate::waker::new_eventfd().expect("an eventfd")),
        );
        load.note(true);
        assert!(client.refresh(now) && is_open());
    }

    #[test]
    fn a_pause_as_short_as_those_before_is_looked_at_when_it_gets_longer() {
        let page = SharedPage::create().expect("a page");
        let doorbell = crate::waker::new_eventfd().expect("an eventfd");
        let load = xsched_node::Load::new(the_same(&page).into(), doorbell.into());
        let (mut now, queue) = (Instant::ZERO, QueueId::new(0, 1));
        let mut client = GpuClient::new(DeviceId(0), queue, page, now);
        for _ in 0..2 {
            load.note(true);
            assert!(client.refresh(now));
            now += Duration::from_ms(2);
            load.note(false);
            assert!(client.refresh(now) && client.next_refresh_in(false, now) == Duration::MAX);
            now += Duration::from_us(100);
        }
        load.note(true);
        assert!(client.refresh(now));
        now += Duration::from_ms(2);
        load.note(false);
        assert!(!client.refresh(now) && client.is_ready(), "it may go on");
        assert_eq!(client.next_refresh_in(false, now), Duration::from_us(200));
        let ends = now + Duration::from_us(200);
        assert!(client.refresh(ends) && !client.is_ready());
        assert_eq!(client.next_refresh_in(false, ends), Duration::MAX);
    }

    fn the_same(page: &SharedPage) -> SharedPage {
        let file = page.as_fd().try_clone_to_owned().expect("a descriptor").into();
        SharedPage::from_file(file).expect("the same page")
    }
}
