//! Queues of the engines that copy memory. They stop between packets.

use xsched_gfx942::{Clock, Fault, Memory};

use crate::access::View;
use crate::engine::{Reader, Ring, Step};
use crate::failure::Failure;

/// Opcodes of packets.
const NOP: u32 = 0;
const COPY: u32 = 1;
const WRITE: u32 = 2;
const FENCE: u32 = 5;
const TRAP: u32 = 6;
const POLL: u32 = 8;
const ATOMIC: u32 = 10;
const FILL: u32 = 11;
const TIMESTAMP: u32 = 13;
const CACHES: u32 = 17;
/// Kinds of copies: in one piece, and of a box in memory.
const LINEAR: u32 = 0;
const RECTANGLE: u32 = 4;
/// Addition to 8 bytes, the only atomic that the runtime uses.
const ADD_64: u32 = 47;
/// Where the runtime asks for a time.
const GLOBAL_TIME: u32 = 2;
const WORD_BYTES: u64 = 4;
/// Counts of bytes are less by one, and have this many bits.
const COUNT_MASK: u32 = 0x3fff_ffff;
/// How much is filled at once.
const FILL_BYTES: usize = 1 << 16;

/// A queue of such packets.
#[derive(Debug)]
pub struct Sdma {
    ring: Ring,
    /// Bytes that were read so far.
    read: u64,
}

/// A packet, word by word.
struct Packet<'a> {
    ring: &'a Ring,
    start: u64,
    view: &'a View<'a>,
}

impl Packet<'_> {
    fn word(&self, number: u64) -> Result<u32, Fault> {
        let at = self.start.wrapping_add(number * WORD_BYTES) % self.ring.bytes.max(WORD_BYTES);
        self.view.read_u32(self.ring.base.wrapping_add(at))
    }

    fn quad(&self, number: u64) -> Result<u64, Fault> {
        Ok(u64::from(self.word(number)?) | u64::from(self.word(number + 1)?) << 32)
    }
}

/// Outcome of a packet: this many words are done, or it waits.
enum Done {
    Words(u64),
    Waits,
    Unsupported(&'static str),
}

impl Sdma {
    /// A queue whose next packet is where its read pointer says.
    ///
    /// # Errors
    /// If the read pointer is not there.
    pub fn new(ring: Ring, view: &View<'_>) -> Result<Self, Failure> {
        let read = view.read_u64(ring.read_pointer);
        let read = read.map_err(|fault| Failure::Memory { at: ring.read_pointer, fault })?;
        Ok(Self { ring, read })
    }

    /// Carries out a packet, up to the byte that the doorbell says.
    ///
    /// # Errors
    /// If the queue cannot go on.
    pub fn step(
        &mut self,
        view: &View<'_>,
        clock: &impl Clock,
        doorbell: u64,
    ) -> Result<Step, Failure> {
        if doorbell <= self.read {
            return Ok(Step::Idle);
        }
        let at = self.ring.base + self.read % self.ring.bytes.max(WORD_BYTES);
        let lost = |fault| Failure::Memory { at, fault };
        let packet = Packet { ring: &self.ring, start: self.read, view };
        match carry_out(&packet, clock).map_err(lost)? {
            Done::Words(words) => {
                self.read += words * WORD_BYTES;
                view.write_u64(self.ring.read_pointer, self.read).map_err(lost)?;
                Ok(Step::Did)
            }
            Done::Waits => Ok(Step::Waits),
            Done::Unsupported(what) => Err(Failure::Unsupported { at, what }),
        }
    }

    pub(crate) fn save(&self, image: &mut Vec<u8>) {
        image.extend(self.read.to_le_bytes());
    }

    pub(crate) fn restore(ring: Ring, image: &mut Reader<'_>) -> Result<Self, Failure> {
        Ok(Self { ring, read: image.word()? })
    }
}

fn carry_out(packet: &Packet<'_>, clock: &impl Clock) -> Result<Done, Fault> {
    let header = packet.word(0)?;
    let view = packet.view;
    let words = match (header & 0xff, header >> 8 & 0xff) {
        (NOP, _) => 1 + u64::from(header >> 16 & 0x3fff),
        (COPY, LINEAR) => {
            let bytes = (packet.word(1)? & COUNT_MASK) as usize + 1;
            view.copy(packet.quad(3)?, packet.quad(5)?, bytes)?;
            7
        }
        (COPY, RECTANGLE) => {
            rectangle(packet, header >> 29)?;
            13
        }
        (WRITE, LINEAR) => {
            let (to, count) = (packet.quad(1)?, u64::from(packet.word(3)? & 0xf_ffff) + 1);
            for number in 0..count {
                view.write_u32(to.wrapping_add(number * WORD_BYTES), packet.word(4 + number)?)?;
            }
            4 + count
        }
        (FENCE, _) => {
            view.write_u32(packet.quad(1)?, packet.word(3)?)?;
            4
        }
        (TRAP, _) => {
            view.interrupt(packet.word(1)?);
            2
        }
        (POLL, _) => return poll(packet, header),
        (ATOMIC, _) => {
            if header >> 25 != ADD_64 {
                return Ok(Done::Unsupported("an atomic other than an addition to 8 bytes"));
            }
            let operand = packet.quad(3)?;
            view.update_u64(packet.quad(1)?, &mut |value| value.wrapping_add(operand))?;
            8
        }
        (FILL, _) => {
            fill(packet, header >> 30)?;
            5
        }
        (TIMESTAMP, GLOBAL_TIME) => {
            view.write_u64(packet.quad(1)?, clock.now_ns() / 10)?;
            3
        }
        // All memory is coherent here.
        (CACHES, _) => 5,
        _ => return Ok(Done::Unsupported("an unknown packet")),
    };
    Ok(Done::Words(words))
}

/// Waits for a word, or flushes what needs no flush here.
fn poll(packet: &Packet<'_>, header: u32) -> Result<Done, Fault> {
    const WORDS: u64 = 6;
    let (function, flushes) = (header >> 28 & 7, header >> 26 & 1 != 0);
    // Without a comparison it flushes as well, and has an address that is none.
    if function == 0 || flushes {
        return Ok(Done::Words(WORDS));
    }
    let value = packet.view.read_u32(packet.quad(1)?)? & packet.word(4)?;
    let wanted = packet.word(3)?;
    let is_over = match function {
        1 => value < wanted,
        2 => value <= wanted,
        3 => value == wanted,
        4 => value != wanted,
        5 => value >= wanted,
        6 => value > wanted,
        _ => false,
    };
    Ok(if is_over { Done::Words(WORDS) } else { Done::Waits })
}

/// Fills memory with a pattern of 1, 2 or 4 bytes.
fn fill(packet: &Packet<'_>, size: u32) -> Result<(), Fault> {
    let (to, pattern) = (packet.quad(1)?, packet.word(3)?.to_le_bytes());
    let bytes = (packet.word(4)? & COUNT_MASK) as usize + 1;
    let width = 1 << size.min(2);
    // A count in words is that of the last one's first byte.
    let bytes = bytes.next_multiple_of(width);
    let piece: Vec<u8> =
        pattern[..width].iter().copied().cycle().take(FILL_BYTES.min(bytes)).collect();
    let mut done = 0;
    while done < bytes {
        let now = piece.len().min(bytes - done);
        packet.view.write(to.wrapping_add(done as u64), &piece[..now])?;
        done += now;
    }
    Ok(())
}

/// One side of the copy of a box: where it starts, and how far rows and slices are apart, in
/// elements.
struct Side {
    start: u64,
    offset: [u64; 3],
    pitch: u64,
    slice: u64,
}

impl Side {
    fn of(packet: &Packet<'_>, number: u64) -> Result<Self, Fault> {
        let [one, two, three] =
            [packet.word(number + 2)?, packet.word(number + 3)?, packet.word(number + 4)?];
        let offset = [one & 0x3fff, one >> 16 & 0x3fff, two & 0x7ff].map(u64::from);
        let pitch = u64::from(two >> 13) + 1;
        let slice = u64::from(three & 0x0fff_ffff) + 1;
        Ok(Self { start: packet.quad(number)?, offset, pitch, slice })
    }

    fn row(&self, y: u64, z: u64, width: u64) -> u64 {
        let [first, row, slice] = self.offset;
        let element = first + (row + y) * self.pitch + (slice + z) * self.slice;
        self.start.wrapping_add(element * width)
    }
}

fn rectangle(packet: &Packet<'_>, element: u32) -> Result<(), Fault> {
    let (from, to) = (Side::of(packet, 1)?, Side::of(packet, 6)?);
    let (plane, depth) = (packet.word(11)?, packet.word(12)?);
    let width = 1 << element.min(4);
    let bytes = (u64::from(plane & 0x3fff) + 1) * width;
    for z in 0..=u64::from(depth & 0x7ff) {
        for y in 0..=u64::from(plane >> 16 & 0x3fff) {
            packet.view.copy(from.row(y, z, width), to.row(y, z, width), bytes as usize)?;
        }
    }
    Ok(())
}
