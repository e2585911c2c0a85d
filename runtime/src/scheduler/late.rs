//! Work that a round of the scheduler could not do because a thread that has lost its processor has
//! the state of a queue. The next rounds try again, and do not wait for that thread.

use std::mem::discriminant;

use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::message::Order;

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

    /// True if an order for this queue is late: then later ones come after it.
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
