//! Messages, and the socket that carries them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, connect, recvmsg, sendmsg, shutdown, socket_with, sockopt,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::descriptors::apart;
use crate::grant::Grant;

/// The version of these messages. A daemon and a process of different versions refuse each other.
pub const VERSION: u32 = 3;
/// The longest message, in bytes.
pub const MESSAGE_MAX: usize = 65_536;
/// The most file descriptors that come with a message.
const FDS_MAX: usize = 2;
/// The most that Linux passes with a message (`SCM_MAX_FD`). There is room for all, as the system
/// would close those that find none on the receiver's thread.
const FDS_RECEIVED_MAX: usize = 253;

/// Request of a process to the daemon. All but [`Request::Hello`] come after that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The first message of a process that wants to be scheduled, or of a tool.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Name that the process gives itself; its first 64 characters count.
        name: String,
        /// The priority that it wants, −255 to 255.
        priority: i32,
        /// The share of each GPU that it wants, in percent, 0 to 100.
        share: Option<u8>,
        /// Gang of the process, if it has one: 1 to 64 characters, none of them a control
        /// character. The processes of a user and tenant with the same gang are held and released
        /// together.
        #[serde(default)]
        gang: Option<String>,
    },
    /// A [page](crate::SharedPage), whose file descriptor comes with the message. A page whose
    /// layout has another [version](crate::PAGE_VERSION) is refused.
    Attach {
        /// The GPU: what tells it from others of the node, the same in every process.
        device: String,
        /// True if the process runs what several processes launch at the same time, and does not
        /// change between them by time slices.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        side_by_side: bool,
    },
    /// One of the pages that the asker may [hold](crate::SharedPage::hold_directly) directly, as
    /// its page of the GPU says that there are some.
    PageBelow {
        /// The GPU.
        device: String,
        /// Number of the page among them, from 0 on.
        at: u32,
    },
    /// Changes what the asker said of itself.
    Hints {
        /// Priority of the process, −256 to 255.
        priority: i32,
        /// Share of each GPU in percent, 0 to 100, if the process has one.
        share: Option<u8>,
    },
    /// Asks who runs and who is held: for the first part of that, if there is much.
    Status,
    /// More of that, from [`Status::next`] on.
    StatusFrom(Place),
    /// Puts another policy in charge. For administrators.
    Policy {
        /// Name of the policy.
        name: String,
    },
    /// Changes what is known of a process: one's own, or for administrators any.
    Set {
        /// The process.
        pid: i32,
        /// New priority, −255 to 255, if that is to change.
        priority: Option<i32>,
        /// New share in percent, 0 to 100, if that is to change.
        share: Option<u8>,
        /// True if the process has the active window, for the policy `awf`, if that is to change.
        active: Option<bool>,
    },
    /// Holds a process until it is released: one's own, or for administrators any.
    Hold {
        /// The process.
        pid: i32,
    },
    /// Ends [`Request::Hold`].
    Release {
        /// The process.
        pid: i32,
    },
    /// Undoes [`Request::Set`]: what the process asked for counts again.
    Reset {
        /// The process.
        pid: i32,
    },
    /// Reads the configuration file again, whole or not at all. For administrators.
    Reload,
    /// Takes no new processes from now on, or takes them again. For administrators.
    Drain {
        /// True if new processes are taken again.
        undo: bool,
    },
    /// Records what all processes do, until [`Request::EndRecord`] or the end of the connection.
    /// For administrators.
    Record {
        /// The record ends before it has more bytes than this.
        bytes_max: u64,
    },
    /// Ends the record that was begun over this connection.
    EndRecord,
    /// Gives processes other rights than the configuration file, until [`Request::Revoke`], the end
    /// of their cgroup or of the process. One that exists already is answered as done. For root,
    /// or for the user of a daemon that serves one user alone.
    Grant(Grant),
    /// Ends a grant. For those who may grant.
    Revoke {
        /// Name of the grant.
        name: String,
    },
}

/// Answer of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The process is known. The eventfd that wakes the daemon comes with the message.
    Welcome {
        /// [`VERSION`].
        version: u32,
    },
    /// The process is known, or has other hints, but gets less than it asked for, because of a
    /// limit of its tenant. To [`Request::Hello`], the eventfd that wakes the daemon comes with the
    /// message.
    Lowered {
        /// The tenant.
        tenant: String,
        /// The priority that it has.
        priority: i32,
        /// The share that it has in percent, if any.
        share: Option<u8>,
    },
    /// The record begins. The socket that it can be read from, up to its end, comes with the
    /// message.
    Recording,
    /// A page that the process may hold directly. Its file descriptor comes with the message.
    PageBelow {
        /// The generation of these pages.
        generation: u32,
    },
    /// Done; to [`Request::PageBelow`], there are no more.
    Done,
    /// Not done.
    Refused {
        /// Why, and what to do.
        why: String,
    },
    /// List of who runs and who is held.
    Status(Status),
}

/// The version of [`Status`]'s layout. It changes when a field goes or means something else; new
/// fields may come at any time.
pub const SCHEMA: u32 = 3;

/// List of who runs and who is held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The policy in charge.
    pub policy: String,
    /// Part of each second, in permille, that processes below the highest priority of a GPU keep; 0
    /// under a policy that does not hold them by priority.
    pub floor_permille: u16,
    /// For how long the daemon has run, in milliseconds.
    pub up_ms: u64,
    /// GPUs that drivers list, and those that processes have named on which the asker sees one.
    pub gpus: Vec<GpuStatus>,
    /// The processes that the asker may see, each once for each of its GPUs, by their numbers.
    #[serde(rename = "processes", alias = "clients")]
    pub clients: Vec<ClientStatus>,
    /// Where `clients` and `changed` go on; `None` if these are all. What goes on has neither GPUs
    /// nor outsiders.
    pub next: Option<Place>,
    /// Processes on GPUs that the daemon does not schedule, as far as the drivers list them and the
    /// asker may see them. At most 64.
    pub outsiders: Vec<Outsider>,
    /// Parts of `outsiders` and of [`ClientStatus::driver_permille`] that are unknown, and why: a
    /// line for each.
    pub outsiders_unknown: Vec<String>,
    /// Settings changed by hand that are not as the configuration file or the process has them.
    #[serde(default)]
    pub changed: Vec<Changed>,
    /// Grants of root, for administrators: as many as a message has room for.
    pub grants: Vec<Grant>,
    /// Number of grants that there are, for administrators.
    pub grants_in_all: u32,
}

/// Where a status goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The connection of a process.
    pub connection: u64,
    /// Number of the entry among those of the process.
    pub entry: u32,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuStatus {
    /// Identifier that processes use for the GPU: its PCI id, in most cases.
    pub device: String,
    /// The driver's name for it; empty if that is not known.
    pub name: String,
    /// The processes that have work on it and are not held, as far as the asker may see them; at
    /// most 16.
    pub running: Vec<i32>,
    /// How many more have work on it and are not held.
    pub running_others: u32,
    /// How many processes have work on it and are held, of all users.
    pub waiting: u32,
    /// How many processes have handed pages over for it, of all users.
    #[serde(rename = "processes", alias = "clients")]
    pub clients: u32,
}

/// Something that was changed by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Setting: `policy`, `drain`, or of a process `priority`, `share`, `active` or `hold`.
    pub what: String,
    /// The process, if it is about one.
    pub pid: Option<i32>,
    /// How it would be without the change, by the file and by what the process asked for.
    pub file: String,
    /// How it is.
    pub live: String,
    /// The user who changed it.
    pub uid: u32,
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
}

/// A process on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientStatus {
    /// Process number, as the daemon sees it; 0 where the daemon cannot.
    pub pid: i32,
    /// User of the process.
    pub uid: u32,
    /// Name that the process gives itself.
    pub name: String,
    /// The GPU; empty if it has none yet.
    pub device: String,
    /// `alone` while it is the only one on its GPU and nothing of it is scheduled or measured, else
    /// `idle`, `running` or `held`.
    pub state: String,
    /// For how long that has been so, in milliseconds.
    pub since_ms: u64,
    /// Priority of the process.
    pub priority: i32,
    /// Share in percent, if the process has one.
    pub share: Option<u8>,
    /// For how much of the last second it used the GPU, as `device_ms` counts: 0 to 1000.
    pub got_permille: u32,
    /// The device time that it has used, in milliseconds: what it says, within what the daemon has
    /// seen.
    pub device_ms: u64,
    /// How often it was held.
    pub holds: u64,
    /// For how long it was held in all, in milliseconds, with work or without.
    pub held_ms: u64,
    /// How often it had work and was held: a hold while it had work, or work that began during one.
    pub waits: u64,
    /// For how long it had work and was held in all, in milliseconds.
    pub waited_ms: u64,
    /// How many of its commands have retired since it connected, as it says.
    pub retired: u64,
    /// How many launches of the process, on whatever GPU, went past the scheduler, as it says, to
    /// within a second; `None` if it does not say.
    pub past: Option<u64>,
    /// How many of its streams have queues of levels 1, 2 and 3, on whatever GPU, as it says, to
    /// within a second. The daemon holds all of them at level 2; these are the levels at which the
    /// process itself tells them apart.
    pub levels: [u32; 3],
    /// How many of its holds the daemon failed to renew within the lease, so that the process ended
    /// them.
    pub leases_lost: u64,
    /// For how much of the last second it used the GPU by the driver's accounting, 0 to 1000;
    /// `None` if that is not known.
    pub driver_permille: Option<u32>,
    /// By the driver's accounting it has used clearly more of the GPU than it reported, for some
    /// seconds.
    pub is_understated: bool,
    /// Set while the process has a lower class for that, as its tenant's configuration says.
    pub is_lowered: bool,
    /// How often it held others directly, until the daemon had decided, as it says; from 0 again
    /// after the highest number.
    pub direct_holds: u32,
    /// How many of its queues have work, as it says.
    pub queues: u32,
    /// For how long it has waited for the GPU since it began, in microseconds, as it says, where a
    /// wait or an answer that the GPU was done counts as one at least. `None` if it never said so.
    /// It counts only while others are on the GPU, and from 0 again after the highest number.
    pub host_waited_us: Option<u32>,
    /// The GPU mostly waits for its host, which waits for nothing meanwhile, so that lower
    /// priorities may run beside it.
    pub host_bound: bool,
    /// Set while the process is held by hand.
    pub held_by_hand: bool,
    /// Tenant of the process.
    #[serde(default)]
    pub tenant: String,
    /// Gang of the process, if it has one.
    pub gang: Option<String>,
}

/// A process on a GPU that the daemon does not schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outsider {
    /// Process number.
    pub pid: u32,
    /// User of the process; `None` if that cannot be read.
    pub uid: Option<u32>,
    /// Name of the process, as the system has it; empty if that cannot be read.
    pub name: String,
    /// The GPU.
    pub device: String,
    /// The tenant that it would have.
    pub tenant: String,
    /// For how much of the last second it used the GPU by the driver's accounting, 0 to 1000;
    /// `None` if that is not known.
    pub driver_permille: Option<u32>,
}

/// Errors between a process and the daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The socket.
    #[error("{0}; is xschedd running?")]
    Socket(#[from] io::Error),
    /// User that may not connect.
    #[error(
        "this user may not connect to the socket; ask an administrator for the socket's group, or \
         for another mode of it"
    )]
    Denied,
    /// The daemon does not answer in time.
    #[error("the daemon does not answer; it may be stopped, or wait for the system: see its log")]
    Silent,
    /// A message that makes no sense.
    #[error("a message that makes no sense: {0}; are both of the same version?")]
    Message(#[from] serde_json::Error),
    /// A message that is too long.
    #[error("a message of more than {MESSAGE_MAX} bytes")]
    TooLong,
    /// A message with file descriptors that did not arrive.
    #[error(
        "a message with more than {FDS_MAX} file descriptors, or more than the receiver may open"
    )]
    Descriptors,
    /// The other side has left.
    #[error("the other side has closed the connection")]
    Closed,
    /// The daemon has refused something.
    #[error("the daemon refuses: {0}")]
    Refused(String),
    /// The daemon has answered something else.
    #[error("the daemon gave an answer that does not belong to the question")]
    Unexpected,
}

impl From<Errno> for NodeError {
    fn from(errno: Errno) -> Self {
        Self::Socket(errno.into())
    }
}

/// A connection that carries messages.
#[derive(Debug)]
pub struct Wire(OwnedFd);

impl Wire {
    /// A connection that was accepted.
    #[must_use]
    pub const fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Connects to the daemon at a path. Answers are waited for at most as long as `patience`.
    ///
    /// # Errors
    /// [`NodeError::Denied`] and [`NodeError::Socket`].
    pub fn connect(path: &Path, patience: Duration) -> Result<Self, NodeError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let socket = apart(socket);
        for timeout in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
            sockopt::set_socket_timeout(&socket, timeout, Some(patience))?;
        }
        match connect(&socket, &SocketAddrUnix::new(path)?) {
            Err(Errno::ACCESS) => Err(NodeError::Denied),
            // The connections that it has not accepted fill its queue.
            Err(Errno::AGAIN) => Err(NodeError::Silent),
            connected => Ok(connected.map(|()| Self(socket))?),
        }
    }

    /// Ends the connection, also for threads that wait for the other side. Never blocks, unlike the
    /// close of a socket that has unread messages with file descriptors.
    pub fn end(&self) {
        let _ = shutdown(&self.0, Shutdown::Both);
    }

    /// Sends a message, with a file descriptor if there is one.
    ///
    /// # Errors
    /// [`NodeError::TooLong`], [`NodeError::Message`] and [`NodeError::Socket`]; the latter as well
    /// if the other side does not read.
    pub fn send(
        &self,
        message: &impl Serialize,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(), NodeError> {
        let text = serde_json::to_vec(message)?;
        if text.len() > MESSAGE_MAX {
            return Err(NodeError::TooLong);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = fd.into_iter().collect();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut control, flags)?;
        Ok(())
    }

    /// The next message, and the file descriptors that came with it.
    ///
    /// # Errors
    /// [`NodeError::Closed`], [`NodeError::TooLong`], [`NodeError::Descriptors`],
    /// [`NodeError::Message`] and [`NodeError::Socket`].
    pub fn receive<M: DeserializeOwned>(&self) -> Result<(M, Vec<OwnedFd>), NodeError> {
        let mut fds = Vec::new();
        let message = self.receive_with(&mut fds)?;
        Ok((message, fds))
    }

    /// The next message. Adds to `fds` all file descriptors that came with it, up to 253, also
    /// where the message is refused: closing one may take as long as its sender wants.
    ///
    /// # Errors
    /// As [`Wire::receive`].
    pub fn receive_with<M: DeserializeOwned>(
        &self,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<M, NodeError> {
        let mut text = vec![0; MESSAGE_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_RECEIVED_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut get = || recvmsg(&self.0, &mut [IoSliceMut::new(&mut text)], &mut control, flags);
        // Told once if the other side left without reading everything, before its last message.
        let got = match get() {
            Err(Errno::CONNRESET) => get(),
            got => got,
        }?;
        let received = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let before = fds.len();
        fds.extend(received.flatten().map(apart));
        if got.bytes == 0 {
            return Err(NodeError::Closed);
        }
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(NodeError::TooLong);
        }
        if got.flags.contains(ReturnFlags::CTRUNC) || fds.len() - before > FDS_MAX {
            return Err(NodeError::Descriptors);
        }
        Ok(serde_json::from_slice(&text[..got.bytes])?)
    }

    /// Sends a request and waits for the answer. A connection without an answer in time ends, since
    /// a late answer would be taken for that to the next request.
    ///
    /// # Errors
    /// [`NodeError::Refused`], [`NodeError::Silent`], and as [`Wire::send`] and [`Wire::receive`].
    pub fn ask(
        &self,
        request: &Request,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(Answer, Option<OwnedFd>), NodeError> {
        match self.send(request, fd) {
            // One that refuses the connection has said so before it left.
            Err(NodeError::Socket(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
            sent => sent?,
        }
        let received = self.receive().map_err(|error| match error {
            NodeError::Socket(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.end();
                NodeError::Silent
            }
            error => error,
        });
        match received? {
            (Answer::Refused { why }, _) => Err(NodeError::Refused(why)),
            (answer, fds) => Ok((answer, fds.into_iter().next())),
        }
    }
}

impl From<Wire> for OwnedFd {
    fn from(wire: Wire) -> Self {
        wire.0
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
