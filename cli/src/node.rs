//! `xsched ps` and `xsched ctl`: what the scheduler of the node says, and what it is told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xsched_console::Ending;
use xsched_console::output::Stream;
use xsched_console::table::table;
use xsched_daemon::config::{Config, missing_hint, unused_share};
use xsched_daemon::{Daemon, is_shown};
use xsched_launch::Class;
use xsched_node::{
    Answer, Changed, ClientStatus, Grant, Grantee, NodeError, Outsider, Request, SocketPath,
    Status, Wire,
};

use crate::args::{CheckArgs, Control, GrantArgs, PsArgs, SetArgs};
use crate::error::CliError;
use crate::meaning::COLUMNS;

/// For how long an answer is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the daemon.
fn ask(request: &Request) -> Result<Answer, CliError> {
    let at = SocketPath::from_env();
    let failed = |source| CliError::Node { at: at.clone(), source };
    at.ask(PATIENCE, |wire| wire.ask(request, None).map(|(answer, _)| answer)).map_err(failed)
}

/// Asks the daemon at one of these paths who runs and who is held.
pub(crate) fn status(at: &SocketPath) -> Result<Status, NodeError> {
    at.ask(PATIENCE, Wire::status)
}

/// Prints who runs and who is held.
pub(crate) fn ps(args: &PsArgs) -> Result<Ending, CliError> {
    let at = SocketPath::from_env();
    let status = status(&at).map_err(|source| CliError::Node { at, source })?;
    let text = if args.json {
        let text = serde_json::to_string_pretty(&status).unwrap_or_default();
        format!("{text}\n")
    } else {
        report(&status)
    };
    Stream::Stdout.insist(&text)?;
    Ok(Ending::Fine)
}

/// The policy in charge, and what lower priorities keep under it.
pub(crate) fn policy_of(status: &Status) -> String {
    match status.floor_permille {
        0 => plain(&status.policy),
        permille => {
            format!("{} with a floor of {} %", plain(&status.policy), f64::from(permille) / 10.0)
        }
    }
}

fn report(status: &Status) -> String {
    let header = COLUMNS.map(|(name, _)| name);
    let title = format!("processes, policy {}", policy_of(status));
    let mut text = table(&title, &header, status.clients.iter().map(row));
    let in_gangs = status.clients.iter().filter(|client| client.gang.is_some());
    let in_gangs: Vec<_> = in_gangs.map(gang_row).collect();
    if !in_gangs.is_empty() {
        let header = ["<gang", "pid", "uid", "<GPU", "<state"];
        text += &table("held and released together", &header, in_gangs);
    }
    if !status.changed.is_empty() {
        let header = ["<what", "pid", "<live", "<otherwise", "by uid", "min ago"];
        text += &table("changed by hand", &header, status.changed.iter().map(changed_row));
    }
    if !status.grants.is_empty() {
        let header = ["<grant", "<of", "priority", "highest", "share %", "<gang"];
        text += &table("granted by root", &header, status.grants.iter().map(grant_row));
        let more = (status.grants_in_all as usize).saturating_sub(status.grants.len());
        if more > 0 {
            text += &format!("and {more} more\n");
        }
    }
    if !status.outsiders.is_empty() {
        let header = ["pid", "uid", "<tenant", "<program", "<GPU", "GPU %"];
        text += &table("not scheduled", &header, status.outsiders.iter().map(outsider_row));
    }
    let more: Vec<_> = status.clients.iter().filter(|client| client.is_understated).collect();
    if !more.is_empty() {
        let header = ["pid", "<program", "<GPU", "by driver %", "reported %", "<class"];
        let rows = more.into_iter().map(more_row);
        text += &table("use more of a GPU than they report", &header, rows);
    }
    let unknown = status.outsiders_unknown.iter().map(|why| format!("not known: {}\n", plain(why)));
    text + &unknown.collect::<String>()
}

/// Returns a text of others without what a terminal might take for a command.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| is_shown(*c)).collect()
}

fn percent(permille: u32) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}

fn outsider_row(outsider: &Outsider) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        outsider.pid.to_string(),
        or_none(outsider.uid.map(|uid| uid.to_string())),
        plain(&outsider.tenant),
        plain(&outsider.name),
        plain(&outsider.device),
        or_none(outsider.driver_permille.map(percent)),
    ]
}

fn more_row(client: &ClientStatus) -> Vec<String> {
    vec![
        client.pid.to_string(),
        plain(&client.name),
        plain(&client.device),
        percent(client.driver_permille.unwrap_or(0)),
        percent(client.got_permille),
        if client.is_lowered { "lowered" } else { "-" }.to_owned(),
    ]
}

fn gang_row(client: &ClientStatus) -> Vec<String> {
    vec![
        plain(client.gang.as_deref().unwrap_or("-")),
        client.pid.to_string(),
        client.uid.to_string(),
        plain(&client.device),
        plain(&client.state),
    ]
}

fn grant_row(grant: &Grant) -> Vec<String> {
    let of = match &grant.to {
        Grantee::Cgroup(path) => plain(path),
        Grantee::Pid(pid) => format!("pid {pid}"),
    };
    vec![
        plain(&grant.name),
        of,
        grant.priority.to_string(),
        grant.priority_max.to_string(),
        grant.share.map_or_else(|| "-".to_owned(), |share| share.to_string()),
        plain(grant.gang.as_deref().unwrap_or("-")),
    ]
}

fn changed_row(changed: &Changed) -> Vec<String> {
    let at = Duration::from_millis(changed.at_unix_ms);
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    vec![
        plain(&changed.what),
        changed.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        plain(&changed.live),
        plain(&changed.file),
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
        plain(&client.tenant),
        plain(&client.name),
        plain(&client.device),
        plain(state),
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
    Daemon::check_paths(&config)?;
    let names: Vec<_> = config.tenants.iter().map(|tenant| &*tenant.name).collect();
    let (policy, names) = (&config.policy.name, names.join(", "));
    let file = args.file.display();
    tell_missing_hint(policy);
    if config.has_shares() {
        tell_unused_share(policy);
    }
    Stream::Stdout.print(&format!("{file}: fine: policy {policy}, tenants {names}\n"))?;
    Ok(Ending::Fine)
}

/// Tells the daemon something.
pub(crate) fn control(command: &Control) -> Result<Ending, CliError> {
    let request = match command {
        Control::Policy(args) => Request::Policy { name: args.name.clone() },
        Control::Set(args) => {
            let SetArgs { pid, class, priority, share, active } = *args;
            let priority = priority.or(class.map(Class::priority));
            Request::Set { pid, priority, share, active }
        }
        Control::Hold(args) => Request::Hold { pid: args.pid },
        Control::Release(args) => Request::Release { pid: args.pid },
        Control::Reset(args) => Request::Reset { pid: args.pid },
        Control::Reload => Request::Reload,
        Control::Drain(args) => Request::Drain { undo: args.undo },
        Control::Grant(args) => Request::Grant(grant(args)?),
        Control::Revoke(args) => Request::Revoke { name: args.name.clone() },
        Control::Check(args) => return check(args),
    };
    ask(&request)?;
    if let Control::Policy(args) = command {
        tell_missing_hint(&args.name);
    }
    let has_share = match &request {
        Request::Set { share, .. } => share.is_some(),
        Request::Grant(grant) => grant.share.is_some(),
        _ => false,
    };
    if has_share && let Ok(status) = status(&SocketPath::from_env()) {
        tell_unused_share(&status.policy);
    }
    Ok(Ending::Fine)
}

/// Returns the grant that the daemon is asked for.
fn grant(args: &GrantArgs) -> Result<Grant, CliError> {
    let (to, name) = match (&args.cgroup, args.pid) {
        (Some(path), _) => {
            // The daemon takes no links and no points, and has another working folder.
            let failed = |source| CliError::Read { place: path.display().to_string(), source };
            let path = path.canonicalize().map_err(failed)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (Grantee::Cgroup(path.to_string_lossy().into_owned()), name)
        }
        (None, pid) => {
            let pid = pid.unwrap_or_default();
            (Grantee::Pid(pid), format!("pid {pid}"))
        }
    };
    let (priority, name) = (args.class.priority(), args.name.clone().unwrap_or(name));
    let priority_max = args.priority_max.unwrap_or(priority);
    Ok(Grant { name, to, priority, priority_max, share: args.share, gang: args.gang.clone() })
}

/// Says that a policy takes no notice of shares.
fn tell_unused_share(policy: &str) {
    let unused = policy.parse().ok().and_then(|policy| unused_share(&policy));
    unused.into_iter().for_each(|text| eprintln!("xsched: warning: {text}"));
}

/// Says that a policy does not get what it goes by.
fn tell_missing_hint(policy: &str) {
    let missing = policy.parse().ok().and_then(|policy| missing_hint(&policy));
    missing.into_iter().for_each(|text| eprintln!("xsched: warning: {text}"));
}
