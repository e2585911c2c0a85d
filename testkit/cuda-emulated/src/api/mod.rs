//! CUDA's functions, by their own names.

mod capture;
mod contexts;
mod control;
mod copies;
mod devices;
mod events;
mod graphs;
mod init;
mod launches;
mod memory;
mod modules;
mod nodes;
mod operations;
mod streams;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use xsched_emulated_device::code::{Answer, STREAM_CAPTURE_IMPLICIT};
use xsched_emulated_device::{Kind, Stream, Work};

/// All functions that are exported, by name.
pub(crate) static EXPORTS: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
    let tables = [
        capture::table(),
        contexts::table(),
        copies::table(),
        devices::table(),
        events::table(),
        graphs::table(),
        init::table(),
        launches::table(),
        memory::table(),
        modules::table(),
        nodes::table(),
        operations::table(),
        streams::table(),
    ];
    tables.into_iter().flatten().collect()
});

/// Launches something.
///
/// # Errors
/// If the context was lost, or the legacy default stream would wait for a captured one.
pub(crate) fn launch(stream: &Arc<Stream>, kind: Kind, work: Work) -> Answer {
    check_default(stream)?;
    stream.launch(kind, work)
}

/// Fails if it is the legacy default stream, and would wait for a captured one.
pub(crate) fn check_default(stream: &Arc<Stream>) -> Answer {
    stream.device.check()?;
    if !stream.is_default {
        return Ok(());
    }
    let captures = stream.device.captures(true);
    captures.iter().for_each(|capture| capture.spoil());
    if captures.is_empty() { Ok(()) } else { Err(STREAM_CAPTURE_IMPLICIT) }
}
