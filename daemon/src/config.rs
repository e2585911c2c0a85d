//! The daemon's configuration file.

mod raw;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use xsched_core::hint::{HintKind, HintKinds, PolicyHint};
use xsched_core::policy::Policy as _;
use xsched_core::scheduler::STALL;
use xsched_core::time::Duration as Span;
use xsched_node::entity::Trial;
use xsched_policies::Any;

use crate::listen::Access;
use crate::metrics::Place;
pub use crate::scheduler::FirstHold;
use crate::scheduler::Tuning;
use crate::tenant::{Tenant, Who};

/// Processes that may be connected, and of one user, unless the file says otherwise.
pub const CLIENTS_MAX: u32 = 4_096;
const CLIENTS_OF_USER_MAX: u32 = 2_048;
/// The timeslice of policies that share device time between processes, whose turns are to be of
/// many commands: what is on its way when a turn ends runs on, and a GPU takes 0.15 ms to change
/// the process.
pub const TIMESLICE: Span = Span::from_ms(100);
/// For how long one of several processes of the highest priority has the GPU at most while another
/// one waits. A request that takes less is not interrupted for others, which wait for it.
pub const TURN: Span = Span::from_ms(10);
/// Permille of the device time that processes below the highest priority keep, so that none of them
/// starves unasked: a twentieth of each second.
pub const FLOOR_PERMILLE: u16 = 50;
/// The largest file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Contents of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The socket.
    pub socket: Socket,
    /// The policy.
    pub policy: PolicyChoice,
    /// Users and groups that are administrators beside root and the user that the daemon runs as.
    pub admins: Admins,
    /// Number of connections that the daemon takes.
    pub limits: Limits,
    /// Time for which the daemon polls for events after one, 0 to a second. A thread that sleeps
    /// takes some 20 to 300 µs to wake in a virtual machine, and one that polls takes a processor.
    pub spin: Span,
    /// Part of a processor for polling, over each second, in percent, 0 to 100.
    pub spin_percent: u8,
    /// Time for which a gang claims GPUs while it waits for others, 0 to a second.
    pub gang_claim: Span,
    /// Holder of those below a process that gets work.
    pub first_hold: FirstHold,
    /// Where scrapes for metrics are answered, if they are.
    pub metrics: Option<Place>,
    /// Drivers are asked which processes use GPUs past the daemon.
    pub asks_drivers: bool,
    /// The tenants. The last fits every process.
    pub tenants: Vec<Arc<Tenant>>,
    /// A file says something of it.
    pub(crate) has_file: bool,
}

/// The socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// Where it is.
    pub path: Option<PathBuf>,
    /// Mode of the socket's file.
    pub mode: Option<u32>,
    /// Group of the socket's file.
    pub gid: Option<u32>,
}

impl Socket {
    /// Access by the file, or else of all users or one.
    pub(crate) fn access(&self, is_open: bool) -> Access {
        let mode = self.mode.unwrap_or(if is_open { 0o666 } else { 0o600 });
        Access { mode, gid: self.gid }
    }
}

/// A policy and how it is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChoice {
    /// Short name of the policy.
    pub name: String,
    /// Hints for it.
    pub hints: Vec<PolicyHint>,
    /// Under the policy `hpf`, processes of the highest priority take turns.
    pub takes_turns: bool,
    /// Under the policy `hpf`, the next priority runs beside processes of the highest that are
    /// bound by their hosts, and is tried like this; `None` if it does not.
    pub fill_pauses: Option<Trial>,
    /// After this time a process that holds others and ends nothing is passed over; `None`: never.
    pub stall: Option<Span>,
    /// Permille of the device time that processes below the highest priority keep, 0 to 500.
    pub floor_permille: u16,
}

impl Default for PolicyChoice {
    fn default() -> Self {
        let name = "hpf".to_owned();
        let (hints, fill_pauses) = (Vec::new(), Some(Trial::default()));
        let (stall, floor_permille) = (Some(STALL), FLOOR_PERMILLE);
        Self { name, hints, takes_turns: true, fill_pauses, stall, floor_permille }
    }
}

impl PolicyChoice {
    /// The hints for a policy: the file's if that names it, and before them [`TIMESLICE`] where
    /// queues share device time, and [`TURN`] where those of the highest priority take turns.
    #[must_use]
    pub fn hints_of(&self, policy: &Any) -> Vec<PolicyHint> {
        let slice = match policy {
            // The slice of this one is no part of a round: a queue that has used it gives way.
            Any::Mlfq(_) => None,
            Any::Hpf(_) => self.takes_turns.then_some(TURN),
            _ => Some(TIMESLICE),
        };
        let slice = slice.map(PolicyHint::Timeslice);
        let own = if policy.name() == self.name { &self.hints[..] } else { &[] };
        let hints = slice.into_iter().chain(own.iter().copied());
        let mut tried = policy.clone();
        let hints = hints.filter(|hint| tried.configure(*hint));
        let own = [PolicyHint::Stall(self.stall), PolicyHint::Floor(self.floor_permille)];
        hints.chain(own).collect()
    }
}

/// Hints that processes tell the daemon, or users of `xsched ctl`.
const TOLD: HintKinds =
    HintKinds::of(&[HintKind::Priority, HintKind::Share, HintKind::Weight, HintKind::ActiveWindow]);

/// Says what does not reach a policy that the daemon runs: processes tell the daemon their
/// priorities and shares, and users which of them belong to the active window. `None` if nothing
/// is missing.
///
/// ```
/// use xsched_daemon::config::missing_hint;
/// use xsched_policies::Any;
///
/// let of = |name: &str| missing_hint(&name.parse::<Any>().expect("a policy"));
/// assert!(of("hpf").is_none() && of("edf").is_some_and(|text| text.contains("deadline")));
/// ```
#[must_use]
pub fn missing_hint(policy: &Any) -> Option<String> {
    let missing = policy.needs().hints.without(TOLD);
    let effect = match missing.iter().next()? {
        HintKind::Deadline => {
            "of equals, those that became ready first run until they have no more work; use hpf, \
             wfq or up"
        }
        HintKind::Laxity => "priorities alone count, without turns; use hpf",
        _ => "all count as equal and no process is held; use hpf",
    };
    let name = policy.name();
    Some(format!("policy `{name}`: processes do not tell the daemon their {missing}, so {effect}"))
}

/// Says that a policy takes no notice of shares. `None` if it does.
///
/// ```
/// use xsched_daemon::config::unused_share;
/// use xsched_policies::Any;
///
/// let of = |name: &str| unused_share(&name.parse::<Any>().expect("a policy"));
/// assert!(of("strict_up").is_none() && of("hpf").is_some_and(|text| text.contains("`hpf`")));
/// ```
#[must_use]
pub fn unused_share(policy: &Any) -> Option<String> {
    let hints = policy.needs().hints;
    if [HintKind::Share, HintKind::Weight].iter().any(|kind| hints.contains(*kind)) {
        return None;
    }
    let name = policy.name();
    Some(format!(
        "policy `{name}` takes no notice of shares; use up or wfq, or strict_up for classes as well"
    ))
}

/// Administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admins {
    /// Users.
    pub uids: Vec<u32>,
    /// Groups.
    pub gids: Vec<u32>,
}

/// Number of connections that the daemon takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections, 1 to 4,096.
    pub clients: u32,
    /// Connections of one user, 1 to 4,096.
    pub clients_of_user: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: CLIENTS_MAX, clients_of_user: CLIENTS_OF_USER_MAX }
    }
}

impl Default for Config {
    /// Settings that hold without a file.
    fn default() -> Self {
        Self {
            socket: Socket::default(),
            policy: PolicyChoice::default(),
            admins: Admins::default(),
            limits: Limits::default(),
            // Two wake-ups of a thread that sleeps.
            spin: Span::from_us(200),
            spin_percent: 5,
            gang_claim: TURN,
            first_hold: FirstHold::default(),
            metrics: None,
            asks_drivers: true,
            tenants: vec![Arc::default()],
            has_file: false,
        }
    }
}

/// The line of a byte of a text, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + line_breaks(&text.as_bytes()[..at.min(text.len())])
}

fn line_breaks(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Why a configuration file is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// File that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Description of the error, and of what to do.
        what: String,
    },
    /// Setting that a daemon cannot change while it runs.
    #[error(
        "{}: the socket is {}, and a daemon cannot move it while it runs; restart it",
        path.display(), socket.display()
    )]
    Moved {
        /// The file.
        path: PathBuf,
        /// Where the socket is.
        socket: PathBuf,
    },
    /// The file no longer has the limits of processes.
    #[error(
        "{}: {what}, and without it there are no limits; restart the daemon if that is meant",
        path.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// Part that is no longer there.
        what: &'static str,
    },
}

impl Config {
    /// Returns whether a tenant has a share or a limit of shares.
    #[must_use]
    pub fn has_shares(&self) -> bool {
        self.tenants.iter().any(|tenant| tenant.share.or(tenant.share_max).is_some())
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError::Read`], also of what is no regular file, and [`ConfigError::Wrong`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { path: path.to_owned(), source };
        // That of a pipe would wait for a writer, and its text can be read once.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let file = std::fs::File::from(file);
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is no regular file")));
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, BYTES_MAX), &mut bytes).map_err(failed)?;
        if bytes.len() as u64 == BYTES_MAX {
            return Err(failed(io::Error::other("it has a MiB or more")));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = 1 + line_breaks(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let what = "these bytes are no UTF-8; save the file as UTF-8".to_owned();
            ConfigError::Wrong { path: path.to_owned(), line, what }
        })?;
        let has_file = !text.trim().is_empty();
        Ok(Self { has_file, ..Self::parse(&text, path)? })
    }

    /// Checks a text, which errors say is of this file.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        raw::parse(text).map_err(|raw::Wrong { at, what }| {
            let line = line_of(text, at);
            // A line of an error is one line.
            let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
            ConfigError::Wrong { path: path.to_owned(), line, what }
        })
    }

    /// Why this configuration must not follow another while the daemon runs: it lost the file or
    /// all tenants, as a file has that is just being written or cannot be found for a moment.
    pub(crate) fn lost(&self, before: &Self) -> Option<&'static str> {
        let has_tenants = |config: &Self| config.tenants.iter().any(|of| **of != Tenant::default());
        match (before, self) {
            (before, now) if before.has_file && !now.has_file => Some("it is gone or empty"),
            (before, now) if has_tenants(before) && !has_tenants(now) => Some("it has no tenants"),
            _ => None,
        }
    }

    /// Settings of the scheduler's thread.
    pub(crate) const fn tuning(&self) -> Tuning {
        let Self { spin, spin_percent, gang_claim, first_hold, ref policy, .. } = *self;
        Tuning { spin, spin_percent, fill_pauses: policy.fill_pauses, gang_claim, first_hold }
    }

    /// Returns whether a process of this tenant is an administrator: not one that goes by its
    /// cgroup or by a grant, where it may be root in a container or a job.
    #[must_use]
    pub fn is_admin(&self, who: &Who, tenant: &Tenant, own_uid: u32) -> bool {
        let by_cgroup = self.tenants.iter().any(|tenant| tenant.cgroup.is_some());
        if tenant.is_confined() || (by_cgroup && who.cgroups.is_empty()) {
            return false;
        }
        who.uid == 0
            || who.uid == own_uid
            || self.admins.uids.contains(&who.uid)
            || who.gids.iter().any(|gid| self.admins.gids.contains(gid))
    }
}

/// Where the configuration comes from, so that it can be read again.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file.
    pub file: Option<PathBuf>,
    /// The file need not be there; without it the defaults count.
    pub is_optional: bool,
    /// The policy that the command line names, which counts instead of the file's.
    pub policy: Option<String>,
    /// Where the socket is that the command line names, which counts instead of the file's.
    pub socket: Option<PathBuf>,
    /// Where scrapes are answered that the command line names, which counts instead of the file's.
    pub metrics: Option<Place>,
    /// File in which grants are kept while no daemon runs; without one they end with the daemon.
    pub grants: Option<PathBuf>,
}

impl Source {
    /// Reads the settings in effect: of the file, and before it of the command line. Only a file
    /// that is not found counts as absent.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(&self) -> Result<Config, ConfigError> {
        let is_absent = |error: &ConfigError| match error {
            ConfigError::Read { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        };
        let mut config = match self.file.as_deref().map(Config::read) {
            Some(Err(error)) if self.is_optional && is_absent(&error) => Config::default(),
            read => read.transpose()?.unwrap_or_default(),
        };
        if let Some(name) = self.policy.as_ref().filter(|name| **name != config.policy.name) {
            config.policy = PolicyChoice { name: name.clone(), hints: Vec::new(), ..config.policy };
        }
        if let Some(socket) = &self.socket {
            config.socket.path = Some(socket.clone());
        }
        config.metrics = self.metrics.clone().or(config.metrics);
        Ok(config)
    }
}
