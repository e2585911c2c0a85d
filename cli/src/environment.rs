//! `xsched env`: the environment in which a program is scheduled, for what starts it.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;
use xsched_console::Ending;
use xsched_console::output::Stream;
use xsched_launch::{CONTRACT, Decider, Interposers, LaunchError, Scheduling, folders_beside};

use crate::args::{EnvArgs, Format};
use crate::cdi;
use crate::error::CliError;

/// The variable that names the daemon's socket.
const SOCKET: &str = "XSCHED_SOCKET";

/// Interposers beside this program.
pub(crate) fn interposers() -> Result<Interposers, CliError> {
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|source| CliError::Read { place: "this program".to_owned(), source })?;
    Ok(Interposers::find(&folders_beside(own.parent().unwrap_or(Path::new("/"))))?)
}

/// Variables of a program that the scheduler of the node schedules, whether one runs now or not,
/// but for preloaded files.
pub(crate) fn variables(scheduling: &Scheduling) -> Vec<(&'static str, String)> {
    let mut variables = scheduling.variables(Some(Decider::Node));
    variables.extend(scheduling.of_hip().map(|(name, value)| (name, value.to_owned())));
    variables
}

/// The JSON of [`Format::Json`].
#[derive(Serialize)]
struct Contract {
    version: u32,
    variables: serde_json::Map<String, serde_json::Value>,
    preload: Vec<String>,
}

/// Prints the environment.
pub(crate) fn execute(args: &EnvArgs) -> Result<Ending, CliError> {
    let (scheduling, interposers) = (&args.scheduling, interposers()?);
    let mut variables = variables(scheduling);
    if args.format != Format::Cdi {
        variables.extend(env::var(SOCKET).ok().map(|socket| (SOCKET, socket)));
    }
    let preloaded = |old: Option<OsString>| -> Result<String, LaunchError> {
        Ok(interposers.preload(old)?.1.to_string_lossy().into_owned())
    };
    let text = match args.format {
        Format::Shell => {
            let mut lines: String = variables
                .iter()
                .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
                .collect();
            let files = quoted(&preloaded(None)?);
            lines += &format!("export LD_PRELOAD=\"${{LD_PRELOAD:+$LD_PRELOAD:}}\"{files}\n");
            lines
        }
        Format::Slurm => {
            variables.push(("LD_PRELOAD", preloaded(env::var_os("LD_PRELOAD"))?));
            variables.iter().map(|(name, value)| format!("export {name}={value}\n")).collect()
        }
        Format::Json => {
            let files = interposers.files().iter().map(|file| file.to_string_lossy().into_owned());
            let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
            json(&Contract {
                version: CONTRACT,
                variables: variables.collect(),
                preload: files.collect(),
            })
        }
        Format::Cdi => {
            let files = cdi::preloaded(&interposers).join(":");
            json(&cdi::edits(scheduling, &interposers).with(format!("LD_PRELOAD={files}")))
        }
    };
    Stream::Stdout.insist(&text)?;
    Ok(Ending::Fine)
}

/// A value as JSON text.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
