//! Rights that root gives processes at run time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::Timespec;
use xsched_node::{Grant, Grantee};

use super::{Control, LOOK_INTERVAL, LOOKED_AT, Peer, SERVED_AT_A_TIME};
use crate::grants::{GrantError, tenant};
use crate::scheduler::Op;
use crate::tenant::{Asker, Tenant, Who, tenant_of};

impl Control {
    /// The tenant of a process: that of its grant, if it has one, or else of the configuration.
    ///
    /// # Errors
    /// If the process has ended, or what it is cannot be found out.
    pub(super) fn tenant_now(
        &self,
        pid: i32,
        process: Option<&OwnedFd>,
        who: &Who,
    ) -> io::Result<Arc<Tenant>> {
        let base = tenant_of(&self.config.tenants, who);
        let grant = self.grants.of(pid, process, who)?;
        Ok(grant.map_or_else(|| Arc::clone(&base), |grant| tenant(grant, &base)))
    }

    /// Gives processes other rights than the configuration file.
    pub(super) fn grant(&mut self, asker: &Asker, grant: Grant) -> Result<(), String> {
        // Also for root in a job, whose grant is made by each of its steps.
        if self.is_granter(asker) && self.grants.has(&grant) {
            return Ok(());
        }
        self.allow_grants(asker)?;
        if matches!(grant.to, Grantee::Cgroup(_)) && asker.party.who.cgroups.is_empty() {
            return Err(
                "this daemon does not see the cgroups of processes; start it on the node, \
                        outside containers"
                    .to_owned(),
            );
        }
        self.forget_ended_grants(SERVED_AT_A_TIME);
        let name = grant.name.clone();
        let added = match self.grants.add(grant.clone(), &self.config.tenants) {
            // Those of processes that have ended do not count.
            Err(GrantError::Full | GrantError::Taken(_) | GrantError::Granted(_)) => {
                self.forget_ended_grants(self.grants.len());
                self.grants.add(grant, &self.config.tenants)
            }
            added => added,
        };
        added.map_err(|error| error.to_string())?;
        tracing::info!(name, uid = asker.party.who.uid, "processes were granted rights");
        let grants = &self.grants;
        let is_meant = |peer: &&Peer| grants.may_be_of(&name, peer.pid, &peer.party.who);
        let meant = self.peers.iter().filter(|(_, peer)| is_meant(peer)).map(|(id, _)| *id);
        self.find_tenants(meant.collect());
        Ok(())
    }

    /// Ends a grant.
    pub(super) fn revoke(&mut self, asker: &Asker, name: &str) -> Result<(), String> {
        self.allow_grants(asker)?;
        let revoked = self.grants.revoke(name);
        let is_gone = !matches!(revoked, Err(GrantError::Unknown(_)));
        if is_gone {
            self.end_granted(name);
        }
        revoked.map_err(|error| error.to_string())
    }

    /// Time until grants are looked at again, if there are some.
    pub(super) fn next_look(&self) -> Option<Timespec> {
        let left = LOOK_INTERVAL.saturating_sub(self.looked.elapsed());
        Timespec::try_from(left).ok().filter(|_| !self.grants.is_empty())
    }

    /// Forgets grants that have ended, which no request would notice while nothing connects.
    pub(super) fn look_at_grants(&mut self) {
        if !self.grants.is_empty() && self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Instant::now();
            self.forget_ended_grants(LOOKED_AT);
        }
    }

    /// Forgets some grants whose processes have ended.
    pub(super) fn forget_ended_grants(&mut self, count: usize) {
        for name in self.grants.forget_ended(count) {
            self.end_granted(&name);
        }
    }

    /// A grant has ended: its processes are their tenants' of the configuration.
    fn end_granted(&mut self, name: &str) {
        let is_meant = |tenant: &Tenant| tenant.is_granted && tenant.name == name;
        let meant = self.peers.iter().filter(|(_, peer)| is_meant(&peer.party.tenant));
        self.find_tenants(meant.map(|(id, _)| *id).collect());
        self.send(Op::Forget(name.to_owned()));
    }

    /// Finds out anew whose tenants' some processes are.
    fn find_tenants(&mut self, ids: Vec<u64>) {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(peer) = self.peers.get(&id) else { continue };
            let (process, who) = (peer.process.as_ref(), &peer.party.who);
            match self.tenant_now(peer.pid, process, who) {
                Ok(tenant) => {
                    if let Some(peer) = self.peers.get_mut(&id) {
                        peer.party.tenant = Arc::clone(&tenant);
                    }
                    found.push((id, tenant));
                }
                // One that is not known must not stay what it was. If it is there, it connects
                // again.
                Err(error) => {
                    tracing::debug!(%error, "a connection is ended");
                    self.end(id);
                }
            }
        }
        if !found.is_empty() {
            self.send(Op::Configure(found));
        }
    }

    /// Returns whether the asker is a process of root, or of the only user that this daemon serves.
    fn is_granter(&self, asker: &Asker) -> bool {
        let own_uid = rustix::process::geteuid().as_raw();
        asker.party.who.uid == 0 || (!self.is_open && asker.party.who.uid == own_uid)
    }

    fn allow_grants(&self, asker: &Asker) -> Result<(), String> {
        if asker.is_admin && self.is_granter(asker) {
            return Ok(());
        }
        let why = if asker.party.tenant.is_granted {
            "a process with a grant may change none; ask from outside its cgroup"
        } else if self.is_open {
            "only root may grant and revoke, and not in a container or a job"
        } else {
            "only root and the user of this daemon may grant and revoke, and not in a container or \
             a job"
        };
        Err(why.to_owned())
    }
}
