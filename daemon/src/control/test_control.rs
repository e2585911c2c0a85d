//! A daemon on one thread, for tests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::event::epoll;

use super::{CHECK, Control};
use crate::closer::Closer;
use crate::config::{Config, ConfigError, Source};
use crate::grants::Grants;
use crate::liveness::{Pulse, check};
use crate::scheduler::TestDriver;
use crate::scheduler_client::SchedulerClient;
use crate::subordinates::Subordinates;
use crate::waker::new_eventfd;
use crate::watch::Watched;

impl Control {
    /// A daemon that listens nowhere.
    pub(crate) fn of_test_driver(driver: Arc<Mutex<TestDriver>>) -> rustix::io::Result<Self> {
        Ok(Self {
            listener: new_eventfd()?,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            peers: HashMap::new(),
            users: HashMap::new(),
            subordinates: Subordinates::default(),
            closer: Closer::default(),
            pages: 0,
            next: CHECK + 1,
            scheduler: SchedulerClient::of_test_driver(driver),
            watched: Watched::default(),
            metrics: None,
            watch: None,
            drivers: None,
            spare: None,
            paused: None,
            is_open: true,
            config: Config::default(),
            grants: Grants::default(),
            looked: Instant::now(),
            source: Source::default(),
            socket: PathBuf::new(),
            path: None,
            policy_by: None,
            drained: None,
            reload: Arc::new(new_eventfd()?),
            reloads: channel().1,
            checked: check()?.1,
            pulse: Pulse::default(),
        })
    }

    /// Reads the configuration again, from this file, which need not be there.
    pub(crate) fn reload_from(&mut self, file: PathBuf) -> Result<(), ConfigError> {
        self.source = Source { file: Some(file), is_optional: true, ..Source::default() };
        self.reload()
    }

    /// Defect of what does not fit together, if there is one.
    pub(crate) fn defect(&self) -> Option<String> {
        let pages = self.peers.values().flat_map(|peer| peer.pages.values()).sum::<usize>();
        (self.pages != pages).then(|| "pages are miscounted".to_owned())
    }
}
