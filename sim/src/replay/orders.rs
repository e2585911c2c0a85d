//! Comparison of a fresh scheduler's orders with the recorded ones.

use std::fmt;

use xsched_core::id::QueueId;
use xsched_core::message::Order;
use xsched_core::policy::Policy;
use xsched_core::record::{Body, Entry, Start};
use xsched_core::scheduler::{Heap, Scheduler};
use xsched_core::time::Instant;
use xsched_policies::Any;

use super::read::may_be_input;
use super::{Record, ReplayError};

/// Most queues and waits of a scheduler that is replayed.
const SLOTS_MAX: u32 = 1 << 17;
/// Most devices of one.
const DEVICES_MAX: u32 = 1 << 12;

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orders {
    /// All orders are the same.
    Identical {
        /// How many there were.
        orders: u64,
        /// How often the scheduler was asked until it had no more.
        rounds: u64,
    },
    /// Different orders.
    Differ(Box<Difference>),
}

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the entry, from 0.
    pub entry: u64,
    /// Time in nanoseconds.
    pub at_ns: u64,
    /// Recorded order.
    pub recorded: String,
    /// Order of the scheduler now.
    pub replayed: String,
    /// Orders before this that were the same.
    pub same: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, at_ns, recorded, replayed, same } = self;
        write!(
            f,
            "entry {entry} at {at_ns} ns, after {same} identical orders: the record has \
             {recorded}, the replay {replayed}"
        )
    }
}

/// Compares under the recorded policies, which must be those of this program.
///
/// # Errors
/// If the record does not have everything that the scheduler was fed, or a policy is unknown.
pub fn orders(record: &Record<'_>) -> Result<Orders, ReplayError> {
    orders_with(record, |name| name.parse::<Any>().ok())
}

/// Compares under the policies that `policy` makes of the recorded names.
///
/// # Errors
/// As [`orders`]; a policy is unknown if `policy` has none.
pub fn orders_with<P: Policy>(
    record: &Record<'_>,
    policy: impl Fn(&str) -> Option<P>,
) -> Result<Orders, ReplayError> {
    let known = |name: &str| {
        let unknown = || ReplayError::UnknownPolicy { name: name.to_owned() };
        policy(name).ok_or_else(unknown)
    };
    let mut replay: Option<Replay<P>> = None;
    for (number, entry) in record.entries() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(kind) if may_be_input(kind) => {
                return Err(ReplayError::UnknownInput { entry: number, kind });
            }
            Err(_) => continue,
        };
        match (&mut replay, entry.body) {
            (None, Body::Start(start)) => replay = Some(Replay::new(&start, &known)?),
            (Some(_), Body::Start(_)) => return Err(ReplayError::Starts { starts: 2 }),
            (_, Body::Gap { lost, of: xsched_core::record::Source::Scheduler }) => {
                return Err(ReplayError::Gap { entry: number, lost });
            }
            (Some(replay), Body::Policy(name)) => {
                replay.scheduler.set_policy(known(name.as_str())?);
            }
            (Some(replay), _) => {
                if let Err(difference) = replay.feed(number, &entry) {
                    return Ok(Orders::Differ(Box::new(difference)));
                }
            }
            (None, _) => {}
        }
    }
    let replay = replay.ok_or(ReplayError::Starts { starts: 0 })?;
    Ok(Orders::Identical { orders: replay.orders, rounds: replay.rounds })
}

struct Replay<P> {
    scheduler: Scheduler<P, Heap>,
    orders: u64,
    rounds: u64,
}

impl<P: Policy> Replay<P> {
    fn new(
        start: &Start,
        known: &impl Fn(&str) -> Result<P, ReplayError>,
    ) -> Result<Self, ReplayError> {
        if !start.fresh {
            return Err(ReplayError::NotFresh);
        }
        let slots = [
            (start.queues, "queues", SLOTS_MAX),
            (start.devices, "devices", DEVICES_MAX),
            (start.waits, "waits", SLOTS_MAX),
        ];
        for (count, what, max) in slots {
            if count > max {
                return Err(ReplayError::TooManySlots { what: format!("{count} {what}"), max });
            }
        }
        let [queues, devices, waits] = slots.map(|(count, ..)| count as usize);
        let policy = known(start.policy.as_str())?;
        let scheduler = Scheduler::new(policy, Heap::new(queues, devices, waits));
        Ok(Self { scheduler, orders: 0, rounds: 0 })
    }

    /// Makes the recorded call. A call that is refused was refused then as well.
    fn feed(&mut self, number: u64, entry: &Entry) -> Result<(), Difference> {
        let Entry { at, queue, body } = *entry;
        match body {
            Body::Attach(attach) => {
                let id = self.scheduler.attach(at, attach).ok();
                self.compare(number, at, Some(queue), id, |id| {
                    format!("a queue attached as {id:?}")
                })
            }
            Body::Order(order) => {
                let given = self.scheduler.poll_order(at);
                self.compare(number, at, Some((queue, order)), given, describe)?;
                self.orders += 1;
                Ok(())
            }
            Body::Rest => {
                let given = self.scheduler.poll_order(at);
                self.compare(number, at, None, given, describe)?;
                self.rounds += 1;
                Ok(())
            }
            _ => {
                self.tell(at, queue, body);
                Ok(())
            }
        }
    }

    /// A call without an answer to compare.
    fn tell(&mut self, at: Instant, queue: QueueId, body: Body) {
        let scheduler = &mut self.scheduler;
        // Whatever is refused here was refused when it was recorded, and changed nothing.
        let _ = match body {
            Body::Detach => scheduler.detach(at, queue),
            Body::Report(report) => scheduler.handle_report(at, queue, &report),
            Body::Hint(hints) => scheduler.set_hints(at, queue, hints),
            Body::Level(choice) => scheduler.set_level(queue, choice),
            Body::Cost { device, cost } => scheduler.set_cost(device, cost),
            Body::Admit { cmd, event } => scheduler.admit_wait(queue, cmd, event).map(drop),
            Body::PolicyHint(hint) => {
                scheduler.hint_policy(hint);
                Ok(())
            }
            Body::Timeout => {
                scheduler.handle_timeout(at);
                Ok(())
            }
            Body::Reconsider => {
                scheduler.reconsider_all();
                Ok(())
            }
            _ => Ok(()),
        };
    }

    fn compare<T: PartialEq>(
        &self,
        number: u64,
        at: Instant,
        recorded: Option<T>,
        replayed: Option<T>,
        describe: impl Fn(T) -> String,
    ) -> Result<(), Difference> {
        if recorded == replayed {
            return Ok(());
        }
        let text = |what: Option<T>| what.map_or_else(|| "nothing".to_owned(), &describe);
        Err(Difference {
            entry: number,
            at_ns: at.as_ns(),
            recorded: text(recorded),
            replayed: text(replayed),
            same: self.orders,
        })
    }
}

fn describe((queue, order): (QueueId, Order)) -> String {
    format!("{order:?} for queue {}.{}", queue.index(), queue.generation())
}
