//! Requests of administrators: other settings, and no new processes.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use xsched_node::{Answer, Changed, GpuStatus, Place, Status};
use xsched_policies::{Any, UnknownPolicy};

use super::daemon::warn_of_access;
use super::{Control, SERVED_AT_A_TIME};
use crate::config::{Config, ConfigError, missing_hint, unused_share};
use crate::metrics::{Metrics, MetricsError};
use crate::scheduler::{ChangedBy, Op, Part, Tape};
use crate::subordinates::Subordinates;
use crate::tenant::{Asker, Party, tenant_of};
use crate::watch::Watch;

impl Control {
    pub(super) fn asker(&self, party: &Party) -> Asker {
        let own_uid = rustix::process::geteuid().as_raw();
        // One whose cgroups are not known may be in a cgroup that has a grant.
        let is_unknown = party.who.cgroups.is_empty() && !self.grants.is_empty();
        let is_admin = !is_unknown && self.config.is_admin(&party.who, &party.tenant, own_uid);
        Asker { party: party.clone(), is_admin }
    }

    /// Returns the status from a place on, as far as the asker may see it. Only the first part has
    /// what is not about a process of the daemon.
    pub(super) fn status(&mut self, asker: Asker, from: Option<Place>) -> Result<Status, String> {
        let op = |answer| Op::Status { asker: asker.clone(), from, answer };
        let Part { head, seen, mut entries, next } = self.ask(op)?;
        let mut status = head;
        if from.is_none() {
            // Processes name GPUs as they like, in as many words as they like.
            let gpus = std::mem::take(&mut status.gpus).into_iter().enumerate();
            let is_shown = |(number, gpu): &(usize, GpuStatus)| {
                asker.is_admin || seen.contains(number) || self.watched.has_gpu(&gpu.device)
            };
            status.gpus = gpus.filter(is_shown).map(|(_, gpu)| gpu).collect();
            let may_see =
                |party: Option<&Party>| party.map_or(asker.is_admin, |party| asker.may_see(party));
            self.watched.tell(&mut status, may_see);
            status.changed = self.changed(&status);
            self.forget_ended_grants(SERVED_AT_A_TIME);
            if asker.is_admin {
                status.grants = self.grants.all().cloned().collect();
                status.grants_in_all = status.grants.len() as u32;
            }
        }
        entries.iter_mut().for_each(|entry| self.watched.tell_client(&mut entry.client));
        status.fill(entries, next);
        Ok(status)
    }

    /// Returns the settings of the daemon itself that were changed by hand.
    fn changed(&self, status: &Status) -> Vec<Changed> {
        let file = self.config.policy.name.clone();
        let policy = self.policy_by.filter(|_| file != status.policy);
        let live = status.policy.clone();
        let policy = policy.map(|by| by.changed("policy", None, file, live));
        let text = |is: bool| is.to_string();
        let drain = self.drained.map(|by| by.changed("drain", None, text(false), text(true)));
        policy.into_iter().chain(drain).collect()
    }

    /// Answers scrapes and asks drivers, as the configuration says.
    pub(super) fn begin_to_tell(&mut self) -> Result<(), MetricsError> {
        self.watched.set_tenants(&self.config.tenants);
        self.metrics = self.start_metrics(&self.config)?;
        self.watch_as(self.config.asks_drivers)?;
        Ok(())
    }

    fn start_metrics(&self, config: &Config) -> Result<Option<Metrics>, MetricsError> {
        let start = |place| Metrics::start(place, self.scheduler.clone(), self.watched.clone());
        config.metrics.as_ref().map(start).transpose()
    }

    /// Asks drivers from now on, or no longer.
    fn watch_as(&mut self, is_wanted: bool) -> std::io::Result<()> {
        if self.watch.is_some() == is_wanted {
            return Ok(());
        }
        let drivers = self.drivers.filter(|_| is_wanted);
        let start = |drivers: fn() -> _| {
            Watch::start(self.scheduler.clone(), self.watched.clone(), drivers())
        };
        self.watch = drivers.map(start).transpose()?;
        if !is_wanted {
            self.watched.forget();
        }
        Ok(())
    }

    pub(super) fn set_policy(&mut self, asker: &Asker, name: &str) -> Result<(), String> {
        allow(asker, "change the policy")?;
        let policy: Any = name.parse().map_err(|error: UnknownPolicy| error.to_string())?;
        warn_of_missing_hint(&policy);
        warn_of_unused_shares(&policy, &self.config);
        let hints = self.config.policy.hints_of(&policy);
        self.send(Op::Policy(Box::new(policy), hints));
        self.policy_by = Some(ChangedBy::now(asker.party.who.uid));
        Ok(())
    }

    pub(super) fn drain(&mut self, asker: &Asker, undo: bool) -> Result<(), String> {
        allow(asker, "drain the daemon")?;
        self.drained = (!undo).then(|| ChangedBy::now(asker.party.who.uid));
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
    pub(super) fn reload(&mut self) -> Result<(), ConfigError> {
        let config = self.source.read()?;
        let path = || self.source.file.clone().unwrap_or_default();
        if config.socket.path.as_ref().is_some_and(|path| *path != self.socket) {
            return Err(ConfigError::Moved { path: path(), socket: self.socket.clone() });
        }
        if let Some(what) = config.lost(&self.config) {
            return Err(ConfigError::Lost { path: path(), what });
        }
        let wrong = |source| ConfigError::Read { path: path(), source };
        let policy = config.policy.name.parse::<Any>();
        let policy = policy.map_err(|error| wrong(std::io::Error::other(error)))?;
        // It listens at both places for a moment.
        let moved = config.metrics != self.config.metrics;
        let started = moved.then(|| self.start_metrics(&config)).transpose();
        let metrics = started.map_err(|error| wrong(std::io::Error::other(error)))?;
        let failed = |error| wrong(std::io::Error::other(error));
        if config.socket != self.config.socket {
            match &self.path {
                Some(path) => {
                    path.set_access(config.socket.access(self.is_open)).map_err(failed)?;
                }
                None => warn_of_access(&config),
            }
        }
        if self.policy_by.take().is_some() || config.policy != self.config.policy {
            warn_of_missing_hint(&policy);
            warn_of_unused_shares(&policy, &config);
            let hints = config.policy.hints_of(&policy);
            self.send(Op::Policy(Box::new(policy), hints));
        }
        let mut tenants = Vec::with_capacity(self.peers.len());
        for (id, peer) in &mut self.peers {
            let tenant = tenant_of(&config.tenants, &peer.party.who);
            peer.party.tenant = match &peer.party.tenant {
                before if before.is_granted => self.grants.tenant(&before.name, tenant),
                _ => tenant,
            };
            tenants.push((*id, Arc::clone(&peer.party.tenant)));
        }
        self.send(Op::Configure(tenants));
        self.send(Op::Tune(config.tuning()));
        if let Some(metrics) = metrics {
            self.metrics = metrics;
            // The end of the old one has said that they are not wanted.
            self.send(Op::Measure(self.metrics.is_some()));
        }
        self.watched.set_tenants(&config.tenants);
        if let Err(error) = self.watch_as(config.asks_drivers) {
            tracing::warn!(%error, "drivers are not asked what runs past the daemon");
        }
        self.config = config;
        self.subordinates = Subordinates::of_machine();
        tracing::info!("the configuration was read again");
        Ok(())
    }
}

/// Says that a policy does not get what it goes by.
pub(super) fn warn_of_missing_hint(policy: &Any) {
    missing_hint(policy).into_iter().for_each(|text| tracing::warn!("{text}"));
}

/// Says that a policy takes no notice of the shares that tenants have.
pub(super) fn warn_of_unused_shares(policy: &Any, config: &Config) {
    if config.has_shares() {
        unused_share(policy).into_iter().for_each(|text| tracing::warn!("{text}"));
    }
}

fn allow(asker: &Asker, what: &str) -> Result<(), String> {
    if asker.is_admin { Ok(()) } else { Err(format!("only an administrator may {what}")) }
}
