//! What a call of the driver costs on the emulated driver: without the interposer, and with it in
//! each state. `cargo bench -p xsched-shim-cuda --bench calls`; with `-- FOLDER`, the libraries in
//! that folder.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A state of the interposer, and the variables that make it.
type State = (&'static str, &'static [(&'static str, &'static str)]);

const STATES: [State; 4] = [
    ("off", &[("XSCHED_AUTO_XQUEUE", "OFF")]),
    ("direct", &[("XSCHED_AUTO_XQUEUE", "ON")]),
    ("ready", &[("XSCHED_AUTO_XQUEUE", "ON"), ("XSCHED_AUTO_XQUEUE_UNIT", "streams")]),
    (
        "contended",
        &[
            ("XSCHED_AUTO_XQUEUE", "ON"),
            ("XSCHED_AUTO_XQUEUE_UNIT", "streams"),
            ("XSCHED_AUTO_XQUEUE_LEVEL", "2"),
            ("XSCHED_GATE_SPACING_US", "1"),
        ],
    ),
];
/// Runs of each state in turn. The least time of a call in all of them counts.
const RUNS: usize = 5;

/// The names and the least nanoseconds of calls.
type Costs = Vec<(String, f64)>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("calls: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = folder.path().join("calls");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/calls.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-O2", "-o"]).arg(&program).arg(source).args(["-ldl", "-pthread"]);
    if !command.status().is_ok_and(|status| status.success()) {
        return Err("no C compiler; install one, or set CC".to_owned());
    }
    let driver = xsched_cuda_emulated::place(folder.path()).map_err(|error| error.to_string())?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let libraries = given.map_or_else(|| own.with_file_name(""), PathBuf::from);
    let plain = || {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", folder.path());
        command
    };
    let interposed = |state: &State| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", libraries.join("libshimcuda.so"));
        command.env("XSCHED_CUDA_DRIVER", &driver).envs(state.1.iter().copied());
        command
    };
    let mut all: Vec<Costs> = Vec::new();
    for _ in 0..RUNS {
        let commands = std::iter::once(plain()).chain(STATES.iter().map(interposed));
        for (at, mut command) in commands.enumerate() {
            let costs = costs_of(command.arg("calls"))?;
            match all.get_mut(at) {
                Some(before) => take_least(before, &costs),
                None => all.push(costs),
            }
        }
    }
    print(&all);
    Ok(())
}

fn costs_of(command: &mut Command) -> Result<Costs, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || text.contains("FAILED") {
        return Err(format!("{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    let cost = |line: &str| {
        let (name, ns) = line.split_once('\t')?;
        Some((name.to_owned(), ns.parse().ok()?))
    };
    Ok(text.lines().filter_map(cost).collect())
}

fn take_least(before: &mut Costs, costs: &Costs) {
    for ((_, least), (_, ns)) in before.iter_mut().zip(costs) {
        *least = least.min(*ns);
    }
}

/// Nanoseconds of the driver alone, and what the interposer adds in each state.
fn print(all: &[Costs]) {
    let Some((plain, states)) = all.split_first() else { return };
    print!("{:<28}{:>10}", "ns a call", "driver");
    STATES.iter().for_each(|(name, _)| print!("{:>12}", format!("+ {name}")));
    println!();
    for (at, (name, ns)) in plain.iter().enumerate() {
        print!("{name:<28}{ns:>10.1}");
        for costs in states {
            print!("{:>12.1}", costs.get(at).map_or(f64::NAN, |(_, with)| with - ns));
        }
        println!();
    }
}
