//! What a round of the scheduler could not do because a thread that has lost its processor has the
//! state of a queue. The next rounds try again, and do not wait for that thread.

use std::mem::discriminant;
use std::sync::Arc;

use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::message::Order;
use xsched_core::time::{Duration, Instant};

use super::mailbox::Mail;
use super::{Busy, Scheduler, SchedulerHandle};
use crate::clock::now;
use crate::error::Error;
use crate::sync::atomic::Ordering;

/// When the scheduler's thread tries again.
pub(super) const RETRY: Duration = Duration::from_us(100);

/// Reports that were not fetched, and orders that were not delivered. Of each kind of order a queue
/// has one at most, as a newer one replaces it.
#[derive(Debug, Default)]
pub(super) struct Late {
    pub(super) reports: Vec<QueueId>,
    pub(super) orders: Vec<(QueueId, Order)>,
}

impl Late {
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.reports.len() + self.orders.len()).unwrap_or(u32::MAX)
    }

    /// Whether an order for this queue is late: then later ones come after it.
    pub(super) fn awaits(&self, id: QueueId) -> bool {
        self.orders.iter().any(|(of, _)| *of == id)
    }

    pub(super) fn put(&mut self, id: QueueId, order: Order) {
        let kind = |order: &Order| match order {
            // One takes the place of the other.
            Order::Run { .. } => discriminant(&Order::Hold { epoch: 0, level: Level::Block }),
            _ => discriminant(order),
        };
        let same = |(of, known): &&mut (QueueId, Order)| *of == id && kind(known) == kind(&order);
        match self.orders.iter_mut().find(same) {
            Some((_, known)) => *known = order,
            None => self.orders.push((id, order)),
        }
    }
}

impl SchedulerHandle {
    /// When the next round is due.
    pub(super) fn next_round(&self, scheduler: &Scheduler, mail: &Mail) -> Option<Instant> {
        let late = mail.late.count();
        self.late.store(late, Ordering::Relaxed);
        let retry = (late > 0).then(|| now() + RETRY);
        scheduler.poll_timeout().into_iter().chain(retry).min()
    }

    /// Brings the orders that are late to their queues.
    pub(crate) fn deliver_late(&self, mail: &mut Mail) {
        for (id, order) in std::mem::take(&mut mail.late.orders) {
            self.deliver_or_keep(mail, id, order);
        }
    }

    /// Brings an order to its queue, now or in a later round.
    pub(crate) fn deliver_or_keep(&self, mail: &mut Mail, id: QueueId, order: Order) {
        let delivered = if mail.late.awaits(id) { Err(Busy) } else { self.deliver(id, order) };
        match delivered {
            Ok(staged) => {
                let known = |staged: &Arc<_>| mail.staged.iter().any(|it| Arc::ptr_eq(it, staged));
                mail.staged.extend(staged.filter(|staged| !known(staged)));
            }
            Err(Busy) => mail.late.put(id, order),
        }
    }

    /// Waits until the round that answered the last question has ended, since it takes reports and
    /// delivers orders after its answers, and until no order is late.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        let start = now();
        self.ask(|_, _| ())?;
        while self.late.load(Ordering::Relaxed) > 0 {
            if now().since(start) > Duration::from(self.lease.saturating_mul(2)) {
                return Err(Error::SchedulerSilent);
            }
            std::thread::sleep(RETRY.into());
            self.ask(|_, _| ())?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_newer_order_takes_the_place_of_an_older_one_of_its_kind() {
        let (one, two) = (QueueId::new(0, 1), QueueId::new(1, 1));
        let mut late = Late::default();
        late.put(one, Order::Hold { epoch: 1, level: Level::Block });
        late.put(two, Order::Run { epoch: 1 });
        late.put(one, Order::Watch { upto: 3 });
        late.put(one, Order::Run { epoch: 2 });
        let orders = [(one, Order::Run { epoch: 2 }), (two, Order::Run { epoch: 1 })];
        assert_eq!(late.orders[..2], orders);
        assert_eq!(late.orders.len(), 3);
        assert!(late.awaits(one) && !late.awaits(QueueId::new(2, 1)));
    }
}
