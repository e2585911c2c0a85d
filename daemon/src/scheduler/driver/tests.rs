//! Requests of one user, and what they cost and tell others.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use xsched_core::hint::Priority;
use xsched_core::rng::SplitMix64;
use xsched_node::{PageHeader, SharedPage};
use xsched_policies::Any;

use super::test_driver::told;
use crate::scheduler::gpu_clients::VISITS_MAX;
use crate::scheduler::{Change, Client, Gpu, Op, TestDriver, hints};
use crate::tenant::{Asker, Party, Tenant, Who};
use crate::waker::new_eventfd;

/// The user who wants to be in the way of others.
const HOSTILE: u32 = 666;

fn driver() -> TestDriver {
    TestDriver::new("hpf".parse::<Any>().expect("a policy")).expect("a scheduler")
}

fn party(uid: u32, tenant: Tenant) -> Party {
    Party { who: Arc::new(Who { uid, ..Who::default() }), tenant: Arc::new(tenant) }
}

/// A process of a user, in this gang.
fn join(test: &mut TestDriver, id: u64, uid: u32, priority: i32, gang: Option<String>) {
    let asked = hints(Priority::new(priority).expect("a priority"), None);
    let (party, doorbell) = (party(uid, Tenant::default()), new_eventfd().expect("an eventfd"));
    let mut client = Client::new(id as i32, party, "x".to_owned(), asked, doorbell);
    client.gang = gang;
    test.take(Op::Join(id, client));
}

/// A page of it with work for a GPU.
fn attach(test: &mut TestDriver, id: u64, gpu: &str) -> SharedPage {
    let ours = SharedPage::create().expect("a page");
    set_work(&ours, true);
    let file = ours.as_fd().try_clone_to_owned().expect("a descriptor");
    let page = SharedPage::from_file(File::from(file)).expect("a page");
    let (answer, answered) = channel();
    let gpu = Gpu { name: gpu.to_owned(), is_concurrent: false };
    test.take(Op::Page { client: id, gpu, page, answer });
    assert_eq!(answered.recv().expect("an answer"), Ok(()));
    ours
}

fn set_work(page: &SharedPage, has_work: bool) {
    page.header().loaded_queues.store(has_work.into(), Ordering::SeqCst);
}

fn ask_hints(test: &mut TestDriver, id: u64, priority: i32) {
    let hints = hints(Priority::new(priority).expect("a priority"), None);
    let (answer, answered) = channel();
    test.take(Op::Hints { client: id, hints, answer });
    answered.recv().expect("an answer");
}

/// Processor time of this thread, in nanoseconds.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of a pass in which a process begins or ends work for which another one is held,
/// in nanoseconds: the median. Before each, a user does something.
fn pass_ns(
    test: &mut TestDriver,
    urgent: &SharedPage,
    batch: &SharedPage,
    before: &mut dyn FnMut(&mut TestDriver, u64),
) -> u64 {
    let mut times = Vec::new();
    for pass in 0..400 {
        before(test, pass);
        test.settle();
        let has_work = pass % 2 == 0;
        set_work(urgent, has_work);
        let (visits, begin) = (test.visits(), processor_ns());
        test.turn(10_000_000, &[1]);
        times.push(processor_ns() - begin);
        let visits = test.visits() - visits;
        assert!(visits <= 2 * VISITS_MAX as u64, "{visits} visits in a pass");
        assert_eq!(batch.is_closed(0), has_work, "the decision is not made at once");
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// Processes of the hostile user, and what it does before each pass.
struct Crowd {
    name: &'static str,
    make: fn(&mut TestDriver) -> Vec<SharedPage>,
    act: fn(&mut TestDriver, u64),
}

/// Connections of the hostile user.
const CROWD: u64 = 400;

fn with_work(test: &mut TestDriver) -> Vec<SharedPage> {
    let one = |n| {
        join(test, 100 + n, HOSTILE, 0, None);
        let page = attach(test, 100 + n, "hostile");
        test.turn(0, &[100 + n]);
        page
    };
    (0..CROWD).map(one).collect()
}

fn in_gangs(test: &mut TestDriver) -> Vec<SharedPage> {
    let one = |n| {
        join(test, 100 + n, HOSTILE, 0, Some(format!("gang {}", n / 2)));
        let page = attach(test, 100 + n, ["hostile 1", "hostile 2"][(n % 2) as usize]);
        test.turn(0, &[100 + n]);
        page
    };
    (0..CROWD).map(one).collect()
}

const CROWDS: [Crowd; 3] = [
    Crowd { name: "work on another GPU", make: with_work, act: |_, _| {} },
    Crowd { name: "gangs", make: in_gangs, act: |_, _| {} },
    Crowd {
        name: "changing hints",
        make: with_work,
        act: |test, pass| ask_hints(test, 100 + pass % CROWD, (pass % 200) as i32),
    },
];

#[test]
fn a_user_with_many_processes_makes_decisions_for_others_no_slower() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    for crowd in CROWDS {
        let mut test = driver();
        join(&mut test, 1, 1, 100, None);
        join(&mut test, 2, 2, -100, None);
        let (urgent, batch) = (attach(&mut test, 1, "gpu"), attach(&mut test, 2, "gpu"));
        test.turn(0, &[1, 2]);
        let alone = pass_ns(&mut test, &urgent, &batch, &mut |_, _| {});
        let _pages = (crowd.make)(&mut test);
        // What is done once for each of them.
        (0..200).for_each(|_| test.turn(1_000_000, &[]));
        let beside = pass_ns(&mut test, &urgent, &batch, &mut |test, pass| {
            (crowd.act)(test, pass);
        });
        println!("{}: {alone} ns alone, {beside} ns beside it", crowd.name);
        // Twice, and what other work of the machine does to caches meanwhile. When each pass
        // visited all processes, it was 60 times.
        assert!(beside <= 4 * alone, "{}: {alone} ns become {beside}", crowd.name);
        assert_eq!(test.defect(), None);
    }
}

#[test]
fn after_each_request_the_words_of_all_pages_are_what_the_status_says() {
    let asker = || Asker { party: party(0, Tenant::default()), is_admin: true };
    for seed in 0..20 {
        let (mut test, mut rng) = (driver(), SplitMix64::new(seed));
        let mut pages = Vec::new();
        for id in 1..=8 {
            join(&mut test, id, id as u32, 0, None);
            pages.push((id, attach(&mut test, id, ["a", "b", "c"][rng.below(3) as usize])));
            test.turn(0, &[id]);
        }
        for step in 0..200 {
            let at = rng.below(pages.len() as u64) as usize;
            let (id, priority) = (pages[at].0, rng.below(9) as i32 - 4);
            let change = match rng.below(6) {
                0 => Change { hold: Some(rng.below(2) == 0), ..Change::default() },
                1 => Change { is_reset: true, ..Change::default() },
                _ => Change { priority: Priority::new(priority).ok(), ..Change::default() },
            };
            match rng.below(5) {
                0 => ask_hints(&mut test, id, priority),
                // A reload after which some tenants have another limit.
                1 => {
                    let priority_max = Priority::new(priority).ok();
                    let tenant = Arc::new(Tenant { priority_max, ..Tenant::default() });
                    let some = pages.iter().filter(|_| rng.below(2) == 0);
                    let some = some.map(|(id, _)| (*id, Arc::clone(&tenant))).collect();
                    test.take(Op::Configure(some));
                }
                2 => set_work(&pages[at].1, rng.below(2) == 0),
                _ => {
                    let (answer, answered) = channel();
                    test.take(Op::Set { pid: id as i32, asker: asker(), change, answer });
                    // Refused where the tenant may not have it.
                    let _ = answered.recv().expect("an answer");
                }
            }
            let all: Vec<u64> = pages.iter().map(|(id, _)| *id).collect();
            test.turn(1_000_000, &all);
            let all = test.status();
            for (client, (_, page)) in all.iter().zip(&pages) {
                let (rank, is_held) = told(client, &all);
                let place = format!("seed {seed}, step {step}, {client:?}");
                assert_eq!(page.header().rank(), rank, "{place}");
                assert!(!is_held || page.is_closed(0), "{place}");
                let may_run = client.state == "running" || client.state == "alone";
                assert!(!may_run || !page.is_closed(0), "{place}");
            }
        }
        assert_eq!(test.defect(), None);
    }
}

#[test]
fn words_of_a_process_do_not_have_sums_of_its_tenant_overflow_or_go_back() {
    let mut test = driver();
    join(&mut test, 1, 1, 0, None);
    let page = attach(&mut test, 1, "gpu");
    test.turn(1_000_000, &[1]);
    let total = |test: &mut TestDriver| {
        let (answer, answered) = channel();
        test.take(Op::Figures { answer });
        let figures = answered.recv().expect("figures");
        let total = figures.totals.values().next().copied().expect("a total");
        (total.retired, total.past)
    };
    for (word, most) in [(u64::MAX, 1_020_000), (u64::MAX / 2, 1_030_000), (3, 1_040_000)] {
        let before = total(&mut test);
        page.header().retired.store(word, Ordering::SeqCst);
        // The launches past the scheduler stand behind the commands.
        let offset = std::mem::offset_of!(PageHeader, retired) as u64 + 8;
        assert_eq!(rustix::io::pwrite(&page, &word.to_ne_bytes(), offset), Ok(8));
        test.turn(1_000_000, &[1]);
        let now = total(&mut test);
        assert!(now.0 >= before.0 && now.1 >= before.1, "{before:?} becomes {now:?}");
        assert!(now.0 <= most && now.1 <= most, "{now:?}");
    }
}

#[test]
fn a_process_that_says_it_runs_beside_others_takes_turns_with_those_that_do_not() {
    let mut test = driver();
    let turns = vec![xsched_core::hint::PolicyHint::Timeslice(crate::config::TURN)];
    test.take(Op::Policy(Box::new("hpf".parse::<Any>().expect("a policy")), turns));
    let mut pages = Vec::new();
    for (id, is_concurrent) in [(1, false), (2, true)] {
        join(&mut test, id, id as u32, 0, None);
        let ours = SharedPage::create().expect("a page");
        set_work(&ours, true);
        let file = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let page = SharedPage::from_file(File::from(file)).expect("a page");
        let (answer, answered) = channel();
        let gpu = Gpu { name: "gpu".to_owned(), is_concurrent };
        test.take(Op::Page { client: id, gpu, page, answer });
        assert_eq!(answered.recv().expect("an answer"), Ok(()));
        test.turn(0, &[id]);
        pages.push(ours);
    }
    let mut ran = [0; 2];
    for _ in 0..1_000 {
        test.turn(1_000_000, &[1, 2]);
        let open = [!pages[0].is_closed(0), !pages[1].is_closed(0)];
        ran.iter_mut().zip(open).for_each(|(ran, open)| *ran += u32::from(open));
    }
    assert!(ran.iter().all(|ran| (400..=600).contains(ran)), "{ran:?} ms of 1,000");
}

/// Device time of processes with these shares, in percent of all.
fn got(policy: &str, shares: &[Option<u8>]) -> Vec<u64> {
    let mut test = TestDriver::new(policy.parse::<Any>().expect("a policy")).expect("a scheduler");
    let mut pages = Vec::new();
    for (id, share) in (1..).zip(shares) {
        join(&mut test, id, id as u32, 0, None);
        let (answer, answered) = channel();
        let hints = hints(Priority::default(), *share);
        test.take(Op::Hints { client: id, hints, answer });
        answered.recv().expect("an answer");
        pages.push(attach(&mut test, id, "gpu"));
        test.turn(0, &[id]);
    }
    (0..5_000).for_each(|_| test.turn(1_000_000, &[]));
    let used = |id| test.gpu_clients_of(id)[0].1;
    (1..).zip(shares).map(|(id, _)| used(id) / 50_000_000).collect()
}

#[test]
fn policies_by_weights_go_by_shares() {
    for policy in ["wfq", "strict_wfq", "up"] {
        let got = got(policy, &[Some(75), Some(25)]);
        assert!((74..=76).contains(&got[0]), "{policy}: {got:?}");
    }
    // One that asks for none counts as 1 %.
    let got = got("wfq", &[Some(60), Some(39), None]);
    assert!(got[0] >= 58 && got[1] >= 37 && got[2] <= 2, "{got:?}");
}
