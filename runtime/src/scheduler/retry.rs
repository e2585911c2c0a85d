//! Rounds that try again what an earlier one could not do.

use std::sync::Arc;

use xsched_core::id::QueueId;
use xsched_core::message::Order;
use xsched_core::time::{Duration, Instant};

use super::mailbox::Mail;
use super::{Busy, Scheduler, SchedulerHandle};
use crate::clock::now;
use crate::error::Error;
use crate::sync::atomic::Ordering;

/// Delay after which the scheduler's thread tries again.
const RETRY_DELAY: Duration = Duration::from_us(100);

impl SchedulerHandle {
    /// When the next round is due.
    pub(super) fn next_round(&self, scheduler: &Scheduler, mail: &Mail) -> Option<Instant> {
        let late = mail.late.count();
        self.late.store(late, Ordering::Relaxed);
        let retry = (late > 0).then(|| now() + RETRY_DELAY);
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
            std::thread::sleep(RETRY_DELAY.into());
            self.ask(|_, _| ())?;
        }
        Ok(())
    }
}
