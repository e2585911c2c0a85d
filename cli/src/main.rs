//! The `xsched` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    xsched_cli::main()
}
