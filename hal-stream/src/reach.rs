//! Where commands go besides their stream's ring.

/// Hardware queues that a command goes into. Matters on devices where streams share such queues,
/// and to know a copy, which may wait for its stream within the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The ring of its stream.
    #[default]
    Ring,
    /// The ring and the queue of a copy engine, where the command waits for what is in front of it
    /// in its stream.
    Copies,
    /// All of these and the rings of other streams, as parallel branches of a graph do.
    All,
}
