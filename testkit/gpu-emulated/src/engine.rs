//! Engine of a queue's packets, of either kind, and its image in memory.

use xsched_gfx942::{Clock, Config};

use crate::access::View;
use crate::aql::Aql;
use crate::failure::Failure;
use crate::sdma::Sdma;

/// A queue's ring, by addresses of the GPU's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ring {
    /// Where it is.
    pub base: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where the number of packets written is, or of bytes.
    pub write_pointer: u64,
    /// Where the number of packets read is, or of bytes.
    pub read_pointer: u64,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There may be more to do.
    Did,
    /// A packet or all waves wait for memory to change.
    Waits,
    /// No packet.
    Idle,
}

/// Kinds of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// AQL packets.
    Aql,
    /// Packets of the engines that copy memory.
    Sdma,
}

/// Engine of a queue's packets.
#[derive(Debug)]
pub enum Engine {
    /// For AQL packets. A large one: it has a kernel's waves.
    Aql(Box<Aql>),
    /// For packets of the engines that copy memory.
    Sdma(Sdma),
}

/// Magic number of an image, with its version.
const MAGIC: u64 = u64::from_le_bytes(*b"xsqueue1");

impl Engine {
    /// For a queue that has just been made.
    ///
    /// # Errors
    /// If the read pointer is not there.
    pub fn new(kind: Kind, ring: Ring, config: Config, view: &View<'_>) -> Result<Self, Failure> {
        Ok(match kind {
            Kind::Aql => Self::Aql(Box::new(Aql::new(ring, config, view)?)),
            Kind::Sdma => Self::Sdma(Sdma::new(ring, view)?),
        })
    }

    /// Does a little of what there is to do: some instructions, or a packet.
    ///
    /// # Errors
    /// If the queue cannot go on.
    pub fn step(
        &mut self,
        view: &View<'_>,
        clock: &impl Clock,
        doorbell: u64,
    ) -> Result<Step, Failure> {
        match self {
            Self::Aql(queue) => queue.step(view, clock, doorbell),
            Self::Sdma(queue) => queue.step(view, clock, doorbell),
        }
    }

    /// Appends an image of all that is needed to go on.
    pub fn save(&self, image: &mut Vec<u8>) {
        image.extend(MAGIC.to_le_bytes());
        match self {
            Self::Aql(queue) => queue.save(image),
            Self::Sdma(queue) => queue.save(image),
        }
    }

    /// Goes on from an image.
    ///
    /// # Errors
    /// If it is not what was saved.
    pub fn restore(
        kind: Kind,
        ring: Ring,
        config: Config,
        image: &[u8],
        view: &View<'_>,
    ) -> Result<Self, Failure> {
        let mut image = Reader(image);
        if image.word()? != MAGIC {
            return Err(Failure::Damaged("it does not start as an image does"));
        }
        Ok(match kind {
            Kind::Aql => Self::Aql(Box::new(Aql::restore(ring, config, &mut image, view)?)),
            Kind::Sdma => Self::Sdma(Sdma::restore(ring, &mut image)?),
        })
    }
}

/// Rest of an image.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn word(&mut self) -> Result<u64, Failure> {
        let (word, rest) = self.0.split_first_chunk().ok_or(Failure::Damaged("it ends early"))?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.0
    }
}
