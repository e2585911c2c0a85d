//! `cargo xtask install`: the C API's libraries, headers, CMake package, pkg-config files, the
//! package for Python, the interposers, the command `xsched` with its manual pages and what shells
//! complete, and the daemon `xschedd`.
//!
//! The libraries are linked here, from what cargo builds as static libraries, because their symbols
//! have versions: rustc gives the linker a version script of its own, and GNU's takes no second
//! one.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use walkdir::WalkDir;

use crate::command::{release, run as run_command};
use crate::{root, target_dir};

/// The libraries, those that others need first.
pub const LIBRARIES: [&str; 4] = ["preempt", "halhost", "halhip", "halcuda"];
/// The packages that they are of.
const PACKAGES: [&str; 4] =
    ["xsched-capi", "xsched-halhost-c", "xsched-halhip-c", "xsched-halcuda-c"];
/// The names of HIP's runtime.
pub const NAMES_OF_HIP: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// The system's libraries that Rust's standard library needs.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
/// Folders below `capi`, and where their files go.
const FOLDERS: [(&str, &str); 3] = [
    ("include", "include"),
    ("install/cmake", "lib/cmake/XSched"),
    ("install/pkgconfig", "lib/pkgconfig"),
];

/// Shells, and where below share/ they look for what a command completes.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/xsched"),
    ("zsh", "zsh/site-functions/_xsched"),
    ("fish", "fish/vendor_completions.d/xsched.fish"),
];

/// The package for Python, in the repository and below the prefix.
const PYTHON: (&str, &str) = ("python/xsched", "lib/python/xsched");

/// Where to.
#[derive(Args, Debug)]
pub struct Options {
    /// The folder below which bin/, include/, lib/ and share/ are made.
    #[arg(long)]
    pub prefix: PathBuf,
}

/// Does it.
///
/// # Errors
/// If something cannot be built, linked or copied. Linking needs a C compiler: `cc`, or what CC
/// names.
pub fn run(options: &Options) -> Result<()> {
    let lib = options.prefix.join("lib");
    libraries(LIBRARIES.len(), &lib)?;
    // Some have the names of vendors' libraries, and `ldconfig` must not find them.
    interposers(&lib.join("xsched"))?;
    // Where it was, for programs that are linked with it or have it preloaded by this path.
    let old = lib.join("libshimhip.so");
    if old.symlink_metadata().is_ok() {
        fs::remove_file(&old)?;
    }
    std::os::unix::fs::symlink("xsched/libshimhip.so", &old)?;
    programs(&options.prefix.join("bin"))?;
    for_shells(&options.prefix)?;
    for (from, to) in FOLDERS {
        copy(&root().join("capi").join(from), &options.prefix.join(to))?;
    }
    python(&options.prefix.join(PYTHON.1))?;
    println!("install: below {}", options.prefix.display());
    Ok(())
}

/// Builds the first this many of [`LIBRARIES`], and links them in a folder.
pub(crate) fn libraries(number: usize, folder: &Path) -> Result<()> {
    for package in PACKAGES.iter().take(number) {
        let build = format!("rustc --release --locked --lib -p {package} --crate-type staticlib");
        run_command(&mut release(&build))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    LIBRARIES.iter().take(number).try_for_each(|name| link(name, folder))
}

/// Puts the interposers into a folder.
pub(crate) fn interposers(folder: &Path) -> Result<()> {
    build([("xsched-shim-cuda", "libshimcuda.so"), ("xsched-shim-hip", "libshimhip.so")], folder)?;
    name_of_cuda(folder)?;
    names_of_hip(folder)
}

/// Puts the command and the daemon into a folder.
pub(crate) fn programs(folder: &Path) -> Result<()> {
    build([("xsched-cli", "xsched"), ("xsched-daemon", "xschedd")], folder)
}

/// The version script of a library.
#[must_use]
pub fn version_script(name: &str) -> PathBuf {
    root().join(format!("capi/install/lib{name}.map"))
}

/// The symbols that a version script names, in its order.
///
/// # Errors
/// If it cannot be read or names none.
pub fn symbols(name: &str) -> Result<Vec<String>> {
    let path = version_script(name);
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let entries = text.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let is_name = |entry: &&str| entry.chars().all(|c| c.is_alphanumeric() || c == '_');
    let found: Vec<_> = entries.filter(is_name).map(str::to_owned).collect();
    ensure!(!found.is_empty(), "{} names no symbols", path.display());
    Ok(found)
}

fn link(name: &str, lib: &Path) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-shared", "-o"]).arg(lib.join(format!("lib{name}.so")));
    command.arg(format!("-Wl,-soname,lib{name}.so"));
    let mut script = OsString::from("-Wl,--version-script=");
    script.push(version_script(name));
    command.arg(script);
    // The library stays loaded when a program closes it: its threads and hooks do. See
    // docs/src/guides/c.md.
    command.args(["-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,--gc-sections", "-Wl,--strip-debug"]);
    command.args(symbols(name)?.iter().map(|symbol| format!("-Wl,-u,{symbol}")));
    command.arg(target_dir().join(format!("release/lib{name}.a")));
    if name != "preempt" {
        command.arg("-L").arg(lib).args(["-lpreempt", "-Wl,-rpath,$ORIGIN"]);
    }
    command.args(SYSTEM);
    run_command(&mut command)
}

/// Builds packages together, which share what both need, and puts a file of each into a folder,
/// without what only debuggers need.
fn build(packages: [(&str, &str); 2], folder: &Path) -> Result<()> {
    let mut build = release("build --release --locked");
    run_command(build.args(packages.iter().flat_map(|(package, _)| ["-p", package])))?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    packages.iter().try_for_each(|(_, file)| {
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg("-o").arg(folder.join(file));
        run_command(strip.arg(target_dir().join("release").join(file)))
    })
}

/// Has the installed command write its manual pages, and what shells complete.
fn for_shells(prefix: &Path) -> Result<()> {
    let command = || Command::new(prefix.join("bin/xsched"));
    let share = prefix.join("share");
    run_command(command().args(["man", "--out"]).arg(share.join("man/man1")))?;
    for (shell, place) in COMPLETIONS {
        let output = command().args(["completions", shell]).output();
        let output = output.with_context(|| format!("completions for {shell}"))?;
        ensure!(output.status.success(), "no completions for {shell}: {output:?}");
        let file = share.join(place);
        fs::create_dir_all(file.parent().unwrap_or(&share))?;
        fs::write(&file, output.stdout).with_context(|| format!("{}", file.display()))?;
    }
    Ok(())
}

/// Links the library that has the other name of CUDA's driver, by which some programs open it. It
/// has nothing but that name, and leads to the library that is loaded as `libcuda.so.1`; without
/// one it leads nowhere.
fn name_of_cuda(folder: &Path) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-shared", "-nostdlib", "-Wl,-soname,libcuda.so", "-Wl,-f,libcuda.so.1", "-o"]);
    run_command(command.arg(folder.join("libcuda.so")).args(["-x", "c", "/dev/null"]))
}

/// Links the libraries that have the names of HIP's runtime and the versions of its symbols, and
/// need the interposer in the folder.
fn names_of_hip(folder: &Path) -> Result<()> {
    let mut script = OsString::from("-Wl,--version-script=");
    script.push(root().join("shim/hip/versions.map"));
    for name in NAMES_OF_HIP {
        let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        command.args(["-shared", "-nostdlib", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"]);
        // There is no object that would say so.
        command.args(["-Wl,-z,noexecstack", "-o"]);
        command.arg(folder.join(name)).arg(format!("-Wl,-soname,{name}")).arg(&script);
        run_command(command.arg(folder.join("libshimhip.so")))?;
    }
    Ok(())
}

/// Builds the extension module, and puts the package for Python in a folder. It finds the libraries
/// above that.
fn python(package: &Path) -> Result<()> {
    let mut build = release("build --release --locked -p xsched-python");
    // It is the same for all interpreters, so that none is needed.
    run_command(build.env("PYO3_NO_PYTHON", "1"))?;
    for folder in ["scenarios", "devices"] {
        copy(&root().join("sim").join(folder), &package.join("data").join(folder))?;
    }
    let native = (target_dir().join("release/lib_native.so"), package.join("_native.abi3.so"));
    // Not what a wheel left in folders beside them.
    let files = fs::read_dir(root().join(PYTHON.0))?.collect::<Result<Vec<_>, _>>()?;
    let files = files.iter().filter(|entry| entry.path().is_file());
    let files = files.map(|entry| (entry.path(), package.join(entry.file_name())));
    for (from, to) in files.chain([native]) {
        fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// Checks that a program which the command starts has no executable stack, as it would if one of
/// the interposers asked for one, or did not say that it needs none.
pub(crate) fn check_stack(command: &Path) -> Result<()> {
    let output = Command::new(command).args(["run", "cat", "/proc/self/maps"]).output()?;
    let maps = String::from_utf8_lossy(&output.stdout);
    let stack = maps.lines().find(|line| line.ends_with("[stack]"));
    let stack = stack.context("`xsched run cat /proc/self/maps` shows no stack")?;
    ensure!(stack.contains(" rw-p "), "`xsched run` makes the stack executable: {stack}");
    Ok(())
}

/// Copies a folder's files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in WalkDir::new(from) {
        let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
        let target = to.join(entry.path().strip_prefix(from)?);
        if entry.file_type().is_dir() {
            fs::create_dir_all(&target)?;
        } else {
            let copied = fs::copy(entry.path(), &target);
            copied.with_context(|| format!("cannot write {}", target.display()))?;
        }
    }
    Ok(())
}
