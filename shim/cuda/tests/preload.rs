//! Programs in C with the interposer in front of a library in the place of CUDA's driver.

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

use common::{check, compile, interposer, says, with_interposer};

/// Files that are built once for all tests: the driver, as a file of another name and as
/// `libcuda.so.1`, and the programs.
struct Built {
    folder: TempDir,
}

impl Built {
    fn get() -> &'static Self {
        static BUILT: OnceLock<Built> = OnceLock::new();
        BUILT.get_or_init(|| {
            let built = Self { folder: tempfile::tempdir().expect("a folder") };
            fs::create_dir(built.path("lib")).expect("a folder");
            let (driver, named) = (built.path("libfakedriver.so"), built.path("lib/libcuda.so.1"));
            compile("driver.c", &driver, &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]);
            fs::copy(&driver, &named).expect("a copy");
            compile("program.c", &built.path("opens"), &["-ldl", "-pthread"]);
            let named = named.to_str().expect("a path");
            compile("program.c", &built.path("linked"), &["-DLINKED", named]);
            built
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Program that opens the driver, in the way of this mode.
fn opens(mode: &str) -> (Command, &'static Built) {
    let built = Built::get();
    let mut command = with_interposer(built.path("opens"));
    command.arg(mode).env("XSCHED_CUDA_DRIVER", built.path("libfakedriver.so"));
    (command, built)
}

/// Runs it, and answers the counts that it leaves.
fn counts(command: &mut Command, built: &Built, last: &str) -> Value {
    let name = format!("{:?}-%p.json", std::thread::current().id());
    let before = files(built);
    check(command.env("XSCHED_SHIM_COUNTS", built.path(&name)), last);
    let mine = name.split_once('%').expect("a process").0;
    let new = files(built).difference(&before).find(|file| file.starts_with(mine)).cloned();
    let text = fs::read_to_string(built.path(&new.expect("counts"))).expect("counts");
    serde_json::from_str(&text).expect("JSON")
}

fn files(built: &Built) -> BTreeSet<String> {
    let entries = fs::read_dir(built.folder.path()).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
}

#[test]
fn a_linked_program_goes_through_it() {
    let built = Built::get();
    let mut command = with_interposer(built.path("linked"));
    command.env("LD_LIBRARY_PATH", built.path("lib"));
    let counts = counts(&mut command, built, "32851");
    assert_eq!(counts["launches"], json!({"cuLaunchKernel": 2}));
    assert_eq!(counts["driver"], json!(built.path("lib/libcuda.so.1").canonicalize().expect("it")));
}

#[test]
fn a_program_that_opens_the_driver_goes_through_it() {
    let (mut command, built) = opens("local");
    let counts = counts(&mut command, built, "local, driver open");
    assert_eq!(counts["launches"], json!({"cuLaunchKernel": 1}));
    assert_eq!(counts["not_listed"], json!(["cuBrandNew"]));
}

#[test]
fn a_program_that_opens_a_path_goes_past_it() {
    let (mut command, built) = opens("launch");
    command.arg(built.path("libfakedriver.so"));
    // Not so what this driver itself calls when it is loaded.
    let counts = counts(&mut command, built, "launch, driver open");
    assert_eq!(counts["launches"], json!({}));
}

#[test]
fn a_library_of_the_driver_s_other_name_leads_to_it() {
    let (mut command, built) = opens("local");
    // Made as `cargo xtask install` makes it: it has nothing but that name, and leads to the
    // interposer.
    let other = built.path("other-name.so");
    let mut link = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    link.args(["-shared", "-nostdlib", "-Wl,-soname,libcuda.so", "-Wl,-f,libcuda.so.1", "-o"]);
    link.arg(&other).args(["-x", "c", "/dev/null"]);
    assert!(link.status().expect("a linker").success());
    let preload = env::join_paths([interposer(), other.clone()]).expect("paths without colons");
    command.arg("libcuda.so").env("LD_PRELOAD", preload);
    let counts = counts(&mut command, built, "local, driver open");
    assert_eq!(counts["launches"], json!({"cuLaunchKernel": 1}));
    // Without the interposer it is no harm to a program that opens no driver.
    let mut alone = with_interposer("true");
    let output = says(alone.env("LD_PRELOAD", other).env("LD_LIBRARY_PATH", ""));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_driver_in_the_loader_s_folders_is_found() {
    let (mut command, built) = opens("launch");
    // A folder with the interposer under the driver's name comes first, and one with neither.
    let folder = built.path("interposers");
    fs::create_dir(&folder).expect("a folder");
    std::os::unix::fs::symlink(interposer(), folder.join("libcuda.so.1")).expect("a link");
    let folders = [folder, built.path("empty"), built.path("lib")];
    let folders = env::join_paths(folders).expect("paths without colons");
    command.env_remove("XSCHED_CUDA_DRIVER").env("LD_LIBRARY_PATH", folders);
    let counts = counts(&mut command, built, "launch, driver not open");
    assert_eq!(counts["launches"], json!({"cuLaunchKernel": 1}));
}

#[test]
fn arguments_arrive_as_they_are() {
    let (mut command, built) = opens("arguments");
    let counts = counts(&mut command, built, "arguments, driver open");
    let launches = json!({
        "cuEGLStreamProducerPresentFrame": 1,
        "cuMemPrefetchAsync_v2": 1,
        "cuMemcpyHtoDAsync_v2": 1,
    });
    assert_eq!(counts["launches"], launches);
}

#[test]
fn addresses_are_exchanged() {
    let (mut command, built) = opens("addresses");
    let counts = counts(&mut command, built, "addresses, driver open");
    assert_eq!(counts["launches"], json!({"cuLaunchKernel": 1, "cuMemcpyHtoDAsync": 1}));
    assert_eq!(counts["handed_out_past"], json!({"cuBrandNew": 1}));
}

#[test]
fn many_threads_may_be_first() {
    for _ in 0..20 {
        let (mut command, built) = opens("threads");
        let counts = counts(&mut command, built, "threads, driver open");
        assert_eq!(counts["launches"], json!({"cuLaunchKernel": 16}));
    }
}

#[test]
fn without_a_driver_calls_fail() {
    let (mut command, _) = opens("missing");
    let output = says(command.env("XSCHED_CUDA_DRIVER", "/nowhere/libcuda.so.1"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    let expected = "xsched: CUDA's driver cannot be used: XSCHED_CUDA_DRIVER names /nowhere/";
    assert!(complaint.starts_with(expected), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn an_interposer_is_no_driver_for_itself() {
    let (mut command, _) = opens("missing");
    let output = says(command.env("XSCHED_CUDA_DRIVER", interposer()));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("is an interposer"), "{complaint}");
}

#[test]
fn a_driver_may_call_itself() {
    let (mut command, _) = opens("recursion");
    check(&mut command, "recursion, driver open");
}

#[test]
fn the_child_of_a_fork_may_call() {
    let (mut command, _) = opens("forks");
    check(&mut command, "forks, driver open");
}

#[test]
fn a_child_goes_through_it() {
    let (mut command, built) = opens("child");
    let counts = counts(&mut command, built, "child, driver not open");
    assert_eq!(counts["launches"], json!({"cuLaunchKernel": 1}));
}

#[test]
fn nothing_is_opened_before_a_call() {
    let (mut command, built) = opens("nothing");
    command.env("XSCHED_SHIM_COUNTS", built.path("nothing.json"));
    check(&mut command, "nothing, driver not open");
    assert!(!built.path("nothing.json").exists());
}

/// The files that a shell has mapped, and its threads.
fn of_a_shell(mut command: Command) -> (BTreeSet<String>, String) {
    command.args(["-c", "cat /proc/$$/maps; echo threads; ls /proc/$$/task | wc -l"]);
    let output = says(&mut command);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8_lossy(&output.stdout);
    let (maps, threads) = text.split_once("threads\n").expect("two parts");
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| line[at..].to_owned()));
    (files.collect(), threads.trim().to_owned())
}

#[test]
fn a_shell_is_as_it_was() {
    let (mut files, threads) = of_a_shell(with_interposer("bash"));
    let mut alone = with_interposer("bash");
    alone.env_remove("LD_PRELOAD");
    let own = interposer().canonicalize().expect("the interposer");
    assert!(files.remove(own.to_str().expect("a path")));
    assert_eq!((files, threads), of_a_shell(alone));
}
