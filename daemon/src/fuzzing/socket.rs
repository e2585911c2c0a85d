//! Messages that processes send.

use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use xsched_node::{
    Answer, ClientStatus, GATES_PER_PAGE, Grant, Grantee, Holder, NodeError, Place, Request,
    SharedPage, VERSION, Wire,
};
use xsched_policies::Any;

use super::bytes::Bytes;
use super::files::{ConfigFile, lingering};
use crate::control::Control;
use crate::scheduler::{TestDriver, told};
use crate::tenant::Who;

const GPUS: [&str; 3] = ["gpu", "other", "a gpu"];
/// The honest process and its user. Others are never administrators.
const HONEST: (i32, u32) = (i32::MAX, 4_000_000);
const OTHERS: [(i32, u32); 3] = [(i32::MAX - 1, 4_000_001), (i32::MAX, 4_000_001), (0, 4_000_002)];
const STEPS_MAX: usize = 100;
const CONNECTIONS_MAX: usize = 6;
/// A call of the thread for connections that takes longer waits for something.
const CALL_MAX: Duration = Duration::from_secs(3);
/// The highest priority of others at first.
const PRIORITY_MAX: i32 = 4;

/// A connection: the daemon's number of it, the other end, and the user.
struct Peer {
    id: u64,
    end: OwnedFd,
    uid: u32,
}

struct Rig {
    control: Control,
    driver: Arc<Mutex<TestDriver>>,
    honest: (u64, Wire),
    page: SharedPage,
    peers: Vec<Peer>,
    files: Vec<OwnedFd>,
    /// The highest priority of others.
    priority_max: i32,
}

/// Bytes as what processes send, with file descriptors of all kinds.
///
/// Each message is answered at once or ends its connection, an honest process of another user stays
/// what it is and is told where it stands, others keep to their limits whatever file is read again,
/// and no process is told of another user.
pub fn socket(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut rig = Rig::new();
    for _ in 0..STEPS_MAX {
        let Some(choice) = bytes.next() else { break };
        rig.step(choice, &mut bytes);
        rig.check();
    }
    while let Some(peer) = rig.peers.pop() {
        rig.control.end(peer.id);
    }
    rig.check();
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("two sockets")
}

/// Connects a process of a user.
fn admit(control: &mut Control, socket: OwnedFd, (pid, uid): (i32, u32)) -> Option<u64> {
    let who = Who { uid, gids: vec![uid], cgroups: Vec::new() };
    control.admit(Wire::new(socket), pid, who, None)
}

/// Files of which some can be pages.
fn files() -> Vec<OwnedFd> {
    let page = SharedPage::create().expect("a page");
    let page = page.as_fd().try_clone_to_owned().expect("a descriptor");
    let (pipe, _) = std::io::pipe().expect("a pipe");
    let folder: OwnedFd = File::open("/").expect("a folder").into();
    let (socket, _) = pair();
    vec![page, pipe.into(), folder, socket]
}

impl Rig {
    fn new() -> Self {
        let policy = "hpf".parse::<Any>().expect("a policy");
        let driver = Arc::new(Mutex::new(TestDriver::new(policy).expect("a scheduler")));
        let mut control = Control::of_test_driver(Arc::clone(&driver)).expect("a daemon");
        let (end, socket) = pair();
        let id = admit(&mut control, socket, HONEST).expect("a connection");
        let honest = (id, Wire::new(end));
        let page = SharedPage::create().expect("a page");
        page.header().loaded_queues.store(1, Ordering::SeqCst);
        let (peers, priority_max) = (Vec::new(), PRIORITY_MAX);
        let mut rig = Self { control, driver, honest, page, peers, files: files(), priority_max };
        rig.reload(&ConfigFile::limited(PRIORITY_MAX, HONEST.1));
        let hello = Request::Hello {
            version: VERSION,
            name: "honest".to_owned(),
            priority: 255,
            share: Some(50),
            gang: None,
        };
        assert!(matches!(rig.ask(&hello, false), Answer::Welcome { .. }));
        assert_eq!(
            rig.ask(&Request::Attach { device: "gpu".to_owned(), side_by_side: false }, true),
            Answer::Done
        );
        rig.turn(0, &[id]);
        rig
    }

    /// Has the honest process ask.
    fn ask(&mut self, request: &Request, with_page: bool) -> Answer {
        let fd = with_page.then(|| self.page.as_fd());
        self.honest.1.send(request, fd).expect("it is sent");
        self.control.serve(self.honest.0);
        self.honest.1.receive::<Answer>().expect("an answer").0
    }

    fn driver(&self) -> MutexGuard<'_, TestDriver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, passed_ns: u64, rung: &[u64]) {
        self.driver().turn(passed_ns, rung);
    }

    fn step(&mut self, choice: u8, bytes: &mut Bytes<'_>) {
        let at = bytes.below(self.peers.len());
        match choice % 16 {
            0..=1 if self.peers.len() < CONNECTIONS_MAX => {
                let other = OTHERS[bytes.below(OTHERS.len())];
                let (end, socket) = pair();
                if let Some(id) = admit(&mut self.control, socket, other) {
                    self.peers.push(Peer { id, end, uid: other.1 });
                }
            }
            2..=9 => {
                let text = serde_json::to_vec(&request(choice, bytes)).expect("JSON");
                self.send(at, &text, bytes);
            }
            10 => {
                let text = bytes.some(64);
                self.send(at, text, bytes);
            }
            11 => {
                // Almost a request.
                let request = request(bytes.byte(), bytes);
                let mut text = serde_json::to_vec(&request).expect("JSON");
                let place = bytes.below(text.len());
                text[place] = bytes.byte();
                self.send(at, &text, bytes);
            }
            12 if !self.peers.is_empty() => {
                let peer = self.peers.remove(at);
                // Its end is seen as an event of its socket, or of its process first.
                drop(peer.end);
                if bytes.byte().is_multiple_of(2) {
                    self.control.serve(peer.id);
                }
                self.control.end(peer.id);
            }
            13 => {
                let ids: Vec<u64> = self.peers.iter().map(|peer| peer.id).collect();
                self.turn(bytes.wide() >> (24 + bytes.byte() % 40), &ids);
            }
            15 if choice >= 192 => self.reload(&ConfigFile::drawn(bytes, HONEST.1)),
            15 if choice >= 128 => self.send_lingering(at, bytes),
            14 => {
                // Does not read its answers for a while.
                if let Some(peer) = self.peers.get(at) {
                    for _ in 0..bytes.byte() {
                        let _ = rustix::io::write(&peer.end, b"{\"request\":\"status\"}");
                        self.control.serve(peer.id);
                    }
                }
                self.drain(at);
            }
            _ => self.control.serve(u64::from(bytes.byte())),
        }
    }

    /// Sends bytes with some file descriptors, and sees what comes back.
    fn send(&mut self, at: usize, text: &[u8], bytes: &mut Bytes<'_>) {
        let Some(peer) = self.peers.get(at) else { return };
        let with = bytes.byte();
        let fds: Vec<BorrowedFd<'_>> = (0..with % 4)
            .map(|n| self.files[usize::from(with / 4 + n) % self.files.len()].as_fd())
            .collect();
        if send_with(&peer.end, text, &fds) {
            self.control.serve(peer.id);
        }
        self.drain(at);
    }

    /// Sends a descriptor of which the daemon has the last copy, and may leave before it is read.
    fn send_lingering(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let Some(peer) = self.peers.get(at) else { return };
        let text = serde_json::to_vec(&request(bytes.byte(), bytes)).expect("JSON");
        let (lingering, _other) = lingering();
        let is_sent = send_with(&peer.end, &text, &[lingering.as_fd()]);
        drop(lingering);
        let begin = Instant::now();
        if is_sent && bytes.byte().is_multiple_of(2) {
            self.control.serve(peer.id);
            self.drain(at);
        } else {
            let peer = self.peers.remove(at);
            drop(peer.end);
            self.control.end(peer.id);
        }
        assert!(begin.elapsed() < CALL_MAX, "the close of a descriptor is waited for");
    }

    /// Has an administrator read the configuration again.
    fn reload(&mut self, file: &ConfigFile) {
        let reloaded = self.control.reload_from(file.path.clone());
        assert_eq!(reloaded.is_ok(), file.priority_max.is_some(), "{file:?}: {reloaded:?}");
        self.priority_max = file.priority_max.unwrap_or(self.priority_max);
    }

    /// Reads what a process was answered. One whose connection has ended is forgotten.
    fn drain(&mut self, at: usize) {
        let Some(peer) = self.peers.get(at) else { return };
        let wire = Wire::new(peer.end.try_clone().expect("a descriptor"));
        let is_of_user = |client: &ClientStatus| client.uid == peer.uid;
        loop {
            match wire.receive::<Answer>() {
                Ok((Answer::Status(status), _)) => {
                    assert!(
                        status.clients.iter().all(is_of_user),
                        "a user sees another: {status:?}"
                    );
                }
                Ok((Answer::PageBelow { .. }, files)) => {
                    for file in files {
                        let given = SharedPage::from_file(file.into()).expect("a page");
                        given.close(0, Holder::DIRECT);
                        assert!(!self.page.is_closed(0), "a user may hold another");
                        given.release(0, Holder::DIRECT);
                    }
                }
                Ok((Answer::Refused { why }, _)) => assert!(!why.is_empty(), "no reason"),
                Ok(_) => {}
                Err(NodeError::Socket(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return;
                }
                Err(NodeError::Closed) => break,
                Err(NodeError::Socket(_)) => break,
                Err(error) => panic!("an answer that makes no sense: {error}"),
            }
        }
        self.peers.remove(at);
    }

    fn check(&mut self) {
        self.turn(1_000, &[]);
        assert_eq!(self.control.defect().or_else(|| self.driver().defect()), None);
        let is_open = |gate| !self.page.is_closed(gate);
        assert!((0..GATES_PER_PAGE).all(is_open), "the honest process is held");
        let all = self.driver().status();
        let mut others = all.iter().filter(|client| client.uid != HONEST.1);
        let is_limited = others.all(|client| client.priority <= self.priority_max);
        assert!(is_limited, "limits are not in force: {all:?}");
        let honest = all.iter().find(|client| client.uid == HONEST.1).expect("it is known");
        let rank = told(honest, &all).0;
        assert_eq!(self.page.header().rank(), rank, "a page does not say where its process stands");
        let Answer::Status(status) = self.ask(&Request::Status, false) else {
            panic!("the honest process has no answer");
        };
        let [client] = &status.clients[..] else { panic!("{status:?}") };
        assert_eq!((client.pid, client.uid), HONEST);
        assert_eq!((client.priority, client.share), (255, Some(50)), "another changed it");
        // Alone while no other process is on its GPU.
        assert!(matches!(client.state.as_str(), "alone" | "running"), "{client:?}");
        assert!(!client.held_by_hand, "another holds it");
    }
}

/// True if a message was sent with these descriptors.
fn send_with(end: &OwnedFd, text: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(end, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL).is_ok()
}

fn grant(pid: i32, priority: i32, bytes: &mut Bytes<'_>) -> Grant {
    let to = match bytes.below(2) {
        0 => Grantee::Pid(pid),
        _ => Grantee::Cgroup(String::from_utf8_lossy(bytes.some(70)).into_owned()),
    };
    let name = "a grant".to_owned();
    Grant { name, to, priority, priority_max: priority, share: None, gang: None }
}

fn request(choice: u8, bytes: &mut Bytes<'_>) -> Request {
    let pid = i32::MAX - i32::from(bytes.byte() % 3);
    let priority = i32::from(bytes.byte()) * 4 - 300;
    let share = Some(bytes.byte()).filter(|share| share % 3 != 0);
    match choice % 8 {
        0 if bytes.byte().is_multiple_of(2) => Request::Status,
        0 => {
            let (connection, entry) = (bytes.wide(), bytes.byte().into());
            Request::StatusFrom(Place { connection, entry })
        }
        1 => Request::Hold { pid },
        2 => Request::Release { pid },
        3 => Request::Hints { priority, share },
        4 => {
            let active = Some(bytes.byte().is_multiple_of(2));
            Request::Set { pid, priority: Some(priority), share, active }
        }
        5 if bytes.byte().is_multiple_of(4) => {
            let device = GPUS[bytes.below(GPUS.len())].to_owned();
            Request::PageBelow { device, at: bytes.byte().into() }
        }
        5 => {
            let device = GPUS[bytes.below(GPUS.len())].to_owned();
            Request::Attach { device, side_by_side: bytes.below(2) == 1 }
        }
        6 if bytes.byte().is_multiple_of(4) => match bytes.byte() % 8 {
            0 => Request::Policy { name: "up".to_owned() },
            1 => Request::Drain { undo: false },
            2 => Request::Reload,
            3 => Request::Record { bytes_max: bytes.wide() },
            4 => Request::EndRecord,
            5 => Request::Grant(grant(pid, priority, bytes)),
            6 => Request::Revoke { name: "a grant".to_owned() },
            _ => Request::Reset { pid },
        },
        _ => {
            let name = String::from_utf8_lossy(bytes.some(70)).into_owned();
            let version = if bytes.byte() % 16 == 15 { 9 } else { VERSION };
            let priority = priority.clamp(-255, 255);
            let gang = bytes.byte().is_multiple_of(2).then(|| "gang".to_owned());
            Request::Hello { version, name, priority, share, gang }
        }
    }
}
