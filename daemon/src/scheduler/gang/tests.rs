//! Gangs over a small model of a scheduler, and over the scheduler machine.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use xsched_core::hint::PolicyHint;
use xsched_core::rng::SplitMix64;
use xsched_node::SharedPage;
use xsched_policies::Any;

use super::*;
use crate::scheduler::{Change, Client, Gpu, Op, TestDriver, hints};
use crate::tenant::{Asker, Party, Tenant, Who};
use crate::waker::new_eventfd;

const PASS_US: u64 = 100;
const SLICE_US: u64 = 5_000;
const CLAIM_FOR: Duration = Duration::from_ms(10);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// All of the highest priority run.
    Hpf,
    /// One at a time runs, and then that which ran least.
    Turns,
}

/// A process on a GPU.
#[derive(Clone, Copy)]
struct Process {
    gang: Option<usize>,
    gpu: usize,
    priority: i32,
    is_loaded: bool,
    is_suspended: bool,
    is_ordered: bool,
    state: GangState,
    ran_us: u64,
}

impl Process {
    const fn claim(&self) -> Claim {
        match (self.is_loaded, self.is_suspended, self.is_ordered) {
            (false, _, _) => Claim::None,
            (true, true, _) => Claim::Suspended,
            (true, false, true) => Claim::Granted,
            (true, false, false) => Claim::Refused,
        }
    }

    fn is_ready(&self) -> bool {
        self.is_loaded && !self.is_suspended && self.state != GangState::Yielding
    }

    fn runs(&self) -> bool {
        self.is_loaded && !self.is_suspended && self.is_ordered && self.state == GangState::Runnable
    }
}

struct Model {
    policy: Policy,
    now_us: u64,
    all: Vec<Process>,
    gangs: Vec<Gang>,
    /// Of each GPU, whose turn it is and for how long that was so.
    turns: [(usize, u64); 3],
    /// Of each GPU, for how long none has run though one that is in no gang has work.
    idle_us: [u64; 3],
    idle_max_us: u64,
}

impl Model {
    fn new(policy: Policy, all: &[(Option<usize>, usize, i32)]) -> Self {
        let process = |&(gang, gpu, priority): &(Option<usize>, usize, i32)| Process {
            gang,
            gpu,
            priority,
            is_loaded: true,
            is_suspended: false,
            is_ordered: true,
            state: GangState::Runnable,
            ran_us: 0,
        };
        let count = all.iter().filter_map(|process| process.0).max().map_or(0, |last| last + 1);
        let gang = |number| Gang::new((0, String::new(), String::new()), number as u64);
        Self {
            policy,
            now_us: 0,
            all: all.iter().map(process).collect(),
            gangs: (0..count).map(gang).collect(),
            turns: [(usize::MAX, 0); 3],
            idle_us: [0; 3],
            idle_max_us: 0,
        }
    }

    fn decide(&mut self) {
        for gpu in 0..3 {
            let ready = self.all.iter().enumerate().filter(|(_, p)| p.gpu == gpu && p.is_ready());
            let top = ready.clone().map(|(_, process)| process.priority).max();
            let least = ready.clone().min_by_key(|(_, process)| process.ran_us);
            let (who, since) = &mut self.turns[gpu];
            if *since >= SLICE_US || !ready.clone().any(|(at, _)| at == *who) {
                (*who, *since) = (least.map_or(usize::MAX, |(at, _)| at), 0);
            }
            let (who, is_free) = (*who, top.is_none());
            for (at, process) in self.all.iter_mut().enumerate().filter(|(_, p)| p.gpu == gpu) {
                process.is_ordered = is_free
                    || match self.policy {
                        Policy::Hpf => Some(process.priority) >= top,
                        Policy::Turns => at == who,
                    };
            }
        }
    }

    /// A pass of the scheduler's loop; then some time passes.
    fn pass(&mut self) {
        self.decide();
        let now = Instant::from_ns(self.now_us * 1_000);
        for (number, gang) in self.gangs.iter_mut().enumerate() {
            let ours = self.all.iter().enumerate().filter(|(_, p)| p.gang == Some(number));
            let member = |(at, process): (usize, &Process)| Member {
                key: at as u32,
                device: DeviceId(process.gpu as u16),
                claim: process.claim(),
                state: process.state,
            };
            gang.members = ours.map(member).collect();
        }
        let others = self.all.iter().filter(|process| process.gang.is_none() && process.runs());
        let busy = others.fold(0, |busy, process| busy | 1 << process.gpu);
        settle(&mut self.gangs, busy, CLAIM_FOR, now);
        for member in self.gangs.iter().flat_map(|gang| &gang.members) {
            self.all[member.key as usize].state = member.state;
        }
        self.check();
        self.now_us += PASS_US;
        for process in self.all.iter_mut().filter(|process| process.runs()) {
            process.ran_us += PASS_US;
        }
        for gpu in 0..3 {
            let here = self.all.iter().filter(|process| process.gpu == gpu);
            let is_any = here.clone().any(Process::runs);
            self.turns[gpu].1 += if is_any { PASS_US } else { 0 };
            let is_wanted = here.clone().any(|p| p.gang.is_none() && p.is_ready());
            let idle_us = if is_wanted && !is_any { self.idle_us[gpu] + PASS_US } else { 0 };
            self.idle_us[gpu] = idle_us;
            self.idle_max_us = self.idle_max_us.max(idle_us);
        }
    }

    /// Never does a gang run on some of the GPUs where it has work and not on others.
    fn check(&self) {
        for number in 0..self.gangs.len() {
            let ours = self.all.iter().filter(|process| process.gang == Some(number));
            let loaded: Vec<_> = ours.filter(|process| process.is_loaded).collect();
            let runs_on = |gpu| loaded.iter().any(|p| p.gpu == gpu && p.runs());
            let runs = loaded.iter().filter(|process| runs_on(process.gpu)).count();
            assert!(runs == 0 || runs == loaded.len(), "gang {number} at {} µs", self.now_us);
            let is_suspended = loaded.iter().any(|process| process.is_suspended);
            assert!(!is_suspended || runs == 0, "gang {number} at {} µs", self.now_us);
        }
    }

    fn run_ms(&mut self, ms: u64) {
        (0..ms * 1_000 / PASS_US).for_each(|_| self.pass());
    }

    fn running(&self) -> Vec<bool> {
        self.all.iter().map(Process::runs).collect()
    }

    /// For how long each runs from now on, in milliseconds.
    fn gains(&mut self, ms: u64) -> Vec<u64> {
        let before: Vec<_> = self.all.iter().map(|process| process.ran_us).collect();
        self.run_ms(ms);
        let gain = |(process, before): (&Process, u64)| (process.ran_us - before) / 1_000;
        self.all.iter().zip(before).map(gain).collect()
    }
}

#[test]
fn all_members_close_at_once_and_the_other_gpu_goes_to_another_after_the_patience() {
    let all = [(Some(0), 0, 0), (Some(0), 1, 0), (None, 0, 9), (None, 1, -9)];
    let mut model = Model::new(Policy::Hpf, &all);
    model.all[2].is_loaded = false;
    model.run_ms(5);
    assert_eq!(model.running(), [true, true, false, false]);
    model.all[2].is_loaded = true;
    model.pass();
    assert_eq!(model.running(), [false, false, true, false]);
    model.run_ms(9);
    assert_eq!(model.running(), [false, false, true, false]);
    model.run_ms(2);
    assert_eq!(model.running(), [false, false, true, true]);
    model.run_ms(500);
    assert_eq!(model.running(), [false, false, true, true]);
    model.all[2].is_loaded = false;
    model.run_ms(1);
    assert_eq!(model.running(), [true, true, false, false]);
    assert_eq!(model.gains(100), [100, 100, 0, 0]);
}

#[test]
fn of_gangs_that_wait_for_each_other_each_gets_on() {
    // Each of them is more urgent on the GPU that the other one misses.
    let all = [(Some(0), 0, 5), (Some(0), 1, 1), (Some(1), 0, 1), (Some(1), 1, 5)];
    let mut model = Model::new(Policy::Hpf, &all);
    model.run_ms(1);
    assert_eq!(model.running(), [true, true, false, false]);
    model.all[0].is_loaded = false;
    model.all[1].is_loaded = false;
    model.run_ms(1);
    assert_eq!(model.running(), [false, false, true, true]);
    let mut model = Model::new(Policy::Turns, &all);
    let gains = model.gains(1_000);
    assert!(gains.iter().all(|gain| *gain >= 400), "{gains:?}");
    // A ring of three.
    let ring = [0, 1, 2].map(|gang| [(Some(gang), gang, 0), (Some(gang), (gang + 1) % 3, 0)]);
    let gains = Model::new(Policy::Turns, ring.as_flattened()).gains(1_000);
    assert!(gains.iter().all(|gain| *gain >= 200), "{gains:?}");
}

#[test]
fn gangs_and_others_take_turns() {
    let all = [
        (Some(0), 0, 0),
        (Some(0), 1, 0),
        (Some(1), 1, 0),
        (Some(1), 2, 0),
        (None, 0, 0),
        (None, 1, 0),
        (None, 2, 0),
    ];
    let mut model = Model::new(Policy::Turns, &all);
    let gains = model.gains(4_000);
    assert!(gains.iter().all(|gain| *gain >= 400), "{gains:?}");
    assert!(model.idle_max_us <= 21_000, "{} µs", model.idle_max_us);
}

#[test]
fn one_that_is_held_by_hand_has_all_wait_and_the_others_use_the_gpus() {
    let all = [(Some(0), 0, 5), (Some(0), 1, 5), (None, 1, 0), (Some(1), 0, 0), (Some(1), 1, 0)];
    let mut model = Model::new(Policy::Hpf, &all);
    model.run_ms(5);
    assert_eq!(model.running(), [true, true, false, false, false]);
    model.all[0].is_suspended = true;
    model.pass();
    assert_eq!(model.running()[..2], [false, false]);
    model.run_ms(12);
    assert_eq!(model.running(), [false, false, true, true, true]);
    model.all[0].is_suspended = false;
    model.run_ms(1);
    assert_eq!(model.running(), [true, true, false, false, false]);
    // One without work has none wait.
    model.all[0].is_loaded = false;
    model.all[0].is_suspended = true;
    model.run_ms(1);
    assert!(model.running()[1]);
}

#[test]
fn members_on_one_gpu_need_not_run_at_a_time() {
    let all = [(Some(0), 0, 0), (Some(0), 0, 0), (Some(0), 1, 0)];
    let gains = Model::new(Policy::Turns, &all).gains(100);
    assert!(gains[0] >= 40 && gains[1] >= 40 && gains[2] >= 95, "{gains:?}");
}

#[test]
fn whatever_happens_each_process_gets_on() {
    for seed in 0..40 {
        let mut rng = SplitMix64::new(seed);
        let mut all = vec![(None, 0, 0), (None, 1, 0), (None, 2, 0)];
        for gang in 0..3 {
            for _ in 0..2 + rng.below(2) {
                all.push((Some(gang), rng.below(3) as usize, rng.below(3) as i32));
            }
        }
        let policy = if seed % 2 == 0 { Policy::Hpf } else { Policy::Turns };
        let mut model = Model::new(policy, &all);
        for _ in 0..500 {
            let at = rng.below(model.all.len() as u64) as usize;
            let process = &mut model.all[at];
            match rng.below(8) {
                0 => process.is_suspended = !process.is_suspended,
                _ => process.is_loaded = !process.is_loaded,
            }
            (0..rng.below(200)).for_each(|_| model.pass());
        }
        assert!(model.idle_max_us <= 31_000, "seed {seed}: {} µs", model.idle_max_us);
        for process in &mut model.all {
            (process.is_suspended, process.is_loaded, process.ran_us) = (false, true, 0);
        }
        let gains = model.gains(6_000);
        let is_served = |gain: &u64| *gain >= 100;
        match policy {
            Policy::Turns => assert!(gains.iter().all(is_served), "seed {seed}: {gains:?}"),
            Policy::Hpf => assert!(gains.iter().any(is_served), "seed {seed}: {gains:?}"),
        }
    }
}

/// A process with work on a GPU, which the scheduler machine schedules.
fn join(
    driver: &mut TestDriver,
    id: u64,
    gang: Option<&str>,
    device: &str,
    priority: i32,
) -> SharedPage {
    let (who, tenant) = (Arc::new(Who::default()), Arc::new(Tenant::default()));
    let asked = hints(Priority::new(priority).expect("a priority"), None);
    let (party, doorbell) = (Party { who, tenant }, new_eventfd().expect("an eventfd"));
    let mut client = Client::new(id as i32, party, "x".to_owned(), asked, doorbell);
    client.gang = gang.map(str::to_owned);
    driver.take(Op::Join(id, client));
    let ours = SharedPage::create().expect("a page");
    load(&ours, true);
    let file = ours.as_fd().try_clone_to_owned().expect("a descriptor");
    let page = SharedPage::from_file(File::from(file)).expect("a page");
    let (answer, answered) = channel();
    driver.take(Op::Page {
        client: id,
        gpu: Gpu { name: device.to_owned(), is_concurrent: false },
        page,
        answer,
    });
    assert_eq!(answered.recv().expect("an answer"), Ok(()));
    driver.turn(0, &[id]);
    ours
}

fn load(page: &SharedPage, is_loaded: bool) {
    page.header().loaded_queues.store(is_loaded.into(), Ordering::SeqCst);
}

fn open<const N: usize>(pages: [&SharedPage; N]) -> [bool; N] {
    pages.map(|page| !page.is_closed(0))
}

fn driver(policy: &str) -> TestDriver {
    TestDriver::new(policy.parse::<Any>().expect("a policy")).expect("a scheduler")
}

#[test]
fn the_machine_holds_gangs_as_the_model_does() {
    let mut driver = driver("hpf");
    let one = join(&mut driver, 1, Some("job"), "a", 0);
    let two = join(&mut driver, 2, Some("job"), "b", 0);
    assert_eq!(driver.gang_members(), 0, "alone on their GPUs they need no decision");
    let low = join(&mut driver, 3, None, "b", -9);
    driver.turn(0, &[1, 2]);
    assert_eq!(driver.gang_members(), 2);
    assert_eq!(open([&one, &two, &low]), [true, true, false]);
    let urgent = join(&mut driver, 4, None, "a", 9);
    assert_eq!(open([&one, &two, &low, &urgent]), [false, false, false, true]);
    (0..105).for_each(|_| driver.turn(100_000, &[]));
    assert_eq!(open([&one, &two, &low, &urgent]), [false, false, true, true]);
    assert_eq!(driver.defect(), None);
    load(&urgent, false);
    driver.turn(0, &[4]);
    driver.turn(0, &[]);
    assert_eq!(open([&one, &two, &low]), [true, true, false]);
    // Held by hand, and released.
    let party = Party { who: Arc::default(), tenant: Arc::default() };
    let asker = || Asker { party: party.clone(), is_admin: true };
    for hold in [true, false] {
        let (answer, answered) = channel();
        let change = Change { hold: Some(hold), ..Change::default() };
        driver.take(Op::Set { pid: 1, asker: asker(), change, answer });
        assert_eq!(answered.recv().expect("an answer"), Ok(1));
        (0..105).for_each(|_| driver.turn(100_000, &[]));
        assert_eq!(open([&one, &two, &low]), [!hold, !hold, hold]);
    }
    // One that leaves is waited for no more.
    load(&urgent, true);
    driver.turn(0, &[4]);
    assert_eq!(open([&one, &two, &low]), [false, false, false]);
    driver.take(Op::Leave(1));
    driver.turn(0, &[]);
    assert_eq!(open([&one, &two, &low]), [true, true, false]);
    assert_eq!((driver.gang_members(), driver.defect()), (0, None));
}

#[test]
fn gangs_take_turns_under_a_fair_policy_of_the_machine() {
    for policy in ["wfq", "up", "cfs", "hpf"] {
        let mut driver = driver(policy);
        if policy == "hpf" {
            let turns = vec![PolicyHint::Timeslice(crate::config::TURN)];
            let policy = Box::new(policy.parse::<Any>().expect("a policy"));
            driver.take(Op::Policy(policy, turns));
        }
        let mut pages = Vec::new();
        for (id, gang, device) in
            [(1, Some("x"), "a"), (2, Some("y"), "b"), (3, Some("x"), "b"), (4, Some("y"), "a")]
        {
            pages.push(join(&mut driver, id, gang, device, 0));
        }
        pages.push(join(&mut driver, 5, None, "a", 0));
        let mut ran = [0_u64; 5];
        for _ in 0..20_000 {
            driver.turn(100_000, &[]);
            let open = open([&pages[0], &pages[1], &pages[2], &pages[3], &pages[4]]);
            assert_eq!((open[0], open[1]), (open[2], open[3]), "{policy}");
            ran.iter_mut().zip(open).for_each(|(ran, open)| *ran += u64::from(open));
        }
        // Of 2 s, in tenths of a millisecond.
        assert!(ran.iter().all(|ran| *ran >= 2_000), "{policy}: {ran:?}");
        assert_eq!(driver.defect(), None);
    }
}
