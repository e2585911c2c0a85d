//! Mode of a bench.

use std::process::ExitCode;

/// Mode of a bench: prints and measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The figures, then criterion.
    All,
    /// Criterion only: the command line has options or a filter for it.
    Criterion,
    /// Everything once with little work, to see that it still runs.
    Smoke,
    /// The figures only.
    Figures,
    /// The figures only; a goal that is missed is an error.
    Check,
}

impl Mode {
    /// The mode that the command line asks for.
    #[must_use]
    pub fn from_args() -> Self {
        Self::of(std::env::args().skip(1))
    }

    fn of(args: impl Iterator<Item = String>) -> Self {
        let (mut bench, mut mode) = (false, Self::All);
        for arg in args {
            match arg.as_str() {
                // Cargo says so; without it, it runs the tests.
                "--bench" => bench = true,
                "--test" => return Self::Smoke,
                "--check" => return Self::Check,
                "--figures" => return Self::Figures,
                _ => mode = Self::Criterion,
            }
        }
        if bench || mode == Self::Criterion { mode } else { Self::Smoke }
    }

    /// True if to print figures.
    #[must_use]
    pub const fn figures(self) -> bool {
        !matches!(self, Self::Criterion)
    }

    /// True if to run criterion, which reads the command line by itself.
    #[must_use]
    pub const fn criterion(self) -> bool {
        matches!(self, Self::All | Self::Criterion | Self::Smoke)
    }

    /// True if to do little work and judge nothing.
    #[must_use]
    pub const fn smoke(self) -> bool {
        matches!(self, Self::Smoke)
    }

    /// How the program ends, given whether all goals were reached.
    #[must_use]
    pub fn exit_code(self, reached: bool) -> ExitCode {
        if self == Self::Check && !reached { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Prints whether a goal was reached, and returns it.
pub fn judge(goal: &str, reached: bool) -> bool {
    println!("{} {goal}", if reached { "PASS" } else { "FAIL" });
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Mode {
        Mode::of(args.iter().map(ToString::to_string))
    }

    #[test]
    fn every_way_to_start_a_bench() {
        assert_eq!(of(&["--bench"]), Mode::All);
        assert_eq!(of(&[]), Mode::Smoke, "as a test");
        assert_eq!(of(&["--test", "--bench"]), Mode::Smoke);
        assert_eq!(of(&["--check", "--bench"]), Mode::Check);
        assert_eq!(of(&["--figures", "--bench"]), Mode::Figures);
        assert_eq!(of(&["hpf", "--bench"]), Mode::Criterion);
        assert_eq!(of(&["--list"]), Mode::Criterion);
    }

    #[test]
    fn only_a_check_fails() {
        assert_eq!(Mode::All.exit_code(false), ExitCode::SUCCESS);
        assert_eq!(Mode::Check.exit_code(true), ExitCode::SUCCESS);
        assert_eq!(Mode::Check.exit_code(false), ExitCode::FAILURE);
    }
}
