//! The `xsched-lab` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    xsched_lab::main()
}
