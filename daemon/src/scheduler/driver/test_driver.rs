//! The scheduler without its thread and its clock, for tests.

use std::sync::Arc;
use std::sync::mpsc::channel;

use xsched_core::time::{Duration, Instant};
use xsched_node::entity::Trial;
use xsched_node::{ClientStatus, NodeRank};
use xsched_policies::Any;

use super::super::figures::Figures;
use super::super::gpu_client::GpuClient;
use super::super::op::{FirstHold, Op, Tuning};
use super::Driver;
use crate::tenant::{Asker, Party};

const TUNING: Tuning = Tuning {
    spin: Duration::from_us(200),
    spin_percent: 5,
    fill_pauses: Some(Trial { window: Duration::from_ms(100), least_percent: 75 }),
    gang_claim: Duration::from_ms(10),
    first_hold: FirstHold::Process,
};

/// A scheduler to which time passes when it is told so.
#[derive(Debug)]
pub(crate) struct TestDriver {
    driver: Driver,
    now: Instant,
}

impl TestDriver {
    pub(crate) fn new(policy: Any) -> rustix::io::Result<Self> {
        let (_, none) = channel();
        Ok(Self { driver: Driver::new(policy, TUNING, none)?, now: Instant::ZERO })
    }

    pub(crate) fn take(&mut self, op: Op) {
        self.driver.take(op, self.now);
    }

    /// Has processes hold those below them first, or the daemon.
    #[cfg(test)]
    pub(crate) fn set_first_hold(&mut self, first_hold: FirstHold) {
        self.take(Op::Tune(Tuning { first_hold, ..TUNING }));
    }

    /// Some time passes, and these processes have rung.
    pub(crate) fn turn(&mut self, passed_ns: u64, rung: &[u64]) {
        self.now += Duration::from_ns(passed_ns);
        self.driver.refresh_rung(rung, self.now);
        self.driver.visit_due(self.now);
        self.driver.decide(self.now);
        while self.driver.has_orders || self.driver.gpu_clients.is_telling_ranks() {
            self.driver.decide(self.now);
        }
        self.driver.end_direct_holds(rung);
        while self.driver.flush_deferred_gates(self.now) {}
        self.driver.renew(self.now);
        self.driver.sample(self.now);
    }

    fn gpu_clients(&self, client: u64) -> impl Iterator<Item = &GpuClient> {
        let client = self.driver.clients.get(&client);
        let keys = client.into_iter().flat_map(|client| &client.gpu_clients);
        keys.filter_map(|key| self.driver.gpu_clients.get(*key))
    }

    /// Returns for each GPU of a process whether its gates are to be closed, and the device time
    /// that it has used.
    pub(crate) fn gpu_clients_of(&self, client: u64) -> Vec<(bool, u64)> {
        self.gpu_clients(client)
            .map(|gpu_client| (gpu_client.is_held(), gpu_client.used().as_ns()))
            .collect()
    }

    /// Returns whether a process is known to have work.
    pub(crate) fn is_ready(&self, client: u64) -> bool {
        self.gpu_clients(client).any(GpuClient::is_ready)
    }

    /// Returns whether a process that is to wake the scheduler has work that it does not know of.
    pub(crate) fn misses_work(&self, client: u64) -> bool {
        self.gpu_clients(client).any(|gpu_client| {
            gpu_client.is_watched() && !gpu_client.is_ready() && gpu_client.queues() > 0
        })
    }

    /// Passes until there is nothing left to do now, as the thread makes them without a pause.
    #[cfg(test)]
    pub(crate) fn settle(&mut self) {
        while self.driver.left(self.now).is_zero() {
            self.turn(0, &[]);
        }
    }

    /// How often processes were visited.
    #[cfg(test)]
    pub(crate) const fn visits(&self) -> u64 {
        self.driver.gpu_clients.visits()
    }

    /// How many processes are in gangs for which there is something to decide.
    #[cfg(test)]
    pub(crate) fn gang_members(&self) -> usize {
        self.driver.gangs.members()
    }

    /// Status that an administrator is told of the first hundred processes.
    pub(crate) fn status(&mut self) -> Vec<ClientStatus> {
        let (answer, answered) = channel();
        let party = Party { who: Arc::default(), tenant: Arc::default() };
        self.take(Op::Status { asker: Asker { party, is_admin: true }, from: None, answer });
        let part = answered.recv().unwrap_or_default();
        part.entries.into_iter().map(|entry| entry.client).collect()
    }

    /// Figures of the metrics.
    pub(crate) fn figures(&mut self) -> Option<Box<Figures>> {
        let (answer, answered) = channel();
        self.take(Op::Figures { answer });
        answered.recv().ok()
    }

    /// Defect of what does not fit together, if there is one.
    pub(crate) fn defect(&self) -> Option<String> {
        let gpu_clients = &self.driver.gpu_clients;
        let of_clients: usize =
            self.driver.clients.values().map(|client| client.gpu_clients.len()).sum();
        if gpu_clients.all().count() != of_clients {
            return Some("a process on a GPU belongs to no connection".to_owned());
        }
        if gpu_clients.all().any(|gpu_client| gpu_client.used().as_ns() > self.now.as_ns()) {
            return Some("a process has used more time than there was".to_owned());
        }
        let closed = gpu_clients.all().any(GpuClient::is_held);
        if gpu_clients.is_any_held() != closed {
            return Some("closed gates are miscounted".to_owned());
        }
        let loaded = gpu_clients.all().filter(|gpu_client| gpu_client.is_ready()).count();
        (gpu_clients.ready().count() != loaded)
            .then(|| "processes with work are miscounted".to_owned())
    }
}

/// What a process is to be told under `hpf`, by the status of all: its rank, and whether it is
/// held.
pub(crate) fn told(client: &ClientStatus, all: &[ClientStatus]) -> (NodeRank, bool) {
    let here: Vec<_> = all.iter().filter(|other| other.device == client.device).collect();
    let may_be_held_alone = client.held_by_hand || client.priority == -256;
    let highest = here.iter().map(|other| other.priority).max();
    let are_highest = here.iter().filter(|other| Some(other.priority) == highest).count();
    let rank = match Some(client.priority) == highest {
        _ if here.len() == 1 && !may_be_held_alone => NodeRank::Alone,
        false => NodeRank::Outranked,
        true if are_highest == 1 && !may_be_held_alone => NodeRank::Highest,
        true => NodeRank::Contended,
    };
    (rank, client.state == "held")
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    use xsched_core::hint::{PolicyHint, Priority};
    use xsched_node::SharedPage;

    use super::*;
    use crate::scheduler::{Client, Gpu, hints};
    use crate::tenant::{Party, Tenant, Who};
    use crate::waker::new_eventfd;

    /// Without a stall time: the processes of these tests do not say what they have ended.
    fn test_driver(policy: &str) -> TestDriver {
        let mut test = stalling_driver(policy);
        test.driver.set_hints(vec![PolicyHint::Stall(None)], test.now);
        test
    }

    fn stalling_driver(policy: &str) -> TestDriver {
        TestDriver::new(policy.parse::<Any>().expect("a policy")).expect("a scheduler")
    }

    /// A process with work on the GPU, of a user with the half of it.
    fn join(test: &mut TestDriver, id: u64, uid: u32, asked: (i32, Option<u8>)) -> SharedPage {
        join_on(false, test, (id, uid), asked)
    }

    /// Joins as `join` does, on a GPU that runs several at a time, or not.
    fn join_on(
        is_concurrent: bool,
        test: &mut TestDriver,
        (id, uid): (u64, u32),
        (priority, share): (i32, Option<u8>),
    ) -> SharedPage {
        let who = Arc::new(Who { uid, ..Who::default() });
        let (name, share_max) = (format!("user {uid}"), Some(50));
        let tenant = Arc::new(Tenant { name, uid: Some(uid), share_max, ..Tenant::default() });
        let asked = hints(Priority::new(priority).expect("a priority"), share);
        let doorbell = new_eventfd().expect("an eventfd");
        let party = Party { who, tenant };
        test.take(Op::Join(id, Client::new(id as i32, party, "x".to_owned(), asked, doorbell)));
        let ours = SharedPage::create().expect("a page");
        ours.header().loaded_queues.store(1, Ordering::SeqCst);
        let file = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let page = SharedPage::from_file(File::from(file)).expect("a page");
        let (answer, answered) = channel();
        let gpu = Gpu { name: "gpu".to_owned(), is_concurrent };
        test.take(Op::Page { client: id, gpu, page, answer });
        assert_eq!(answered.recv().expect("an answer"), Ok(()));
        test.turn(0, &[id]);
        ours
    }

    /// Tries others like this beside those that are bound by their hosts, or not at all.
    fn fill_pauses(test: &mut TestDriver, fill_pauses: Option<Trial>) {
        test.take(Op::Tune(Tuning { fill_pauses, ..TUNING }));
    }

    /// Under `hpf` with turns of 10 ms.
    fn with_turns() -> TestDriver {
        let mut test = test_driver("hpf");
        let turn = PolicyHint::Timeslice(Duration::from_ms(10));
        test.driver.set_hints(vec![turn], test.now);
        test
    }

    fn gates_of(one: &SharedPage, two: &SharedPage) -> (bool, bool) {
        let is_closed = |page: &SharedPage| page.is_closed(0);
        (is_closed(one), is_closed(two))
    }

    fn used_ms(test: &TestDriver, id: u64) -> u64 {
        test.gpu_clients_of(id)[0].1 / 1_000_000
    }

    #[test]
    fn a_user_with_many_processes_gets_no_more_than_its_share() {
        // What the processes of the other user ask for, and how many there are.
        for (share, count) in [(Some(100), 16), (None, 200), (Some(50), 1)] {
            let mut test = test_driver("up");
            let all = 1..=count;
            let asked = (255, share);
            let _greedy: Vec<_> = all.clone().map(|id| join(&mut test, id, 1, asked)).collect();
            let _modest = join(&mut test, 1_000, 2, (0, Some(50)));
            (0..10_000).for_each(|_| test.turn(1_000_000, &[]));
            let greedy: u64 = all.map(|id| used_ms(&test, id)).sum();
            let modest = used_ms(&test, 1_000);
            assert!(modest >= 4_750, "{modest} ms of 10,000, {count} others {greedy}");
            assert!(greedy >= 1_500, "{modest} ms of 10,000, {count} others {greedy}");
            assert_eq!(test.defect(), None);
        }
    }

    #[test]
    fn those_of_equal_priority_take_turns() {
        let mut test = with_turns();
        let one = join(&mut test, 1, 1, (0, None));
        let two = join(&mut test, 2, 2, (0, None));
        assert_eq!(gates_of(&one, &two), (false, true));
        let low = join(&mut test, 3, 3, (-5, None));
        for round in 0..4 {
            test.turn(9_999_000, &[]);
            assert_eq!(gates_of(&one, &two), (round % 2 == 1, round % 2 == 0), "{round}");
            test.turn(1_000, &[]);
            assert_eq!(gates_of(&one, &two), (round % 2 == 0, round % 2 == 1), "{round}");
            assert_eq!(gates_of(&low, &low), (true, true));
        }
        // What is above does not count.
        test.turn(6_000_000, &[]);
        let high = join(&mut test, 4, 4, (5, None));
        test.turn(20_000_000, &[]);
        assert_eq!(gates_of(&one, &two), (true, true));
        high.header().loaded_queues.store(0, Ordering::SeqCst);
        test.turn(0, &[4]);
        assert_eq!(gates_of(&one, &two), (false, true));
        test.turn(3_999_000, &[]);
        assert_eq!(gates_of(&one, &two), (false, true));
        test.turn(1_000, &[]);
        assert_eq!(gates_of(&one, &two), (true, false));
        // And who has nothing more to run does not hold others up.
        two.header().loaded_queues.store(0, Ordering::SeqCst);
        test.turn(1_000_000, &[2]);
        assert_eq!(gates_of(&one, &two), (false, true), "its next launch does not slip through");
        one.header().loaded_queues.store(0, Ordering::SeqCst);
        test.turn(1_000_000, &[1]);
        assert_eq!(gates_of(&one, &two), (false, false));
        assert_eq!(test.defect(), None);
    }

    #[test]
    fn who_leaves_room_takes_no_turns() {
        let mut test = with_turns();
        let one = join(&mut test, 1, 1, (0, None));
        let two = join(&mut test, 2, 2, (0, None));
        // It loses its turn in the first two pauses, as nothing is known of them: two turns of the
        // other one are 400 steps, and what is enough to know are 160.
        let mut steps = 0;
        while gates_of(&one, &two) != (false, false) && steps < 2_000 {
            if gates_of(&one, &two).0 {
                test.turn(50_000, &[]);
            } else {
                work_in_bits(&mut test, &one, 1, true);
            }
            steps += 1;
        }
        assert!((560..=610).contains(&steps), "{steps} steps of 50 µs");
        test.turn(1_100_000_000, &[]);
        test.turn(0, &[]);
        assert_ne!(gates_of(&one, &two), (false, false), "it may fill the GPU by now");
    }

    /// Works 20 µs and pauses 30 µs, `steps` times. The host waits in each pause, or never.
    fn work_in_bits(test: &mut TestDriver, page: &SharedPage, steps: u32, waits: bool) {
        work(test, page, steps, waits, true);
    }

    /// `is_seen`: the pauses are long enough for that.
    fn work(test: &mut TestDriver, page: &SharedPage, steps: u32, waits: bool, is_seen: bool) {
        for _ in 0..steps {
            for (has_work, passed_ns) in [(0, 20_000), (1, 30_000)] {
                if waits && has_work > 0 {
                    page.header().count_waited(0);
                }
                let ended_ns = u64::from(1 - has_work) * passed_ns;
                page.header().used_ns.fetch_add(ended_ns, Ordering::SeqCst);
                page.header().loaded_queues.store(has_work | u32::from(!is_seen), Ordering::SeqCst);
                test.turn(passed_ns, &[1]);
            }
        }
    }

    #[test]
    fn lower_priorities_run_beside_one_that_is_bound_by_its_host() {
        let mut test = with_turns();
        let high = join(&mut test, 1, 1, (5, None));
        let low = join(&mut test, 2, 2, (0, None));
        let lowest = join(&mut test, 3, 3, (-5, None));
        work_in_bits(&mut test, &high, 200, true);
        assert_eq!(gates_of(&high, &low), (false, true), "it goes on once it has waited");
        work_in_bits(&mut test, &high, 200, false);
        assert_eq!(gates_of(&high, &low), (false, false), "it launches no later for it");
        assert_eq!(gates_of(&lowest, &lowest), (true, true), "low fills the GPU");
        test.turn(1_100_000_000, &[]);
        test.turn(0, &[]);
        assert_eq!(gates_of(&high, &low), (false, true), "that may have changed");
        work(&mut test, &high, 400, false, false);
        assert_eq!(gates_of(&high, &low), (false, false), "it says what it used");
        assert_eq!(gates_of(&lowest, &lowest), (true, true), "low fills the GPU");
        test.turn(1_100_000_000, &[]);
        test.turn(0, &[]);
        fill_pauses(&mut test, None);
        work_in_bits(&mut test, &high, 200, false);
        assert_eq!(gates_of(&high, &low), (false, true), "the administrator does not want it");
    }

    #[test]
    fn one_that_nothing_hangs_on_does_not_wake_the_daemon_while_it_runs() {
        let mut test = with_turns();
        let high = join(&mut test, 1, 1, (5, None));
        let low = join(&mut test, 2, 2, (0, None));
        let wakes =
            |page: &SharedPage| page.header().daemon_wants_wakeups.load(Ordering::SeqCst) != 0;
        let set_work =
            |page: &SharedPage, work| page.header().loaded_queues.store(work, Ordering::SeqCst);
        assert_eq!(test.driver.left(test.now), std::time::Duration::ZERO, "low is held by now");
        test.turn(0, &[]);
        assert!(wakes(&high) && wakes(&low), "low is held");
        work(&mut test, &high, 1, true, false);
        work(&mut test, &high, 400, false, false);
        assert_eq!(gates_of(&high, &low), (false, false));
        test.turn(2_000_000, &[2]);
        assert!(!wakes(&high) && !wakes(&low));
        assert!(test.driver.left(test.now) <= std::time::Duration::from_millis(2));
        let spins = test.driver.spin.until();
        for page in [&low, &high] {
            set_work(page, 0);
            test.turn(2_000_000, &[]);
            assert!(wakes(page), "it has ended, and its next work may matter");
            set_work(page, 1);
            test.turn(100_000, &[1, 2]);
            test.turn(100_000, &[1, 2]);
            assert!(!wakes(page) && test.is_ready(1) && test.is_ready(2));
        }
        assert_eq!(test.driver.spin.until(), spins, "it is not waited for");
        fill_pauses(&mut test, None);
        test.turn(0, &[]);
        assert!(wakes(&high) && wakes(&low), "the administrator does not want it");
        test.turn(1_100_000_000, &[]);
        assert_eq!(gates_of(&high, &low), (false, true));
        set_work(&high, 0);
        test.turn(2_000_000, &[1]);
        fill_pauses(&mut test, TUNING.fill_pauses);
        let lowest = join(&mut test, 3, 3, (-5, None));
        test.turn(0, &[]);
        assert!(wakes(&low) && wakes(&high), "others are held for it");
        assert_eq!(gates_of(&low, &lowest), (false, true));
    }

    #[test]
    fn one_for_which_others_are_held_is_looked_at_more_often_than_it_waits() {
        let ms = std::time::Duration::from_millis;
        let mut test = with_turns();
        let high = join(&mut test, 1, 1, (5, None));
        let low = join(&mut test, 2, 2, (0, None));
        for _ in 0..10 {
            high.header().count_waited(0);
            high.header().used_ns.fetch_add(1_000_000, Ordering::SeqCst);
            test.turn(5_000_000, &[]);
        }
        assert_eq!(gates_of(&high, &low), (false, true));
        assert!(test.driver.left(test.now) <= ms(2));
        low.header().loaded_queues.store(0, Ordering::SeqCst);
        test.turn(1_000_000, &[2]);
        assert!(test.driver.left(test.now) > ms(5), "none is held");
        low.header().loaded_queues.store(1, Ordering::SeqCst);
        test.turn(0, &[2]);
        assert!(test.driver.left(test.now) <= ms(2));
        fill_pauses(&mut test, None);
        assert!(test.driver.left(test.now) > ms(5), "it is of no use");
    }

    #[test]
    fn those_that_run_at_the_same_time_are_told() {
        let is_told = |page: &SharedPage| page.header().is_time_sliced();
        let mut test = test_driver("hpf");
        let one = join(&mut test, 1, 1, (5, None));
        let two = join(&mut test, 2, 2, (5, None));
        let low = join(&mut test, 3, 3, (0, None));
        test.turn(0, &[]);
        assert_eq!([&one, &two, &low].map(is_told), [true, true, false]);
        two.header().loaded_queues.store(0, Ordering::SeqCst);
        test.turn(1_000_000, &[2]);
        assert_eq!([&one, &low].map(is_told), [false; 2], "one is alone by now");
    }

    #[test]
    fn a_process_that_does_not_say_when_it_waits_is_taken_to_wait() {
        let mut test = with_turns();
        let high = join(&mut test, 1, 1, (5, None));
        let low = join(&mut test, 2, 2, (0, None));
        for has_work in (0..400).map(|step| step % 2) {
            high.header().loaded_queues.store(has_work, Ordering::SeqCst);
            test.turn(25_000, &[1]);
        }
        assert_eq!(gates_of(&high, &low), (false, true));
    }

    #[test]
    fn no_turns_are_taken_on_a_gpu_that_runs_all_at_a_time() {
        let mut test = with_turns();
        let one = join_on(true, &mut test, (1, 1), (0, None));
        let two = join_on(true, &mut test, (2, 2), (0, None));
        let low = join_on(true, &mut test, (3, 3), (-5, None));
        test.turn(20_000_000, &[]);
        assert_eq!(gates_of(&one, &two), (false, false));
        assert_eq!(gates_of(&low, &low), (true, true));
    }

    #[test]
    fn the_only_one_of_the_highest_priority_is_told_that_it_comes_first() {
        let told = |page: &SharedPage| page.header().rank();
        let mut test = test_driver("hpf");
        let low = join(&mut test, 1, 1, (-5, None));
        assert_eq!(told(&low), NodeRank::Alone);
        let high = join(&mut test, 2, 2, (5, None));
        assert_eq!([&low, &high].map(told), [NodeRank::Outranked, NodeRank::Highest]);
        let same = join(&mut test, 3, 3, (5, None));
        let several = [NodeRank::Outranked, NodeRank::Contended, NodeRank::Contended];
        assert_eq!([&low, &high, &same].map(told), several);
        test.take(Op::Leave(3));
        test.turn(0, &[]);
        let hold = |test: &mut TestDriver, hold| {
            let key = test.driver.clients[&2].gpu_clients[0];
            test.driver.suspend(key, hold, test.now);
            test.turn(0, &[]);
        };
        hold(&mut test, true);
        assert_eq!(told(&high), NodeRank::Contended, "it is held");
        hold(&mut test, false);
        assert_eq!(told(&high), NodeRank::Highest);
        let ageing = PolicyHint::Ageing(Some(Duration::from_ms(50)));
        for (policy, hints) in [("hpf", vec![ageing]), ("up", Vec::new())] {
            let policy = Box::new(policy.parse::<Any>().expect("a policy"));
            test.take(Op::Policy(policy, hints));
            test.turn(0, &[]);
            assert_eq!([&low, &high].map(told), [NodeRank::Contended; 2]);
        }
        test.take(Op::Leave(1));
        test.turn(0, &[]);
        assert_eq!(told(&high), NodeRank::Alone);
    }

    #[test]
    fn one_that_ends_nothing_holds_no_other_until_it_does() {
        let mut test = stalling_driver("hpf");
        let low = join(&mut test, 1, 1, (-5, None));
        let high = join(&mut test, 2, 2, (5, None));
        // What it takes until the low one may run, if the high one ends a command each time or not.
        let held_for_ms = |test: &mut TestDriver, ends: bool| {
            let still_held = |_: &u32| {
                high.header().retired.fetch_add(ends.into(), Ordering::SeqCst);
                test.turn(1_000_000, &[]);
                gates_of(&low, &high) == (true, false)
            };
            (0..1_000).take_while(still_held).count()
        };
        test.turn(0, &[]);
        assert_eq!(held_for_ms(&mut test, true), 1_000);
        let first = held_for_ms(&mut test, false);
        assert!((50..=160).contains(&first), "{first} ms");
        // It ends something as soon as the low one runs, so it had waited for that.
        high.header().retired.fetch_add(1, Ordering::SeqCst);
        test.turn(2_000_000, &[]);
        assert_eq!(gates_of(&low, &high), (true, false));
        let second = held_for_ms(&mut test, false);
        assert!(second <= first / 2, "{second} ms after {first} ms");
    }

    #[test]
    fn one_below_another_that_never_pauses_keeps_its_floor() {
        let mut test = test_driver("hpf");
        test.driver.set_hints(vec![PolicyHint::Stall(None), PolicyHint::Floor(50)], test.now);
        let low = join(&mut test, 1, 1, (-5, None));
        let high = join(&mut test, 2, 2, (5, None));
        let mut low_ran = 0;
        for _ in 0..10_000 {
            test.turn(1_000_000, &[]);
            let (low_is_held, high_is_held) = gates_of(&low, &high);
            assert_ne!(low_is_held, high_is_held);
            low_ran += u32::from(high_is_held);
        }
        assert!((450..=600).contains(&low_ran), "{low_ran} ms of 10,000");
        assert!((450..=600).contains(&used_ms(&test, 1)), "{} ms", used_ms(&test, 1));
        // In pauses of the high one it has more than that.
        let mut held = 0;
        for ms in 0..10_000 {
            let pauses = ms % 10 < 2;
            high.header().loaded_queues.store(u32::from(!pauses), Ordering::SeqCst);
            test.turn(1_000_000, &[2]);
            let (low_is_held, high_is_held) = gates_of(&low, &high);
            let used_ns = if low_is_held { 0 } else { 1_000_000 };
            low.header().used_ns.fetch_add(used_ns, Ordering::SeqCst);
            held += u32::from(!pauses && high_is_held);
        }
        assert!(held <= 60, "held for {held} ms although it pauses");
    }

    #[test]
    fn time_goes_on_where_the_clock_goes_back() {
        let driver = test_driver("hpf").driver;
        let before = driver.now();
        let later = std::time::Instant::now() + std::time::Duration::from_secs(3_600);
        driver.clock.set(later);
        let back = driver.now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(back >= before && driver.now() >= back + Duration::from_ms(2));
    }

    #[test]
    fn time_that_goes_backwards_neither_counts_nor_ends_a_hold_nor_lasts() {
        let mut test = test_driver("hpf");
        let low = join(&mut test, 1, 1, (-5, None));
        let high = join(&mut test, 2, 2, (5, None));
        (0..1_000).for_each(|_| test.turn(1_000_000, &[]));
        assert_eq!(gates_of(&low, &high), (true, false));
        let before = used_ms(&test, 2);
        assert!(before >= 900, "{before} ms of 1,000");
        // By half a second, and then to the begin.
        for back_to_ms in [500, 0] {
            test.now = Instant::from_ns(back_to_ms * 1_000_000);
            test.driver.notice_a_gap(test.now);
            test.driver.refresh_rung(&[1, 2], test.now);
            test.driver.visit_due(test.now);
            test.driver.decide(test.now);
            while test.driver.flush_deferred_gates(test.now) {}
            test.driver.renew(test.now);
            assert!(test.driver.left(test.now) <= super::super::IDLE);
            assert_eq!(gates_of(&low, &high), (true, false));
            assert_eq!(used_ms(&test, 2), before);
        }
        // What counts is the time that passes from there on.
        high.header().loaded_queues.store(0, Ordering::SeqCst);
        test.turn(1_000_000, &[2]);
        assert_eq!(gates_of(&low, &high), (false, false));
        high.header().loaded_queues.store(1, Ordering::SeqCst);
        test.turn(1_000_000, &[2]);
        assert_eq!(gates_of(&low, &high), (true, false));
        (0..2_000).for_each(|_| test.turn(1_000_000, &[]));
        let used = used_ms(&test, 2) - before;
        assert!((1_900..=2_100).contains(&used), "{used} ms of 2,000");
    }
}
