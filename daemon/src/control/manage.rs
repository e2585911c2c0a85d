//! What administrators ask for: other settings, and no new processes.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use xsched_node::{Answer, Status};

use super::{Control, set_access};
use crate::config::ConfigError;
use crate::scheduler::{By, Op, Tape};
use crate::tenant::{Asker, Party, tenant_of};

impl Control {
    pub(super) fn asker(&self, party: &Party) -> Asker {
        let own_uid = rustix::process::geteuid().as_raw();
        let is_admin = self.config.is_admin(&party.who, &party.tenant, own_uid);
        Asker { party: party.clone(), is_admin }
    }

    /// What the asker may see, with what was changed by hand.
    pub(super) fn status(&self, asker: Asker) -> Result<Status, String> {
        let mut status = self.ask(|answer| Op::Status { asker, answer })?;
        let file = self.config.policy.name.clone();
        let policy = self.policy_by.filter(|_| file != status.policy);
        let live = status.policy.clone();
        let policy = policy.map(|by| by.changed("policy", None, file, live));
        let text = |is: bool| is.to_string();
        let drain = self.drained.map(|by| by.changed("drain", None, text(false), text(true)));
        status.changed.splice(..0, policy.into_iter().chain(drain));
        Ok(status)
    }

    pub(super) fn set_policy(&mut self, asker: &Asker, name: &str) -> Result<(), String> {
        allow(asker, "change the policy")?;
        let policy = self.config.policy.policy(name).map_err(|error| error.to_string())?;
        self.send(Op::Policy(Box::new(policy)));
        self.policy_by = Some(By::now(asker.party.who.uid));
        Ok(())
    }

    pub(super) fn drain(&mut self, asker: &Asker, undo: bool) -> Result<(), String> {
        allow(asker, "drain the daemon")?;
        self.drained = (!undo).then(|| By::now(asker.party.who.uid));
        Ok(())
    }

    /// Begins a record, which the asker gets through a socket.
    pub(super) fn record(
        &mut self,
        id: u64,
        asker: &Asker,
        bytes_max: u64,
    ) -> Result<(Answer, Option<OwnedFd>), String> {
        allow(asker, "record what processes do")?;
        let (tape, reader) = Tape::new(bytes_max).map_err(|error| format!("no record: {error}"))?;
        if !self.ask(|answer| Op::Record { client: id, tape, answer })? {
            return Err("there is a record already; try again when it has ended".to_owned());
        }
        let peer = self.peers.get_mut(&id).ok_or("not connected")?;
        peer.is_recorder = true;
        Ok((Answer::Recording, Some(reader)))
    }

    /// Why a process that says hello now is not taken, if it is not.
    pub(super) fn check_room(&self, id: u64) -> Result<(), String> {
        if self.drained.is_some() {
            let why = "it takes no new processes until `xsched ctl drain --undo`";
            return Err(why.to_owned());
        }
        let peer = self.peers.get(&id).ok_or("not connected")?;
        let tenant = &peer.party.tenant;
        let Some(max) = tenant.clients_max else { return Ok(()) };
        let is_of_tenant =
            |peer: &&super::Peer| peer.is_known && peer.party.tenant.name == tenant.name;
        let connected = self.peers.values().filter(is_of_tenant).count();
        if connected < max as usize {
            return Ok(());
        }
        Err(format!("tenant `{}` has {max} processes already, the most that it may", tenant.name))
    }

    /// Reads the configuration again for those who asked this process itself.
    pub(super) fn take_reloads(&mut self) {
        let _ = rustix::io::read(&self.reload, &mut [0; 8]);
        while let Ok(answer) = self.reloads.try_recv() {
            let _ = answer.send(self.reload().map_err(|error| error.to_string()));
        }
    }

    pub(super) fn reload_for(&mut self, asker: &Asker) -> Result<(), String> {
        allow(asker, "have the configuration be read again")?;
        self.reload().map_err(|error| {
            tracing::warn!(%error, "the configuration stays as it was");
            format!("{error}; what counted before counts on")
        })
    }

    /// Puts another configuration into force: nothing is changed if any of it is wrong.
    fn reload(&mut self) -> Result<(), ConfigError> {
        let config = self.source.read()?;
        let path = || self.source.file.clone().unwrap_or_default();
        if config.socket.path.as_ref().is_some_and(|path| *path != self.socket) {
            return Err(ConfigError::Moved { path: path(), socket: self.socket.clone() });
        }
        let wrong = |source| ConfigError::Read { path: path(), source };
        let policy = config.policy.policy(&config.policy.name);
        let policy = policy.map_err(|error| wrong(std::io::Error::other(error)))?;
        if config.socket != self.config.socket {
            set_access(&self.socket, self.mode, &config).map_err(wrong)?;
        }
        if self.policy_by.take().is_some() || config.policy != self.config.policy {
            self.send(Op::Policy(Box::new(policy)));
        }
        let mut tenants = Vec::with_capacity(self.peers.len());
        for (id, peer) in &mut self.peers {
            peer.party.tenant = tenant_of(&config.tenants, &peer.party.who);
            tenants.push((*id, Arc::clone(&peer.party.tenant)));
        }
        self.send(Op::Configure(tenants));
        self.config = config;
        tracing::info!("the configuration was read again");
        Ok(())
    }
}

fn allow(asker: &Asker, what: &str) -> Result<(), String> {
    if asker.is_admin { Ok(()) } else { Err(format!("only an administrator may {what}")) }
}
