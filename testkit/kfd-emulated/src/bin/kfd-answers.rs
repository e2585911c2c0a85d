//! Runs the script of calls on `/dev/kfd` and prints the answers, or compares two transcripts.

use std::io::{self, Write};
use std::process::ExitCode;

use xsched_kfd_emulated::answers;

const USAGE: &str = "usage: kfd-answers [normalise FILE | compare EXPECTED FOUND]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("kfd-answers: {error}");
            ExitCode::FAILURE
        }
    }
}

/// False if the arguments are not understood.
fn run(arguments: &[String]) -> io::Result<bool> {
    let mut out = io::stdout();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => answers::run(&mut out).map(|()| true),
        ["helper", ..] => answers::helper(&arguments[1..], &mut out),
        ["normalise", file] => {
            let text = std::fs::read_to_string(file)?;
            out.write_all(answers::normalise(&text).as_bytes()).map(|()| true)
        }
        ["compare", expected, found] => {
            let (expected, found) =
                (std::fs::read_to_string(expected)?, std::fs::read_to_string(found)?);
            let compared = answers::compare(&expected, &answers::normalise(&found));
            let lines =
                compared.map_err(|differences| io::Error::other(format!("\n{differences}")))?;
            writeln!(out, "{lines} lines are the same").map(|()| true)
        }
        _ => Ok(false),
    }
}
