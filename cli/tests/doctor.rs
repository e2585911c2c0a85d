//! `xsched doctor`: on the emulated driver, and without one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Variables of this machine that must not matter.
const VARIABLES: [&str; 8] = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "XSCHED_POLICY",
    "XSCHED_SCHEDULER",
    "XSCHED_CUDA_LIB",
    "XSCHED_CUDA_DRIVER",
    "XSCHED_AUTO_XQUEUE_UNIT",
    "CUDA_MPS_PIPE_DIRECTORY",
];

/// The doctor, with HIP left out.
fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command.env("XSCHED_HIP_LIB", "/nowhere/libamdhip64.so");
    command.env("XSCHED_SOCKET", "/nowhere/xschedd");
    command.arg("doctor").args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn document(output: &Output) -> Value {
    let document = serde_json::from_slice(&output.stdout);
    document.unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Texts of a list of problems.
fn problems(list: &Value) -> Vec<String> {
    let text = |problem: &Value| {
        // Each says what to do.
        assert!(problem["action"].as_str().is_some_and(|action| !action.is_empty()), "{problem}");
        problem["what"].as_str().expect("a text").to_owned()
    };
    list.as_array().expect("a list").iter().map(text).collect()
}

/// A program in C that begins with these declarations.
fn compile(folder: &Path, name: &str, code: &str, arguments: &[&str]) -> PathBuf {
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    let declarations = "#include <unistd.h>\n#include <sys/wait.h>\n#include <dlfcn.h>\n\
        int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int);\
        int cuCtxSetCurrent(void *); int cuMemAlloc_v2(unsigned long *, unsigned long);\
        int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);\n";
    fs::write(&source, format!("{declarations}{code}")).expect("a file");
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.arg(&source).args(arguments).arg("-o").arg(&program);
    assert!(compile.status().expect("a C compiler").success());
    program
}

/// A folder with the emulated driver, and the driver.
fn driver() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
    (folder, driver)
}

#[test]
fn without_a_driver_it_says_so_and_is_content() {
    let mut command = doctor(&["--json"]);
    let output = command.env("XSCHED_CUDA_DRIVER", "/nowhere/libcuda.so.1").output().expect("it");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document = document(&output);
    assert_eq!(document["schema"], json!(1));
    let cuda = &document["vendors"][0];
    assert_eq!((&cuda["name"], &cuda["driver"]), (&json!("cuda"), &Value::Null));
    assert!(cuda["why"].as_str().is_some_and(|why| why.contains("/nowhere/")), "{cuda:#}");
    assert_eq!(cuda["interposer"]["same_version"], json!(true));
    let launches = &cuda["interposer"]["functions"]["launch"];
    assert!(launches["listed"].as_u64() > Some(100), "{launches}");
    assert_eq!(launches["listed"], launches["interposed"]);
    let hip = &document["vendors"][1];
    assert!(hip["why"].as_str().is_some_and(|why| why.contains("XSCHED_HIP_LIB")), "{hip:#}");
    assert!(problems(&document["device_problems"])[0].contains("no GPU"));
    let host = json!({"backend": "host", "device": "the processor, 1 compute unit", "level": 3});
    for (key, value) in host.as_object().expect("a device") {
        assert_eq!(&document["devices"][0][key], value, "the host device works without a GPU");
    }
    let wrong = problems(&document["environment"]["problems"]);
    assert!(wrong.iter().any(|what| what.contains("/nowhere/libcuda.so.1")), "{wrong:?}");
    // People get the same.
    let report = text(&output.stderr);
    assert!(report.contains("\ncuda\n  driver         none: XSCHED_CUDA_DRIVER"), "{report}");
}

#[test]
fn a_driver_and_its_devices_are_described() {
    let (_folder, driver) = driver();
    let mut command = doctor(&[]);
    command.env("XSCHED_CUDA_DRIVER", &driver).env("XSCHED_EMULATED_CUDA_VERSION", "12080");
    let output = command.env("XSCHED_POLICIY", "hpf").output().expect("it runs");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let report = text(&output.stdout);
    for part in [
        &format!("{}, 12.8", driver.canonicalize().expect("a file").display()),
        "Lv2",
        "not listed",
        "cuEmulatedCalls",
        "nothing reads XSCHED_POLICIY; it may be meant to be XSCHED_POLICY",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

#[test]
fn hip_s_runtime_and_devices_are_described() {
    let test = std::env::current_exe().expect("a test");
    let runtime = test.with_file_name("libxsched_hip_emulated.so");
    let mut command = doctor(&["--json", "-"]);
    command.env("XSCHED_HIP_LIB", &runtime).env("XSCHED_CUDA_DRIVER", "/nowhere/libcuda.so.1");
    let document = document(&command.output().expect("it runs"));
    let hip = &document["vendors"][1];
    assert_eq!(hip["driver"], json!(runtime), "{hip:#}");
    let version = hip["version"].as_str().expect("a version");
    assert_eq!(version.split('.').count(), 3, "{version}");
    let devices = document["devices"].as_array().expect("a list");
    let device = devices.iter().find(|device| device["backend"] == "hip").expect("a device");
    assert!(device["level"].as_u64() >= Some(1), "{device}");
}

#[test]
fn what_nvidia_s_management_library_says_is_shown() {
    let (folder, driver) = driver();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/nvml.c");
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(folder.path().join("libnvidia-ml.so.1")).arg(source);
    assert!(compile.status().expect("a C compiler").success());
    let mut command = doctor(&["--json", "-"]);
    command.env("XSCHED_CUDA_DRIVER", &driver).env("LD_LIBRARY_PATH", folder.path());
    let output = command.output().expect("it runs");
    let (document, report) = (document(&output), text(&output.stderr));
    let gpu = json!({
        "name": "Emulated H200", "pci": "0000:01:00", "mig": true,
        "compute_mode": "ExclusiveProcess", "processes": [7, 8], "mps_processes": [],
    });
    assert_eq!(document["gpus"], json!([gpu]), "{report}");
    let device = "Lv2    on   ExclusiveProcess          2\n";
    assert!(report.contains(device), "{report}");
    let wrong = problems(&document["mps_problems"]);
    assert!(wrong[0].contains("one process at a time"), "{wrong:?}");
}

#[test]
fn a_program_s_launches_are_counted_and_its_code_is_passed_on() {
    let (folder, driver) = driver();
    let library = driver.to_str().expect("a path");
    let code = "int main(void) { void *c; unsigned long p;\
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)\
            || cuMemAlloc_v2(&p, 4)) return 1;\
        for (int n = 0; n < 5; n++) if (cuMemsetD32Async(p, 7, 1, 0)) return 1;\
        write(1, \"printed\\n\", 8); return 7; }";
    let program = compile(folder.path(), "launches", code, &[library]);
    let mut command = doctor(&["--json", "--"]);
    let output = command.arg(&program).env("XSCHED_CUDA_DRIVER", &driver).output().expect("it");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(text(&output.stderr).contains("printed\n"));
    let tried = &document(&output)["program"];
    assert_eq!((&tried["preloadable"], &tried["linked"]), (&json!(true), &json!(["libcuda.so.1"])));
    let run = &tried["run"];
    let counts = json!({"launches": 5, "scheduled": 5, "alone": 5, "past": 0});
    assert_eq!(run["functions"], json!({"cuMemsetD32Async": counts}), "{run:#}");
    assert_eq!(
        (&run["exit_code"], &run["past"], &run["uncounted"]),
        (&json!(7), &json!({}), &json!([]))
    );
    let why = "it is the legacy default stream, which all blocking streams wait for";
    assert_eq!(run["streams"], json!([{"level": 1, "why": why, "streams": 1}]), "{run:#}");
    assert!(text(&output.stderr).contains(&format!("1 at Lv1, not higher: {why}\n")));
    assert_eq!(run["processes"].as_array().map(Vec::len), Some(1));
    assert_eq!(problems(&run["problems"]), [""; 0]);
}

#[test]
fn what_goes_past_is_said_with_the_reason() {
    let (folder, driver) = driver();
    let library = driver.to_str().expect("a path");
    // The driver is in use before the fork, so that the child's calls are of a fork's child.
    let forks = "int main(void) { void *c; unsigned long p; int status;\
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)\
            || cuMemAlloc_v2(&p, 4) || cuMemsetD32Async(p, 7, 1, 0)) return 1;\
        if (!fork()) { cuMemsetD32Async(p, 7, 1, 0); return 0; }\
        wait(&status); return 0; }";
    let program = compile(folder.path(), "forks", forks, &[library]);
    let mut command = doctor(&["--json", "--"]);
    command.arg(&program).env("XSCHED_CUDA_DRIVER", &driver);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let run = &document(&output)["program"]["run"];
    let past = json!({"in the child of a fork, after the driver was initialised": 1});
    assert_eq!(run["past"], past, "{run:#}");
    let launches: Vec<_> = run["processes"].as_array().expect("a list").iter().collect();
    assert!(launches.iter().all(|process| process["launches"] == json!(1)), "{run:#}");
    let wrong = problems(&run["problems"]);
    assert!(wrong.iter().any(|what| what.contains("in the child of a fork")), "{wrong:?}");
}

#[test]
fn a_process_that_loses_the_interposer_is_seen() {
    let (folder, driver) = driver();
    let library = driver.to_str().expect("a path");
    let sleeps = "int main(void) { cuInit(0); usleep(500 * 1000); return 0; }";
    let program = compile(folder.path(), "sleeps", sleeps, &[library]);
    let mut command = doctor(&["--json", "--", "env", "-u", "LD_PRELOAD"]);
    command.env("XSCHED_CUDA_DRIVER", &driver).env("LD_LIBRARY_PATH", folder.path());
    let output = command.arg(&program).output().expect("it runs");
    let run = &document(&output)["program"]["run"];
    assert_eq!(run["uncounted"][0]["interposed"], json!(false), "{run:#}");
    let wrong = problems(&run["problems"]);
    assert!(wrong[0].contains("without the interposer"), "{wrong:?}");
}

#[test]
fn signals_reach_the_program_and_the_report_still_comes() {
    // The parent of the shell is the doctor, which hands on what is to end it.
    let ended = doctor(&["--json", "--", "sh", "-c", "kill -TERM $PPID; exec sleep 60"]);
    // The terminal gives an interrupt to both; here the program does not care.
    let ignored = doctor(&["--json", "--", "sh", "-c", "kill -INT $PPID; exit 5"]);
    for (mut command, code, signal) in [(ended, 143, json!(15)), (ignored, 5, Value::Null)] {
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(document(&output)["program"]["run"]["signal"], signal);
    }
}

#[test]
fn programs_that_cannot_be_started_are_errors() {
    let output = doctor(&["--json", "--", "/nowhere/program"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let why = text(&output.stderr);
    assert!(why.contains("error: cannot run /nowhere/program: "), "{why}");
    let document = document(&output);
    assert_eq!(document["program"]["run"], Value::Null);
    assert!(problems(&document["program"]["problems"])[0].contains("no file"));
    assert_eq!(doctor(&["program"]).output().expect("it runs").status.code(), Some(2));
}

#[test]
fn a_node_that_is_not_set_up_for_an_engine_ends_with_1() {
    for engine in ["slurm", "podman", "kubernetes", "ray"] {
        let mut command = doctor(&["--for", engine, "--json"]);
        let output = command.env("SLURM_CONF", "/nowhere/slurm.conf").output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let document = document(&output);
        assert_eq!((&document["schema"], &document["engine"]), (&json!(1), &json!(engine)));
        let wrong = problems(&document["problems"]);
        assert!(wrong[0].contains("xschedd does not answer"), "{wrong:?}");
        assert!(text(&output.stderr).contains(": not set up\n"), "{output:?}");
    }
}

#[test]
fn a_socket_at_which_no_daemon_listens_is_named_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    let output = doctor(&[]).env("XSCHED_SOCKET", &socket).output().expect("it runs");
    let report = text(&output.stdout);
    let part = report.split("\nxschedd\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let part = part.expect("a part of the report");
    assert_eq!(part.matches(&socket.display().to_string()).count(), 1, "{part}");
    assert!(part.contains("the socket is there, and "), "{part}");
    // Both places may be one.
    let mut command = doctor(&["--for", "kubernetes"]);
    command.env_remove("XSCHED_SOCKET").env("XDG_RUNTIME_DIR", "/run");
    let said = text(&command.output().expect("it runs").stdout);
    assert!(said.matches("/run/xsched/socket").count() <= 1, "{said}");
}
