//! The user ends everything: programs are ended before this one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::CommandError;

/// Returns the flag that a first signal sets; a second one ends this program at once.
pub(super) fn on_signals() -> Result<Arc<AtomicBool>, CommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let register = flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()));
        register.map_err(|error| CommandError::Signals(error.to_string()))?;
    }
    Ok(stop)
}
