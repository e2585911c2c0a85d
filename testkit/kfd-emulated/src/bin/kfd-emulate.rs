//! Runs a command on an emulated `/dev/kfd`.

use std::process::{Command, ExitCode};

use xsched_kfd_emulated::Private;
use xsched_kfd_emulated::system::{Options, run};

const USAGE: &str = "\
usage: kfd-emulate [OPTION]... COMMAND [ARGUMENT]...
  --without-gpu        no GPU (else one MI308X)
  --minor N            the interface's version 1.N (17)
  --patched            0x87 and 0x88 preempt and resume one queue
  --other-patch        0x88 suspends and resumes several, 0x87 is absent
  --without-cwsr       running waves cannot be saved";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut options = Options { as_root: true, ..Options::default() };
    while let Some(option) = arguments.next_if(|argument| argument.starts_with("--")) {
        let config = &mut options.config;
        match option.as_str() {
            "--without-gpu" => config.gpus.clear(),
            "--patched" => config.private = Private::Preempt,
            "--other-patch" => config.private = Private::Suspend,
            "--without-cwsr" => config.cwsr = false,
            "--minor" => match arguments.next().and_then(|number| number.parse().ok()) {
                Some(minor) => config.minor = minor,
                None => return usage(),
            },
            _ => return usage(),
        }
    }
    let Some(program) = arguments.next() else { return usage() };
    let mut command = Command::new(program);
    match run(&options, command.args(arguments)) {
        Ok(report) => {
            for (number, operation) in &report.unmodelled {
                eprintln!("kfd-emulate: NOT EMULATED: call {number:#04x}, operation {operation}");
            }
            let code = report.status.code().and_then(|code| u8::try_from(code).ok());
            ExitCode::from(code.unwrap_or(125))
        }
        Err(error) => {
            eprintln!("kfd-emulate: {error}");
            ExitCode::from(125)
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
