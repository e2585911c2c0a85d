//! `cargo run -p xsched-book`: writes the generated parts of the book, or with `--check` says which
//! are stale. `cargo xtask book` calls it.

use std::process::ExitCode;

use clap::Parser;

/// Writes the generated parts of the book from the code and the records.
#[derive(Debug, Parser)]
struct Options {
    /// Changes nothing, and fails if a part is stale.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match xsched_book::run(options.check) {
        Ok(stale) if options.check && !stale.is_empty() => {
            for part in stale {
                eprintln!("stale: {part}; run `cargo xtask book`");
            }
            ExitCode::FAILURE
        }
        Ok(written) => {
            for part in written {
                println!("wrote {part}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
