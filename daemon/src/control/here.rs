//! A daemon on one thread, for tests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use rustix::event::epoll;

use super::{CHECK, Control};
use crate::config::{Config, Source};
use crate::desk::Desk;
use crate::liveness::check;
use crate::scheduler::{Here, new_eventfd};
use crate::watch::Watched;

impl Control {
    /// A daemon that listens nowhere.
    pub(crate) fn here(here: Arc<Mutex<Here>>) -> rustix::io::Result<Self> {
        Ok(Self {
            listener: new_eventfd()?,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            peers: HashMap::new(),
            users: HashMap::new(),
            pages: 0,
            next: CHECK + 1,
            desk: Desk::here(here),
            watched: Watched::default(),
            metrics: None,
            watch: None,
            drivers: None,
            spare: None,
            paused: None,
            is_open: true,
            config: Config::default(),
            source: Source::default(),
            socket: PathBuf::new(),
            is_own: false,
            policy_by: None,
            drained: None,
            reload: Arc::new(new_eventfd()?),
            reloads: channel().1,
            checked: check()?.1,
        })
    }

    /// What does not fit together, if anything does not.
    pub(crate) fn defect(&self) -> Option<String> {
        let pages = self.peers.values().flat_map(|peer| peer.pages.values()).sum::<usize>();
        (self.pages != pages).then(|| "pages are miscounted".to_owned())
    }
}
