//! The state of MPS, NVIDIA's service by which processes share a GPU: by its control daemon's pipe
//! and the list of processes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::nvml::Gpu;
use super::problem::Problem;

const VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";
const DIRECTORY: &str = "/tmp/nvidia-mps";
const CONTROL: &str = "nvidia-cuda-mps-control";
const SERVER: &str = "nvidia-cuda-mps-server";

/// MPS on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Mps {
    /// Where programs look for the control daemon.
    pub(super) directory: PathBuf,
    /// The control daemon's pipe is there.
    pub(super) pipe: bool,
    /// Control daemons that run, of whatever directory.
    pub(super) control: Vec<u32>,
    /// Servers that run.
    pub(super) servers: Vec<u32>,
}

impl Mps {
    /// As this process sees it.
    pub(super) fn here(root: &Path) -> Self {
        let named = env::var_os(VARIABLE).filter(|value| !value.is_empty());
        Self::at(named.map_or_else(|| PathBuf::from(DIRECTORY), PathBuf::from), root)
    }

    fn at(directory: PathBuf, root: &Path) -> Self {
        let pipe = directory.join("control").exists();
        let [control, servers] = [CONTROL, SERVER].map(|name| processes(root, name));
        Self { directory, pipe, control, servers }
    }

    /// Programs share GPUs by it.
    pub(super) fn is_used(&self) -> bool {
        self.pipe && !self.control.is_empty()
    }

    /// Lists problems of MPS, and of GPUs that only it lets processes share.
    pub(super) fn problems(&self, gpus: &[Gpu]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let directory = self.directory.display();
        if !self.pipe && !self.control.is_empty() {
            problems.push(Problem::new(
                format!("MPS runs, and its control daemon's pipe is not in {directory}"),
                format!("set {VARIABLE} to the folder that the daemon was started with"),
            ));
        } else if self.pipe && self.control.is_empty() {
            problems.push(Problem::new(
                format!("{directory} has the pipe of MPS, and no control daemon can be seen"),
                format!(
                    "if it is not in another container, start it (`{CONTROL} -d`) or remove the pipe"
                ),
            ));
        }
        for gpu in gpus {
            let mode = gpu.compute_mode.as_deref().unwrap_or_default();
            let reset = format!("run `nvidia-smi -i {} -c DEFAULT` as root", gpu.pci);
            if mode == "Prohibited" {
                let what = format!("no program may compute on {} ({})", gpu.name, gpu.pci);
                problems.push(Problem::new(what, reset));
            } else if mode.starts_with("Exclusive") && !self.is_used() {
                let what =
                    format!("{} ({}) takes one process at a time, {mode}", gpu.name, gpu.pci);
                problems.push(Problem::new(what, format!("start MPS, or {reset}")));
            }
        }
        problems
    }
}

/// The processes that run a program of this name.
pub(super) fn processes(root: &Path, name: &str) -> Vec<u32> {
    let entries = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |pid: &u32| {
        let line = fs::read(root.join(format!("proc/{pid}/cmdline"))).unwrap_or_default();
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        Path::new(String::from_utf8_lossy(program).as_ref()).ends_with(name)
    };
    let mut found: Vec<_> = numbers.filter(runs).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_and_their_pipe_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let pipes = root.path().join("mps");
        let none = Mps::at(pipes.clone(), root.path());
        assert!(!none.is_used() && none.problems(&[]).is_empty());
        for (pid, line) in [(7, "/usr/bin/nvidia-cuda-mps-control\0-d\0"), (8, SERVER), (9, "sh")] {
            let folder = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("cmdline"), line).expect("a file");
        }
        let elsewhere = Mps::at(pipes.clone(), root.path());
        assert_eq!((&elsewhere.control, &elsewhere.servers), (&vec![7], &vec![8]));
        assert!(elsewhere.problems(&[])[0].action.contains(VARIABLE));
        fs::create_dir(&pipes).expect("a folder");
        fs::write(pipes.join("control"), "").expect("a file");
        let used = Mps::at(pipes, root.path());
        assert!(used.is_used() && used.problems(&[]).is_empty());
    }

    #[test]
    fn modes_that_keep_programs_off_a_gpu_are_problems() {
        let gpu = |mode: &str| Gpu { compute_mode: Some(mode.to_owned()), ..Gpu::default() };
        let gpus = ["Default", "ExclusiveProcess", "Prohibited"].map(gpu);
        assert_eq!(Mps::default().problems(&gpus).len(), 2);
        let used = Mps { pipe: true, control: vec![1], ..Mps::default() };
        assert_eq!(used.problems(&gpus).len(), 1);
    }
}
