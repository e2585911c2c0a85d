//! New connections: taken, or refused with a reason.

use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use xsched_node::{Answer, Wire};

use super::{Control, ENDED, LISTENER, Peer, SERVED_AT_A_TIME, USER};
use crate::peer_cred::{process_of, who};
use crate::tenant::{Party, Who};
use crate::users::{Pages, User};
use crate::waker::new_eventfd;

/// For how long none is accepted after the system has refused that.
const PAUSE: Duration = Duration::from_millis(100);

impl Control {
    /// Ends the pause if it is over, and says how long it still is.
    pub(super) fn end_of_pause(&mut self) -> Option<Timespec> {
        let left = self.paused?.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Timespec::try_from(left).ok();
        }
        self.paused = None;
        self.spare = self.spare.take().or_else(|| new_eventfd().ok());
        let data = EventData::new_u64(LISTENER);
        let _ = epoll::modify(&self.epoll, &self.listener, data, EventFlags::IN);
        None
    }

    /// Accepts nothing for a while, rather than be told again and again that there is something.
    fn pause(&mut self) {
        self.paused = Some(Instant::now() + PAUSE);
        let data = EventData::new_u64(LISTENER);
        let _ = epoll::modify(&self.epoll, &self.listener, data, EventFlags::empty());
    }

    pub(super) fn accept(&mut self) {
        for _ in 0..SERVED_AT_A_TIME {
            match self.accept_one() {
                Ok(socket) => self.welcome(socket),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) if self.refuse_one() => {}
                Err(_) => return self.pause(),
            }
        }
    }

    fn accept_one(&self) -> rustix::io::Result<OwnedFd> {
        accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }

    /// Refuses the next connection with the spare file descriptor, as there is no other. False if
    /// that is not possible.
    fn refuse_one(&mut self) -> bool {
        self.spare = None;
        let refused = self.accept_one().map(|socket| {
            let uid = getsockopt(&socket, sockopt::PeerCredentials).map_or(0, |of| of.uid());
            let why = "the daemon has no file descriptors left".to_owned();
            self.refuse(self.subordinates.person(uid), Wire::new(socket), why);
        });
        self.spare = new_eventfd().ok();
        refused.is_ok() && self.spare.is_some()
    }

    fn welcome(&mut self, socket: OwnedFd) {
        // A process that this one cannot see has the number 0.
        let Ok(credentials) = getsockopt(&socket, sockopt::PeerCredentials) else { return };
        let (pid, uid) = (credentials.pid(), credentials.uid());
        let process = process_of(socket.as_fd(), pid);
        let found = process.and_then(|process| {
            who(pid, uid, credentials.gid(), process.as_ref()).map(|who| (who, process))
        });
        let wire = Wire::new(socket);
        match found {
            Ok((who, process)) => drop(self.admit(wire, pid, who, process)),
            Err(error) => {
                let person = self.subordinates.person(uid);
                self.refuse(person, wire, format!("the system refuses: {error}"));
            }
        }
    }

    /// Takes a connection of this process, or tells it why not.
    pub(crate) fn admit(
        &mut self,
        wire: Wire,
        pid: i32,
        who: Who,
        process: Option<OwnedFd>,
    ) -> Option<u64> {
        let person = self.subordinates.person(who.uid);
        let tenant = match self.tenant_now(pid, process.as_ref(), &who) {
            Ok(tenant) => tenant,
            Err(error) => {
                self.refuse(person, wire, format!("the system refuses: {error}"));
                return None;
            }
        };
        let party = Party { who: Arc::new(who), tenant };
        match self.connect(&wire, &party, person, process.as_ref()) {
            Ok(id) => {
                let (pages, is_known, is_recorder) = (Pages::new(), false, false);
                let gang = None;
                let peer =
                    Peer { wire, pid, party, person, process, is_known, is_recorder, pages, gang };
                self.peers.insert(id, peer);
                self.scheduler.counts.note_connections(self.peers.len());
                Some(id)
            }
            Err(why) => {
                self.refuse(person, wire, why);
                None
            }
        }
    }

    fn connect(
        &mut self,
        wire: &Wire,
        party: &Party,
        person: u32,
        process: Option<&OwnedFd>,
    ) -> Result<u64, String> {
        let (uid, is_admin) = (party.who.uid, self.asker(party).is_admin);
        let is_own = uid == 0 || uid == rustix::process::geteuid().as_raw();
        // Where the configuration has a mode, that says who may connect.
        if !self.is_open && self.config.socket.mode.is_none() && !is_own && !is_admin {
            return Err("this daemon serves the processes of another user alone".to_owned());
        }
        if self.closer.is_behind(person) {
            return Err("descriptors that this user has sent are not closed yet".to_owned());
        }
        let failed = |errno: Errno| format!("the system refuses: {errno}");
        if let Entry::Vacant(new) = self.users.entry(person) {
            let user = User::new().map_err(failed)?;
            let data = EventData::new_u64(USER | u64::from(person));
            epoll::add(&self.epoll, &user.epoll, data, EventFlags::IN).map_err(failed)?;
            new.insert(user);
        }
        let of_all = self.peers.len();
        let user = self.users.get_mut(&person).ok_or("no such user")?;
        user.connect(of_all, self.config.limits, is_admin)?;
        let id = self.next;
        let data = EventData::new_u64(id);
        let watched = epoll::add(&user.epoll, wire, data, EventFlags::IN | EventFlags::RDHUP)
            .and_then(|()| process.map_or(Ok(()), |process| self.watch_process(id, process)));
        if let Err(errno) = watched {
            self.disconnect(person, &Pages::new());
            return Err(failed(errno));
        }
        self.next += 1;
        Ok(id)
    }

    /// Forgets what a connection had.
    pub(super) fn disconnect(&mut self, person: u32, had: &Pages) {
        self.pages -= had.values().sum::<usize>();
        if self.users.get_mut(&person).is_some_and(|user| user.disconnect(had)) {
            self.users.remove(&person);
        }
    }

    /// Has the end of a process be told.
    fn watch_process(&self, id: u64, process: &OwnedFd) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, process, EventData::new_u64(id | ENDED), EventFlags::IN)
    }

    /// Says why before the connection ends.
    fn refuse(&mut self, person: u32, wire: Wire, why: String) {
        self.scheduler.counts.note_refused();
        let _ = wire.send(&Answer::Refused { why }, None);
        self.close(person, wire);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use xsched_policies::Any;

    use super::*;
    use crate::config::Limits;
    use crate::scheduler::TestDriver;
    use crate::subordinates::Subordinates;

    #[test]
    fn two_hundred_users_of_one_person_have_the_limits_of_one() {
        let policy = "hpf".parse::<Any>().expect("a policy");
        let driver = Arc::new(Mutex::new(TestDriver::new(policy).expect("a scheduler")));
        let mut control = Control::of_test_driver(driver).expect("a daemon");
        control.config.limits = Limits { clients: 400, clients_of_user: 20 };
        control.subordinates = Subordinates::of("1000:100000:65536\n", "");
        let mut others = Vec::new();
        let mut connect = |uid| {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let pair = socketpair(family, kind, SocketFlags::CLOEXEC, None).expect("a pair");
            others.push(pair.0);
            control.admit(Wire::new(pair.1), 7, Who { uid, ..Who::default() }, None)
        };
        let taken: Vec<_> = (100_000..100_200).filter_map(&mut connect).collect();
        assert_eq!(taken.len(), 20);
        assert_eq!(connect(1000), None, "the person is one of them");
        let other = connect(1001).expect("another person");
        control.end(taken[7]);
        assert_eq!((control.users.len(), control.peers.len()), (2, 20));
        control.end(other);
        taken.into_iter().for_each(|id| control.end(id));
        assert!(control.users.is_empty() && control.peers.is_empty());
    }
}
