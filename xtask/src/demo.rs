//! The README's main job, as CI judges it.
//!
//! The demo measures, and its goals hold on a machine that does nothing else. CI's machine may do
//! other things. So where a goal is missed, CI looks at how much quicker the urgent task was than
//! the background at the same time: other programs slow both down.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, run_and_keep_all};
use crate::{MAIN_JOB, target_dir};

/// With a policy, the background's requests take at least so many times as long as the urgent
/// task's. On a quiet machine it is six times, without a policy once.
const RATIO: f64 = 2.0;

/// Runs it.
///
/// # Errors
/// If the demo cannot run, or the priority took no effect.
pub(crate) fn run() -> Result<()> {
    let picture = target_dir().join("xsched-demo.svg");
    let mut command: Command = cargo(MAIN_JOB.strip_prefix("cargo ").unwrap_or(MAIN_JOB));
    let (status, lines) = run_and_keep_all(command.arg("--svg").arg(picture))?;
    if status.success() {
        return Ok(());
    }
    let ratio = ratio(&lines).with_context(|| format!("`{MAIN_JOB}` ended with {status}"))?;
    ensure!(ratio >= RATIO, "the priority took no effect: {ratio:.2}, not at least {RATIO}");
    println!(
        "main job: goals were missed, so the machine was busy; under the policy the background's \
         requests still took {ratio:.2} times as long as the urgent task's, at least {RATIO} are asked"
    );
    Ok(())
}

/// `low/high mean` of the mode with a policy: the last column but one of its row.
fn ratio(lines: &[String]) -> Option<f64> {
    let header = lines.iter().position(|line| line.contains("low/high mean"))?;
    let is_row = |line: &&String| line.trim_start().starts_with("scheduled ");
    let row = lines[header..].iter().find(is_row)?;
    // What is predicted is in parentheses.
    let mut figures = row.split_whitespace().rev().filter(|word| !word.starts_with('('));
    figures.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_found_in_what_the_demo_prints() {
        let text = "scheduled: policy hpf, level 3\n\
            requests per second, as measured (and as simulated)\n\
            \x20 mode                   all         high     cost of all  low/high mean  low/high P99\n\
            \x20 unscheduled  180.3 (213.6)  49.7 (57.0)   0.00% (0.00%)    0.91 (0.87)   1.07 (0.95)\n\
            \x20 scheduled    134.1 (212.2)  76.6 (93.5)  25.64% (0.66%)    6.51 (6.10)   9.03 (8.99)\n";
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(ratio(&lines), Some(6.51));
        assert_eq!(ratio(&lines[..3]), None);
    }
}
