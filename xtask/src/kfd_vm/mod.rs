//! The answers of the real driver of AMD's GPUs, without a GPU.
//!
//! 1. A kernel 6.12 is booted in a virtual machine under software emulation, with `amdgpu` loaded.
//!    `/dev/kfd` is there without a GPU, and every call can be made up to "no such queue".
//! 2. `kfd-answers` makes the calls. Its transcript must be the table that is committed
//!    (`testkit/kfd-emulated/tables`).
//! 3. The same program runs on the emulated driver. The two transcripts must be the same, so that
//!    the emulator cannot drift from the driver.
//!
//! `docs/src/guides/amd.md` says what that proves and what it cannot.

mod initramfs;
mod packages;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::apt;
use crate::command::{cargo, run as run_command};
use crate::{root, target_dir};

/// Expected answers of the driver.
const TABLE: &str = "testkit/kfd-emulated/tables/answers-6.12.txt";
/// Facts that were only read in the driver's source.
const UNVERIFIED: &str = "testkit/kfd-emulated/tables/unverified.txt";
/// The target that the programs are built for, without shared libraries.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The machine is given up after this time.
const PATIENCE: Duration = Duration::from_secs(300);
/// Memory of the machine, in MiB.
const MEMORY_MIB: u32 = 512;
/// Command line of the kernel.
const KERNEL_LINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr \
                           no_timer_check tsc=reliable random.trust_cpu=on";

/// Does it. The real driver is left out only where there is no apt.
///
/// # Errors
/// If something cannot be built or booted, or an answer is not the expected one.
pub fn run() -> Result<()> {
    let folder = target_dir().join("kfd-vm");
    fs::create_dir_all(&folder)?;
    let programs = build()?;
    let parts = match packages::get(&folder)? {
        Ok(parts) => parts,
        Err(package) => {
            ensure!(!apt::is_here(), "package {package} cannot be had");
            apt::left_out("the real driver of AMD's GPUs", package);
            return emulator(&programs, &folder, &root().join(TABLE));
        }
    };
    let serial = boot(&parts, &programs, &folder)?;
    let transcript = folder.join("driver.txt");
    fs::write(&transcript, normalise(&programs, &serial)?)?;
    print!("{}", fs::read_to_string(&transcript)?);
    println!("kfd-vm: the real driver against {TABLE}");
    compare(&programs, &root().join(TABLE), &serial)?;
    emulator(&programs, &folder, &transcript)?;
    println!("kfd-vm: !!! read in the driver's source and NOT run anywhere !!!");
    print!("{}", fs::read_to_string(root().join(UNVERIFIED))?);
    Ok(())
}

/// Builds the programs and says where they are.
fn build() -> Result<PathBuf> {
    let mut command = cargo("build --locked -p xsched-kfd-emulated --bins --target");
    command.arg(TARGET).env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols");
    run_command(&mut command)?;
    Ok(target_dir().join(TARGET).join("debug"))
}

/// Boots the machine, and gives the file with what it printed.
fn boot(parts: &packages::Parts, programs: &Path, folder: &Path) -> Result<PathBuf> {
    let version = packages::kernel_version(&parts.kernel)?;
    let (initramfs, serial) = (folder.join("initramfs.cpio"), folder.join("serial.log"));
    let modules = parts.kernel.join("lib/modules").join(&version);
    let (init, answers) = (programs.join("kfd-guest"), programs.join("kfd-answers"));
    initramfs::write(&modules, &init, &answers, &initramfs)?;
    println!("kfd-vm: booting Linux {version}, log in {}", serial.display());
    let start = Instant::now();
    let mut command = parts.machine();
    command.args("-accel tcg,thread=multi,tb-size=256 -cpu max -machine q35 -smp 1".split(' '));
    command.args("-nodefaults -no-user-config -display none -monitor none -no-reboot".split(' '));
    command.args(["-m", &MEMORY_MIB.to_string()]);
    command.arg("-serial").arg(format!("file:{}", serial.display()));
    command.arg("-kernel").arg(parts.kernel.join(format!("boot/vmlinuz-{version}")));
    command.arg("-initrd").arg(&initramfs).args(["-append", KERNEL_LINE]);
    let child = command.stdin(Stdio::null()).spawn().context("cannot start the machine")?;
    wait(child)?;
    let text = String::from_utf8_lossy(&fs::read(&serial)?).into_owned();
    println!("kfd-vm: the machine ran for {:.1} s", start.elapsed().as_secs_f64());
    for line in ["KFD_NODE present", "GUEST_DONE code=0"] {
        let is_there = text.lines().any(|said| said.trim_end() == line);
        ensure!(is_there, "the machine did not say `{line}`; it said:\n{text}");
    }
    Ok(serial)
}

/// Waits for the machine to end, but not for ever.
fn wait(mut child: Child) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "the machine ended with {status}");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill()?;
    child.wait()?;
    bail!("the machine had not ended after {PATIENCE:?}")
}

/// Runs the script on the emulated driver and compares.
fn emulator(programs: &Path, folder: &Path, expected: &Path) -> Result<()> {
    let file = folder.join("emulator.txt");
    println!("kfd-vm: the emulated driver against {}", expected.display());
    let mut command = Command::new(programs.join("kfd-emulate"));
    command.arg("--without-gpu").arg(programs.join("kfd-answers"));
    let status = command.stdout(File::create(&file)?).status();
    let status = status.context("cannot start kfd-emulate")?;
    ensure!(status.success(), "the emulated driver ended with {status}");
    compare(programs, expected, &file)
}

fn normalise(programs: &Path, serial: &Path) -> Result<String> {
    let mut command = Command::new(programs.join("kfd-answers"));
    let output = command.arg("normalise").arg(serial).output()?;
    ensure!(output.status.success(), "cannot read {}", serial.display());
    Ok(String::from_utf8(output.stdout)?)
}

fn compare(programs: &Path, expected: &Path, found: &Path) -> Result<()> {
    let mut command = Command::new(programs.join("kfd-answers"));
    run_command(command.arg("compare").arg(expected).arg(found))
}
