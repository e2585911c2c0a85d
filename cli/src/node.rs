//! `xsched ps` and `xsched ctl`: what the scheduler of the node says, and what it is told.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xsched_daemon::config::Config;
use xsched_lab::console::Ending;
use xsched_lab::console::output::Stream;
use xsched_lab::console::table::table;
use xsched_node::{Answer, Changed, ClientStatus, NodeError, Request, Status, Wire, socket_path};

use crate::args::{CheckArgs, Control, PsArgs, SetArgs};
use crate::error::CliError;

/// For how long an answer is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

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
        "pid", "uid", "<tenant", "<program", "<GPU", "<state", "since s", "priority", "share %",
        "GPU s", "holds",
    ];
    let title = format!("processes, policy {}", status.policy);
    let processes = table(&title, &header, status.clients.iter().map(row));
    if status.changed.is_empty() {
        return processes;
    }
    let header = ["<what", "pid", "<live", "<otherwise", "by uid", "min ago"];
    let changed = status.changed.iter().map(changed_row);
    format!("{processes}{}", table("changed by hand", &header, changed))
}

fn changed_row(changed: &Changed) -> Vec<String> {
    let at = Duration::from_millis(changed.at_unix_ms);
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    vec![
        changed.what.clone(),
        changed.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        changed.live.clone(),
        changed.file.clone(),
        changed.uid.to_string(),
        (since_1970.saturating_sub(at).as_secs() / 60).to_string(),
    ]
}

fn row(client: &ClientStatus) -> Vec<String> {
    let seconds = |ms: u64| format!("{}.{:03}", ms / 1_000, ms % 1_000);
    let state = if client.held_by_hand { "held by hand" } else { &client.state };
    vec![
        client.pid.to_string(),
        client.uid.to_string(),
        client.tenant.clone(),
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

/// Checks a configuration file.
fn check(args: &CheckArgs) -> Result<Ending, CliError> {
    let config = Config::read(&args.file)?;
    let names: Vec<_> = config.tenants.iter().map(|tenant| &*tenant.name).collect();
    let (policy, names) = (&config.policy.name, names.join(", "));
    let file = args.file.display();
    Stream::Stdout.print(&format!("{file}: fine: policy {policy}, tenants {names}\n"))?;
    Ok(Ending::Fine)
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
        Control::Reset(args) => Request::Reset { pid: args.pid },
        Control::Reload => Request::Reload,
        Control::Drain(args) => Request::Drain { undo: args.undo },
        Control::Check(args) => return check(args),
    };
    ask(&request).map(|_| Ending::Fine)
}
