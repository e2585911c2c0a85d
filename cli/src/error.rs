//! Why a command cannot be carried out.

use std::io;

use thiserror::Error;
use xsched_console::OutputError;
use xsched_launch::LaunchError;
use xsched_node::{NodeError, SocketPath};
use xsched_paper::PaperError;
use xsched_sim::replay::ReplayError;
use xsched_sim::report::SvgError;
use xsched_sim::run::RunError;
use xsched_sim::scenario::ScenarioError;

use crate::node::plain;

/// Why a command cannot be carried out. All of these end the program with code 2.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Paper(#[from] PaperError),
    #[error(transparent)]
    Svg(#[from] SvgError),
    #[error("the scheduler of the node, at {at}: {}", plain(&source.to_string()))]
    Node { at: SocketPath, source: NodeError },
    #[error(transparent)]
    Config(#[from] xsched_daemon::config::ConfigError),
    #[error(transparent)]
    Daemon(#[from] xsched_daemon::DaemonError),
    #[error("cannot read {place}: {source}")]
    Read { place: String, source: io::Error },
    #[error("{place}: {source}")]
    Replay { place: String, source: ReplayError },
    #[error("cannot write {place}: {source}")]
    Write { place: String, source: io::Error },
    #[error("{program} was not run: {why}")]
    NotTried { program: String, why: String },
    #[error("{count} seeds from {first} on go past the largest seed, {}", u64::MAX)]
    Seeds { first: u64, count: u64 },
}
