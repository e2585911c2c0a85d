//! Records of what all processes do, as the scheduler makes them.

use std::collections::HashMap;

use xsched_core::id::{CmdId, DeviceId};
use xsched_core::record::{Body, DeviceNote, Entry, Name, Tape as _};
use xsched_core::time::{Duration, Instant};

use super::super::record::{NO_QUEUE, Recording, Tape};
use super::Driver;

/// A process that has work for longer makes another request.
const REQUEST_MAX: Duration = Duration::from_ms(1_000);
/// The device time of a command, at most: by default gates are this far apart.
const COMMAND_MAX: Duration = Duration::from_us(300);
/// Commands of a request at most.
const COMMANDS_MAX: u64 = 2_048;

impl Driver {
    /// Begins a record; false if there is one.
    pub(super) fn record(&mut self, client: u64, tape: Tape, now: Instant) -> bool {
        if self.recording.is_some() {
            return false;
        }
        self.recording = Some(Recording { client, works: HashMap::new() });
        self.machine.start(now, tape);
        let devices: Vec<_> = self.gpu_clients.all().map(|gpu_client| gpu_client.device).collect();
        devices.into_iter().for_each(|device| self.note_device(device, now));
        self.gpu_clients.keys().into_iter().for_each(|key| self.note_program(key, now));
        self.gpu_clients.keys().into_iter().for_each(|key| self.note_work(key, now));
        self.gpu_clients.watch_all(true, now).into_iter().for_each(|key| self.refresh(key, now));
        true
    }

    /// Ends the record of a connection.
    pub(super) fn end_record(&mut self, client: u64, now: Instant) {
        if self.recording.as_ref().is_some_and(|recording| recording.client == client) {
            for key in self.gpu_clients.keys() {
                self.note_request(key, now);
            }
            self.recording = None;
            drop(self.machine.stop());
            self.gpu_clients
                .watch_all(false, now)
                .into_iter()
                .for_each(|key| self.refresh(key, now));
        }
    }

    /// Names a GPU in the record, if there is one.
    pub(super) fn note_device(&mut self, device: DeviceId, now: Instant) {
        let name = Name::new(self.devices.name(device));
        if let Some(tape) = self.machine.tape() {
            let body = Body::Device(DeviceNote { device, units: 1, name });
            tape.put(&Entry { at: now, queue: NO_QUEUE, body });
        }
    }

    /// Names the program of a process in the record, if there is one.
    pub(super) fn note_program(&mut self, key: u32, now: Instant) {
        let (Some(tape), Some(gpu_client)) = (self.machine.tape(), self.gpu_clients.get(key))
        else {
            return;
        };
        if let Some(client) = self.clients.get(&gpu_client.connection) {
            let tenant = &client.rights.party.tenant;
            let name = if tenant.is_granted {
                Name::new(&format!("{}: {}", tenant.name, client.name))
            } else {
                Name::new(&client.name)
            };
            let body = Body::Program(name);
            tape.put(&Entry { at: now, queue: gpu_client.queue, body });
        }
    }

    /// A process has work now, or none any more.
    pub(super) fn note_work(&mut self, key: u32, now: Instant) {
        if self.recording.is_none() {
            return;
        }
        self.note_request(key, now);
        let gpu_client = self.gpu_clients.get(key).filter(|gpu_client| gpu_client.is_ready());
        if let (Some(gpu_client), Some(recording)) = (gpu_client, &mut self.recording) {
            recording.works.entry(key).or_default().open = Some((now, gpu_client.used()));
        }
    }

    /// A process has left a GPU, and its number may become that of another.
    pub(super) fn forget_work(&mut self, key: u32, now: Instant) {
        self.note_request(key, now);
        if let Some(recording) = &mut self.recording {
            recording.works.remove(&key);
        }
    }

    /// Ends requests that go on for long, and a record that is over.
    pub(super) fn look_after_record(&mut self, now: Instant) {
        let Some(recording) = &self.recording else { return };
        let client = recording.client;
        let is_long = |key: &u32, (since, used): (Instant, Duration)| {
            let has_used =
                self.gpu_clients.get(*key).is_some_and(|gpu_client| gpu_client.used() > used);
            has_used && now.since(since) >= REQUEST_MAX
        };
        let works = recording.works.iter().filter_map(|(key, work)| Some((*key, work.open?)));
        let long: Vec<_> = works.filter(|(key, open)| is_long(key, *open)).collect();
        long.into_iter().for_each(|(key, _)| self.note_work(key, now));
        if self.machine.tape().is_some_and(|tape| tape.is_over) {
            self.end_record(client, now);
        }
    }

    /// Writes what a process has done since it has work.
    fn note_request(&mut self, key: u32, now: Instant) {
        let (Some(recording), Some(gpu_client)) = (&mut self.recording, self.gpu_clients.get(key))
        else {
            return;
        };
        let Some(work) = recording.works.get_mut(&key) else { return };
        let Some((since, before)) = work.open.take() else { return };
        let busy = Duration::from_ns(gpu_client.used().as_ns().saturating_sub(before.as_ns()));
        let count = busy.as_ns().div_ceil(COMMAND_MAX.as_ns()).clamp(1, COMMANDS_MAX);
        let (first, upto) = (work.commands, CmdId(work.commands + count - 1));
        work.commands += count;
        let (queue, Some(tape)) = (gpu_client.queue, self.machine.tape()) else { return };
        let mut put = |at, body| tape.put(&Entry { at, queue, body });
        (first..=upto.0).for_each(|cmd| put(since, Body::Submit { cmd: CmdId(cmd), wait: None }));
        put(since, Body::Wait { cmd: upto, room: false });
        put(now, Body::Retired { upto, busy });
    }
}
