//! Work that runs past `xschedd`, by stand-ins for the drivers' lists, in all commands that tell
//! it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use xsched_daemon::config::{Config, Source};
use xsched_daemon::watch::{Drivers, Kfd, Nvml};
use xsched_daemon::{Daemon, Settings};

const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with NVIDIA's library, the folders of AMD's driver, and those of processes.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path()
}

fn write(path: &str, text: &str) {
    let path = folder().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn make() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/nvml.c");
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.args(["-shared", "-fPIC", "-o"]).arg(folder().join("nvml.so")).arg(source);
    assert!(compile.status().expect("a C compiler").success());
    write("kfd/topology/nodes/1/gpu_id", "77\n");
    let properties = "simd_count 320\ndomain 0\nlocation_id 15104\n";
    write("kfd/topology/nodes/1/properties", properties);
    write("kfd/topology/nodes/1/name", "mi308x\n");
    for (file, text) in [("gpuid", "77"), ("size", "4096"), ("type", "0")] {
        write(&format!("kfd/proc/500/queues/0/{file}"), text);
    }
    write("proc/7/comm", "train.py\n");
    write("proc/500/comm", "amd\u{1b}[2J\n");
    fs::create_dir_all(folder().join("proc/self/ns")).expect("a folder");
    symlink("pid:[4026531836]", folder().join("proc/self/ns/pid")).expect("a link");
}

fn drivers() -> Drivers {
    let (kfd, module) = (folder().join("kfd"), folder().join("module"));
    let kfd = Kfd::at(xsched_daemon::watch::Sysfs { kfd, module });
    let nvml = Nvml::at(folder().join("nvml.so").into());
    let interval = Duration::from_millis(5);
    Drivers { listers: vec![Box::new(nvml), Box::new(kfd)], root: folder().to_owned(), interval }
}

fn told(socket: &PathBuf, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(arguments).env("XSCHED_SOCKET", socket).env("COLUMNS", "150");
    command.env("XSCHED_CUDA_DRIVER", "/nowhere/libcuda.so.1");
    command.env("XSCHED_HIP_LIB", "/nowhere/libamdhip64.so");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn processes_that_the_drivers_list_are_told_by_all_commands() {
    make();
    let socket = folder().join("socket");
    let policy = "hpf".parse().expect("a policy");
    let settings = Settings { socket: socket.clone(), policy, is_open: false };
    let (config, source) = (Config::default(), Source::default());
    let daemon = Daemon::start_watching(&settings, config, source, Some(drivers));
    let daemon = daemon.expect("a daemon");
    let start = Instant::now();
    let status = loop {
        let text = told(&socket, &["ps", "--json"]);
        let status = serde_json::from_str::<Value>(&text).expect("JSON");
        if status["outsiders"].as_array().is_some_and(|list| list.len() == 3) {
            break status;
        }
        assert!(start.elapsed() < PATIENCE, "{status:#}");
    };
    let names: Vec<_> = status["gpus"].as_array().expect("a list").iter().collect();
    assert_eq!(names.len(), 2, "{status:#}");
    let ps = told(&socket, &["ps"]);
    assert!(ps.contains("\nnot scheduled\n"), "{ps}");
    let has = |text: &str, words: &[&str]| {
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(has(&ps, &["7", "default", "train.py", "0000:01:00"]), "{ps}");
    assert!(has(&ps, &["500", "amd[2J", "0000:3b:00"]), "{ps}");
    let top = told(&socket, &["top", "--once"]);
    assert!(has(&top, &["not scheduled: 7 ", "train.py on 0000:01:00"]), "{top}");
    assert!(has(&top, &["0000:3b:00", "mi308x"]), "{top}");
    let doctor = told(&socket, &["doctor"]);
    assert!(has(&doctor, &["problem:", "process 7 (train.py) uses 0000:01:00", "xsched run"]));
    assert!(has(&doctor, &["processes", "0 scheduled, 3 past it"]), "{doctor}");
    drop(daemon);
    let doctor = told(&socket, &["doctor", "--json", "-"]);
    let doctor = serde_json::from_str::<Value>(&doctor).expect("JSON");
    assert_eq!(doctor["daemon"]["policy"], Value::Null, "{:#}", doctor["daemon"]);
}
