//! Environment variables that matter to interposers.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::elf::Elf;
use super::problem::Problem;
use crate::variables::{DROPPED, VARIABLES, Variable};

const PRELOAD: &str = "LD_PRELOAD";
/// The loader preloads for all programs what this file names.
const PRELOAD_FILE: &str = "etc/ld.so.preload";
/// CUDA's driver loads what this names when it is initialised.
const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// Variables of others that change what an interposer meets.
const OTHERS: [&str; 12] = [
    PRELOAD,
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    INJECTION,
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MPS_PIPE_DIRECTORY",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_MAX_HW_QUEUES",
];
/// Beginnings of names that only experiments, tests and models of this project read.
const OF_TESTS: [&str; 6] = [
    "XSCHED_EMULATED_",
    "XSCHED_HIP_KERNELS",
    "XSCHED_HIP_WORK_KERNELS",
    "XSCHED_SEED",
    "XSCHED_MUTANT",
    "XSCHED_LOOM",
];
/// Exports of a library that stands in front of CUDA's driver or HIP's runtime.
const INTERPOSED: [&str; 4] =
    ["cuLaunchKernel", "cuGetProcAddress_v2", "hipLaunchKernel", "cuInit"];

/// The environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Environment {
    /// Variables that matter and are set.
    pub(super) variables: BTreeMap<String, String>,
    /// Libraries that are preloaded before `xsched run` adds anything, and what each is.
    pub(super) preloaded: Vec<Preloaded>,
    /// Problems of the environment.
    pub(super) problems: Vec<Problem>,
}

/// A library that is preloaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Preloaded {
    /// Name of the library, as the environment has it.
    pub(super) name: String,
    /// True if the library stands in front of a vendor's.
    pub(super) interposes: bool,
    /// True if the library takes the place of `dlsym`.
    pub(super) replaces_dlsym: bool,
}

impl Environment {
    /// Environment of this process. `own` is the interposer of this build.
    pub(super) fn here(own: Option<&Path>, root: &Path) -> Self {
        let text = |value: &OsStr| value.to_string_lossy().into_owned();
        let all = env::vars_os().map(|(name, value)| (text(&name), text(&value)));
        let global = fs::read_to_string(root.join(PRELOAD_FILE)).unwrap_or_default();
        Self::of(all, &global, own)
    }

    fn of(all: impl Iterator<Item = (String, String)>, global: &str, own: Option<&Path>) -> Self {
        let matters = |name: &str| {
            name.starts_with("XSCHED_") || name == "XLOG_LEVEL" || OTHERS.contains(&name)
        };
        let set = all.filter(|(name, value)| matters(name) && !value.is_empty());
        let variables: BTreeMap<_, _> = set.collect();
        let mut problems = Vec::new();
        for (name, value) in &variables {
            problems.extend(variable(name, value));
        }
        problems.extend(batch(&variables));
        let local = variables.get(PRELOAD).map_or("", String::as_str);
        let mut preloaded = Vec::new();
        for (place, list) in [(PRELOAD, local), ("/etc/ld.so.preload", global)] {
            // The loader takes a comment in its file.
            let lines = list.lines().filter_map(|line| line.split('#').next());
            for name in lines.flat_map(|line| line.split([':', ' ', '\t'])) {
                if !name.is_empty() {
                    preloaded.push(look(place, name, own, &mut problems));
                }
            }
        }
        Self { variables, preloaded, problems }
    }
}

/// Returns the problem of a variable.
fn variable(name: &str, value: &str) -> Option<Problem> {
    if name == INJECTION {
        return Some(Problem::new(
            format!("{INJECTION} has CUDA's driver load {value}, whose launches may go past"),
            "unset it unless a profiler is wanted",
        ));
    }
    let ours = name.starts_with("XSCHED_") || name == "XLOG_LEVEL";
    if !ours || OF_TESTS.iter().any(|of| name.starts_with(of)) {
        return None;
    }
    if let Some((_, why)) = DROPPED.iter().find(|(dropped, _)| *dropped == name) {
        return Some(Problem::new(format!("{name} changes nothing: {why}"), "unset it"));
    }
    let Some(known) = VARIABLES.iter().find(|known| known.name == name) else {
        return Some(unknown(name));
    };
    if let Some(can_be) = known.refuses(value) {
        let what = format!("{name} is `{value}` and is ignored");
        return Some(Problem::new(what, format!("correct or unset it: {can_be}")));
    }
    missing(known, value)
}

/// Commands per fence have to be at most the threshold.
fn batch(variables: &BTreeMap<String, String>) -> Option<Problem> {
    let number =
        |name, default| variables.get(name).map_or(Some(default), |text| text.parse().ok());
    let batch: u64 = number("XSCHED_AUTO_XQUEUE_BATCH_SIZE", 0)?;
    let has_gates = (2..=3).contains(&number("XSCHED_AUTO_XQUEUE_LEVEL", 1)?);
    let threshold = number("XSCHED_AUTO_XQUEUE_THRESHOLD", if has_gates { 65_536 } else { 16 })?;
    (batch > threshold).then(|| {
        Problem::new(
            format!("XSCHED_AUTO_XQUEUE_BATCH_SIZE is `{batch}` and is ignored"),
            format!("correct or unset it: it can be 1 to the threshold, {threshold}"),
        )
    })
}

fn unknown(name: &str) -> Problem {
    let distance = |known: &&Variable| strsim::damerau_levenshtein(known.name, name);
    let nearest = VARIABLES.iter().min_by_key(distance).filter(|known| distance(known) <= 3);
    let action = nearest.map_or_else(
        || "unset it (docs/src/reference/environment.md has the list)".to_owned(),
        |known| format!("it may be meant to be {}", known.name),
    );
    Problem::new(format!("nothing reads {name}"), action)
}

/// A library that a variable names has to be there, if it is named by a path.
fn missing(known: &Variable, value: &str) -> Option<Problem> {
    let is_library = known.values == "path" && known.default.contains("system");
    let gone = is_library && value.contains('/') && !Path::new(value).exists();
    gone.then(|| {
        Problem::new(
            format!("{} names {value}, which there is not", known.name),
            "correct or unset it",
        )
    })
}

/// Looks at a preloaded library.
fn look(place: &str, name: &str, own: Option<&Path>, problems: &mut Vec<Problem>) -> Preloaded {
    let path = PathBuf::from(name);
    let elf = Elf::read(&path);
    if name.contains('/') && elf.is_none() {
        problems.push(Problem::new(
            format!("{place} names {name}, which the loader cannot load"),
            "remove it from there",
        ));
    }
    let elf = elf.unwrap_or_default();
    let is_ours = elf.functions.iter().any(|function| function.starts_with("xsched_shim_"))
        || own.is_some_and(|own| path.canonicalize().is_ok_and(|path| path == own));
    let interposes = INTERPOSED.iter().any(|function| elf.exports(function));
    let replaces_dlsym = elf.exports("dlsym");
    if is_ours {
        problems.push(Problem::new(
            format!("{place} names {name}, an interposer of XSched's, already"),
            "leave it to `xsched run`, which preloads it",
        ));
    } else if interposes || replaces_dlsym {
        let does = if interposes { "stands in front of the driver too" } else { "replaces dlsym" };
        problems.push(Problem::new(
            format!("{name}, which {place} names, {does}; launches may go past"),
            "try whether they are scheduled (`xsched doctor -- PROGRAM`), or remove it from there",
        ));
    }
    Preloaded { name: name.to_owned(), interposes, replaces_dlsym }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)], global: &str) -> Environment {
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::of(set, global, None)
    }

    #[test]
    fn what_is_misspelt_or_out_of_range_is_named() {
        let found = of(
            &[
                ("XSCHED_POLICY", "hpf"),
                ("XSCHED_POLICIY", "hpf"),
                ("XSCHED_AUTO_XQUEUE_LEVEL", "4"),
                ("XSCHED_AUTO_XQUEUE_BATCH_SIZE", "17"),
                ("XSCHED_EMULATED_UNITS", "2"),
                ("XSCHED_STRICT", ""),
                ("XSCHED_CUDA_DRIVER", "/nowhere/libcuda.so.1"),
                ("XSCHED_OF_ANOTHER_PROGRAM", "1"),
                ("XSCHED_SCHEDULER_SUSPEND_WAIT_ALL", "ON"),
                ("HOME", "/"),
            ],
            "",
        );
        assert!(!found.variables.contains_key("HOME"));
        assert!(!found.variables.contains_key("XSCHED_STRICT"));
        let said: Vec<_> = found.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "XSCHED_AUTO_XQUEUE_LEVEL is `4` and is ignored; correct or unset it: it can be 1 \
                 to 3",
                "XSCHED_CUDA_DRIVER names /nowhere/libcuda.so.1, which there is not; correct or \
                 unset it",
                "nothing reads XSCHED_OF_ANOTHER_PROGRAM; unset it \
                 (docs/src/reference/environment.md has the list)",
                "nothing reads XSCHED_POLICIY; it may be meant to be XSCHED_POLICY",
                "XSCHED_SCHEDULER_SUSPEND_WAIT_ALL changes nothing: holds of the scheduler never \
                 wait; unset it",
                "XSCHED_AUTO_XQUEUE_BATCH_SIZE is `17` and is ignored; correct or unset it: it can \
                 be 1 to the threshold, 16",
            ]
        );
    }

    #[test]
    fn other_interposers_are_named() {
        let built = |name| env::current_exe().expect("a test").with_file_name(name);
        let text = |path: PathBuf| path.to_str().expect("text").to_owned();
        let ours = text(built("libshimcuda.so"));
        let theirs = text(built("libxsched_cuda_emulated.so"));
        let list = format!("{ours}:/nowhere.so libc.so.6");
        let found = of(&[(PRELOAD, &list), (INJECTION, "/x.so")], &format!("{theirs} # all\n"));
        let names: Vec<_> = found.preloaded.iter().map(|each| each.name.as_str()).collect();
        assert_eq!(names, [ours.as_str(), "/nowhere.so", "libc.so.6", theirs.as_str()]);
        assert_eq!(found.preloaded.iter().filter(|each| each.interposes).count(), 2);
        let said: Vec<_> = found.problems.iter().map(|problem| problem.what.clone()).collect();
        for part in
            ["/x.so", "an interposer of XSched's, already", "/nowhere.so", "stands in front"]
        {
            assert_eq!(said.iter().filter(|what| what.contains(part)).count(), 1, "{said:?}");
        }
    }
}
