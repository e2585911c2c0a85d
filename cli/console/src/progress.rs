//! A progress bar for runs that take a while.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Verbosity;

/// A run shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_millis(500);
/// Steps of the bar.
const STEPS: f64 = 1000.0;

/// A bar on standard error, shown only on a terminal and only once some time has passed.
#[derive(Debug)]
pub struct Progress {
    start: Instant,
    wanted: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Starts the clock. A quiet process shows no bar.
    pub fn start() -> Self {
        let wanted = Verbosity::get() != Verbosity::Quiet && io::stderr().is_terminal();
        Self { start: Instant::now(), wanted, bar: OnceLock::new() }
    }

    /// Shows how much is done, 0.0 to 1.0. May be called from any thread.
    pub fn set(&self, part: f64) {
        if self.wanted && self.start.elapsed() > PATIENCE {
            let bar = self.bar.get_or_init(|| {
                let bar = ProgressBar::new(STEPS as u64);
                let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %, {eta} left");
                if let Ok(style) = style { bar.with_style(style) } else { bar }
            });
            bar.set_position((part * STEPS) as u64);
        }
    }

    /// Takes the bar away and returns the time since the start.
    pub fn finish(self) -> Duration {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
        self.start.elapsed()
    }
}
