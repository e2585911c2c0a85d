//! `xsched ps` and `xsched ctl`: what the scheduler of the node says, and what it is told.

use std::io::{self, Write};
use std::time::Duration;

use xsched_lab::console::Ending;
use xsched_lab::console::table::table;
use xsched_node::{Answer, ClientStatus, NodeError, Request, Status, Wire, socket_path};

use crate::args::{Control, PsArgs, SetArgs};
use crate::error::CliError;

/// For how long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the daemon.
fn ask(request: &Request) -> Result<Answer, CliError> {
    let path = socket_path();
    let failed = |source| CliError::Node { path: path.clone(), source };
    let wire = Wire::connect(&path, PATIENCE).map_err(failed)?;
    wire.ask(request, None).map(|(answer, _)| answer).map_err(failed)
}

/// Who runs and who is held.
pub(crate) fn ps(args: &PsArgs) -> Result<Ending, CliError> {
    let Answer::Status(status) = ask(&Request::Status)? else {
        return Err(CliError::Node { path: socket_path(), source: NodeError::Unexpected });
    };
    let text = if args.json {
        let text = serde_json::to_string_pretty(&status).unwrap_or_default();
        format!("{text}\n")
    } else {
        report(&status)
    };
    // A reader that has seen enough is no error.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(Ending::Fine)
}

fn report(status: &Status) -> String {
    let header = [
        "pid", "uid", "<program", "<GPU", "<state", "since s", "priority", "share %", "GPU s",
        "holds",
    ];
    let title = format!("processes, policy {}", status.policy);
    table(&title, &header, status.clients.iter().map(row))
}

fn row(client: &ClientStatus) -> Vec<String> {
    let seconds = |ms: u64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
    let state = if client.held_by_hand { "held by hand" } else { &client.state };
    vec![
        client.pid.to_string(),
        client.uid.to_string(),
        client.name.clone(),
        client.device.clone(),
        state.to_owned(),
        seconds(client.since_ms),
        client.priority.to_string(),
        client.share.map_or_else(|| "-".to_owned(), |share| share.to_string()),
        seconds(client.device_ms),
        client.holds.to_string(),
    ]
}

/// Tells the daemon something.
pub(crate) fn control(command: &Control) -> Result<Ending, CliError> {
    let request = match command {
        Control::Policy(args) => Request::Policy { name: args.name.clone() },
        Control::Set(args) => {
            let SetArgs { pid, priority, share, active } = *args;
            Request::Set { pid, priority, share, active }
        }
        Control::Hold(args) => Request::Hold { pid: args.pid },
        Control::Release(args) => Request::Release { pid: args.pid },
    };
    ask(&request).map(|_| Ending::Fine)
}
