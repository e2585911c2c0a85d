//! Runs a command on an emulated `/dev/kfd`.

use std::process::{Command, ExitCode};

use xsched_kfd_emulated::system::{Options, run};
use xsched_kfd_emulated::{Gpu, Private};

const USAGE: &str = "\
usage: kfd-emulate [OPTION]... COMMAND [ARGUMENT]...
  --without-gpu        no GPU (else one MI308X)
  --minor N            the interface's version 1.N (17)
  --patched            0x87 and 0x88 preempt and resume one queue
  --other-patch        0x88 suspends and resumes several, 0x87 is absent
  --without-cwsr       running waves cannot be saved
  --gpu                one small GPU that carries packets out: preloads libxsched_gpu_emulated.so,
                       which is expected in this program's folder
  --gpus N             so many GPUs
  --xccs N             dies of each GPU
  --compute-units N    compute units of each GPU";
/// Library that plays the hardware.
const HARDWARE: &str = "libxsched_gpu_emulated.so";
/// The first GPU's `gpu_id`; the others' follow.
const GPU_ID: u32 = 0x8c1f;
const GPUS_MAX: u32 = 8;

/// Reads an option. `None` if it is not understood.
fn option(
    options: &mut Options,
    option: &str,
    arguments: &mut impl Iterator<Item = String>,
) -> Option<()> {
    let config = &mut options.config;
    let mut number = || arguments.next()?.parse::<u32>().ok();
    match option {
        "--without-gpu" => config.gpus.clear(),
        "--patched" => config.private = Private::Preempt,
        "--other-patch" => config.private = Private::Suspend,
        "--without-cwsr" => config.cwsr = false,
        "--minor" => config.minor = number()?,
        "--gpu" => {
            config.gpus = vec![Gpu::small(GPU_ID)];
            options.hardware = Some(std::env::current_exe().ok()?.with_file_name(HARDWARE));
        }
        "--gpus" => {
            let count = number().filter(|count| *count <= GPUS_MAX)?;
            let first = config.gpus.first().cloned().unwrap_or_else(|| Gpu::small(GPU_ID));
            let gpu = |number| Gpu { gpu_id: GPU_ID + number, ..first.clone() };
            config.gpus = (0..count).map(gpu).collect();
        }
        "--xccs" | "--compute-units" => {
            let count = number().filter(|count| (1..=1_024).contains(count))?;
            for gpu in &mut config.gpus {
                let field = if option == "--xccs" { &mut gpu.xccs } else { &mut gpu.compute_units };
                *field = count;
            }
        }
        _ => return None,
    }
    Some(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut options = Options { as_root: true, ..Options::default() };
    while let Some(given) = arguments.next_if(|argument| argument.starts_with("--")) {
        if option(&mut options, &given, &mut arguments).is_none() {
            return usage();
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
