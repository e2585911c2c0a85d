//! Tenants: who a process belongs to, what it may have, and what it sees.

use std::fmt;
use std::sync::Arc;

use glob::{MatchOptions, Pattern};
use xsched_core::hint::{Hints, Priority};
use xsched_node::GATES_PER_PAGE;

/// The name of the tenant of those that no other fits.
pub const DEFAULT: &str = "default";

/// Facts about a process from its connection, which it cannot choose itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// User of the process.
    pub uid: u32,
    /// Groups of the process.
    pub gids: Vec<u32>,
    /// Cgroups of the process, from the root of their hierarchies: one for each hierarchy. Empty if
    /// the daemon cannot see them.
    pub cgroups: Vec<String>,
}

/// Whom a process sees beside its own user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sees {
    /// No other.
    #[default]
    Own,
    /// All processes of its tenant.
    Tenant,
    /// All processes.
    All,
}

/// Consequence when a process of a tenant uses a GPU past the daemon: one that the daemon does not
/// know, or that uses clearly more than it reports, by the driver's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unreported {
    /// The process is shown, and nothing else.
    #[default]
    Nothing,
    /// The daemon's log says so, once for each process.
    Warning,
    /// As `Warning`, and a process that the daemon knows has at most the priority of `batch`, −100,
    /// a minute has passed without it.
    Lower,
}

/// Users or cgroups, and what their processes may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Name of the tenant.
    pub name: String,
    /// Only processes of this user belong to it.
    pub uid: Option<u32>,
    /// Only processes with this group.
    pub gid: Option<u32>,
    /// Only processes in a cgroup that this fits.
    pub cgroup: Option<Pattern>,
    /// The priority of a process that asks for none, −255 to 255.
    pub priority: Option<Priority>,
    /// The share of a process that asks for none, in percent, 0 to 100.
    pub share: Option<u8>,
    /// The highest priority of its processes, −255 to 255.
    pub priority_max: Option<Priority>,
    /// The sum of the shares of its processes on a GPU at most, in percent, 0 to 100.
    pub share_max: Option<u8>,
    /// How many of its processes are connected at most.
    pub clients_max: Option<u32>,
    /// How many gated streams each of its processes has on a GPU at most.
    pub queues_max: Option<u32>,
    /// Whom its processes see.
    pub sees: Sees,
    /// Consequence when they use a GPU past the daemon.
    pub unreported: Unreported,
    /// Gang of a process that names none.
    pub gang: Option<String>,
    /// Root has granted it at run time, and the configuration file does not have it.
    pub is_granted: bool,
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            name: DEFAULT.to_owned(),
            uid: None,
            gid: None,
            cgroup: None,
            priority: None,
            share: None,
            priority_max: None,
            share_max: None,
            clients_max: None,
            queues_max: None,
            sees: Sees::Own,
            unreported: Unreported::Nothing,
            gang: None,
            is_granted: false,
        }
    }
}

/// A `*` stands for part of a name, and `**` for several names.
const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl Tenant {
    /// Returns whether a process belongs to the tenant, if it belongs to none before it.
    #[must_use]
    pub fn fits(&self, who: &Who) -> bool {
        let in_cgroup =
            |pattern: &Pattern| who.cgroups.iter().any(|cgroup| pattern.matches_with(cgroup, GLOB));
        self.uid.is_none_or(|uid| uid == who.uid)
            && self.gid.is_none_or(|gid| who.gids.contains(&gid))
            && self.cgroup.as_ref().is_none_or(in_cgroup)
    }

    /// Returns whether the tenant fits every process.
    #[must_use]
    pub const fn fits_all(&self) -> bool {
        self.uid.is_none() && self.gid.is_none() && self.cgroup.is_none()
    }

    /// Returns whether the tenant's processes go by their cgroup or by a grant, so that one of root
    /// may be in a container or a job, and does not administer the daemon.
    #[must_use]
    pub const fn is_confined(&self) -> bool {
        self.cgroup.is_some() || self.is_granted
    }

    /// Pages of gate words that a process may have for one GPU, where there is no limit `max`.
    pub(crate) fn pages_max(&self, max: usize) -> usize {
        self.queues_max
            .map_or(max, |queues| (queues as usize).div_ceil(GATES_PER_PAGE).clamp(1, max))
    }

    /// Returns the hints that a process of this tenant gets if it asks for `hints`: no more than it
    /// may have. A priority of 0 is what a process has that asks for none.
    pub(crate) fn granted(&self, mut hints: Hints) -> Hints {
        if hints.priority == Priority::DEFAULT {
            hints.priority = self.priority.unwrap_or_default();
        }
        hints.utilization = hints.utilization.or(self.share);
        self.capped(hints)
    }

    /// No more than a process of this tenant may have.
    pub(crate) fn capped(&self, mut hints: Hints) -> Hints {
        let priority_max = self.priority_max.unwrap_or(Priority::MAX);
        hints.priority = hints.priority.min(priority_max);
        hints.utilization = hints.utilization.map(|share| share.min(self.share_max.unwrap_or(100)));
        hints
    }

    /// Why a process of this tenant may not have this priority or share, if it may not.
    pub(crate) fn refusal(&self, priority: Option<Priority>, share: Option<u8>) -> Option<Refusal> {
        let (tenant, is_granted) = (&self.name, self.is_granted);
        let of = |what, is, max| Refusal { what, is, max, tenant: tenant.clone(), is_granted };
        let priority = priority.zip(self.priority_max).filter(|(priority, max)| priority > max);
        let share = share.zip(self.share_max).filter(|(share, max)| share > max);
        priority
            .map(|(is, max)| of("priority", is.get(), max.get()))
            .or_else(|| share.map(|(is, max)| of("share", i16::from(is), i16::from(max))))
    }
}

/// Why a process may not have what it or another asked for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {what} of {is} is above {max}, the highest of tenant `{tenant}`; {}", self.remedy())]
pub struct Refusal {
    what: &'static str,
    is: i16,
    max: i16,
    tenant: String,
    is_granted: bool,
}

impl Refusal {
    fn remedy(&self) -> String {
        if self.is_granted {
            return "root may revoke that grant and grant more".to_owned();
        }
        let what = self.what;
        format!("an administrator may change `{what}_max` in the configuration file and reload it")
    }
}

/// The tenant of a process: the first that fits. The last of `tenants` must fit all.
#[must_use]
pub fn tenant_of(tenants: &[Arc<Tenant>], who: &Who) -> Arc<Tenant> {
    tenants.iter().find(|tenant| tenant.fits(who)).cloned().unwrap_or_default()
}

/// Returns the share that counts for a process that asks for this one: 1 % if it asks for none.
pub(crate) fn counted(share: Option<u8>) -> u32 {
    share.unwrap_or(1).into()
}

/// The weight of a process with this share, for policies by weights: ten for a percent, and one for
/// 0 %, as policies by shares count it.
pub(crate) fn weight(share: Option<u8>) -> u32 {
    (counted(share) * 10).max(1)
}

/// The share that a process of a tenant has on a GPU, of that which it asks for. If all of them
/// count more than `max` together, each has its part of that; below 1 % that is 0, which counts as
/// 0.1 %.
pub(crate) fn scaled(share: Option<u8>, sum: u32, max: Option<u8>) -> Option<u8> {
    match max.map(u32::from) {
        Some(max) if sum > max => u8::try_from(counted(share) * max / sum).ok(),
        _ => share,
    }
}

/// A process, as far as rights go by it.
#[derive(Clone, Debug)]
pub struct Party {
    /// Facts about the process from its connection.
    pub who: Arc<Who>,
    /// Tenant of the process.
    pub tenant: Arc<Tenant>,
}

impl Party {
    /// Both are the same user's, and in the same container where one goes by its cgroup.
    fn owns(&self, other: &Self) -> bool {
        let is_confined = self.tenant.is_confined() || other.tenant.is_confined();
        self.who.uid == other.who.uid && (!is_confined || self.who.cgroups == other.who.cgroups)
    }
}

/// Process that asks for something.
#[derive(Clone)]
pub struct Asker {
    /// The process.
    pub party: Party,
    /// True if the process may see and change everything.
    pub is_admin: bool,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { party, is_admin } = self;
        write!(f, "user {}, tenant {}, admin: {is_admin}", party.who.uid, party.tenant.name)
    }
}

impl Asker {
    /// Returns whether the asker sees a process.
    #[must_use]
    pub fn may_see(&self, other: &Party) -> bool {
        let in_tenant = || self.party.tenant.name == other.tenant.name;
        self.may_change(other)
            || match self.party.tenant.sees {
                Sees::Own => false,
                Sees::Tenant => in_tenant(),
                Sees::All => true,
            }
    }

    /// Returns whether the asker may change a process.
    #[must_use]
    pub fn may_change(&self, other: &Party) -> bool {
        self.is_admin || self.party.owns(other)
    }
}
