//! What the watch sees of a queue.

use crate::gate::Gate;
use crate::launches::LaunchCounter;
use crate::sync::Word;

/// A registered queue, or a probe.
#[derive(Debug)]
pub(crate) struct Member<W> {
    pub(crate) gate: Gate<W>,
    pub(crate) launches: LaunchCounter,
    /// The queue's stream, as messages name it. Empty for a probe.
    pub(crate) stream: String,
}

impl<W: Word> Member<W> {
    pub(crate) fn new(word: W, stream: String) -> Self {
        Self { gate: Gate::new(word), launches: LaunchCounter::new(), stream }
    }
}
