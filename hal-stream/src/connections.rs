//! Streams with work, where a device has fewer connections than that.
//!
//! CUDA gives a stream that gets something to do a connection to the device that no other stream
//! with work has. If all are taken, it shares one until it has nothing to do, and which one is not
//! known. What waits at a gate stops all that comes behind it in its connection: with as many
//! closed gates as connections nothing runs any more, whatever its priority. So while a stream may
//! share one, gates are closed only if nothing that goes on has work.
//!
//! A stream that waits for another one on the device takes a connection as well, and of that the
//! queues know nothing. So once streams wait for each other, more queues than connections are
//! enough.

use crate::gated_stream::GatedStream;
use crate::sync::Word;

/// How a queue counts: it has no work, it has some, or it may share a connection as well.
const IDLE: u64 = 0;
const BUSY: u64 = 1;
const SHARES: u64 = 2;

/// The queues of a device that have work, from when on there are more queues than connections.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Largest number of queues with work that share no connection.
    most: usize,
    queues: usize,
    /// Streams wait for each other on the device.
    waits: bool,
    busy: usize,
    sharing: usize,
}

impl Connections {
    /// Connections of a device on which `most` queues with work share none.
    pub(crate) const fn new(most: usize) -> Self {
        Self { most, queues: 0, waits: false, busy: 0, sharing: 0 }
    }

    /// Returns whether there may ever be too few.
    pub(crate) const fn are_limited(&self) -> bool {
        self.most < usize::MAX
    }

    /// Sets the number of queues. Returns whether there may be too few connections for them.
    pub(crate) const fn resize(&mut self, queues: usize) -> bool {
        self.queues = queues;
        self.are_too_few()
    }

    const fn are_too_few(&self) -> bool {
        self.queues > self.most
    }

    /// Returns whether a queue with work may share a connection.
    pub(crate) const fn are_shared(&self) -> bool {
        self.sharing > 0 || self.waits && self.are_too_few()
    }

    /// A stream waits for another one on the device. Whether that is new.
    pub(crate) const fn wait(&mut self) -> bool {
        let is_new = !self.waits && self.are_limited();
        self.waits |= is_new;
        is_new
    }

    /// Notes that a queue may have begun or ended to have work.
    pub(crate) fn note<W: Word>(&mut self, member: &GatedStream<W>) {
        match (member.counted(), member.is_busy()) {
            (IDLE, true) => {
                self.busy += 1;
                let shares = self.busy > self.most;
                self.sharing += usize::from(shares);
                member.count_as(if shares { SHARES } else { BUSY });
            }
            (_, false) => self.forget(member),
            _ => {}
        }
    }

    /// A queue has no work any more.
    pub(crate) fn forget<W: Word>(&mut self, member: &GatedStream<W>) {
        let counted = member.counted();
        self.busy -= usize::from(counted != IDLE);
        self.sharing -= usize::from(counted == SHARES);
        member.count_as(IDLE);
    }
}
