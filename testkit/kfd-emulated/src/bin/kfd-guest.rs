//! The first process of the virtual machine in which a real driver is asked: loads its modules,
//! runs what it was given, and ends the machine.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::mount::{MountFlags, mount};

/// Modules, one on each line, in the order in which they are loaded.
const MODULES: &str = "/modules";
/// The program that is run.
const PROGRAM: &str = "/bin/kfd-answers";
/// Where to look what the driver was loaded with.
const PARAMETERS: [&str; 2] = ["cwsr_enable", "sched_policy"];

fn main() -> ExitCode {
    let result = in_guest();
    match &result {
        Ok(code) => println!("GUEST_DONE code={code}"),
        Err(error) => println!("GUEST_FAILED {error}"),
    }
    if std::process::id() == 1 {
        rustix::fs::sync();
        // The machine is started so that a reboot ends it.
        let _ = rustix::system::reboot(rustix::system::RebootCommand::Restart);
    }
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_guest() -> io::Result<i32> {
    if std::process::id() != 1 {
        return Err(io::Error::other("this is the first process of a virtual machine"));
    }
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(place)?;
        mount(kind, place, kind, MountFlags::empty(), None)?;
    }
    use_console()?;
    for module in fs::read_to_string(MODULES)?.lines() {
        let loaded = load(Path::new(module));
        println!("MODULE {module} {}", loaded.map_or_else(|e| e.to_string(), |()| "loaded".into()));
    }
    println!("KFD_NODE {}", if Path::new("/dev/kfd").exists() { "present" } else { "absent" });
    for name in PARAMETERS {
        let value = fs::read_to_string(format!("/sys/module/amdgpu/parameters/{name}"));
        println!("PARAMETER {name}={}", value.as_deref().unwrap_or("?").trim_end());
    }
    let status = Command::new(PROGRAM).status()?;
    Ok(status.code().unwrap_or(-1))
}

/// Standard streams go to the console.
fn use_console() -> io::Result<()> {
    let console = OpenOptions::new().read(true).write(true).open("/dev/console")?;
    rustix::stdio::dup2_stdin(&console)?;
    rustix::stdio::dup2_stdout(&console)?;
    rustix::stdio::dup2_stderr(&console)?;
    Ok(())
}

fn load(module: &Path) -> io::Result<()> {
    let file = File::open(module)?;
    rustix::system::finit_module(&file, &CString::default(), 0)?;
    Ok(())
}
