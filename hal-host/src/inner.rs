//! State that the queues of a device share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arbiter::State;
use crate::config::HostConfig;

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) config: HostConfig,
    pub(crate) signal: i32,
    state: Mutex<State>,
}

impl Device {
    pub(crate) const fn new(config: HostConfig, signal: i32) -> Self {
        Self { config, signal, state: Mutex::new(State::new(config.compute_units)) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
