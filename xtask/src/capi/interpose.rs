//! Programs of HIP that know nothing of XQueues, with and without the interposer.
//!
//! One has something urgent and something that is always busy, and prints how many commands of the
//! latter ran, per request, while the former had something to do. Another one, whose plugin brings
//! HIP along, works as without the interposer.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::check::WARNINGS;
use crate::command::run as run_command;
use crate::{root, target_dir};

/// With the interposer, commands beside a request are less than this part of those without.
const PART: f64 = 0.5;
/// The program, below the folder that programs are made in.
const UNCHANGED: &str = "unchanged-hip";

/// Runs them.
///
/// # Errors
/// If one cannot be built or fails, or its priority takes no effect.
pub(super) fn run(prefix: &Path, made: &Path) -> Result<()> {
    let emulated = target_dir().join("release/libxsched_hip_emulated.so");
    fs::copy(&emulated, made.join("libamdhip64.so")).context("no emulated HIP runtime")?;
    fs::write(made.join("kernels"), b"xsched emulated kernels")?;
    build(made)?;
    let [without, off] = [None, Some("OFF")].map(|auto| beside(prefix, made, auto));
    let (without, off, on) = (without?, off?, beside(prefix, made, Some("ON"))?);
    println!(
        "capi: {without:.2} commands beside a request, {off:.2} with an interposer that is off, \
         {on:.2} with one that is on"
    );
    ensure!(on < PART * without.min(off), "the priorities of the streams take no effect");
    plugin(prefix, made)
}

/// A program whose plugin brings HIP along: it works as without the interposer, and one that is off
/// starts no threads.
fn plugin(prefix: &Path, made: &Path) -> Result<()> {
    let source = root().join("shim/hip/tests/programs/local.cpp");
    let (plugin, program) = (made.join("plugin.so"), made.join("local"));
    run_command(
        compiler()
            .args(["-shared", "-fPIC", "-DPLUGIN", "-o"])
            .arg(&plugin)
            .arg(&source)
            .arg("-L")
            .arg(made)
            .args(["-lamdhip64", "-Wl,-rpath,$ORIGIN"]),
    )?;
    run_command(compiler().arg("-o").arg(&program).arg(&source).arg("-ldl"))?;
    let says = |preloaded: &str, auto: Option<&str>| -> Result<String> {
        let mut command = Command::new(&program);
        command.arg(&plugin).env_remove("XSCHED_HIP_LIB").env_remove("XSCHED_AUTO_XQUEUE");
        command.env("LD_LIBRARY_PATH", prefix.join("lib"));
        if let Some(auto) = auto {
            command.env("LD_PRELOAD", prefix.join("lib").join(preloaded));
            command.env("XSCHED_AUTO_XQUEUE", auto);
        }
        let said = command.output().context("cannot run the program with a plugin")?;
        let complaint = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success() && complaint.is_empty(), "the plugin's program: {complaint}");
        Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    };
    // By itself, and by the name that the plugin needs, which brings it along.
    for preloaded in ["libshimhip.so", "xsched/libamdhip64.so"] {
        let says = |auto| says(preloaded, auto);
        let (without, off, on) = (says(None)?, says(Some("OFF"))?, says(Some("ON"))?);
        println!("capi: a plugin's HIP (answer, threads): {without}; off {off}; on {on}");
        ensure!(without.starts_with("0 ") && on.starts_with("0 "), "the plugin's calls fail");
        ensure!(off == without, "an interposer that is off does something");
        ensure!(on != without, "an interposer that is on does nothing");
    }
    Ok(())
}

fn compiler() -> Command {
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    command.args(["-std=c++17", "-O1", "-pthread"]).args(WARNINGS);
    command
}

fn build(made: &Path) -> Result<()> {
    let mut command = compiler();
    command.arg("-o").arg(made.join(UNCHANGED));
    command.arg(root().join("shim/hip/tests/programs/hip.cpp"));
    run_command(command.arg("-L").arg(made).arg("-lamdhip64"))
}

/// Returns the figure that the program prints, with the interposer if `auto` is given.
fn beside(prefix: &Path, made: &Path, auto: Option<&str>) -> Result<f64> {
    let mut command = Command::new(made.join(UNCHANGED));
    let mut libraries = prefix.join("lib").into_os_string();
    libraries.push(":");
    libraries.push(made);
    command.env("LD_LIBRARY_PATH", libraries);
    command.env("XSCHED_HIP_LIB", made.join("libamdhip64.so")).env("XLOG_LEVEL", "ERRO");
    command.env("KERNELS", made.join("kernels")).env("XSCHED_POLICY", "HPF");
    if let Some(auto) = auto {
        let shim = prefix.join("lib/libshimhip.so");
        command.env("LD_PRELOAD", shim).env("XSCHED_AUTO_XQUEUE", auto);
        command.env("XSCHED_AUTO_XQUEUE_THRESHOLD", "1");
        command.env("XSCHED_AUTO_XQUEUE_BATCH_SIZE", "1");
    }
    let said = command.output().with_context(|| format!("cannot run {UNCHANGED}"))?;
    let complaint = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "{UNCHANGED} ended with {}: {complaint}", said.status);
    let text = String::from_utf8_lossy(&said.stdout);
    text.trim().parse().with_context(|| format!("{UNCHANGED} printed {text:?}"))
}
