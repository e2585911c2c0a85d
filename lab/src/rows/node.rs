//! Services of a way of sharing the device, besides the programs: the scheduler of the node, the
//! control daemon of MPS, both or neither. All of it is of this cell alone, and ends with it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::plan::{CellPlan, Hal, Program};
use super::program::{ProgramError, beside};
use super::program_files;

/// The program that starts and ends MPS.
const MPS: &str = "nvidia-cuda-mps-control";
/// For how long a daemon may take to listen, and to end.
const STARTING: Duration = Duration::from_secs(10);
const ENDING: Duration = Duration::from_secs(6);
/// Between two looks at a daemon.
const LOOK: Duration = Duration::from_millis(10);
/// Ticks of processor time in a second.
const TICKS_PER_S: u64 = 100;

/// The GPU that programs see.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    /// `CUDA_VISIBLE_DEVICES` or `HIP_VISIBLE_DEVICES`.
    pub(crate) variable: &'static str,
    /// As that takes it.
    pub(crate) name: String,
}

impl Gpu {
    /// Name of the GPU for a client of an MPS that has this GPU alone: there GPUs are counted anew.
    fn under_mps(&self) -> &str {
        if self.name.starts_with("GPU-") { &self.name } else { "0" }
    }
}

/// Daemons of one cell.
#[derive(Debug)]
pub(crate) struct Node {
    folder: tempfile::TempDir,
    daemon: Option<Child>,
    has_mps: bool,
    gpu: Option<Gpu>,
}

impl Node {
    /// Starts what the cell needs.
    pub(crate) fn start(
        cell: &CellPlan,
        (hal, gpu): (Hal, Option<&Gpu>),
        raw: &Path,
        stop: &AtomicBool,
    ) -> Result<Self, ProgramError> {
        let folder = tempfile::Builder::new().prefix("xsched-lab").tempdir();
        let folder =
            folder.map_err(|source| ProgramError::File { place: std::env::temp_dir(), source })?;
        let mut node = Self { folder, daemon: None, has_mps: false, gpu: gpu.cloned() };
        if hal == Hal::Host {
            return Ok(node);
        }
        if cell.way.has_mps() {
            node.start_mps()?;
        }
        if cell.way.is_scheduled() && has_daemon(cell) {
            node.start_daemon(cell, raw, stop)?;
        }
        Ok(node)
    }

    /// Where the scheduler of the node listens; nothing does where the cell has none, so that the
    /// programs do not come under another one.
    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn pipes(&self) -> PathBuf {
        self.folder.path().join("mps")
    }

    /// Variables of the programs' environment.
    pub(crate) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let mut variables = vec![("XSCHED_SOCKET", self.socket())];
        if self.has_mps {
            variables.push(("CUDA_MPS_PIPE_DIRECTORY", self.pipes()));
        }
        variables.extend(self.gpu.as_ref().map(|gpu| {
            let name = if self.has_mps { gpu.under_mps() } else { &gpu.name };
            (gpu.variable, name.into())
        }));
        variables
    }

    /// A file that lives as long as the node.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Processor time that the scheduler of the node has used, in nanoseconds.
    pub(crate) fn daemon_cpu_ns(&self) -> u64 {
        self.daemon.as_ref().map_or(0, |daemon| cpu_ns(daemon.id()))
    }

    /// Returns the status of the scheduler of the node, if there is one.
    pub(crate) fn status(&self) -> Option<Value> {
        self.daemon.as_ref()?;
        let mut ask = Command::new(program_files::program("xsched").ok()?);
        let said = ask.args(["ps", "--json"]).env("XSCHED_SOCKET", self.socket()).output().ok()?;
        serde_json::from_slice(&said.stdout).ok()
    }

    /// The documents in its folder whose names begin so.
    pub(crate) fn files(&self, prefix: &str) -> Vec<Value> {
        let begins = |place: &PathBuf| {
            place.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        };
        let entries = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let places = entries.map(|entry| entry.path()).filter(begins);
        places.filter_map(|place| serde_json::from_slice(&fs::read(place).ok()?).ok()).collect()
    }

    fn control_mps(&self) -> Command {
        let mut command = Command::new(MPS);
        command.envs(self.gpu.iter().map(|gpu| (gpu.variable, &gpu.name)));
        command.env("CUDA_MPS_PIPE_DIRECTORY", self.pipes());
        command.env("CUDA_MPS_LOG_DIRECTORY", self.pipes());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start_mps(&mut self) -> Result<(), ProgramError> {
        let place = self.pipes();
        let made = fs::create_dir_all(&place);
        made.map_err(|source| ProgramError::File { place, source })?;
        let started = self.control_mps().arg("-d").stdin(Stdio::null()).status();
        self.has_mps = true;
        match started {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(ProgramError::Failed(format!("{MPS} -d: {status}"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.has_mps = false;
                Err(ProgramError::Missing(format!("{MPS} is not installed")))
            }
            Err(source) => Err(ProgramError::Start { program: MPS.to_owned(), source }),
        }
    }

    fn start_daemon(
        &mut self,
        cell: &CellPlan,
        raw: &Path,
        stop: &AtomicBool,
    ) -> Result<(), ProgramError> {
        let program = program_files::program("xschedd").map_err(ProgramError::Missing)?;
        // The user's own configuration is not meant for this.
        let config = self.file("xschedd.toml");
        let log = beside(raw, "xschedd.txt");
        let file = |place: &PathBuf| {
            File::create(place)
                .map_err(|source| ProgramError::File { place: place.clone(), source })
        };
        file(&config)?;
        let mut command = Command::new(&program);
        command.arg("--user").arg("--socket").arg(self.socket()).arg("--config").arg(config);
        command.args(cell.policy.iter().flat_map(|policy| ["--policy", policy]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file(&log)?).process_group(0);
        let cannot =
            |source| ProgramError::Start { program: program.display().to_string(), source };
        self.daemon = Some(command.spawn().map_err(cannot)?);
        self.wait_for_daemon(&log, stop)
    }

    fn wait_for_daemon(&mut self, log: &Path, stop: &AtomicBool) -> Result<(), ProgramError> {
        let (start, socket) = (Instant::now(), self.socket());
        while !listens(&socket) {
            if stop.load(Ordering::Relaxed) {
                return Err(ProgramError::Interrupted);
            }
            let ended = self.daemon.as_mut().and_then(|daemon| daemon.try_wait().ok().flatten());
            if let Some(status) = ended {
                let said = fs::read_to_string(log).unwrap_or_default();
                let last = said.lines().last().unwrap_or("it said nothing");
                return Err(ProgramError::Failed(format!("xschedd ended ({status}): {last}")));
            }
            if start.elapsed() > STARTING {
                let seconds = STARTING.as_secs_f64();
                return Err(ProgramError::Late { what: "the socket of xschedd", seconds });
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // It has nothing to keep.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if self.has_mps {
            let quit = self.control_mps().stdin(Stdio::piped()).spawn();
            let _ = quit.map(end_mps);
        }
    }
}

/// Has MPS end, and waits for it, but not for ever.
fn end_mps(mut child: Child) {
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(b"quit -t 3\n");
    }
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if start.elapsed() > ENDING {
            let _ = child.kill();
            let _ = child.wait();
        }
        thread::sleep(LOOK);
    }
}

/// Returns whether the scheduler of the node decides: between processes, and for one process
/// with one role. Threads of one process are scheduled in it.
pub(crate) fn has_daemon(cell: &CellPlan) -> bool {
    let threads = |program| program == Program::Roles;
    match cell.processes.as_slice() {
        [one] => one.roles.len() < 2 || !threads(one.program),
        _ => true,
    }
}

/// Returns whether a daemon takes connections there.
fn listens(place: &Path) -> bool {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let to = SocketAddrUnix::new(place);
    socket.and_then(|socket| connect(&socket, &to?)).is_ok()
}

/// Processor time of a process.
fn cpu_ns(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may contain anything, so what follows its end counts.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok());
    ticks.sum::<u64>() * (1_000_000_000 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::super::plan::LoadPlan;
    use super::super::plan::{ProcessPlan, RolePlan, Way};
    use super::super::protocol::{Load, RoleSpec};
    use super::*;

    fn cell(roles: &[usize]) -> CellPlan {
        let role = RolePlan {
            spec: RoleSpec::default(),
            load: LoadPlan::Fixed(Load::Endless { in_flight: 1 }),
            load_alone: None,
        };
        let process = |&count: &usize| ProcessPlan {
            roles: vec![role.clone(); count],
            ..ProcessPlan::default()
        };
        CellPlan {
            way: Way::Xsched,
            processes: roles.iter().map(process).collect(),
            ..CellPlan::default()
        }
    }

    #[test]
    fn threads_of_one_process_need_no_daemon() {
        assert!(!has_daemon(&cell(&[3])));
        assert!(has_daemon(&cell(&[1])) && has_daemon(&cell(&[1, 1])));
        let mut triton = cell(&[2]);
        triton.processes[0].program = Program::Triton;
        assert!(has_daemon(&triton));
    }

    #[test]
    fn a_daemon_is_there_when_it_takes_connections() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("socket");
        assert!(!listens(&place));
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&place).unwrap()).unwrap();
        assert!(!listens(&place), "the file is there before it listens");
        rustix::net::listen(&socket, 1).unwrap();
        assert!(listens(&place));
    }

    #[test]
    fn programs_see_the_gpu_that_they_are_given_under_mps_as_well() {
        let seen = |name: &str, has_mps| {
            let gpu = Gpu { variable: "CUDA_VISIBLE_DEVICES", name: name.to_owned() };
            let place = Path::new("raw");
            let node =
                Node::start(&cell(&[3]), (Hal::Host, Some(&gpu)), place, &AtomicBool::new(false));
            let mut node = node.unwrap();
            node.has_mps = has_mps;
            let (variable, value) = node.variables().pop().unwrap();
            node.has_mps = false;
            assert_eq!(variable, "CUDA_VISIBLE_DEVICES");
            value.display().to_string()
        };
        assert_eq!((seen("2", false), seen("2", true)), ("2".to_owned(), "0".to_owned()));
        assert_eq!(seen("GPU-5a", true), "GPU-5a");
    }

    #[test]
    fn programs_do_not_come_under_a_daemon_that_is_not_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(
            &cell(&[3]),
            (Hal::Cuda, None),
            &folder.path().join("raw"),
            &AtomicBool::new(false),
        );
        let node = node.unwrap();
        let variables = node.variables();
        assert_eq!(variables[0].0, "XSCHED_SOCKET");
        assert!(!variables[0].1.exists());
        assert_eq!(node.daemon_cpu_ns(), 0);
    }
}
