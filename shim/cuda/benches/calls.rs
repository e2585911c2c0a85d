//! Cost of a call of the driver on the emulated driver: without the interposer, and with it in
//! each state. `cargo bench -p xsched-shim-cuda --bench calls`; with `-- FOLDER`, the libraries in
//! that folder.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use xsched_daemon::{Daemon, Settings};
use xsched_node::{Link, PageSource, Unit};

/// A state of the interposer.
struct State {
    name: &'static str,
    /// Variables that make it.
    variables: &'static [(&'static str, &'static str)],
    /// Priority of another process on the GPU, which has no work, under a scheduler of the node.
    neighbour: Option<i32>,
}

const NODE: &[(&str, &str)] = &[("XSCHED_AUTO_XQUEUE", "ON"), ("XSCHED_SCHEDULER", "GLB")];
const STATES: [State; 6] = [
    State { name: "off", variables: &[("XSCHED_AUTO_XQUEUE", "OFF")], neighbour: None },
    State { name: "direct", variables: &[("XSCHED_AUTO_XQUEUE", "ON")], neighbour: None },
    State { name: "idle below", variables: NODE, neighbour: Some(-50) },
    State { name: "idle above", variables: NODE, neighbour: Some(50) },
    State {
        name: "streams",
        variables: &[("XSCHED_AUTO_XQUEUE", "ON"), ("XSCHED_AUTO_XQUEUE_UNIT", "streams")],
        neighbour: None,
    },
    State {
        name: "gates",
        variables: &[
            ("XSCHED_AUTO_XQUEUE", "ON"),
            ("XSCHED_AUTO_XQUEUE_UNIT", "streams"),
            ("XSCHED_AUTO_XQUEUE_LEVEL", "2"),
            ("XSCHED_GATE_SPACING_US", "1"),
        ],
        neighbour: None,
    },
];
/// The emulated GPU's name among processes: its PCI id.
const DEVICE: &str = "0000:01:00";
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
    let interposed = |state: &State, socket: &Path| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", libraries.join("libshimcuda.so")).env("XSCHED_SOCKET", socket);
        command.env("XSCHED_CUDA_DRIVER", &driver).envs(state.variables.iter().copied());
        command
    };
    let mut all: Vec<Costs> = Vec::new();
    for run in 0..RUNS {
        for at in 0..=STATES.len() {
            let costs = match at.checked_sub(1).and_then(|state| STATES.get(state)) {
                None => costs_of(plain().arg("calls"))?,
                Some(state) => {
                    let socket = folder.path().join(format!("{run}-{at}"));
                    let node = state.neighbour.map(|priority| Node::start(&socket, priority));
                    let node = node.transpose()?;
                    let costs = costs_of(interposed(state, &socket).arg("calls"))?;
                    drop(node);
                    costs
                }
            };
            match all.get_mut(at) {
                Some(before) => take_least(before, &costs),
                None => all.push(costs),
            }
        }
    }
    print(&all);
    Ok(())
}

/// A scheduler of the node, and a process that it knows on the emulated GPU and that has no work.
struct Node {
    _daemon: Daemon,
    _neighbour: Arc<Unit>,
}

impl Node {
    fn start(socket: &Path, priority: i32) -> Result<Self, String> {
        let policy = "hpf".parse().map_err(|_| "there is no policy hpf")?;
        let settings = Settings { socket: socket.to_owned(), policy, is_open: false };
        let daemon = Daemon::start(&settings).map_err(|error| error.to_string())?;
        let link = Link::open(socket.to_owned(), "neighbour", priority, None);
        let neighbour = link.map_err(|error| error.to_string())?.unit(DEVICE.to_owned());
        let _ = neighbour.page().map_err(|error| error.to_string())?;
        Ok(Self { _daemon: daemon, _neighbour: neighbour })
    }
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
    STATES.iter().for_each(|state| print!("{:>14}", format!("+ {}", state.name)));
    println!();
    for (at, (name, ns)) in plain.iter().enumerate() {
        print!("{name:<28}{ns:>10.1}");
        for costs in states {
            print!("{:>14.1}", costs.get(at).map_or(f64::NAN, |(_, with)| with - ns));
        }
        println!();
    }
}
