//! `xsched env`: the environment in which a program is scheduled, for what starts it.

use std::env;
use std::ffi::OsString;

use serde::Serialize;
use xsched_console::Ending;
use xsched_console::output::Stream;
use xsched_launch::{CONTRACT, LaunchError, cdi};

use crate::args::{EnvArgs, Format};
use crate::cdi::socket;
use crate::contract::{interposers, json};
use crate::error::CliError;

/// The variable that names the daemon's socket.
const SOCKET: &str = "XSCHED_SOCKET";

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
    let mut variables = scheduling.of_node();
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
            let mut edits = cdi::edits(scheduling, &interposers, &socket());
            edits.env.push(format!("LD_PRELOAD={files}"));
            json(&edits)
        }
    };
    Stream::Stdout.insist(&text)?;
    Ok(Ending::Fine)
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
