//! `xsched record`.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use xsched_console::Ending;
use xsched_console::output::Stream;
use xsched_console::table::count;
use xsched_node::{Answer, NodeError, Request, SocketPath};
use xsched_sim::replay::{MAX_RECORD_BYTES, Record};

use crate::args::RecordArgs;
use crate::error::CliError;
use crate::node::PATIENCE;

/// How often it looks whether the record is to end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Has the daemon record, until it is enough.
pub(crate) fn execute(args: &RecordArgs) -> Result<Ending, CliError> {
    let place = args.out.display().to_string();
    let unwritten = |source| CliError::Write { place: place.clone(), source };
    let at = SocketPath::from_env();
    let failed = |source| CliError::Node { at: at.clone(), source };
    let is_enough = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&is_enough)).map_err(unwritten)?;
    }
    let wire = at.connect(PATIENCE).map_err(failed)?;
    // With room for what a reader reads more, to find that a file is too large.
    let bytes_max = (args.mib << 20).min(MAX_RECORD_BYTES);
    let (answer, reader) = wire.ask(&Request::Record { bytes_max }, None).map_err(failed)?;
    let (Answer::Recording, Some(reader)) = (answer, reader) else {
        return Err(failed(NodeError::Unexpected));
    };
    // Only now, so that a record that cannot begin leaves an earlier one as it is.
    let written = written(reader, File::create(&args.out).map_err(unwritten)?);
    let start = Instant::now();
    let is_over = || args.seconds.is_some_and(|n| start.elapsed() >= Duration::from_secs(n));
    while !is_over() && !is_enough.load(Ordering::Relaxed) && !written.is_finished() {
        thread::sleep(LOOK_EVERY);
    }
    // A daemon that has gone has ended it too.
    let _ = wire.ask(&Request::EndRecord, None);
    match written.join() {
        Ok(result) => result.map_err(unwritten)?,
        Err(_) => return Err(unwritten(io::Error::other("the thread that wrote it panicked"))),
    };
    let bytes = fs::read(&args.out);
    let bytes = bytes.map_err(|source| CliError::Read { place: place.clone(), source })?;
    let record = Record::parse(&bytes);
    let record = record.map_err(|source| CliError::Replay { place: place.clone(), source })?;
    let length = count(bytes.len() as u64, "byte");
    let text = format!("{place}: {} entries, {length}\n", record.entries_count());
    Stream::Stdout.print(&text)?;
    Ok(Ending::Fine)
}

/// Writes all that comes into a file, on a thread.
fn written(from: OwnedFd, mut to: File) -> JoinHandle<io::Result<u64>> {
    thread::spawn(move || {
        let copied = io::copy(&mut File::from(from), &mut to)?;
        to.sync_all()?;
        Ok(copied)
    })
}
