//! Holds, as a whole, of the hardware queues that a queue shares with others.

use std::sync::{Arc, OnceLock, Weak};

use crate::flags::FlagWord;
use crate::gate_closure::Ring;
use crate::gated_stream::GatedStream;

/// Check that all streams in the hardware ring of a queue are held, or have nothing to do, and
/// so are those with commands where some of the queue's wait: a backend that stops whole rings asks
/// it before it stops this one, and again and again while it does.
///
/// It knows nothing until a queue is opened with it
/// ([`StreamConfig::held_ring_to`](crate::StreamConfig::held_ring_to)).
#[derive(Clone, Debug, Default)]
pub struct HeldRing(Arc<OnceLock<Weak<GatedStream<Option<FlagWord>>>>>);

impl HeldRing {
    pub(crate) fn watch(&self, member: &Arc<GatedStream<Option<FlagWord>>>) {
        if member.coupling.may_spread && member.coupling.ring != Ring::Unknown {
            // The first queue counts.
            let _ = self.0.set(Arc::downgrade(member));
        }
    }

    /// `None` if the queue is in a ring of its own, with nothing in others, or its ring cannot be
    /// held as a whole.
    #[must_use]
    pub fn is_held(&self) -> Option<bool> {
        let Some(member) = self.0.get()?.upgrade() else { return Some(false) };
        let shares = member.coupling.ring != Ring::Own || member.has_work_in_shared_queues();
        shares.then(|| member.gate.is_held() && !member.gate.stays_open())
    }
}
