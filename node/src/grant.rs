//! Grants: rights of the processes of a cgroup, or of one process, that root gives at run time.

use serde::{Deserialize, Serialize};

/// Rights of some processes, by root. They count instead of those that the configuration file gives
/// their tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Name of the grant, which is shown as the tenant of its processes: 1 to 64 characters, none
    /// of them a control character.
    pub name: String,
    /// Processes that have it.
    pub to: Grantee,
    /// Priority of those that ask for none, −255 to 255.
    pub priority: i32,
    /// Highest priority of them, `priority` to 255.
    pub priority_max: i32,
    /// Share of a GPU of those that ask for none, and the most that all of them have together,
    /// in percent, 0 to 100; `None`: as their tenant says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u8>,
    /// Gang of those that connect from then on and name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<String>,
}

/// Processes that a grant is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grantee {
    /// Processes that are in this cgroup or below it when they connect: a folder, as in
    /// `/sys/fs/cgroup/job`.
    Cgroup(String),
    /// One process, as the daemon numbers it, and none that it starts.
    Pid(i32),
}
