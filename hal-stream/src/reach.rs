//! Where commands go besides their stream's ring.

/// Which queues of the hardware a command goes into. It matters on devices where streams share
/// such queues, and to know a copy, which may wait for its stream within the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The ring of its stream.
    #[default]
    Ring,
    /// That of a copy engine as well, where it waits for what is in front of it in its stream.
    Copies,
    /// These and the rings of other streams, as parallel branches of a graph do.
    All,
}
