//! Events that processes wait for: set by themselves, or by the device.

use rustix::io::Errno;

use super::process::Event;
use super::{Asked, Block, Handled, Model};
use crate::wire::{Argument, nr};

/// Kinds of events that the device sets, and that the processor may set as well.
const SIGNAL: u32 = 0;
/// The kind that tells of wrong addresses.
pub(super) const MEMORY: u32 = 8;
/// Above this is no kind.
const KIND_LAST: u32 = 8;
/// Bytes of one entry of `WAIT_EVENTS`, and where its id is.
const ENTRY_BYTES: usize = 48;
const ENTRY_ID: usize = 40;
/// Where an entry has what came with the event, which starts with the age of a signal.
const DATA_BYTES: usize = 32;
/// Events of a process, as in the driver, and this many that can be awaited at once.
const EVENTS_MAX: u32 = 4_096;
/// Results of a wait.
const COMPLETE: u32 = 0;
const TIMEOUT: u32 = 1;
const FAIL: u32 = 2;
/// A wait without an end, in milliseconds.
const FOR_EVER: u32 = u32::MAX;
/// Where the page of signals can be mapped: its type, in the upper bits.
const EVENTS_PAGE: u64 = 2 << 62;

impl Event {
    /// As the driver sets it: signals count.
    const fn set(&mut self) {
        self.is_set = true;
        if self.kind == SIGNAL {
            self.age += 1;
        }
    }

    /// True if a wait for it is over, which knew a signal at an age, or at none (0).
    const fn is_over(&self, known: u64) -> bool {
        self.is_set || self.kind == SIGNAL && known > 0 && self.age != known
    }
}

fn id_of(entry: &[u8; ENTRY_BYTES]) -> u32 {
    Argument(&mut entry.clone()).u32(ENTRY_ID)
}

fn known_age(entry: &[u8; ENTRY_BYTES]) -> u64 {
    Argument(&mut entry.clone()).u64(0)
}

impl Model {
    pub(super) fn create_event(&mut self, pid: u32, argument: &mut Argument<'_>) -> Handled {
        let (kind, auto_reset) = (argument.u32(12), argument.u32(16) != 0);
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        if kind > KIND_LAST {
            return Err(Errno::INVAL.into());
        }
        // From 1: 0 is no event.
        let free = (1..EVENTS_MAX).find(|id| !process.events.contains_key(id));
        let id = free.ok_or(Errno::NOSPC)?;
        let event = Event { kind, auto_reset, age: 1, ..Event::default() };
        process.events.insert(id, event);
        argument.set_u64(0, EVENTS_PAGE);
        argument.set_u32(8, id);
        argument.set_u32(24, id);
        argument.set_u32(28, id);
        Ok(0)
    }

    pub(super) fn change_event(
        &mut self,
        pid: u32,
        number: u8,
        argument: &Argument<'_>,
    ) -> Handled {
        let id = argument.u32(0);
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        let event = process.events.get_mut(&id).ok_or(Errno::INVAL)?;
        match number {
            nr::DESTROY_EVENT => {
                process.events.remove(&id);
            }
            // The others are the driver's to set.
            _ if event.kind != SIGNAL => return Err(Errno::INVAL.into()),
            nr::SET_EVENT => event.set(),
            _ => event.is_set = false,
        }
        self.event_changes += 1;
        Ok(0)
    }

    /// Sets all events of a kind of a process, with what comes with them.
    pub(super) fn set_events(&mut self, pid: u32, kind: u32, data: [u8; DATA_BYTES]) -> u32 {
        let Some(process) = self.processes.get_mut(&pid) else { return 0 };
        let mut set = 0;
        for event in process.events.values_mut().filter(|event| event.kind == kind) {
            event.set();
            event.data = data;
            set += 1;
        }
        self.event_changes += 1;
        set
    }

    pub(super) fn wait_events(&mut self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let (address, count, for_all) = (argument.u64(0), argument.u32(8), argument.u32(12) != 0);
        if count > EVENTS_MAX {
            return Err(Errno::NOMEM.into());
        }
        let mut entries = vec![0; count as usize * ENTRY_BYTES];
        host.read(pid, address, &mut entries)?;
        let (chunks, _) = entries.as_chunks_mut::<ENTRY_BYTES>();
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        let mut over = 0;
        for entry in chunks.iter() {
            let Some(event) = process.events.get(&id_of(entry)) else {
                // One that went while it was awaited.
                let awaited = self.until_ns.is_some();
                argument.set_u32(20, if awaited { FAIL } else { 0 });
                return Err(if awaited { Errno::IO } else { Errno::INVAL }.into());
            };
            over += u32::from(event.is_over(known_age(entry)));
        }
        if if for_all { over < count } else { over == 0 } {
            return self.wait_on(argument);
        }
        for entry in chunks {
            if let Some(event) = process.events.get_mut(&id_of(entry)) {
                tell(event, entry);
            }
        }
        host.write(pid, address, &entries)?;
        argument.set_u32(20, COMPLETE);
        Ok(0)
    }

    /// Not yet: the call blocks, or gives up.
    fn wait_on(&self, argument: &mut Argument<'_>) -> Handled {
        let timeout_ms = argument.u32(16);
        let until_ns = self.until_ns.unwrap_or(match timeout_ms {
            FOR_EVER => u64::MAX,
            some => self.now_ns.saturating_add(u64::from(some) * 1_000_000),
        });
        if self.now_ns < until_ns {
            return Err(Block::Events { until_ns, seen: self.event_changes }.into());
        }
        argument.set_u32(20, TIMEOUT);
        Ok(0)
    }
}

/// Puts into an entry what came with an event, and resets one that resets itself.
fn tell(event: &mut Event, entry: &mut [u8; ENTRY_BYTES]) {
    if event.kind == SIGNAL && known_age(entry) > 0 {
        Argument(entry).set_u64(0, event.age);
    } else if event.is_set && event.kind != SIGNAL {
        entry[..DATA_BYTES].copy_from_slice(&event.data);
    }
    event.is_set &= !event.auto_reset;
}
