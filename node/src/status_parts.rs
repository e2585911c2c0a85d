//! A status that is longer than a message, in several answers.

use serde::Serialize;

use crate::wire::{
    Answer, Changed, ClientStatus, MESSAGE_MAX, NodeError, Place, Request, Status, Wire,
};

/// Bytes of a message that GPUs, outsiders and grants may take. Those of grants are enough for the
/// longest one, whose path has 4,096 bytes.
const GPUS_MAX: usize = 24_576;
const OUTSIDERS_MAX: usize = 8_192;
const GRANTS_MAX: usize = 8_192;
/// Bytes that the rest of a status may take, but for the processes.
const HEAD_MAX: usize = 4_096;
/// Answers that a status may have: enough for all processes that a daemon takes.
const ANSWERS_MAX: usize = 4_096;

/// An entry of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub place: Place,
    /// The process on one GPU.
    pub client: ClientStatus,
    /// Changes of the process by hand, in the first of its entries.
    pub changed: Vec<Changed>,
}

impl Status {
    /// Takes as many entries as a message has room for, and at least one. [`Status::next`] is then
    /// the first that was left, or else `next`.
    pub fn fill(&mut self, entries: Vec<Entry>, next: Option<Place>) {
        let gpus = keep(&mut self.gpus, GPUS_MAX);
        let outsiders = keep(&mut self.outsiders, OUTSIDERS_MAX);
        let grants = keep(&mut self.grants, GRANTS_MAX);
        let mut room = MESSAGE_MAX.saturating_sub(HEAD_MAX + gpus + outsiders + grants);
        self.next = next;
        for entry in entries {
            let bytes = bytes(&entry.client) + entry.changed.iter().map(bytes).sum::<usize>();
            if bytes > room && !self.clients.is_empty() {
                self.next = Some(entry.place);
                break;
            }
            room = room.saturating_sub(bytes);
            self.clients.push(entry.client);
            self.changed.extend(entry.changed);
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.clients.sort_by(|a, b| (a.pid, &a.device).cmp(&(b.pid, &b.device)));
        // What is not about a process stays in front, as it is.
        let of_process = |change: &Changed| change.pid.map(|pid| (pid, change.what.clone()));
        self.changed.sort_by_cached_key(of_process);
    }
}

/// Bytes that an item takes in a list.
fn bytes(item: &impl Serialize) -> usize {
    serde_json::to_vec(item).map_or(usize::MAX / 8, |text| text.len() + 1)
}

/// Keeps as many of the first items as go into `room` bytes. Answers how many bytes they take.
fn keep<T: Serialize>(list: &mut Vec<T>, room: usize) -> usize {
    let mut used = 0;
    let fits = |item: &&T| {
        let bytes = bytes(*item);
        let fits = bytes <= room.saturating_sub(used);
        used += if fits { bytes } else { 0 };
        fits
    };
    let kept = list.iter().take_while(fits).count();
    list.truncate(kept);
    used
}

impl Wire {
    /// Asks for the status, in as many messages as it takes. Processes that come or go meanwhile
    /// may be in it or not.
    ///
    /// # Errors
    /// As [`Wire::ask`], and [`NodeError::Unexpected`].
    pub fn status(&self) -> Result<Status, NodeError> {
        let mut status = self.part(&Request::Status)?;
        for _ in 1..ANSWERS_MAX {
            let Some(place) = status.next else { break };
            let more = self.part(&Request::StatusFrom(place))?;
            status.clients.extend(more.clients);
            status.changed.extend(more.changed);
            // One that leads back would not end.
            if more.next.is_some_and(|next| next <= place) {
                return Err(NodeError::Unexpected);
            }
            status.next = more.next;
        }
        status.sort();
        Ok(status)
    }

    fn part(&self, request: &Request) -> Result<Status, NodeError> {
        match self.ask(request, None)?.0 {
            Answer::Status(status) => Ok(status),
            _ => Err(NodeError::Unexpected),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wire::{GpuStatus, Outsider};

    fn entry(number: u32) -> Entry {
        let place = Place { connection: 7, entry: number };
        let client = ClientStatus {
            pid: 1_000 - number as i32,
            name: "\"".repeat(64),
            device: "\u{1}".repeat(128),
            ..ClientStatus::default()
        };
        let changed = Changed { pid: Some(client.pid), live: "5".to_owned(), ..Changed::default() };
        Entry { place, client, changed: vec![changed] }
    }

    #[test]
    fn what_does_not_go_into_a_message_goes_into_the_next() {
        let gpu = |_| GpuStatus { device: "\u{1}".repeat(128), ..GpuStatus::default() };
        let outsider = |pid| Outsider { pid, name: "x".repeat(64), ..Outsider::default() };
        let head = Status {
            gpus: (0..64).map(gpu).collect(),
            outsiders: (0..64).map(outsider).collect(),
            ..Status::default()
        };
        let (mut parts, mut from) = (vec![head], 0);
        let last = Some(Place { connection: 8, entry: 0 });
        loop {
            let part = parts.last_mut().expect("one");
            part.fill((from..200).map(entry).collect(), last);
            let text = serde_json::to_vec(&Answer::Status(part.clone())).expect("text");
            assert!(text.len() <= MESSAGE_MAX, "{}", text.len());
            assert_eq!(part.clients.len(), part.changed.len());
            match part.next {
                next if next == last => break,
                next => from = next.expect("more").entry,
            }
            parts.push(Status::default());
        }
        assert!(!parts[0].gpus.is_empty() && !parts[0].outsiders.is_empty());
        let mut pids: Vec<_> = parts.iter().flat_map(|part| &part.clients).map(|c| c.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, (801..=1_000).collect::<Vec<_>>());
        assert!(parts[0].clients.is_sorted_by_key(|client| client.pid));
    }

    #[test]
    fn an_entry_that_is_too_long_does_not_stop_the_rest() {
        let mut long = entry(0);
        long.client.name = "x".repeat(MESSAGE_MAX);
        let mut status = Status::default();
        status.fill(vec![long, entry(1)], None);
        assert_eq!((status.clients.len(), status.next.map(|next| next.entry)), (1, Some(1)));
    }

    #[test]
    fn an_older_status_is_read() {
        let older = r#"{"schema":1,"policy":"hpf","clients":[{"pid":7}]}"#;
        let older = serde_json::from_str::<Status>(older).expect("a status");
        assert_eq!((older.clients[0].pid, older.policy.as_str(), older.next), (7, "hpf", None));
    }

    #[test]
    fn a_daemon_that_leads_in_a_circle_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .expect("a socket");
        let address = rustix::net::SocketAddrUnix::new(&path).expect("an address");
        rustix::net::bind(&listener, &address).expect("bound");
        rustix::net::listen(&listener, 1).expect("it listens");
        let daemon = std::thread::spawn(move || {
            let wire = Wire::new(rustix::net::accept(&listener).expect("a connection"));
            let next = Some(Place { connection: 3, entry: 0 });
            while wire.receive::<Request>().is_ok() {
                let status = Status { next, ..Status::default() };
                wire.send(&Answer::Status(status), None).expect("sent");
            }
        });
        let wire = Wire::connect(&path, std::time::Duration::from_secs(5)).expect("a connection");
        assert!(matches!(wire.status(), Err(NodeError::Unexpected)));
        drop(wire);
        daemon.join().expect("it ends");
    }
}
