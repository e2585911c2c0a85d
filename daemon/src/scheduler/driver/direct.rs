//! Holds by processes themselves, until the scheduler has decided.
//!
//! A process that gets work closes the gates of those below it and wakes the scheduler, which takes
//! ten times as long. The scheduler decides as it does without that, and then ends what the process
//! closed: its own holds are in place by then. So a process that is stopped or wrong holds no one
//! for longer than the lease.

use std::os::fd::{AsFd, OwnedFd};

use xsched_node::PAGES_BELOW_MAX;

use super::super::client::Client;
use super::super::gpu_client::GpuClient;
use super::super::on_gpu::PageOf;
use super::super::op::FirstHold;
use super::Driver;

/// Processes that are looked at for those that another may hold directly: a bound for one request,
/// chosen and not measured.
const LOOKED_AT_MAX: usize = 8 * PAGES_BELOW_MAX;

impl Driver {
    /// The page at this place of those that a connection may hold directly on a GPU, and their
    /// generation. The first place lists them.
    pub(super) fn page_below(
        &mut self,
        id: u64,
        device: &str,
        at: usize,
    ) -> Option<(u32, OwnedFd)> {
        let is_on_it = |key: &&u32| {
            let client = self.gpu_clients.get(**key);
            client.is_some_and(|client| self.devices.name(client.device) == device)
        };
        let key = *self.clients.get(&id)?.gpu_clients.iter().find(is_on_it)?;
        if at == 0 {
            self.end_direct_holds_of(key);
            let below = self.pages_that_may_be_held_by(key);
            self.gpu_clients.set_below(key, below);
        }
        let holder = self.gpu_clients.get(key)?;
        let PageOf { key: held, page } = *holder.below.get(at)?;
        let held = self.gpu_clients.get(held).filter(|held| self.may_hold(holder, held))?;
        let file = held.page(page)?.as_fd().try_clone_to_owned().ok()?;
        Some((holder.pages_below(), file))
    }

    fn pages_that_may_be_held_by(&self, key: u32) -> Vec<PageOf> {
        let Some(holder) = self.gpu_clients.get(key).filter(|holder| holder.pages_below() != 0)
        else {
            return Vec::new();
        };
        let Some(gpu) = self.gpu_clients.on(holder.device) else { return Vec::new() };
        let below = gpu.by_priority.range(..holder.priority()).rev().flat_map(|(_, keys)| keys);
        // Where there are more than it may hold, those with work matter.
        let ready = gpu.ready.iter().take(LOOKED_AT_MAX);
        let below = ready.chain(below.filter(|key| !gpu.ready.contains(key)).take(LOOKED_AT_MAX));
        let below = below.filter_map(|key| self.gpu_clients.get(*key));
        let below = below.filter(|held| self.may_hold(holder, held));
        let pages =
            below.flat_map(|held| (0..held.pages()).map(|page| PageOf { key: held.key(), page }));
        pages.take(PAGES_BELOW_MAX).collect()
    }

    /// Returns whether a process may hold another one directly: one of lower priority on its GPU
    /// that belongs to the same user and tenant, and has no gang that would have to be held as a
    /// whole. None may where the configuration says so.
    fn may_hold(&self, holder: &GpuClient, held: &GpuClient) -> bool {
        let party = |of: &GpuClient| {
            let client: Option<&Client> = self.clients.get(&of.connection);
            client.map(|client| (client.uid, &client.rights.party.tenant.name))
        };
        self.tuning.first_hold == FirstHold::Process
            && held.priority() < holder.priority()
            && held.device == holder.device
            && held.gang().is_none()
            && party(held).is_some_and(|of| party(holder) == Some(of))
    }

    /// Ends direct holds of processes that have rung, after the decision that these asked for. A
    /// process rings after each direct hold.
    pub(super) fn end_direct_holds(&mut self, rung: &[u64]) {
        for id in rung {
            let keys = self.clients.get(id).map(|client| client.gpu_clients.clone());
            for key in keys.unwrap_or_default() {
                let client = self.gpu_clients.get(key);
                if let Some(holds) = client.and_then(GpuClient::new_direct_holds) {
                    self.end_direct_holds_of(key);
                    self.gpu_clients.tell_direct_holds_ended(key, holds);
                }
            }
        }
    }

    /// Ends direct holds by a process.
    pub(super) fn end_direct_holds_of(&self, key: u32) {
        let below = self.gpu_clients.get(key).map_or(&[][..], |holder| &holder.below);
        let mut before = None;
        for PageOf { key, .. } in below {
            if before.replace(*key) != Some(*key) {
                self.gpu_clients.get(*key).into_iter().for_each(GpuClient::end_direct_hold);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;

    use xsched_core::hint::Priority;
    use xsched_node::{Holder, SharedPage};
    use xsched_policies::Any;

    use super::*;
    use crate::scheduler::{Client, Gpu, Op, TestDriver, hints};
    use crate::tenant::{Party, Tenant, Who};
    use crate::waker::new_eventfd;

    fn driver(policy: &str) -> TestDriver {
        TestDriver::new(policy.parse::<Any>().expect("a policy")).expect("a scheduler")
    }

    /// A process, by its connection: its user, tenant and priority, and its gang.
    struct Of(u64, u32, &'static str, i32, Option<&'static str>);

    fn join(test: &mut TestDriver, of: &Of) -> SharedPage {
        let Of(id, uid, tenant, priority, gang) = *of;
        let who = Arc::new(Who { uid, ..Who::default() });
        let tenant = Arc::new(Tenant { name: tenant.to_owned(), ..Tenant::default() });
        let asked = hints(Priority::new(priority).expect("a priority"), None);
        let doorbell = new_eventfd().expect("an eventfd");
        let party = Party { who, tenant };
        let mut client = Client::new(id as i32, party, "x".to_owned(), asked, doorbell);
        client.gang = gang.map(str::to_owned);
        test.take(Op::Join(id, client));
        attach(test, id)
    }

    /// A page of it for the GPU.
    fn attach(test: &mut TestDriver, id: u64) -> SharedPage {
        let ours = SharedPage::create().expect("a page");
        let file = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let page = SharedPage::from_file(File::from(file)).expect("a page");
        let (answer, answered) = channel();
        let gpu = Gpu { name: "gpu".to_owned(), is_concurrent: false };
        test.take(Op::Page { client: id, gpu, page, answer });
        assert_eq!(answered.recv().expect("an answer"), Ok(()));
        test.turn(0, &[id]);
        ours
    }

    /// More than a second passes, so that all processes are told of what has changed.
    fn pass(test: &mut TestDriver) {
        (0..4).for_each(|_| test.turn(500_000_000, &[]));
        test.settle();
    }

    /// The pages that a process is given, once it was told that there are some.
    fn below(test: &mut TestDriver, id: u64, page: &SharedPage) -> Vec<SharedPage> {
        let wanted = page.header().pages_below.load(Ordering::SeqCst);
        let ask = |at| {
            let (answer, answered) = channel();
            test.take(Op::PageBelow { client: id, device: "gpu".to_owned(), at, answer });
            answered.recv().expect("an answer")
        };
        let given = (0..).map_while(ask).map(|(generation, page)| {
            assert_eq!(generation, wanted);
            SharedPage::from_file(page.into()).expect("a page")
        });
        given.filter(|_| wanted != 0).collect()
    }

    /// Returns the places of those of `pages` that are among those given.
    fn which(given: &[SharedPage], pages: &[&SharedPage]) -> Vec<usize> {
        let probe = Holder::new(9).expect("a holder");
        given.iter().for_each(|page| page.close(5, probe));
        let found = (0..pages.len()).filter(|at| pages[*at].is_held_by(5, probe)).collect();
        given.iter().for_each(|page| page.release(5, probe));
        found
    }

    #[test]
    fn a_process_is_given_the_pages_of_its_user_and_tenant_below_it_and_no_others() {
        for policy in ["hpf", "wfq"] {
            let mut test = driver(policy);
            let of = [
                Of(1, 7, "t", 5, None),
                Of(2, 7, "t", 4, None),
                Of(3, 7, "t", -3, None),
                Of(4, 8, "t", -3, None),
                Of(5, 7, "u", -3, None),
                Of(6, 7, "t", 6, None),
                Of(7, 7, "t", 5, None),
                Of(8, 7, "t", 0, Some("gang")),
                Of(9, 7, "t", 0, Some("gang")),
            ];
            let pages: Vec<_> = of.iter().map(|of| join(&mut test, of)).collect();
            let more = attach(&mut test, 3);
            pass(&mut test);
            let given = below(&mut test, 1, &pages[0]);
            let all: Vec<_> = pages.iter().chain([&more]).collect();
            let wanted = if policy == "hpf" { vec![1, 2, 9] } else { vec![] };
            assert_eq!(which(&given, &all), wanted, "{policy}");
            assert!(below(&mut test, 8, &pages[7]).is_empty(), "it is in a gang");
            assert!(below(&mut test, 3, &pages[2]).is_empty(), "none is below it");
        }
    }

    #[test]
    fn of_more_than_it_may_hold_it_is_given_those_with_work() {
        let mut test = driver("hpf");
        let urgent = join(&mut test, &Of(1, 7, "t", 5, None));
        let batch = join(&mut test, &Of(2, 7, "t", -5, None));
        let idle = 3..3 + PAGES_BELOW_MAX as u64;
        let _idle: Vec<_> = idle.map(|id| join(&mut test, &Of(id, 7, "t", 0, None))).collect();
        set_work(&batch, true);
        test.turn(0, &[2]);
        pass(&mut test);
        let given = below(&mut test, 1, &urgent);
        assert_eq!((given.len(), which(&given, &[&batch])), (PAGES_BELOW_MAX, vec![0]));
    }

    #[test]
    fn what_may_be_held_changes_within_a_second() {
        let mut test = driver("hpf");
        let urgent = join(&mut test, &Of(1, 7, "t", 5, None));
        pass(&mut test);
        assert!(below(&mut test, 1, &urgent).is_empty());
        let batch = join(&mut test, &Of(2, 7, "t", 0, None));
        pass(&mut test);
        let first = urgent.header().pages_below.load(Ordering::SeqCst);
        assert_eq!(which(&below(&mut test, 1, &urgent), &[&batch]), [0]);
        pass(&mut test);
        assert_eq!(urgent.header().pages_below.load(Ordering::SeqCst), first, "nothing changed");
        let (answer, _answered) = channel();
        let raised = hints(Priority::new(9).expect("a priority"), None);
        test.take(Op::Hints { client: 2, hints: raised, answer });
        assert!(below(&mut test, 1, &urgent).is_empty(), "it is above by now");
        pass(&mut test);
        assert_eq!(urgent.header().pages_below.load(Ordering::SeqCst), 0);
        assert_eq!(which(&below(&mut test, 2, &batch), &[&urgent]), [0]);
    }

    #[test]
    fn a_reload_may_switch_direct_holds_off_and_on() {
        let mut test = driver("hpf");
        let urgent = join(&mut test, &Of(1, 7, "t", 5, None));
        let batch = join(&mut test, &Of(2, 7, "t", 0, None));
        let mut seen = Vec::new();
        for first_hold in [FirstHold::Daemon, FirstHold::Process, FirstHold::Daemon] {
            test.set_first_hold(first_hold);
            pass(&mut test);
            let generation = urgent.header().pages_below.load(Ordering::SeqCst);
            assert!(!seen.contains(&generation), "the process asks again");
            seen.push(generation);
            let given = if first_hold == FirstHold::Process { &[0][..] } else { &[] };
            assert_eq!(which(&below(&mut test, 1, &urgent), &[&batch]), given);
        }
    }

    fn set_work(page: &SharedPage, has_work: bool) {
        page.header().loaded_queues.store(has_work.into(), Ordering::SeqCst);
    }

    fn is_held_directly(page: &SharedPage) -> bool {
        (0..xsched_node::GATES_PER_PAGE).any(|gate| page.is_held_by(gate, Holder::DIRECT))
    }

    #[test]
    fn a_direct_hold_ends_with_the_decision_or_the_process() {
        let mut test = driver("hpf");
        let urgent = join(&mut test, &Of(1, 7, "t", 5, None));
        let batch = join(&mut test, &Of(2, 7, "t", 0, None));
        set_work(&batch, true);
        test.turn(0, &[2]);
        pass(&mut test);
        let given = below(&mut test, 1, &urgent);
        let hold = || {
            assert!(given.iter().all(SharedPage::hold_directly) && is_held_directly(&batch));
            urgent.header().direct_holds.fetch_add(1, Ordering::SeqCst);
        };
        for has_work in [true, false, true] {
            set_work(&urgent, false);
            test.turn(10_000_000, &[1]);
            assert!(!batch.is_closed(0));
            // A process may hold others although it has no work.
            set_work(&urgent, has_work);
            hold();
            test.turn(70_000, &[]);
            assert!(is_held_directly(&batch), "it has not rung");
            test.turn(0, &[1]);
            assert!(!is_held_directly(&batch), "the scheduler has decided");
            assert_eq!(batch.is_closed(0), has_work);
            let held = given.iter().any(SharedPage::hold_directly);
            assert_eq!(held, !has_work, "the scheduler holds it by now");
            given.iter().for_each(SharedPage::end_direct_hold);
        }
        set_work(&urgent, false);
        test.turn(10_000_000, &[1]);
        assert!(given.iter().all(SharedPage::hold_directly));
        test.take(Op::Leave(1));
        assert!(!is_held_directly(&batch), "its holder has left");
        assert_eq!(test.defect(), None);
    }
}
