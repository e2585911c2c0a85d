//! Contents that processes write into their pages.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use xsched_core::hint::Priority;
use xsched_node::{GATES_PER_PAGE, Holder, SharedPage};
use xsched_policies::Any;

use super::bytes::Bytes;
use crate::scheduler::{Change, ChangedBy, Client, Gpu, Op, TestDriver, hints, told};
use crate::tenant::{Asker, Party, Tenant, Who};
use crate::waker::new_eventfd;

const POLICIES: [&str; 4] = ["hpf", "up", "wfq", "awf"];
const GPUS: [&str; 2] = ["one", "two"];
/// The honest process: before all others for `hpf`.
const HONEST: u64 = 0;
const OTHERS: u64 = 3;
/// Another honest one, on the other GPU and after all others.
const LAST: u64 = OTHERS + 1;
const STEPS_MAX: usize = 200;

struct Rig {
    driver: TestDriver,
    honest: Vec<SharedPage>,
    /// Values that the honest process wrote.
    wrote: [u64; 3],
    last: SharedPage,
    /// The honest ones that have woken the daemon since the last turn.
    rung: Vec<u64>,
    other: Vec<(u64, SharedPage)>,
    used_ns: Vec<u64>,
    is_hpf: bool,
    is_suspended: bool,
}

/// Bytes as what processes write into their pages, and when.
///
/// What the daemon counts fits together, the gates of an honest process are what the daemon
/// decides, `hpf` never holds it, it is told where it stands whatever limits others have, and the
/// daemon hears of its work unless it is alone.
pub fn pages(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut rig = Rig::new();
    for _ in 0..STEPS_MAX {
        let Some(choice) = bytes.next() else { break };
        rig.step(choice, &mut bytes);
    }
    rig.turn(1, &[HONEST]);
}

/// A process of a user without limits.
fn party(uid: u32) -> Party {
    let who = Arc::new(Who { uid, ..Who::default() });
    Party { who, tenant: Arc::default() }
}

/// Writes anywhere into a page, as a process does that keeps to no layout.
fn write(page: &SharedPage, offset: u64, bytes: &[u8]) {
    let written = rustix::io::pwrite(page, bytes, offset);
    assert_eq!(written, Ok(bytes.len()));
}

impl Rig {
    fn new() -> Self {
        let policy = POLICIES[0].parse::<Any>().expect("a policy");
        let mut rig = Self {
            driver: TestDriver::new(policy).expect("a scheduler"),
            honest: Vec::new(),
            wrote: [1, 0, 0],
            last: SharedPage::create().expect("a page"),
            rung: Vec::new(),
            other: Vec::new(),
            used_ns: Vec::new(),
            is_hpf: true,
            is_suspended: false,
        };
        rig.join(HONEST, 255);
        let page = rig.attach(HONEST, GPUS[0]);
        page.header().loaded_queues.store(1, Ordering::SeqCst);
        rig.honest.push(page);
        for id in 1..=OTHERS {
            rig.join(id, id as i32);
            for name in GPUS {
                let page = rig.attach(id, name);
                rig.other.push((id, page));
            }
        }
        rig.join(LAST, Priority::MIN.get().into());
        rig.last = rig.attach(LAST, GPUS[1]);
        rig
    }

    fn join(&mut self, id: u64, priority: i32) {
        let hints = hints(Priority::new(priority).expect("a priority"), None);
        let doorbell = new_eventfd().expect("an eventfd");
        let party = party(1_000 + id as u32);
        let client = Client::new(1 + id as i32, party, "x".to_owned(), hints, doorbell);
        self.driver.take(Op::Join(id, client));
    }

    /// Hands a page over, and answers the process's own mapping of it.
    fn attach(&mut self, client: u64, device: &str) -> SharedPage {
        let ours = SharedPage::create().expect("a page");
        let file = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let page = SharedPage::from_file(File::from(file)).expect("a page");
        let (answer, _) = channel();
        self.driver.take(Op::Page {
            client,
            gpu: Gpu { name: device.to_owned(), is_concurrent: false },
            page,
            answer,
        });
        ours
    }

    fn step(&mut self, choice: u8, bytes: &mut Bytes<'_>) {
        match choice % 16 {
            0..=3 => self.scribble(bytes),
            4..=7 => self.pass(bytes),
            8 => self.hold_honest(bytes.byte().is_multiple_of(2)),
            9 => {
                let pid = 2 + bytes.below(OTHERS as usize) as i32;
                let hold = bytes.byte().is_multiple_of(2);
                self.change(pid, Change::of_hold(hold, ChangedBy::default()));
            }
            10 => {
                let name = POLICIES[bytes.below(POLICIES.len())];
                self.is_hpf = name == "hpf";
                let policy = name.parse::<Any>().expect("a policy");
                self.driver.take(Op::Policy(Box::new(policy), Vec::new()));
            }
            11 => {
                let id = 1 + bytes.below(OTHERS as usize) as u64;
                self.driver.take(Op::Leave(id));
                self.other.retain(|(other, _)| *other != id);
                // As urgent as the honest process, if it may.
                let priority = if choice >= 128 { u8::MAX } else { bytes.byte() };
                self.join(id, priority.into());
            }
            15 if choice >= 128 => self.reload(bytes),
            12 if self.other.len() < 16 => {
                let id = 1 + bytes.below(OTHERS as usize) as u64;
                let page = self.attach(id, GPUS[bytes.below(GPUS.len())]);
                self.other.push((id, page));
            }
            13 if self.honest.len() < 4 => {
                let page = self.attach(HONEST, GPUS[0]);
                self.honest.push(page);
            }
            14 => match bytes.below(4) {
                0 => self.begin_or_end(HONEST),
                1 => self.begin_or_end(LAST),
                _ => self.count_honest(bytes),
            },
            _ => {
                let share = Some(bytes.byte() % 101);
                let pid = 2 + bytes.below(OTHERS as usize) as i32;
                self.change(pid, Change { share, ..Change::default() });
            }
        }
    }

    /// Anything, anywhere in a page that is not the honest process's.
    fn scribble(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(self.other.len());
        let Some((_, page)) = self.other.get(at) else { return };
        match bytes.byte() {
            at @ 0..=127 => write(page, u64::from(at) % 32 * 4, &bytes.wide().to_ne_bytes()[..4]),
            at @ 128..=191 => write(page, u64::from(at) % 16 * 8, &bytes.wide().to_ne_bytes()),
            at => page.gate(at.into()).word.store(bytes.wide() as u32, Ordering::SeqCst),
        }
    }

    /// An honest process's work begins or ends, of which it tells the daemon if that is wanted.
    fn begin_or_end(&mut self, id: u64) {
        let page = if id == LAST { &self.last } else { &self.honest[0] };
        let load = 1 - page.header().loaded_queues.load(Ordering::SeqCst);
        page.header().loaded_queues.store(load, Ordering::SeqCst);
        if id == HONEST {
            self.wrote[0] = load.into();
        }
        if page.header().daemon_wants_wakeups.load(Ordering::SeqCst) != 0 {
            self.rung.push(id);
        }
    }

    /// The honest process's commands retire.
    fn count_honest(&mut self, bytes: &mut Bytes<'_>) {
        let Some(page) = self.honest.first() else { return };
        self.wrote[1] = self.wrote[1].wrapping_add(u64::from(bytes.byte()) << 12);
        self.wrote[2] += 1;
        page.header().used_ns.store(self.wrote[1], Ordering::SeqCst);
        page.header().retired.store(self.wrote[2], Ordering::SeqCst);
    }

    fn pass(&mut self, bytes: &mut Bytes<'_>) {
        let passed_ns = bytes.wide() >> (24 + bytes.byte() % 40);
        let mut rung: Vec<u64> = bytes.some(4).iter().map(|id| u64::from(*id) % 8).collect();
        rung.append(&mut self.rung);
        self.turn(passed_ns, &rung);
    }

    fn hold_honest(&mut self, hold: bool) {
        self.is_suspended = hold;
        self.change(1, Change::of_hold(hold, ChangedBy::default()));
    }

    /// Some of the others have another limit from now on.
    fn reload(&mut self, bytes: &mut Bytes<'_>) {
        let priority_max = Priority::new(i32::from(bytes.byte()) * 2 - 255).ok();
        let tenant = Arc::new(Tenant { priority_max, ..Tenant::default() });
        let some = bytes.byte();
        let meant = (1..=OTHERS).filter(|id| some >> id & 1 > 0);
        self.driver.take(Op::Configure(meant.map(|id| (id, Arc::clone(&tenant))).collect()));
        self.turn(0, &[]);
    }

    fn change(&mut self, pid: i32, change: Change) {
        let (answer, _) = channel();
        let asker = Asker { party: party(0), is_admin: true };
        self.driver.take(Op::Set { pid, asker, change, answer });
        self.turn(0, &[]);
    }

    fn turn(&mut self, passed_ns: u64, rung: &[u64]) {
        self.driver.turn(passed_ns, rung);
        assert_eq!(self.driver.defect(), None);
        for id in [HONEST, LAST] {
            let is_heard = self.rung.contains(&id) || !self.driver.misses_work(id);
            assert!(is_heard, "work begins unheard");
        }
        let units = self.driver.gpu_clients_of(HONEST);
        assert_eq!(units.len(), 1, "the honest process is on another number of GPUs");
        let (is_closed, used_ns) = units[0];
        let before = self.used_ns.last().copied().unwrap_or(0);
        assert!(used_ns >= before, "device time goes backwards");
        self.used_ns = vec![used_ns];
        if self.is_hpf && self.driver.is_ready(HONEST) {
            assert_eq!(is_closed, self.is_suspended, "the most urgent process is held");
        }
        let expected = if is_closed { Holder::DAEMON.bit() } else { 0 };
        for page in &self.honest {
            let is_right = |gate| page.gate(gate).word.load(Ordering::SeqCst) == expected;
            assert!((0..GATES_PER_PAGE).all(is_right), "a gate is not what the daemon decides");
        }
        if self.is_hpf {
            self.check_ranks();
        }
        let page = &self.honest[0];
        let said = [
            u64::from(page.header().loaded_queues.load(Ordering::SeqCst)),
            page.header().used_ns.load(Ordering::SeqCst),
            page.header().retired.load(Ordering::SeqCst),
        ];
        assert_eq!(said, self.wrote, "the daemon wrote where it only reads");
    }

    /// What honest processes are told is what the status says of all, and no counter is full of
    /// what others claim.
    fn check_ranks(&mut self) {
        let all = self.driver.status();
        for (id, page) in [(HONEST, &self.honest[0]), (LAST, &self.last)] {
            let pid = 1 + id as i32;
            let client = all.iter().find(|client| client.pid == pid).expect("it is known");
            let rank = told(client, &all).0;
            assert_eq!(page.header().rank(), rank, "a page does not say where its process stands");
        }
        let figures = self.driver.figures().expect("figures");
        let mut totals = figures.totals.values();
        let is_full = totals.any(|total| total.retired.max(total.past) > u64::MAX / 2);
        assert!(!is_full, "a claim fills a counter");
    }
}
