//! Which queue of the driver a stream is.
//!
//! Nobody tells: a stream's handle is the runtime's own affair. What can be seen is which queues
//! are there before a stream is made and after. Only a stream with a ring of its own makes one, so
//! a stream that shares its ring is noticed, and refused: suspending the ring would stop others.

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

/// Why a stream's queue cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unattributed {
    /// No queue was made.
    #[error(
        "no queue was made for the stream, so it shares a hardware ring with others, and \
         suspending that would stop them too; make a stream with a ring of its own \
         (hipExtStreamCreateWithCUMask with all units set), within the opening of the queue"
    )]
    Shared,
    /// Several were.
    #[error(
        "queues {ids:?} were made at once, and which one is the stream's cannot be told; launch a \
         kernel and a copy first, so that the runtime has made its own, and open the queue again"
    )]
    Several {
        /// Their ids.
        ids: Vec<u32>,
    },
    /// There is nothing to look at.
    #[error(
        "which queue a stream is can be seen by nobody here: preload libxsched_kfd_watch.so \
         (LD_PRELOAD), or use the mechanism `debug-trap`"
    )]
    NobodyLooks,
    /// Ids are not enough to name a queue.
    #[error(
        "the program has given a file of the driver a process of its own (CREATE_PROCESS), so that \
         the same id can mean several queues; this cannot be held at Lv3"
    )]
    OtherSpaces,
    /// Sysfs says otherwise.
    #[error(
        "the driver lists queue {id} in sysfs with another GPU or size than it was made with, so \
         something is mistaken; preload libxsched_kfd_watch.so first of all libraries"
    )]
    Contradicted {
        /// Its id.
        id: u32,
    },
    /// It copies, and runs no waves.
    #[error("queue {id} is no compute queue, and has no waves to interrupt")]
    NoWaves {
        /// Its id.
        id: u32,
    },
    /// The driver could not be asked.
    #[error(transparent)]
    Driver(#[from] KfdError),
}

/// What was there before a stream was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// A point in time.
    Mark(u64),
    /// The queues that there were, each as the number that its debugger gave it.
    Queues(BTreeSet<u64>),
}

/// Sees which queues are made.
pub trait Attribution: Debug + Send + Sync {
    /// To be called before a stream is made, on the thread that makes it.
    ///
    /// # Errors
    /// If the driver cannot be asked.
    fn before(&self) -> Result<Before, Unattributed>;

    /// The compute queues that were made since, to be called on the same thread.
    ///
    /// # Errors
    /// If the driver cannot be asked.
    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed>;

    /// The one queue that was made since.
    ///
    /// # Errors
    /// [`Unattributed`]: none was, or several.
    fn the_one_since(&self, before: &Before) -> Result<QueueFacts, Unattributed> {
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

/// By the calls that this program makes, as a preloaded library sees them: exact, and by thread.
#[derive(Debug)]
pub struct ByCalls(pub Arc<Preloaded>);

impl Attribution for ByCalls {
    fn before(&self) -> Result<Before, Unattributed> {
        Ok(Before::Mark(self.0.mark()))
    }

    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        if !self.0.has_one_space() {
            return Err(Unattributed::OtherSpaces);
        }
        let Before::Mark(mark) = before else { return Err(Unattributed::NobodyLooks) };
        let made = self.0.created_since(*mark);
        Ok(made.iter().map(|record| record.facts).filter(QueueFacts::runs_waves).collect())
    }
}

/// By the debugger's list of queues, before and after. Streams that are made on other threads at
/// the same time are mistaken for it, and noticed by their number. The list does not say a queue's
/// priority: [`crate::NORMAL`] is assumed, which streams with a ring of their own have.
#[derive(Debug)]
pub struct BySnapshot<D: Driver>(pub Arc<DebugTrap<D>>);

impl<D: Driver> Attribution for BySnapshot<D> {
    fn before(&self) -> Result<Before, Unattributed> {
        let queues = self.0.numbered_queues()?;
        Ok(Before::Queues(queues.iter().map(|(number, _)| *number).collect()))
    }

    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        let Before::Queues(known) = before else { return Err(Unattributed::NobodyLooks) };
        let queues = self.0.numbered_queues()?.into_iter();
        let new = queues.filter(|(number, queue)| queue.runs_waves() && !known.contains(number));
        Ok(new.map(|(_, queue)| queue).collect())
    }
}

/// Nobody looks.
#[derive(Clone, Copy, Debug)]
pub struct Blind;

impl Attribution for Blind {
    fn before(&self) -> Result<Before, Unattributed> {
        Ok(Before::Mark(0))
    }

    fn made_since(&self, _: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        Err(Unattributed::NobodyLooks)
    }
}

/// The queue with this ring, among all of a process: for a stream that is there already and whose
/// `hsa_queue_t` is known, from ROCm's log or its tools' interface. `base_address` of that is the
/// ring.
#[must_use]
pub fn by_ring(queues: &[QueueFacts], ring_base: u64) -> Option<QueueFacts> {
    let mut found = queues.iter().filter(|queue| queue.ring_base == ring_base);
    // Two with one ring are none.
    found.next().copied().filter(|_| found.next().is_none())
}

/// Holds what is known of a queue against what sysfs lists. What sysfs does not list says nothing:
/// in a container this process has another number there.
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
    fn a_queue_is_told_by_the_difference() {
        let fake = Fake::with_queues(2);
        let trap = DebugTrap::own(fake.versioned()).expect("the runtime is enabled");
        let by = BySnapshot(Arc::new(trap));
        let before = by.before().expect("it can be asked");
        assert_eq!(by.the_one_since(&before), Err(Unattributed::Shared));
        let more = Fake::with_queues(4).state().queues.clone();
        fake.state().queues.insert(2, more[&2]);
        let one = by.the_one_since(&before).expect("one was made");
        assert_eq!((one.id, one.ring_base, one.priority), (2, ring(2), 7));
        fake.state().queues.insert(3, more[&3]);
        let several = Unattributed::Several { ids: vec![2, 3] };
        assert_eq!(by.the_one_since(&before), Err(several));
        // One that took the id of another that has gone is new.
        let mut again = more[&0];
        again.ring_base = 0xdead_0000;
        let same = fake.state().queues[&1];
        fake.state().queues = [(0, again), (1, same)].into();
        assert_eq!(by.the_one_since(&before).map(|queue| queue.ring_base), Ok(0xdead_0000));
    }

    #[test]
    fn one_with_the_id_and_the_ring_of_another_that_is_gone_is_new() {
        let fake = Fake::with_queues(2);
        let trap = DebugTrap::own(fake.versioned()).expect("the runtime is enabled");
        let by = BySnapshot(Arc::new(trap));
        let before = by.before().expect("it can be asked");
        // Destroyed, and made again in the same memory.
        let again = Fake::with_queues(2).state().queues[&1];
        fake.state().queues.insert(1, again);
        assert_eq!(by.the_one_since(&before).map(|queue| queue.id), Ok(1));
        assert_eq!(by.the_one_since(&before).map(|queue| queue.id), Ok(1), "asked twice");
    }

    #[test]
    fn nobody_sees_nothing() {
        let before = Blind.before().expect("it asks nobody");
        assert_eq!(Blind.the_one_since(&before), Err(Unattributed::NobodyLooks));
    }

    #[test]
    fn a_ring_names_a_queue_if_no_other_has_it() {
        let queues = [*queue(0).facts(), *queue(1).facts()];
        assert_eq!(by_ring(&queues, ring(1)), Some(queues[1]));
        assert_eq!(by_ring(&queues, 1), None);
        assert_eq!(by_ring(&[queues[0], queues[0]], ring(0)), None);
    }

    #[test]
    fn sysfs_has_its_say() {
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
