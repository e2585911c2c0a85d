//! A process, as the daemon knows it.

use std::os::fd::OwnedFd;

use xsched_core::hint::Hints;

use super::gang::Name;
use super::rights::Rights;
use crate::tenant::Party;

/// State of a process.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) name: String,
    /// Hints that the process asked for or got from a user, within the limits of its tenant.
    pub(crate) hints: Hints,
    pub(crate) rights: Rights,
    /// A user holds it.
    pub(crate) is_suspended: bool,
    pub(crate) gang: Option<String>,
    /// Wakes the daemon.
    pub(crate) doorbell: OwnedFd,
    /// Keys of the process on its GPUs.
    pub(crate) gpu_clients: Vec<u32>,
}

impl Client {
    pub(crate) fn new(
        pid: i32,
        party: Party,
        name: String,
        asked: Hints,
        doorbell: OwnedFd,
    ) -> Self {
        let (uid, rights) = (party.who.uid, Rights::new(party, asked));
        let hints = rights.hints();
        let (is_suspended, gang, gpu_clients) = (false, None, Vec::new());
        Self { pid, uid, name, hints, rights, is_suspended, gang, doorbell, gpu_clients }
    }

    /// The name of its gang, which no other user or tenant has, if it is in one.
    pub(super) fn gang_name(&self) -> Option<Name> {
        let tenant = &self.rights.party.tenant.name;
        self.gang.as_ref().map(|gang| (self.uid, tenant.clone(), gang.clone()))
    }
}
