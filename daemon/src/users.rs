//! Resources that each user has of the daemon, and their limits, so that the daemon can serve the
//! others as well. What a tenant may have of the GPUs is in [`tenant`](crate::tenant).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::event::epoll;

use crate::config::Limits;

/// Connections beyond those of the configuration, which administrators alone get.
const CLIENTS_OF_ADMINS: usize = 64;
/// Pages of all processes, and of those of one user. Each is a mapping of the daemon's and has a
/// file descriptor; Linux allows some 65,000 mappings unless `vm.max_map_count` says otherwise.
const PAGES_MAX: usize = 40_000;
const PAGES_OF_USER_MAX: usize = PAGES_MAX / 2;
/// Processes on GPUs of one user: half of those that there can be.
const UNITS_OF_USER_MAX: usize = 4_096;
/// GPUs that the processes of one user may name: half of those that there can be.
const DEVICES_OF_USER_MAX: usize = 32;

/// Gangs of one user, one for each GPU that there can be, and processes in them, four for each such
/// GPU: each pass in which a gang is held or released looks at all of them.
const GANGS_OF_USER_MAX: usize = 64;
const GANG_PROCESSES_OF_USER_MAX: usize = 4 * GANGS_OF_USER_MAX;

/// A user with connections.
#[derive(Debug)]
pub(crate) struct User {
    /// Says which of its connections have sent something. It takes turns with those of other
    /// users, so that a user that asks a lot delays itself alone.
    pub(crate) epoll: OwnedFd,
    connections: usize,
    pages: usize,
    /// How many of its connections have pages for a GPU.
    devices: BTreeMap<String, usize>,
    /// How many of its connections are in each gang.
    gangs: BTreeMap<String, usize>,
}

/// The pages of a connection, by GPU.
pub(crate) type Pages = BTreeMap<String, usize>;

impl User {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (devices, gangs) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { epoll, connections: 0, pages: 0, devices, gangs })
    }

    /// Counts a connection, unless there are too many.
    pub(crate) fn connect(
        &mut self,
        of_all: usize,
        limits: Limits,
        is_admin: bool,
    ) -> Result<(), String> {
        let max = limits.clients as usize + if is_admin { CLIENTS_OF_ADMINS } else { 0 };
        if of_all >= max || self.connections >= limits.clients_of_user as usize {
            return Err(format!(
                "too many processes are connected, {of_all} in all and {} of this user; end some, \
                 or try again later",
                self.connections
            ));
        }
        self.connections += 1;
        Ok(())
    }

    /// Returns whether a connection may have one more page, for this GPU.
    pub(crate) fn may_attach(
        &self,
        pages_of_all: usize,
        has: &Pages,
        device: &str,
    ) -> Result<(), String> {
        if pages_of_all >= PAGES_MAX || self.pages >= PAGES_OF_USER_MAX {
            return Err("the processes of this user have too many streams".to_owned());
        }
        if !has.contains_key(device) && self.devices.values().sum::<usize>() >= UNITS_OF_USER_MAX {
            return Err("the processes of this user are on too many GPUs".to_owned());
        }
        if !self.devices.contains_key(device) && self.devices.len() >= DEVICES_OF_USER_MAX {
            return Err(format!("a user names at most {DEVICES_OF_USER_MAX} GPUs"));
        }
        Ok(())
    }

    /// A connection has got one more page.
    pub(crate) fn attach(&mut self, has: &mut Pages, device: String) {
        self.pages += 1;
        if !has.contains_key(&device) {
            *self.devices.entry(device.clone()).or_default() += 1;
        }
        *has.entry(device).or_default() += 1;
    }

    /// Counts a connection in a gang, unless there are too many.
    pub(crate) fn join_gang(&mut self, gang: &str) -> Result<(), String> {
        if self.gangs.values().sum::<usize>() >= GANG_PROCESSES_OF_USER_MAX {
            return Err(format!(
                "a user has at most {GANG_PROCESSES_OF_USER_MAX} processes in gangs; end some, or \
                 start this one without a gang"
            ));
        }
        if !self.gangs.contains_key(gang) && self.gangs.len() >= GANGS_OF_USER_MAX {
            return Err(format!(
                "a user has at most {GANGS_OF_USER_MAX} gangs; end some, or start this process \
                 without a gang"
            ));
        }
        *self.gangs.entry(gang.to_owned()).or_default() += 1;
        Ok(())
    }

    /// A connection in a gang has ended.
    pub(crate) fn leave_gang(&mut self, gang: &str) {
        if let Some(processes) = self.gangs.get_mut(gang) {
            *processes -= 1;
            if *processes == 0 {
                self.gangs.remove(gang);
            }
        }
    }

    /// A connection with these pages has ended. True if it was the last one.
    pub(crate) fn disconnect(&mut self, had: &Pages) -> bool {
        self.connections -= 1;
        for (device, pages) in had {
            self.pages -= pages;
            if let Some(connections) = self.devices.get_mut(device) {
                *connections -= 1;
                if *connections == 0 {
                    self.devices.remove(device);
                }
            }
        }
        self.connections == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_gets_half_of_everything() {
        let limits = Limits::default();
        let (all, half) = (limits.clients as usize, limits.clients_of_user as usize);
        assert_eq!(all, 2 * half);
        let mut user = User::new().expect("an epoll");
        assert!((0..half).all(|n| user.connect(n, limits, false).is_ok()));
        assert!(user.connect(half, limits, false).is_err());
        let mut other = User::new().expect("an epoll");
        assert!(other.connect(all, limits, false).is_err());
        assert!(other.connect(all, limits, true).is_ok());
        assert!(other.connect(all + CLIENTS_OF_ADMINS, limits, true).is_err());
    }

    #[test]
    fn what_a_connection_had_is_free_after_it() {
        let mut user = User::new().expect("an epoll");
        let (mut one, mut two) = (Pages::new(), Pages::new());
        user.connect(0, Limits::default(), false).expect("room");
        user.connect(1, Limits::default(), false).expect("room");
        for n in 0..DEVICES_OF_USER_MAX {
            user.attach(&mut one, n.to_string());
        }
        user.attach(&mut two, "0".to_owned());
        user.attach(&mut two, "0".to_owned());
        assert!(user.may_attach(0, &two, "new").is_err());
        assert!(user.may_attach(0, &two, "1").is_ok());
        assert!(user.may_attach(PAGES_MAX, &two, "1").is_err());
        assert!(!user.disconnect(&one));
        assert_eq!((user.pages, user.devices.len()), (2, 1));
        assert!(user.may_attach(0, &two, "new").is_ok());
        assert!(user.disconnect(&two));
        assert_eq!((user.pages, user.devices.len()), (0, 0));
    }

    #[test]
    fn gangs_of_a_user_and_their_processes_are_bounded() {
        let mut user = User::new().expect("an epoll");
        for n in 0..GANGS_OF_USER_MAX {
            user.join_gang(&n.to_string()).expect("room");
        }
        assert!(user.join_gang("new").is_err());
        user.leave_gang("7");
        for _ in GANGS_OF_USER_MAX - 1..GANG_PROCESSES_OF_USER_MAX {
            user.join_gang("new").expect("room");
        }
        assert!(user.join_gang("new").is_err());
    }

    #[test]
    fn pages_and_processes_of_a_user_are_bounded() {
        let mut user = User::new().expect("an epoll");
        let mut pages = Pages::new();
        for _ in 0..PAGES_OF_USER_MAX {
            user.attach(&mut pages, "gpu".to_owned());
        }
        assert!(user.may_attach(0, &pages, "gpu").is_err());
        let mut user = User::new().expect("an epoll");
        for _ in 0..UNITS_OF_USER_MAX {
            user.attach(&mut Pages::new(), "gpu".to_owned());
        }
        assert!(user.may_attach(0, &Pages::new(), "gpu").is_err());
        assert!(user.may_attach(0, &Pages::from([("gpu".to_owned(), 1)]), "gpu").is_ok());
    }
}
