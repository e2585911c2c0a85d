//! Whether the queues of the hardware that a queue shares with others are held as a whole.

use std::sync::{Arc, OnceLock, Weak};

use crate::flags::FlagWord;
use crate::member::{Member, Ring};

/// Whether all streams in the hardware ring of a queue are held, or have nothing to do, and so are
/// those with commands where some of the queue's wait: a backend that stops whole rings asks it
/// before it stops this one, and again and again while it does.
///
/// It knows nothing until a queue is opened with it
/// ([`StreamConfig::held_ring_to`](crate::StreamConfig::held_ring_to)).
#[derive(Clone, Debug, Default)]
pub struct HeldRing(Arc<OnceLock<Weak<Member<Option<FlagWord>>>>>);

impl HeldRing {
    pub(crate) fn watch(&self, member: &Arc<Member<Option<FlagWord>>>) {
        if member.ties.may_spread && member.ties.ring != Ring::Unknown {
            // The first queue counts.
            let _ = self.0.set(Arc::downgrade(member));
        }
    }

    /// `None` if the queue is in a ring of its own, with nothing in others, or its ring cannot be
    /// held as a whole.
    #[must_use]
    pub fn is_held(&self) -> Option<bool> {
        let Some(member) = self.0.get()?.upgrade() else { return Some(false) };
        let shares = member.ties.ring != Ring::Own || member.is_beyond();
        shares.then(|| member.gate.is_held() && !member.gate.stays_open())
    }
}
