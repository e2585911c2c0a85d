//! Attribution of the driver's queues to streams.
//!
//! HIP has no call that answers this. Visible are the queues that exist before a stream is made and
//! after. Only a stream with a hardware ring of its own makes a queue. A stream that shares its
//! ring makes none and gets no Lv3: suspending the ring would stop other streams.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use crate::driver::Driver;
use crate::error::KfdError;
use crate::mechanism::DebugTrap;
use crate::preloaded::Preloaded;
use crate::queue::QueueFacts;
use crate::topology::{Sysfs, listed_queues};
use crate::uapi::QUEUES_MAX;
use crate::watching::Watcher;

/// Why a stream's queue is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unattributed {
    /// No queue was made for the stream.
    #[error(
        "no queue was made for the stream, so it shares a hardware ring with other streams, and \
         suspending the ring would stop them too; make a stream with a ring of its own \
         (hipExtStreamCreateWithCUMask with all units set) while the queue is opened"
    )]
    Shared,
    /// Several queues were made at once.
    #[error(
        "queues {ids:?} were made at once, and which of them is the stream's is unknown; launch a \
         kernel and a copy first, so that the runtime has made its own, and open the queue again"
    )]
    Several {
        /// Ids.
        ids: Vec<u32>,
    },
    /// Nothing observes the creation of queues.
    #[error(
        "nothing here observes which queue is made for a stream: preload libxsched_kfd_watch.so \
         (LD_PRELOAD), or use the mechanism `debug-trap`"
    )]
    NoObserver,
    /// Nothing here saw the stream made.
    #[error(
        "the stream was not made through XSched, so it is unknown which of the driver's queues it \
         has and whether other streams share it; make it with HipStreamQueueCreate, or run the \
         program with `xsched run`"
    )]
    Unseen,
    /// The watchdog thread cannot be started.
    #[error("the watchdog thread for suspended queues cannot be started: {0}")]
    Thread(String),
    /// An id can mean several queues.
    #[error(
        "the program has given a file of the driver a process of its own (CREATE_PROCESS), so that \
         an id can mean several queues; its queues cannot be held at Lv3"
    )]
    SecondaryProcess,
    /// The driver's list in sysfs has another queue under this id.
    #[error(
        "the driver lists queue {id} in sysfs with another GPU or size than it was made with, so \
         it is another queue; preload libxsched_kfd_watch.so before all other libraries"
    )]
    Contradicted {
        /// Id.
        id: u32,
    },
    /// The queue is for copies and runs no waves.
    #[error("queue {id} is no compute queue, and has no waves to interrupt")]
    NoWaves {
        /// Id.
        id: u32,
    },
    /// The driver could not be asked.
    #[error(transparent)]
    Driver(#[from] KfdError),
}

/// The state before a stream is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// The number of queues that the preloaded library has seen.
    Created(u64),
    /// The existing queues, each by its number in the debugger's session.
    Queues(BTreeSet<u64>),
}

/// Observes which queues are made.
pub trait Attribution: Debug + Send + Sync {
    /// The state before a stream is made. Call it on the thread that makes the stream.
    ///
    /// # Errors
    /// [`Unattributed::Driver`] if the driver refuses to list its queues.
    fn before(&self) -> Result<Before, Unattributed>;

    /// The compute queues that were made since. Call it on the same thread.
    ///
    /// # Errors
    /// [`Unattributed`] if the queues are unknown.
    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed>;

    /// The queue of a stream that was made before, by its address.
    ///
    /// # Errors
    /// [`Unattributed::Unseen`] if its making was not seen, and why its queue is not known
    /// otherwise.
    fn of_stream(&self, stream: usize) -> Result<QueueFacts, Unattributed> {
        let _ = stream;
        Err(Unattributed::Unseen)
    }

    /// The queue of a stream that may share it with others, by its address. The stream is alive and
    /// not captured.
    ///
    /// # Errors
    /// [`Unattributed::Unseen`] if nothing shows it.
    fn of_shared(&self, stream: usize) -> Result<QueueFacts, Unattributed> {
        let _ = stream;
        Err(Unattributed::Unseen)
    }

    /// The compute queue that has this id now.
    ///
    /// # Errors
    /// [`Unattributed::Unseen`] if none is known.
    fn with_id(&self, id: u32) -> Result<QueueFacts, Unattributed> {
        let _ = id;
        Err(Unattributed::Unseen)
    }

    /// The one queue that was made since. Call it on the same thread.
    ///
    /// # Errors
    /// [`Unattributed::Shared`] if none was made, [`Unattributed::Several`] if several were, and
    /// those of [`Attribution::made_since`].
    fn single_since(&self, before: &Before) -> Result<QueueFacts, Unattributed> {
        let made = self.made_since(before)?;
        match made.as_slice() {
            [one] => Ok(*one),
            [] => Err(Unattributed::Shared),
            several => {
                Err(Unattributed::Several { ids: several.iter().map(|queue| queue.id).collect() })
            }
        }
    }
}

/// Attribution by the calls that this program makes, which a preloaded library sees. Exact, because
/// it tells threads apart.
#[derive(Debug)]
pub struct ByCalls(pub Arc<Preloaded>);

impl Attribution for ByCalls {
    fn before(&self) -> Result<Before, Unattributed> {
        Ok(Before::Created(self.0.queues_created()))
    }

    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        if self.0.has_secondary_process() {
            return Err(Unattributed::SecondaryProcess);
        }
        let Before::Created(count) = before else { return Err(Unattributed::NoObserver) };
        let made = self.0.created_since(*count);
        Ok(made.iter().map(|record| record.facts).filter(QueueFacts::runs_waves).collect())
    }

    fn with_id(&self, id: u32) -> Result<QueueFacts, Unattributed> {
        if self.0.has_secondary_process() {
            return Err(Unattributed::SecondaryProcess);
        }
        let facts = self.0.record(id).map(|record| record.facts);
        facts.filter(QueueFacts::runs_waves).ok_or(Unattributed::Unseen)
    }
}

/// Attribution by the debugger's lists of queues before and after.
///
/// Streams that other threads make at the same time are in the list too, so the result is
/// [`Unattributed::Several`]. The list does not show a queue's priority:
/// [`crate::PRIORITY_NORMAL`] is assumed, which streams with a ring of their own have.
#[derive(Debug)]
pub struct BySnapshot<D: Driver>(pub Arc<DebugTrap<D>>);

impl<D: Driver> Attribution for BySnapshot<D> {
    fn before(&self) -> Result<Before, Unattributed> {
        let queues = self.0.numbered_queues()?;
        Ok(Before::Queues(queues.iter().map(|(number, _)| *number).collect()))
    }

    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        let Before::Queues(known) = before else { return Err(Unattributed::NoObserver) };
        let queues = self.0.numbered_queues()?.into_iter();
        let new = queues.filter(|(number, queue)| queue.runs_waves() && !known.contains(number));
        Ok(new.map(|(_, queue)| queue).collect())
    }
}

/// No attribution: nothing observes the creation of queues.
#[derive(Clone, Copy, Debug)]
pub struct NoAttribution;

impl Attribution for NoAttribution {
    fn before(&self) -> Result<Before, Unattributed> {
        Ok(Before::Created(0))
    }

    fn made_since(&self, _: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        Err(Unattributed::NoObserver)
    }
}

/// The queue with this ring, among all queues of a process.
///
/// It is for a stream that already exists and whose `hsa_queue_t` is known, from ROCm's log or from
/// its tools' interface. `ring_base` is that queue's `base_address`. `None` if no queue or several
/// have this ring.
#[must_use]
pub fn by_ring(queues: &[QueueFacts], ring_base: u64) -> Option<QueueFacts> {
    let mut found = queues.iter().filter(|queue| queue.ring_base == ring_base);
    found.next().copied().filter(|_| found.next().is_none())
}

/// Checks a queue's properties against the list in sysfs. A queue that is not listed passes: in a
/// container this process has another number there.
///
/// # Errors
/// [`Unattributed::Contradicted`] if sysfs lists a queue with this id that is another one.
pub fn check_listed(sysfs: &Sysfs, pid: u32, queue: &QueueFacts) -> Result<(), Unattributed> {
    let listed = listed_queues(sysfs, pid).unwrap_or_default();
    let Some(found) = listed.iter().find(|listed| listed.id == queue.id) else { return Ok(()) };
    let same_size = queue.ring_size == 0 || found.ring_size == queue.ring_size;
    if found.gpu_id == queue.gpu_id && same_size && found.kind == 0 && queue.id < QUEUES_MAX {
        return Ok(());
    }
    Err(Unattributed::Contradicted { id: queue.id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Fake, queue, ring};
    use crate::topology::tests::tree;

    #[test]
    fn a_queue_is_found_by_the_difference() {
        let fake = Fake::with_queues(2);
        let trap = DebugTrap::own(fake.versioned()).expect("the runtime is enabled");
        let by = BySnapshot(Arc::new(trap));
        let before = by.before().expect("the session is open");
        assert_eq!(by.single_since(&before), Err(Unattributed::Shared));
        let more = Fake::with_queues(4).state().queues.clone();
        fake.state().queues.insert(2, more[&2]);
        let one = by.single_since(&before).expect("one was made");
        assert_eq!((one.id, one.ring_base, one.priority), (2, ring(2), 7));
        fake.state().queues.insert(3, more[&3]);
        let several = Unattributed::Several { ids: vec![2, 3] };
        assert_eq!(by.single_since(&before), Err(several));
        // A queue with the id of one that was destroyed is new.
        let mut again = more[&0];
        again.ring_base = 0xdead_0000;
        let same = fake.state().queues[&1];
        fake.state().queues = [(0, again), (1, same)].into();
        assert_eq!(by.single_since(&before).map(|queue| queue.ring_base), Ok(0xdead_0000));
    }

    #[test]
    fn a_queue_with_the_id_and_ring_of_a_destroyed_one_is_new() {
        let fake = Fake::with_queues(2);
        let trap = DebugTrap::own(fake.versioned()).expect("the runtime is enabled");
        let by = BySnapshot(Arc::new(trap));
        let before = by.before().expect("the session is open");
        // Queue 1 is destroyed, and another made in the same memory.
        let again = Fake::with_queues(2).state().queues[&1];
        fake.state().queues.insert(1, again);
        assert_eq!(by.single_since(&before).map(|queue| queue.id), Ok(1));
        assert_eq!(by.single_since(&before).map(|queue| queue.id), Ok(1), "asked twice");
    }

    #[test]
    fn without_an_observer_no_queue_is_attributed() {
        let before = NoAttribution.before().expect("it makes no call");
        assert_eq!(NoAttribution.single_since(&before), Err(Unattributed::NoObserver));
    }

    #[test]
    fn a_ring_names_a_queue_if_no_other_queue_has_it() {
        let queues = [*queue(0).facts(), *queue(1).facts()];
        assert_eq!(by_ring(&queues, ring(1)), Some(queues[1]));
        assert_eq!(by_ring(&queues, 1), None);
        assert_eq!(by_ring(&[queues[0], queues[0]], ring(0)), None);
    }

    #[test]
    fn a_queue_is_checked_against_sysfs() {
        let (_folder, sysfs) = tree(&[], &[]);
        let facts = *queue(0).facts();
        assert_eq!(check_listed(&sysfs, 77, &facts), Ok(()));
        assert_eq!(check_listed(&sysfs, 78, &facts), Ok(()), "not listed, in a container");
        let other = QueueFacts { gpu_id: 7, ..facts };
        assert_eq!(check_listed(&sysfs, 77, &other), Err(Unattributed::Contradicted { id: 0 }));
        let copies = QueueFacts { id: 3, ..facts };
        assert_eq!(check_listed(&sysfs, 77, &copies), Err(Unattributed::Contradicted { id: 3 }));
    }
}
