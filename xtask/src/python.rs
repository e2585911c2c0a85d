//! The package for Python, as users get it.
//!
//! 1. `pip install .` into a new virtual environment, which builds the wheel with the extension
//!    module and the C libraries.
//! 2. The package imports, from a folder that has nothing of the repository.
//! 3. mypy, strictly, and pytest: on the processor, on the emulated HIP runtime and CUDA driver, in
//!    the simulator.
//! 4. The tests of the lab's programs, as far as those need no PyTorch.
//! 5. The examples: the shape of the BERT script with `ctypes` alone, and priorities.
//!
//! Needs Python 3.9 or newer with pip, and installs Debian's packages if it lacks one of them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::apt;
use crate::command::{cargo, run as run_command, succeeds};
use crate::{root, target_dir};

/// Debian's packages with Python, its pip and its virtual environments.
const PACKAGES: [&str; 3] = ["python3", "python3-pip", "python3-venv"];
/// Code that a suitable Python runs.
const CHECK: &str = "import sys, ensurepip, venv; assert sys.version_info >= (3, 9)";
/// The tests of the lab's programs.
const LAB: &str = "unittest discover -s lab/programs/tests -t lab/programs";
/// Examples that run after the tests, with their arguments.
const EXAMPLES: [&str; 4] = [
    "bert_ctypes.py --device host",
    "bert_ctypes.py --device hip",
    "priorities.py",
    "own_policy.py",
];

/// How to do it.
#[derive(Debug, Args)]
pub struct Options {
    /// The cargo profile to build with; `release` is what users get, and takes longer.
    #[arg(long, default_value = "dev")]
    pub profile: String,
}

/// Does it.
///
/// # Errors
/// The first thing that fails ends it.
pub fn run(options: &Options) -> Result<()> {
    let interpreter = interpreter()?;
    let home = target_dir().join("python");
    let mut venv = Command::new(&interpreter);
    run_command(venv.args(["-m", "venv", "--clear"]).arg(&home))?;
    let python = home.join("bin/python");
    install(&python, &options.profile)?;
    let folder = import(&python, &home)?;
    let [hip, cuda, kfd] = emulated()?;
    let tools =
        ["mypy python/xsched python/packaging python/tests python/examples", "pytest --quiet"];
    for tool in tools {
        let mut command = module(&python, tool);
        command.env("XSCHED_HIP_LIB", &hip).env("XSCHED_CUDA_DRIVER", &cuda);
        run_command(command.env("XSCHED_TEST_KFD_EMULATE", &kfd))?;
    }
    run_command(&mut module(&python, LAB))?;
    for example in EXAMPLES {
        let mut words = example.split(' ');
        let mut command = Command::new(&python);
        command.current_dir(root().join("python/examples")).args(words.by_ref());
        command.env("XSCHED_HIP_LIB", &hip).env("LD_LIBRARY_PATH", folder.join("lib"));
        run_command(&mut command)?;
    }
    Ok(())
}

/// A Python that is new enough.
///
/// # Errors
/// If there is none and none can be installed.
pub(crate) fn interpreter() -> Result<PathBuf> {
    let works = |name: &str| succeeds(Command::new(name).args(["-c", CHECK]));
    let name = env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    if works(&name) {
        return Ok(name.into());
    }
    apt::install(&PACKAGES)?;
    // The shell may know another one first, without its parts.
    let found = [name.as_str(), "/usr/bin/python3"].into_iter().find(|name| works(name));
    found.map(PathBuf::from).context(
        "no Python 3.9 or newer with pip and venv; install one, or name it in the variable PYTHON",
    )
}

fn install(python: &Path, profile: &str) -> Result<()> {
    let mut pip = module(python, "pip install --quiet --disable-pip-version-check");
    run_command(pip.arg("-C").arg(format!("profile={profile}")).arg(".[test]"))
}

/// Imports the package in a folder that has none, and answers where it is.
fn import(python: &Path, elsewhere: &Path) -> Result<PathBuf> {
    let program = "import os, xsched; print(os.path.dirname(xsched.__file__))";
    let mut command = Command::new(python);
    let answer = command.args(["-c", program]).current_dir(elsewhere).output()?;
    let text = String::from_utf8_lossy(&answer.stdout);
    ensure!(
        answer.status.success(),
        "`import xsched` failed: {}",
        String::from_utf8_lossy(&answer.stderr)
    );
    let folder = PathBuf::from(text.trim());
    ensure!(folder.starts_with(elsewhere), "{} is another xsched", folder.display());
    Ok(folder)
}

/// Builds the emulated HIP runtime, the emulated CUDA driver, and what runs programs on the
/// emulated kernel driver, and answers where they are.
fn emulated() -> Result<[PathBuf; 3]> {
    let names = ["xsched-hip-emulated", "xsched-cuda-emulated", "xsched-kfd-emulated"];
    let packages = names.map(|name| format!("--package {name}")).join(" ");
    run_command(&mut cargo(&format!("build --locked {packages} --package xsched-kfd-watch")))?;
    let files = ["libxsched_hip_emulated.so", "libxsched_cuda_emulated.so", "kfd-emulate"]
        .map(|file| target_dir().join("debug").join(file));
    if let Some(missing) = files.iter().find(|file| !file.exists()) {
        bail!("{} was not built", missing.display());
    }
    Ok(files)
}

/// A module's command line, split at spaces, in the repository's root.
fn module(python: &Path, line: &str) -> Command {
    let mut command = Command::new(python);
    command.arg("-m").args(line.split(' ')).current_dir(root());
    command
}
