//! The scheduler without its thread and its clock, for tests.

use xsched_core::time::{Duration, Instant};
use xsched_policies::Any;

use super::{Driver, Op, Unit};

/// A scheduler to which time passes when it is told so.
#[derive(Debug)]
pub(crate) struct Here {
    driver: Driver,
    now: Instant,
}

impl Here {
    pub(crate) fn new(policy: Any) -> rustix::io::Result<Self> {
        let (_, none) = std::sync::mpsc::channel();
        Ok(Self { driver: Driver::new(policy, none)?, now: Instant::ZERO })
    }

    pub(crate) fn take(&mut self, op: Op) {
        self.driver.take(op, self.now);
    }

    /// Some time passes, and these processes have rung.
    pub(crate) fn turn(&mut self, passed_ns: u64, rung: &[u64]) {
        self.now += Duration::from_ns(passed_ns);
        self.driver.count(self.now, &mut Vec::new());
        self.driver.look(rung, self.now);
        self.driver.decide(self.now);
        while self.driver.settle_late() {}
        self.driver.renew(self.now);
        self.driver.sample(self.now);
    }

    fn units(&self, client: u64) -> impl Iterator<Item = &Unit> {
        let client = self.driver.clients.get(&client);
        let keys = client.into_iter().flat_map(|client| &client.units);
        keys.filter_map(|key| self.driver.units.get(*key))
    }

    /// Whether the gates of a process are to be closed, and the device time that it has used, for
    /// each of its GPUs.
    pub(crate) fn units_of(&self, client: u64) -> Vec<(bool, u64)> {
        self.units(client).map(|unit| (unit.is_closed(), unit.used().as_ns())).collect()
    }

    /// Whether a process is known to have work.
    pub(crate) fn has_looked(&self, client: u64) -> bool {
        self.units(client).any(Unit::is_loaded)
    }

    /// Whether a process that is to wake the scheduler has work that it does not know of.
    pub(crate) fn misses_work(&self, client: u64) -> bool {
        self.units(client).any(|unit| unit.rings() && !unit.is_loaded() && unit.queues() > 0)
    }

    /// How many processes are in gangs for which there is something to decide.
    #[cfg(test)]
    pub(crate) fn gang_members(&self) -> usize {
        self.driver.gangs.members()
    }

    /// What does not fit together, if anything does not.
    pub(crate) fn defect(&self) -> Option<String> {
        let units = &self.driver.units;
        let of_clients: usize = self.driver.clients.values().map(|client| client.units.len()).sum();
        if units.all().count() != of_clients {
            return Some("a process on a GPU belongs to no connection".to_owned());
        }
        if units.all().any(|unit| unit.used().as_ns() > self.now.as_ns()) {
            return Some("a process has used more time than there was".to_owned());
        }
        let closed = units.all().any(Unit::is_closed);
        if units.is_any_closed() != closed {
            return Some("closed gates are miscounted".to_owned());
        }
        let loaded = units.all().filter(|unit| unit.is_loaded()).count();
        (units.loaded().count() != loaded).then(|| "processes with work are miscounted".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;

    use xsched_core::hint::{PolicyHint, Priority};
    use xsched_hal_stream::SharedPage;
    use xsched_node::{Others, count_waited, others};

    use super::*;
    use crate::scheduler::{Client, hints, new_eventfd};
    use crate::tenant::{Party, Tenant, Who};

    fn here(policy: &str) -> Here {
        Here::new(policy.parse::<Any>().expect("a policy")).expect("a scheduler")
    }

    /// A process with work on the GPU, of a user with the half of it.
    fn join(here: &mut Here, id: u64, uid: u32, asked: (i32, Option<u8>)) -> SharedPage {
        join_on(false, here, (id, uid), asked)
    }

    /// The same on a GPU that runs several at a time, or not.
    fn join_on(
        side_by_side: bool,
        here: &mut Here,
        (id, uid): (u64, u32),
        (priority, share): (i32, Option<u8>),
    ) -> SharedPage {
        let who = Arc::new(Who { uid, ..Who::default() });
        let (name, share_max) = (format!("user {uid}"), Some(50));
        let tenant = Arc::new(Tenant { name, uid: Some(uid), share_max, ..Tenant::default() });
        let asked = hints(Priority::new(priority).expect("a priority"), share);
        let doorbell = new_eventfd().expect("an eventfd");
        let party = Party { who, tenant };
        here.take(Op::Join(id, Client::new(id as i32, party, "x".to_owned(), asked, doorbell)));
        let ours = SharedPage::create().expect("a page");
        ours.header(2).store(1, Ordering::SeqCst);
        let file = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let page = SharedPage::from_file(File::from(file)).expect("a page");
        let (answer, answered) = channel();
        here.take(Op::Page { client: id, device: "gpu".to_owned(), side_by_side, page, answer });
        assert_eq!(answered.recv().expect("an answer"), Ok(()));
        here.turn(0, &[id]);
        ours
    }

    /// Under `hpf` with turns of 10 ms.
    fn with_turns() -> Here {
        let mut here = here("hpf");
        let turn = PolicyHint::Timeslice(Duration::from_ms(10));
        here.driver.set_hints(vec![turn], here.now);
        here
    }

    fn gates_of(one: &SharedPage, two: &SharedPage) -> (bool, bool) {
        let is_closed = |page: &SharedPage| page.word(1).load(Ordering::SeqCst) != 0;
        (is_closed(one), is_closed(two))
    }

    fn used_ms(here: &Here, id: u64) -> u64 {
        here.units_of(id)[0].1 / 1_000_000
    }

    #[test]
    fn a_user_with_many_processes_gets_no_more_than_its_share() {
        // What the processes of the other user ask for, and how many there are.
        for (share, count) in [(Some(100), 16), (None, 200), (Some(50), 1)] {
            let mut here = here("up");
            let all = 1..=count;
            let asked = (255, share);
            let _greedy: Vec<_> = all.clone().map(|id| join(&mut here, id, 1, asked)).collect();
            let _modest = join(&mut here, 1_000, 2, (0, Some(50)));
            (0..10_000).for_each(|_| here.turn(1_000_000, &[]));
            let greedy: u64 = all.map(|id| used_ms(&here, id)).sum();
            let modest = used_ms(&here, 1_000);
            assert!(modest >= 4_750, "{modest} ms of 10,000, {count} others {greedy}");
            assert!(greedy >= 1_500, "{modest} ms of 10,000, {count} others {greedy}");
            assert_eq!(here.defect(), None);
        }
    }

    #[test]
    fn those_of_equal_priority_take_turns() {
        let mut here = with_turns();
        let one = join(&mut here, 1, 1, (0, None));
        let two = join(&mut here, 2, 2, (0, None));
        assert_eq!(gates_of(&one, &two), (false, true));
        let low = join(&mut here, 3, 3, (-5, None));
        for round in 0..4 {
            here.turn(9_999_000, &[]);
            assert_eq!(gates_of(&one, &two), (round % 2 == 1, round % 2 == 0), "{round}");
            here.turn(1_000, &[]);
            assert_eq!(gates_of(&one, &two), (round % 2 == 0, round % 2 == 1), "{round}");
            assert_eq!(gates_of(&low, &low), (true, true));
        }
        // What is above does not count.
        here.turn(6_000_000, &[]);
        let high = join(&mut here, 4, 4, (5, None));
        here.turn(20_000_000, &[]);
        assert_eq!(gates_of(&one, &two), (true, true));
        high.header(2).store(0, Ordering::SeqCst);
        here.turn(0, &[4]);
        assert_eq!(gates_of(&one, &two), (false, true));
        here.turn(3_999_000, &[]);
        assert_eq!(gates_of(&one, &two), (false, true));
        here.turn(1_000, &[]);
        assert_eq!(gates_of(&one, &two), (true, false));
        // And who has nothing more to run does not hold others up.
        two.header(2).store(0, Ordering::SeqCst);
        here.turn(1_000_000, &[2]);
        assert_eq!(gates_of(&one, &two), (false, true), "its next launch does not slip through");
        one.header(2).store(0, Ordering::SeqCst);
        here.turn(1_000_000, &[1]);
        assert_eq!(gates_of(&one, &two), (false, false));
        assert_eq!(here.defect(), None);
    }

    #[test]
    fn who_leaves_room_takes_no_turns() {
        let mut here = with_turns();
        let one = join(&mut here, 1, 1, (0, None));
        let two = join(&mut here, 2, 2, (0, None));
        // It loses its turn in the first two pauses, as nothing is known of them: two turns of the
        // other one are 400 steps, and what is enough to know are 80.
        let mut steps = 0;
        while gates_of(&one, &two) != (false, false) && steps < 2_000 {
            if gates_of(&one, &two).0 {
                here.turn(50_000, &[]);
            } else {
                for (has_work, passed_ns) in [(0, 20_000), (1, 30_000)] {
                    one.header(2).store(has_work, Ordering::SeqCst);
                    here.turn(passed_ns, &[1]);
                }
            }
            steps += 1;
        }
        assert!((480..=520).contains(&steps), "{steps} steps of 50 µs");
        here.turn(1_100_000_000, &[]);
        here.turn(0, &[]);
        assert_ne!(gates_of(&one, &two), (false, false), "it may fill the GPU by now");
    }

    /// Work of 20 µs and pauses of 30 µs, so often. The host waits in each, or never.
    fn work_in_bits(here: &mut Here, page: &SharedPage, steps: u32, waits: bool) {
        work(here, page, steps, waits, true);
    }

    /// `is_seen`: the pauses are long enough for that.
    fn work(here: &mut Here, page: &SharedPage, steps: u32, waits: bool, is_seen: bool) {
        for _ in 0..steps {
            for (has_work, passed_ns) in [(0, 20_000), (1, 30_000)] {
                if waits && has_work > 0 {
                    count_waited(page, 0);
                }
                let ended_ns = u64::from(1 - has_work) * passed_ns;
                page.wide_header(2).fetch_add(ended_ns, Ordering::SeqCst);
                page.header(2).store(has_work | u32::from(!is_seen), Ordering::SeqCst);
                here.turn(passed_ns, &[1]);
            }
        }
    }

    #[test]
    fn lower_priorities_run_beside_one_that_is_bound_by_its_host() {
        let mut here = with_turns();
        let high = join(&mut here, 1, 1, (5, None));
        let low = join(&mut here, 2, 2, (0, None));
        let lowest = join(&mut here, 3, 3, (-5, None));
        work_in_bits(&mut here, &high, 200, true);
        assert_eq!(gates_of(&high, &low), (false, true), "it goes on once it has waited");
        work_in_bits(&mut here, &high, 200, false);
        assert_eq!(gates_of(&high, &low), (false, false), "it launches no later for it");
        assert_eq!(gates_of(&lowest, &lowest), (true, true), "low fills the GPU");
        here.turn(1_100_000_000, &[]);
        here.turn(0, &[]);
        assert_eq!(gates_of(&high, &low), (false, true), "that may have changed");
        work(&mut here, &high, 400, false, false);
        assert_eq!(gates_of(&high, &low), (false, false), "it says what it used");
        assert_eq!(gates_of(&lowest, &lowest), (true, true), "low fills the GPU");
        here.turn(1_100_000_000, &[]);
        here.turn(0, &[]);
        here.take(Op::FillPauses(false));
        work_in_bits(&mut here, &high, 200, false);
        assert_eq!(gates_of(&high, &low), (false, true), "the administrator does not want it");
    }

    #[test]
    fn the_next_work_of_one_that_others_are_held_for_is_waited_for_awake() {
        let mut here = here("hpf");
        here.take(Op::Spin(Duration::from_ms(20)));
        let high = join(&mut here, 1, 1, (5, None));
        let low = join(&mut here, 2, 2, (0, None));
        let round = |here: &mut Here, pause_ms: u64| {
            for (work, passed_ms) in [(0, 1), (1, pause_ms), (0, 5)] {
                high.header(2).store(work, Ordering::SeqCst);
                here.turn(passed_ms * 1_000_000, &[1]);
            }
            here.driver.spin.until().since(here.now).as_ns() / 1_000_000
        };
        here.turn(0, &[1, 2]);
        assert_eq!(round(&mut here, 50), 500);
        assert_eq!(round(&mut here, 600), 20, "its pauses are long");
        assert_eq!(round(&mut here, 50), 500);
        low.header(2).store(0, Ordering::SeqCst);
        here.turn(700_000_000, &[2]);
        assert_eq!(round(&mut here, 50), 20, "others have no work");
    }

    #[test]
    fn one_that_nothing_hangs_on_does_not_wake_the_daemon_while_it_runs() {
        let mut here = with_turns();
        let high = join(&mut here, 1, 1, (5, None));
        let low = join(&mut here, 2, 2, (0, None));
        let wakes = |page: &SharedPage| page.header(3).load(Ordering::SeqCst) != 0;
        let set_work = |page: &SharedPage, work| page.header(2).store(work, Ordering::SeqCst);
        assert_eq!(here.driver.left(here.now), std::time::Duration::ZERO, "low is held by now");
        here.turn(0, &[]);
        assert!(wakes(&high) && wakes(&low), "low is held");
        work(&mut here, &high, 1, true, false);
        work(&mut here, &high, 400, false, false);
        assert_eq!(gates_of(&high, &low), (false, false));
        here.turn(2_000_000, &[2]);
        assert!(!wakes(&high) && !wakes(&low));
        assert!(here.driver.left(here.now) <= std::time::Duration::from_millis(2));
        let spins = here.driver.spin.until();
        for page in [&low, &high] {
            set_work(page, 0);
            here.turn(2_000_000, &[]);
            assert!(wakes(page), "it has ended, and its next work may matter");
            set_work(page, 1);
            here.turn(100_000, &[1, 2]);
            here.turn(100_000, &[1, 2]);
            assert!(!wakes(page) && here.has_looked(1) && here.has_looked(2));
        }
        assert_eq!(here.driver.spin.until(), spins, "it is not waited for");
        here.take(Op::FillPauses(false));
        here.turn(0, &[]);
        assert!(wakes(&high) && wakes(&low), "the administrator does not want it");
        here.turn(1_100_000_000, &[]);
        assert_eq!(gates_of(&high, &low), (false, true));
        set_work(&high, 0);
        here.turn(2_000_000, &[1]);
        here.take(Op::FillPauses(true));
        let lowest = join(&mut here, 3, 3, (-5, None));
        here.turn(0, &[]);
        assert!(wakes(&low) && wakes(&high), "others are held for it");
        assert_eq!(gates_of(&low, &lowest), (false, true));
    }

    #[test]
    fn one_for_which_others_are_held_is_looked_at_more_often_than_it_waits() {
        let ms = std::time::Duration::from_millis;
        let mut here = with_turns();
        let high = join(&mut here, 1, 1, (5, None));
        let low = join(&mut here, 2, 2, (0, None));
        for _ in 0..10 {
            count_waited(&high, 0);
            high.wide_header(2).fetch_add(1_000_000, Ordering::SeqCst);
            here.turn(5_000_000, &[]);
        }
        assert_eq!(gates_of(&high, &low), (false, true));
        assert!(here.driver.left(here.now) <= ms(2));
        low.header(2).store(0, Ordering::SeqCst);
        here.turn(1_000_000, &[2]);
        assert!(here.driver.left(here.now) > ms(5), "none is held");
        low.header(2).store(1, Ordering::SeqCst);
        here.turn(0, &[2]);
        assert!(here.driver.left(here.now) <= ms(2));
        here.take(Op::FillPauses(false));
        assert!(here.driver.left(here.now) > ms(5), "it is of no use");
    }

    #[test]
    fn those_that_run_at_the_same_time_are_told() {
        const BESIDE: u32 = 1 << 31;
        let is_told = |page: &SharedPage| others(page).load(Ordering::SeqCst) & BESIDE != 0;
        let mut here = here("hpf");
        let one = join(&mut here, 1, 1, (5, None));
        let two = join(&mut here, 2, 2, (5, None));
        let low = join(&mut here, 3, 3, (0, None));
        here.turn(0, &[]);
        assert_eq!([&one, &two, &low].map(is_told), [true, true, false]);
        two.header(2).store(0, Ordering::SeqCst);
        here.turn(1_000_000, &[2]);
        assert_eq!([&one, &low].map(is_told), [false; 2], "one is alone by now");
    }

    #[test]
    fn a_process_that_does_not_say_when_it_waits_is_taken_to_wait() {
        let mut here = with_turns();
        let high = join(&mut here, 1, 1, (5, None));
        let low = join(&mut here, 2, 2, (0, None));
        for has_work in (0..400).map(|step| step % 2) {
            high.header(2).store(has_work, Ordering::SeqCst);
            here.turn(25_000, &[1]);
        }
        assert_eq!(gates_of(&high, &low), (false, true));
    }

    #[test]
    fn no_turns_are_taken_on_a_gpu_that_runs_all_at_a_time() {
        let mut here = with_turns();
        let one = join_on(true, &mut here, (1, 1), (0, None));
        let two = join_on(true, &mut here, (2, 2), (0, None));
        let low = join_on(true, &mut here, (3, 3), (-5, None));
        here.turn(20_000_000, &[]);
        assert_eq!(gates_of(&one, &two), (false, false));
        assert_eq!(gates_of(&low, &low), (true, true));
    }

    #[test]
    fn the_only_one_of_the_highest_priority_is_told_that_it_comes_first() {
        let told = |page: &SharedPage| Others::of(others(page).load(Ordering::SeqCst));
        let mut here = here("hpf");
        let low = join(&mut here, 1, 1, (-5, None));
        assert_eq!(told(&low), Others::None);
        let high = join(&mut here, 2, 2, (5, None));
        assert_eq!([&low, &high].map(told), [Others::Above, Others::Behind]);
        let same = join(&mut here, 3, 3, (5, None));
        let several = [Others::Above, Others::Before, Others::Before];
        assert_eq!([&low, &high, &same].map(told), several);
        here.take(Op::Leave(3));
        here.turn(0, &[]);
        let hold = |here: &mut Here, hold| {
            let key = here.driver.clients[&2].units[0];
            here.driver.hold_by_hand(key, hold, here.now);
            here.turn(0, &[]);
        };
        hold(&mut here, true);
        assert_eq!(told(&high), Others::Before, "it is held");
        hold(&mut here, false);
        assert_eq!(told(&high), Others::Behind);
        let ageing = PolicyHint::Ageing(Some(Duration::from_ms(50)));
        for (policy, hints) in [("hpf", vec![ageing]), ("up", Vec::new())] {
            let policy = Box::new(policy.parse::<Any>().expect("a policy"));
            here.take(Op::Policy(policy, hints));
            here.turn(0, &[]);
            assert_eq!([&low, &high].map(told), [Others::Before; 2]);
        }
        here.take(Op::Leave(1));
        here.turn(0, &[]);
        assert_eq!(told(&high), Others::None);
    }

    #[test]
    fn time_that_goes_backwards_neither_counts_nor_ends_a_hold_nor_lasts() {
        let mut here = here("hpf");
        let low = join(&mut here, 1, 1, (-5, None));
        let high = join(&mut here, 2, 2, (5, None));
        (0..1_000).for_each(|_| here.turn(1_000_000, &[]));
        assert_eq!(gates_of(&low, &high), (true, false));
        let before = used_ms(&here, 2);
        assert!(before >= 900, "{before} ms of 1,000");
        // By half a second, and then to the begin.
        for back_to_ms in [500, 0] {
            here.now = Instant::from_ns(back_to_ms * 1_000_000);
            here.driver.count(here.now, &mut Vec::new());
            here.driver.notice_a_gap(here.now);
            here.driver.look(&[1, 2], here.now);
            here.driver.decide(here.now);
            while here.driver.settle_late() {}
            here.driver.renew(here.now);
            assert!(here.driver.left(here.now) <= crate::scheduler::IDLE);
            assert_eq!(gates_of(&low, &high), (true, false));
            assert_eq!(used_ms(&here, 2), before);
        }
        // What counts is the time that passes from there on.
        high.header(2).store(0, Ordering::SeqCst);
        here.turn(1_000_000, &[2]);
        assert_eq!(gates_of(&low, &high), (false, false));
        high.header(2).store(1, Ordering::SeqCst);
        here.turn(1_000_000, &[2]);
        assert_eq!(gates_of(&low, &high), (true, false));
        (0..2_000).for_each(|_| here.turn(1_000_000, &[]));
        let used = used_ms(&here, 2) - before;
        assert!((1_900..=2_100).contains(&used), "{used} ms of 2,000");
    }
}
