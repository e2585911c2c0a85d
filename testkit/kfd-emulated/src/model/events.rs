//! Events that processes wait for, as far as one process sets and awaits its own.

use rustix::io::Errno;

use super::process::Event;
use super::{Handled, Host, Model};
use crate::wire::{Argument, nr};

/// Bytes of one entry of `WAIT_EVENTS`, and where its id is.
const ENTRY_BYTES: usize = 48;
const ENTRY_ID: usize = 40;
/// Events that can be awaited at once, a bound of the emulator.
const AWAITED_MAX: u32 = 4_096;
/// What a wait comes to.
const COMPLETE: u32 = 0;
const TIMEOUT: u32 = 1;
/// Waits without an end are cut off after so many milliseconds, as timeouts.
const TIMEOUT_MS_MAX: u32 = 60_000;
/// Where the page of signals can be mapped: its type, in the upper bits.
const EVENTS_PAGE: u64 = 2 << 62;

impl Model {
    pub(super) fn create_event(&mut self, pid: u32, argument: &mut Argument<'_>) -> Handled {
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        // From 1: 0 is no event.
        let id = process.events.last_key_value().map_or(1, |(last, _)| last + 1);
        let auto_reset = argument.u32(16) != 0;
        process.events.insert(id, Event { auto_reset, is_set: false });
        argument.set_u64(0, EVENTS_PAGE);
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
            nr::SET_EVENT => event.is_set = true,
            nr::RESET_EVENT => event.is_set = false,
            _ => {
                process.events.remove(&id);
            }
        }
        Ok(0)
    }

    pub(super) fn wait_events(
        &mut self,
        pid: u32,
        argument: &mut Argument<'_>,
        host: &mut dyn Host,
    ) -> Handled {
        let (address, count, for_all) = (argument.u64(0), argument.u32(8), argument.u32(12) != 0);
        let timeout_ms = argument.u32(16).min(TIMEOUT_MS_MAX);
        if count > AWAITED_MAX {
            return Err(Errno::NOMEM.into());
        }
        let mut entries = vec![0; count as usize * ENTRY_BYTES];
        host.read(pid, address, &mut entries)?;
        let (chunks, _) = entries.as_chunks::<ENTRY_BYTES>();
        let id = |entry: &[u8; ENTRY_BYTES]| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&entry[ENTRY_ID..ENTRY_ID + 4]);
            u32::from_ne_bytes(bytes)
        };
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        let mut set = 0;
        for entry in chunks {
            set += u32::from(process.events.get(&id(entry)).ok_or(Errno::INVAL)?.is_set);
        }
        let is_done = if for_all { set == count } else { set > 0 };
        if is_done {
            for event in chunks.iter().map(id) {
                if let Some(event) = process.events.get_mut(&event).filter(|event| event.auto_reset)
                {
                    event.is_set = false;
                }
            }
        } else {
            self.ready_ns = self.ready_ns.saturating_add(u64::from(timeout_ms) * 1_000_000);
        }
        argument.set_u32(20, if is_done { COMPLETE } else { TIMEOUT });
        Ok(0)
    }
}
