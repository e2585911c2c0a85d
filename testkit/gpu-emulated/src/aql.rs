//! Queues of AQL packets: what their packet processor does, one packet after the other.

use xsched_gfx942::{Clock, Config, Execution, Memory, PACKET_BYTES, Progress};

use crate::access::View;
use crate::engine::{Reader, Ring, Step};
use crate::failure::Failure;
use crate::occupancy;

/// Types of packets.
const VENDOR: u32 = 0;
const INVALID: u32 = 1;
const DISPATCH: u32 = 2;
const BARRIER_AND: u32 = 3;
const AGENT_DISPATCH: u32 = 4;
const BARRIER_OR: u32 = 5;
/// Formats of AMD's own packets.
const PM4: u8 = 1;
const BARRIER_VALUE: u8 = 2;
/// Where a packet has its completion signal.
const AT_SIGNAL: usize = 56;
/// Signals that a barrier waits for, and where they are.
const SIGNALS: usize = 5;
const AT_SIGNALS: usize = 8;
/// Where a signal has its value, the event's mailbox and number, and its times.
const SIGNAL_VALUE: u64 = 8;
const SIGNAL_MAILBOX: u64 = 16;
const SIGNAL_EVENT: u64 = 24;
const SIGNAL_START: u64 = 32;
const SIGNAL_END: u64 = 40;
/// Instructions of a kernel that are carried out at once.
const INSTRUCTIONS: u64 = 256;
/// Words of an indirect buffer, at most.
const PM4_WORDS_MAX: u32 = 4_096;
/// Packets that indirect buffers may have: nothing, and what concerns caches.
const PM4_NOP: u32 = 0x10;
const PM4_INDIRECT: u32 = 0x3f;
const PM4_ACQUIRE_MEM: u32 = 0x58;
const PM4_RELEASE_MEM: u32 = 0x49;

type Packet = [u8; PACKET_BYTES];

fn word(packet: &Packet, at: usize) -> u32 {
    u32::from_le_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}

fn quad(packet: &Packet, at: usize) -> u64 {
    u64::from(word(packet, at)) | u64::from(word(packet, at + 4)) << 32
}

/// A queue of AQL packets.
#[derive(Debug)]
pub struct Aql {
    ring: Ring,
    config: Config,
    /// The number of the present packet.
    read: u64,
    /// When the present packet was started, in the GPU's ticks; 0 if it was not.
    started: u64,
    kernel: Option<Execution>,
    /// Kernels that were carried out.
    kernels: u64,
}

impl Aql {
    /// A queue whose next packet is the one that its read pointer says.
    ///
    /// # Errors
    /// If the read pointer is not there.
    pub fn new(ring: Ring, config: Config, view: &View<'_>) -> Result<Self, Failure> {
        let read = view.read_u64(ring.read_pointer);
        let read = read.map_err(|fault| Failure::Memory { at: ring.read_pointer, fault })?;
        Ok(Self { ring, config, read, started: 0, kernel: None, kernels: 0 })
    }

    /// Where a packet is.
    fn address(&self, number: u64) -> u64 {
        self.ring.base
            + number % (self.ring.bytes / PACKET_BYTES as u64).max(1) * PACKET_BYTES as u64
    }

    /// Does a little of what there is to do.
    ///
    /// # Errors
    /// If the queue cannot go on.
    pub fn step(
        &mut self,
        view: &View<'_>,
        clock: &impl Clock,
        doorbell: u64,
    ) -> Result<Step, Failure> {
        let at = self.address(self.read);
        let lost = |fault| Failure::Memory { at, fault };
        if let Some(kernel) = &mut self.kernel {
            return match kernel.run(view, clock, INSTRUCTIONS)? {
                Progress::Running => Ok(Step::Did),
                Progress::Waiting => Ok(Step::Waits),
                Progress::Done => {
                    self.kernel = None;
                    self.kernels += 1;
                    self.finish(view, clock)
                }
            };
        }
        // A doorbell that was never rung. Later ones may be overwritten by earlier ones, as the
        // threads of a program come; the write pointer has all of them.
        if doorbell == u64::MAX
            || view.read_u64(self.ring.write_pointer).map_err(lost)? <= self.read
        {
            return Ok(Step::Idle);
        }
        // The header first: it is written last.
        let header = view.read_u32(at).map_err(lost)?;
        if header & 0xff == INVALID {
            return Ok(Step::Idle);
        }
        let mut packet = [0; PACKET_BYTES];
        view.read(at, &mut packet).map_err(lost)?;
        if self.started == 0 {
            self.started = ticks(clock);
        }
        if self.begin(&packet, at, view)? { self.finish(view, clock) } else { self.waiting() }
    }

    /// After a packet that is not done: a kernel was started, or a barrier waits.
    const fn waiting(&self) -> Result<Step, Failure> {
        Ok(if self.kernel.is_some() { Step::Did } else { Step::Waits })
    }

    /// Begins a packet, or looks at what it waits for. Whether it is done.
    fn begin(&mut self, packet: &Packet, at: u64, view: &View<'_>) -> Result<bool, Failure> {
        let header = word(packet, 0);
        let lost = |fault| Failure::Memory { at, fault };
        match header & 0xff {
            DISPATCH => {
                let mut config = Config { dispatch_id: self.read, ..self.config };
                config.workgroups_max = occupancy::workgroups(packet, view, config.workgroups_max);
                self.kernel = Some(Execution::start(packet, at, view, &config)?);
                Ok(false)
            }
            BARRIER_AND => signals(packet, view, true).map_err(lost),
            BARRIER_OR => signals(packet, view, false).map_err(lost),
            VENDOR => match packet[2] {
                BARRIER_VALUE => compare(packet, at, view),
                PM4 => indirect(packet, at, view).map(|()| true),
                _ => Err(Failure::Vendor { at, what: "an unknown format" }),
            },
            AGENT_DISPATCH => Err(Failure::Unsupported { at, what: "an agent dispatch" }),
            kind => Err(Failure::Reserved { at, kind }),
        }
    }

    /// The present packet is done: its place is free, its signal is told, and the next one comes.
    fn finish(&mut self, view: &View<'_>, clock: &impl Clock) -> Result<Step, Failure> {
        let at = self.address(self.read);
        let lost = |fault| Failure::Memory { at, fault };
        let signal = view.read_u64(at + AT_SIGNAL as u64).map_err(lost)?;
        view.update_u32(at, &mut |header| header & !0xff | INVALID).map_err(lost)?;
        self.read += 1;
        view.write_u64(self.ring.read_pointer, self.read).map_err(lost)?;
        let started = std::mem::take(&mut self.started);
        if signal != 0 {
            complete(signal, (started, ticks(clock)), view).map_err(lost)?;
        }
        Ok(Step::Did)
    }

    /// Kernels that were carried out.
    #[must_use]
    pub const fn kernels(&self) -> u64 {
        self.kernels
    }

    /// Appends what is needed to go on.
    pub(crate) fn save(&self, image: &mut Vec<u8>) {
        for word in [self.read, self.started, self.kernels, u64::from(self.kernel.is_some())] {
            image.extend(word.to_le_bytes());
        }
        if let Some(kernel) = &self.kernel {
            kernel.save(image);
        }
    }

    /// Goes on from what was saved.
    pub(crate) fn restore(
        ring: Ring,
        config: Config,
        image: &mut Reader<'_>,
        view: &View<'_>,
    ) -> Result<Self, Failure> {
        let [read, started, kernels, has_kernel] =
            [image.word()?, image.word()?, image.word()?, image.word()?];
        let mut queue = Self { ring, config, read, started, kernel: None, kernels };
        if has_kernel != 0 {
            let config = Config { dispatch_id: read, ..config };
            queue.kernel = Some(Execution::restore(image.rest(), view, &config)?);
        }
        Ok(queue)
    }
}

/// The GPU's clock, at 100 MHz.
fn ticks(clock: &impl Clock) -> u64 {
    (clock.now_ns() / 10).max(1)
}

/// True if all of a barrier's signals are 0, or one of them. Without any it is done.
fn signals(packet: &Packet, view: &View<'_>, all: bool) -> Result<bool, xsched_gfx942::Fault> {
    let mut any = false;
    let mut has_some = false;
    for signal in (0..SIGNALS).map(|number| quad(packet, AT_SIGNALS + number * 8)) {
        if signal == 0 {
            continue;
        }
        has_some = true;
        let is_zero = view.read_u64(signal.wrapping_add(SIGNAL_VALUE))? == 0;
        if all && !is_zero {
            return Ok(false);
        }
        any |= is_zero;
    }
    Ok(any || all || !has_some)
}

/// True if a barrier's signal has the value that it waits for.
fn compare(packet: &Packet, at: u64, view: &View<'_>) -> Result<bool, Failure> {
    let (signal, wanted) = (quad(packet, 8), quad(packet, 16).cast_signed());
    let (mask, condition) = (quad(packet, 24), word(packet, 32));
    if signal == 0 {
        return Ok(true);
    }
    let value = view.read_u64(signal.wrapping_add(SIGNAL_VALUE));
    let value = (value.map_err(|fault| Failure::Memory { at, fault })? & mask).cast_signed();
    match condition {
        0 => Ok(value == wanted),
        1 => Ok(value != wanted),
        2 => Ok(value < wanted),
        3 => Ok(value >= wanted),
        _ => Err(Failure::Vendor { at, what: "a barrier with an unknown condition" }),
    }
}

/// Commands of the command processor's own, of which those about caches are allowed: all memory
/// is coherent here.
fn indirect(packet: &Packet, at: u64, view: &View<'_>) -> Result<(), Failure> {
    let refused = |what| Err(Failure::Vendor { at, what });
    let header = word(packet, 4);
    if header >> 30 != 3 || header >> 8 & 0xff != PM4_INDIRECT {
        return refused("not an indirect buffer");
    }
    let (address, words) = (quad(packet, 8) & 0xffff_ffff_fffc, word(packet, 16) & 0xf_ffff);
    if words > PM4_WORDS_MAX {
        return refused("an indirect buffer that is too long");
    }
    let mut done = 0;
    while done < words {
        let place = address.wrapping_add(u64::from(done) * 4);
        let header = view.read_u32(place).map_err(|fault| Failure::Memory { at, fault })?;
        match header >> 8 & 0xff {
            _ if header >> 30 != 3 => return refused("an indirect buffer without commands"),
            PM4_NOP | PM4_ACQUIRE_MEM | PM4_RELEASE_MEM => {}
            _ => return refused("a command in an indirect buffer"),
        }
        done += (header >> 16 & 0x3fff) + 2;
    }
    Ok(())
}

/// A packet's signal counts down, and its event is told.
fn complete(
    signal: u64,
    (started, ended): (u64, u64),
    view: &View<'_>,
) -> Result<(), xsched_gfx942::Fault> {
    view.write_u64(signal.wrapping_add(SIGNAL_START), started)?;
    view.write_u64(signal.wrapping_add(SIGNAL_END), ended)?;
    // Before it counts down: then the signal may go.
    let mailbox = view.read_u64(signal.wrapping_add(SIGNAL_MAILBOX))?;
    let event = view.read_u32(signal.wrapping_add(SIGNAL_EVENT))?;
    view.update_u64(signal.wrapping_add(SIGNAL_VALUE), &mut |value| value.wrapping_sub(1))?;
    if mailbox != 0 {
        view.write_u64(mailbox, event.into())?;
        view.interrupt(event);
    }
    Ok(())
}
