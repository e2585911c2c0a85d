//! `xsched run`: a program that knows nothing of XQueues, with the interposers in front of its
//! driver.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use xsched_lab::console::{Ending, note};

use crate::args::{Class, LaunchArgs};
use crate::error::CliError;

/// The interposer, and what it launches through.
const INTERPOSER: &str = "libshimcuda.so";
/// The library with the other name of CUDA's driver, HIP's interposer, and the libraries with its
/// runtime's names, of which those that are beside CUDA's interposer are preloaded as well.
const BESIDE: [&str; 6] = [
    "libcuda.so",
    "libshimhip.so",
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
];
const LIBRARY: &str = "libpreempt.so";
const PRELOAD: &str = "LD_PRELOAD";

/// Becomes the program. Returns only if that fails.
pub(crate) fn execute(args: &LaunchArgs) -> Result<Ending, CliError> {
    let (program, arguments) = args.program.split_first().ok_or(CliError::NoProgram)?;
    let interposer = interposer()?;
    let preload = preload(&interposer, env::var_os(PRELOAD))?;
    note(|| format!("{PRELOAD} is {}", preload.to_string_lossy()));
    let mut command = Command::new(program);
    command.args(arguments).env(PRELOAD, preload);
    for (name, value) in settings(args) {
        note(|| format!("{name} is {value}"));
        command.env(name, value);
    }
    let source = command.exec();
    Err(CliError::Program { program: program.to_string_lossy().into_owned(), source })
}

/// What the program's environment says of its XQueues. What it says already of who decides stays.
fn settings(args: &LaunchArgs) -> Vec<(&'static str, String)> {
    let mut settings = vec![("XSCHED_AUTO_XQUEUE", "ON".to_owned())];
    if env::var_os("XSCHED_SCHEDULER").is_none() && env::var_os("XSCHED_POLICY").is_none() {
        let policy = if args.share.is_some() { "up" } else { "hpf" };
        settings.push(("XSCHED_POLICY", policy.to_owned()));
    }
    let number = |name, value: Option<i64>| value.map(|value| (name, value.to_string()));
    let priority = args.priority.map(i64::from).or(args.class.map(Class::priority));
    settings.extend(number("XSCHED_AUTO_XQUEUE_PRIORITY", priority));
    settings.extend(number("XSCHED_AUTO_XQUEUE_UTILIZATION", args.share.map(i64::from)));
    settings.extend(number("XSCHED_AUTO_XQUEUE_LEVEL", args.level.map(i64::from)));
    settings.extend(args.streams.then(|| ("XSCHED_AUTO_XQUEUE_UNIT", "streams".to_owned())));
    settings
}

/// The interposer's file, with the library that it needs where it looks for it: beside this program
/// or where it was built, or where `cargo xtask install` puts it.
fn interposer() -> Result<PathBuf, CliError> {
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|source| CliError::Read { place: "this program".to_owned(), source })?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let above = folder.parent().unwrap_or(Path::new("/"));
    let folders = [
        folder.to_path_buf(),
        folder.join("deps"),
        above.join("lib/xsched"),
        PathBuf::from("/usr/local/lib/xsched"),
        PathBuf::from("/usr/lib/xsched"),
    ];
    let usable = |folder: &&PathBuf| {
        let has_library =
            |folder: Option<&Path>| folder.is_some_and(|at| at.join(LIBRARY).exists());
        folder.join(INTERPOSER).exists()
            && (has_library(Some(folder.as_path())) || has_library(folder.parent()))
    };
    let found = folders.iter().find(usable).map(|folder| folder.join(INTERPOSER));
    found.ok_or_else(|| {
        let places = folders.iter().map(|folder| folder.display().to_string());
        CliError::NoInterposer { places: places.collect::<Vec<_>>().join(", ") }
    })
}

/// The variable with the interposer in front of what it has.
fn preload(interposer: &Path, old: Option<OsString>) -> Result<OsString, CliError> {
    let name = interposer.as_os_str();
    if name.as_bytes().iter().any(|byte| b": ".contains(byte)) {
        return Err(CliError::InterposerName { place: interposer.display().to_string() });
    }
    let mut preload = name.to_owned();
    let beside = BESIDE.map(|name| interposer.with_file_name(name));
    for beside in beside.iter().filter(|at| at.exists()) {
        preload.push(OsStr::new(":"));
        preload.push(beside);
    }
    if let Some(old) = old.filter(|old| !old.is_empty()) {
        preload.push(OsStr::new(":"));
        preload.push(old);
    }
    Ok(preload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_already_stays() {
        let alone = Path::new("/a/libshimcuda.so");
        assert_eq!(preload(alone, None).expect("a path"), "/a/libshimcuda.so");
        assert_eq!(preload(alone, Some("".into())).expect("a path"), "/a/libshimcuda.so");
        let old = Some("/b/c.so /d.so".into());
        assert_eq!(preload(alone, old).expect("a path"), "/a/libshimcuda.so:/b/c.so /d.so");
        assert!(preload(Path::new("/a b/libshimcuda.so"), None).is_err());
    }
}
