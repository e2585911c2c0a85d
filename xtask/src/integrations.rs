//! Checks of what is for clusters, with the real engines and the emulated driver.
//!
//! An engine's script in `integrations` starts it on this machine, with a daemon of its own, and
//! checks what the guide promises. Its packages are installed unless they are there. Only root can
//! run them, on Linux with cgroups.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::apt;
use crate::command::{cargo, run as run_command};
use crate::test::{library, rest};
use crate::{root, target_dir};

/// Time for a script, in seconds. Each takes less than 60 alone, but that for Ray, which installs
/// Ray first: on two processors that others used as well, it took 270.
const LIMIT_S: u32 = 480;
/// Files that a script finds in its folder, and what they are of those that cargo builds.
const BUILT: [(&str, &str); 5] = [
    ("bin/xsched", "xsched"),
    ("bin/xschedd", "xschedd"),
    // Tests have libraries built there alone.
    ("lib/xsched/libpreempt.so", "deps/libpreempt.so"),
    ("lib/xsched/libshimcuda.so", "deps/libshimcuda.so"),
    ("emulated/libcuda.so.1", "deps/libxsched_cuda_emulated.so"),
];
/// Warnings are errors, as in Rust.
const C_FLAGS: [&str; 5] = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"];

/// Packages of Debian with Slurm.
const SLURM: [&str; 10] = [
    "slurmctld",
    "slurmd",
    // Its database, which has the QoS.
    "slurmdbd",
    "mariadb-server-core",
    "mariadb-client-core",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "munge",
    "libslurm-dev",
    "jq",
];

/// Runs the plugin for Slurm in a Slurm of two nodes.
///
/// # Errors
/// If a check fails.
pub fn slurm() -> Result<()> {
    if !can_run("the plugin for Slurm", &SLURM)? {
        return Ok(());
    }
    staged(|folder| {
        let plugin = folder.path.join("spank_xsched.so");
        let source = root().join("integrations/slurm/spank_xsched.c");
        compile(&["-shared", "-fPIC"], &[&source], &plugin)?;
        let script = "job_submit.lua";
        fs::copy(root().join("integrations/slurm").join(script), folder.path.join(script))?;
        check("slurm", &folder.path)
    })
}

/// Packages of Debian with Podman.
const PODMAN: [&str; 3] = ["podman", "runc", "jq"];

/// Runs containers with the container devices, as root.
///
/// # Errors
/// If a check fails.
pub fn podman() -> Result<()> {
    if !can_run("container devices in Podman", &PODMAN)? {
        return Ok(());
    }
    staged(|folder| check("podman", &folder.path))
}

/// Packages of Debian with what boots a container of systemd.
const SYSTEMD: [&str; 3] = ["systemd-container", "libnss-systemd", "jq"];

/// Runs the daemon's units in a systemd, as root.
///
/// # Errors
/// If a check fails.
pub fn systemd() -> Result<()> {
    if !can_run("the units of systemd", &SYSTEMD)? {
        return Ok(());
    }
    staged(|folder| {
        let units = root().join("daemon/systemd");
        run_command(Command::new("cp").arg("-r").arg(units).arg(folder.path.join("units")))?;
        check("systemd", &folder.path)
    })
}

/// The package of Debian with Prometheus. It needs a dozen others for its pages alone.
const PROMETHEUS: &str = "prometheus";

/// Asks a Prometheus what the dashboard asks, as root.
///
/// # Errors
/// If a check fails.
pub fn prometheus() -> Result<()> {
    if !can_run("the dashboard in Prometheus", &["curl", "jq"])? {
        return Ok(());
    }
    staged(|folder| {
        folder.put(PROMETHEUS)?;
        fs::copy(root().join("daemon/grafana.json"), folder.path.join("grafana.json"))?;
        check("prometheus", &folder.path)
    })
}

/// The package of Debian with containerd. Where Docker has its own, it cannot be installed.
const CONTAINERD: &str = "containerd";

/// Runs containers with what the container devices say, as root.
///
/// # Errors
/// If a check fails.
pub fn containerd() -> Result<()> {
    if !can_run("containers of containerd", &["runc", "jq"])? {
        return Ok(());
    }
    staged(|folder| {
        folder.put(CONTAINERD)?;
        check("containerd", &folder.path)
    })
}

/// The workspace of what is for Kubernetes.
pub(crate) const KUBERNETES: &str = "integrations/kubernetes";

/// A command of cargo in the workspace of what is for Kubernetes.
pub(crate) fn kubernetes_cargo(command: &str) -> Command {
    let mut command = cargo(command);
    command.args(["--locked", "--manifest-path"]).arg(format!("{KUBERNETES}/Cargo.toml"));
    command.arg("--target-dir").arg(target_dir().join("kubernetes"));
    command
}

/// Tests the driver for Kubernetes with clients that do what a kubelet does, and its container
/// devices in Podman as root.
///
/// # Errors
/// If a check fails.
pub fn kubernetes() -> Result<()> {
    let mut command = kubernetes_cargo("test");
    if !can_run("pods as containers of Podman", &PODMAN)? {
        return run_command(&mut command);
    }
    command.args(["--", "--include-ignored"]);
    staged(|folder| run_command(command.env("XSCHED_STAGE", &folder.path)))
}

/// Packages of Debian with a Python for the package for Ray.
const PYTHON: [&str; 3] = ["python3", "python3-pip", "python3-venv"];

/// Tests the package for Ray, and runs it in a Ray of two nodes, one of which is not root's.
///
/// # Errors
/// If a check fails.
pub fn ray() -> Result<()> {
    if !can_run("the package for Ray", &PYTHON)? {
        return Ok(());
    }
    staged(|folder| {
        let package = root().join("integrations/ray");
        run_command(Command::new("cp").arg("-r").arg(package).arg(&folder.path))?;
        check("ray", &folder.path)
    })
}

/// Packages of Debian beside the programs that `build.sh` gets.
const CLUSTER: [&str; 5] = ["runc", "jq", "iproute2", "openssl", "curl"];

/// Runs the device plugin and the driver for Kubernetes in a cluster of one node, as root. The
/// first time it builds Kubernetes, which takes 13 minutes of a processor, and keeps it in the
/// target folder.
///
/// # Errors
/// If Kubernetes cannot be built, or a check fails.
pub fn kubernetes_node() -> Result<()> {
    if !can_run("a cluster of one node", &CLUSTER)? {
        return Ok(());
    }
    let cluster = target_dir().join("cluster");
    let script = root().join(KUBERNETES).join("node/build.sh");
    run_command(Command::new("bash").arg(script).arg(&cluster))?;
    run_command(&mut kubernetes_cargo("build"))?;
    let folder = stage()?;
    let built = target_dir().join("kubernetes/debug/xsched-kubernetes");
    fs::copy(&built, folder.path.join("bin/xsched-kubernetes"))
        .with_context(|| format!("cannot copy {}", built.display()))?;
    symlink(cluster.join("bin"), folder.path.join("cluster"))?;
    check("kubernetes", &folder.path)
}

/// Returns whether a check can run here; installs packages for it.
fn can_run(what: &str, packages: &[&str]) -> Result<bool> {
    if !rustix::process::geteuid().is_root() {
        apt::left_out(what, "root");
        return Ok(false);
    }
    let is_here = apt::install(packages)?;
    if !is_here {
        apt::left_out(what, "apt");
    }
    Ok(is_here)
}

/// A folder that goes with this. Users who are not root can read it.
struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Puts the files of a package of Debian there, in a folder with its name, without installing
    /// it.
    fn put(&self, package: &str) -> Result<()> {
        let unpacked = target_dir().join("unpacked").join(package);
        apt::unpacked(package, &unpacked)?;
        Ok(symlink(unpacked, self.path.join(package))?)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Runs a check in a folder with what the tests have built; once more if it fails, as an engine has
/// limits of its own for how long its parts take to start, and others work on the machine.
fn staged(mut check: impl FnMut(&Folder) -> Result<()>) -> Result<()> {
    let mut once = || stage().and_then(|folder| check(&folder));
    once().or_else(|error| {
        println!("failed: {error:#}; once more");
        once()
    })
}

/// Puts what the tests have built into a folder outside the repository, which other users may see.
fn stage() -> Result<Folder> {
    run_command(library().arg("--no-run"))?;
    run_command(rest("test").arg("--no-run"))?;
    let path = std::env::temp_dir().join(format!("xsched-integration-{}", std::process::id()));
    fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let folder = Folder { path };
    fs::set_permissions(&folder.path, fs::Permissions::from_mode(0o755))?;
    for (file, built) in BUILT {
        let (from, to) = (target_dir().join("debug").join(built), folder.path.join(file));
        ensure!(from.exists(), "{} was not built", from.display());
        fs::create_dir_all(to.parent().unwrap_or(&folder.path))?;
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let (driver, work) = (folder.path.join("emulated/libcuda.so.1"), folder.path.join("work"));
    compile(&[], &[&root().join("integrations/check/work.c"), &driver], &work)?;
    Ok(folder)
}

fn compile(flags: &[&str], sources: &[&Path], to: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    run_command(Command::new(compiler).args(C_FLAGS).args(flags).args(sources).arg("-o").arg(to))
}

fn check(engine: &str, folder: &Path) -> Result<()> {
    let script = root().join("integrations").join(engine).join("check.sh");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &LIMIT_S.to_string(), "bash"]).arg(script).arg(folder);
    for name in ["LD_PRELOAD", "XSCHED_SCHEDULER", "XSCHED_POLICY", "XSCHED_SOCKET"] {
        command.env_remove(name);
    }
    run_command(&mut command)
}
