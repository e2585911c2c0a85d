//! `xsched run`: programs with the interposer in front of their driver.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    for variable in ["LD_PRELOAD", "XSCHED_POLICY", "XSCHED_SCHEDULER"] {
        command.env_remove(variable);
    }
    command.arg("run").args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_gets_what_it_needs_and_runs_as_it_is() {
    let script = "echo $1 $XSCHED_AUTO_XQUEUE $XSCHED_POLICY $XSCHED_AUTO_XQUEUE_PRIORITY; \
                  echo $LD_PRELOAD; exit 7";
    let output = run(&["--class", "interactive", "--", "sh", "-c", script, "sh", "--quiet"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(7), String::new()));
    let text = text(&output.stdout);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("--quiet ON hpf 100"));
    assert!(
        lines.next().is_some_and(
            |path| path.contains("/libshimcuda.so:") && path.contains("/libshimhip.so")
        ),
        "{text}"
    );
}

#[test]
fn settings_reach_the_program() {
    let script = "echo $XSCHED_POLICY $XSCHED_AUTO_XQUEUE_PRIORITY \
                  $XSCHED_AUTO_XQUEUE_UTILIZATION $XSCHED_AUTO_XQUEUE_LEVEL \
                  $XSCHED_AUTO_XQUEUE_UNIT $XSCHED_GANG";
    let settings = ["--priority", "-5", "--share", "30", "--level", "1", "sh", "-c", script];
    assert_eq!(text(&run(&settings).stdout), "up -5 30 1\n");
    let one_by_one = ["--streams", "--gang", "job 7", "sh", "-c", script];
    assert_eq!(text(&run(&one_by_one).stdout), "hpf 2 streams job 7\n");
    assert_eq!(run(&["--gang", "a\n", "true"]).status.code(), Some(2));
    let of_hip = "echo $XSCHED_AUTO_XQUEUE_LEVEL $DEBUG_HIP_DYNAMIC_QUEUES $HSA_NO_SCRATCH_RECLAIM";
    for (level, expected) in [("1", "1\n"), ("2", "2 0\n"), ("3", "3 0 1\n")] {
        assert_eq!(text(&run(&["--level", level, "sh", "-c", of_hip]).stdout), expected);
    }
}

/// Output of `xsched env` for this form.
fn environment(form: &str, options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(["env", "--for", form]).args(options).env("LD_PRELOAD", "");
    let output = command.env("XSCHED_SOCKET", "/run/a b/socket").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn a_shell_takes_the_environment_and_keeps_what_is_preloaded() {
    let lines = environment("shell", &["--class", "batch", "--gang", "it's $1"]);
    let script = format!(
        "LD_PRELOAD=/none/own.so; {lines} echo \"$LD_PRELOAD|$XSCHED_SCHEDULER|$XSCHED_GANG|\
         $XSCHED_AUTO_XQUEUE_PRIORITY|$XSCHED_SOCKET\""
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("it runs");
    let line = text(&output.stdout);
    let mut parts = line.trim_end().split('|');
    let files = parts.next().expect("files");
    assert!(files.starts_with("/none/own.so:/") && files.contains("/libshimcuda.so"), "{line}");
    assert_eq!(parts.collect::<Vec<_>>(), ["GLB", "it's $1", "-100", "/run/a b/socket"]);
}

#[test]
fn slurm_and_json_say_the_same() {
    let options = ["--class", "interactive", "--share", "30", "--streams"];
    let json: serde_json::Value =
        serde_json::from_str(&environment("json", &options)).expect("JSON");
    assert_eq!(json["version"], 1);
    let slurm = environment("slurm", &options);
    let mut lines: Vec<_> =
        slurm.lines().map(|line| line.strip_prefix("export ").expect("an export")).collect();
    let variables = json["variables"].as_object().expect("variables");
    let files: Vec<_> = json["preload"].as_array().expect("files").iter().collect();
    let files: Vec<_> = files.iter().map(|file| file.as_str().expect("text")).collect();
    let expected =
        variables.iter().map(|(name, value)| format!("{name}={}", value.as_str().expect("text")));
    let mut expected: Vec<_> =
        expected.chain([format!("LD_PRELOAD={}", files.join(":"))]).collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert_eq!(variables["XSCHED_AUTO_XQUEUE_UTILIZATION"], "30");
}

#[test]
fn a_container_gets_a_class_a_hook_and_files_to_load_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("cdi/xsched.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(["cdi", "generate", "--out"]).arg(&out).env("XSCHED_SOCKET", "/run/x/sock");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&out).expect("a file");
    let spec: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&spec["cdiVersion"], &spec["kind"]), (&"0.5.0".into(), &"xsched.dev/class".into()));
    let mount = &spec["containerEdits"]["mounts"][0];
    assert_eq!(mount["containerPath"], "/etc/ld.so.preload");
    let list = std::fs::read_to_string(mount["hostPath"].as_str().expect("a path"));
    let list = list.expect("the list");
    assert!(list.lines().all(|file| file.starts_with("/usr/lib/xsched/")), "{list}");
    for (device, (name, priority)) in spec["devices"].as_array().expect("devices").iter().zip([
        ("interactive", "100"),
        ("normal", "0"),
        ("batch", "-100"),
    ]) {
        let edits = &device["containerEdits"];
        let env = edits["env"].as_array().expect("variables");
        let has = |variable: String| env.contains(&variable.into());
        assert_eq!(device["name"], name);
        assert!(has(format!("XSCHED_AUTO_XQUEUE_PRIORITY={priority}")), "{env:?}");
        assert!(has("XSCHED_SOCKET=/run/xsched/sock".to_owned()), "{env:?}");
        assert!(has("XSCHED_SCHEDULER=GLB".to_owned()), "{env:?}");
        assert_eq!(edits["mounts"][0]["hostPath"], "/run/x");
        assert_eq!(edits["hooks"][0]["hookName"], "createRuntime");
        assert_eq!(edits["hooks"][0]["args"][4], name);
        // Each file to load first is there when the folder is mounted.
        let libraries = edits["mounts"][1]["hostPath"].as_str().expect("a path").to_owned();
        for file in list.lines() {
            let inside = file.strip_prefix("/usr/lib/xsched/").expect("a library");
            assert!(Path::new(&libraries).join(inside).exists(), "{file} of {libraries}");
        }
    }
    let edits: serde_json::Value =
        serde_json::from_str(&environment("cdi", &["--class", "batch"])).expect("JSON");
    let preload = format!("LD_PRELOAD={}", list.lines().collect::<Vec<_>>().join(":"));
    assert!(edits["env"].as_array().expect("variables").contains(&preload.into()));
}

#[test]
fn a_container_starts_also_where_it_cannot_have_a_grant() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.args(["cdi", "hook", "--class", "batch"]).env("XSCHED_SOCKET", "/none");
    let output = command.stdin(std::process::Stdio::null()).output().expect("it runs");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("has no grant"), "{output:?}");
}

fn compile(options: &[&str], sources: &[&Path], to: &Path) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(sources).args(options).arg("-o").arg(to);
    assert!(compile.status().expect("a C compiler").success());
}

#[test]
fn a_program_for_musl_runs_unscheduled_and_that_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    // A loader of glibc's by the name of musl's: the program runs on this machine.
    let own = std::fs::read(env!("CARGO_BIN_EXE_xsched")).expect("a program");
    let begin = own.windows(5).position(|window| window == b"/lib6").expect("its loader");
    let end = begin + own[begin..].iter().position(|byte| *byte == 0).expect("an end");
    let glibc = text(&own[begin..end]);
    std::os::unix::fs::symlink(glibc, at("ld-musl-x86_64.so.1")).expect("a link");
    let code = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\
                puts(getenv(\"LD_PRELOAD\") ? \"preloaded\" : \"as it is\"); return 3; }";
    std::fs::write(at("p.c"), code).expect("a file");
    let loader = format!("-Wl,--dynamic-linker={}", at("ld-musl-x86_64.so.1").display());
    compile(&[&loader], &[&at("p.c")], &at("p"));
    let output = run(&["--", at("p").to_str().expect("text")]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "as it is\n".to_owned()));
    let said = text(&output.stderr);
    assert!(said.contains("has musl's loader") && said.contains("runs unscheduled"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// The emulated driver, and a program that launches once.
fn program_on_the_emulated_driver(folder: &Path) -> (PathBuf, PathBuf) {
    let driver = xsched_cuda_emulated::place(folder).expect("the emulated driver");
    let (source, program) = (folder.join("p.c"), folder.join("p"));
    let code = "int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int);\
                int cuCtxSetCurrent(void *); int cuMemAlloc_v2(unsigned long *, unsigned long);\
                int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);\
                int cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);\
                int main(void) { void *c; unsigned long p; unsigned read = 0;\
                return cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c)\
                || cuMemAlloc_v2(&p, 4) || cuMemsetD32Async(p, 7, 1, 0)\
                || cuMemcpyDtoH_v2(&read, p, 4) || read != 7; }";
    std::fs::write(&source, code).expect("a file");
    compile(&[], &[&source, &driver], &program);
    (driver, program)
}

#[test]
fn a_program_on_the_emulated_driver_is_scheduled() {
    let folder = tempfile::tempdir().expect("a folder");
    let (driver, program) = program_on_the_emulated_driver(folder.path());
    let counts = folder.path().join("counts.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.arg("run").arg(&program).env_remove("LD_PRELOAD").env("XSCHED_CUDA_DRIVER", &driver);
    let output = command.env("XSCHED_SHIM_COUNTS", &counts).output().expect("it runs");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let counts = std::fs::read_to_string(counts).expect("counts");
    let counts: serde_json::Value = serde_json::from_str(&counts).expect("JSON");
    assert_eq!(counts["scheduled"]["cuMemsetD32Async"], serde_json::json!(1), "{counts}");
}

/// Code in the place of a launch, as a profiler that a user has preloaded has it.
const PROFILER: &str = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n\
    #include <stdlib.h>\nstatic int seen;\n\
    int cuMemsetD32Async(unsigned long at, unsigned value, unsigned long n, void *stream) {\n\
    int (*next)(unsigned long, unsigned, unsigned long, void *) =\n\
    (int (*)(unsigned long, unsigned, unsigned long, void *))dlsym(RTLD_NEXT, \"cuMemsetD32Async\");\n\
    seen++; return next(at, value, n, stream); }\n\
    __attribute__((destructor)) static void tell(void) { fprintf(stderr, \"seen: %d\", seen); }";

#[test]
fn a_profiler_that_the_user_preloads_sees_what_is_scheduled() {
    let folder = tempfile::tempdir().expect("a folder");
    let (driver, program) = program_on_the_emulated_driver(folder.path());
    let (source, profiler) = (folder.path().join("q.c"), folder.path().join("q.so"));
    std::fs::write(&source, PROFILER).expect("a file");
    compile(&["-shared", "-fPIC", "-ldl"], &[&source], &profiler);
    let counts = folder.path().join("counts.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xsched"));
    command.arg("run").arg(&program).env("LD_PRELOAD", &profiler);
    command.env("XSCHED_CUDA_DRIVER", &driver).env("XSCHED_SHIM_COUNTS", &counts);
    let output = command.output().expect("it runs");
    // The destructor of `xsched` itself is not called: it becomes the program.
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), "seen: 1".to_owned()));
    let counts = std::fs::read_to_string(counts).expect("counts");
    let counts: serde_json::Value = serde_json::from_str(&counts).expect("JSON");
    assert_eq!(counts["scheduled"]["cuMemsetD32Async"], serde_json::json!(1), "{counts}");
}

#[test]
fn signals_and_descriptors_of_a_program_are_as_they_were() {
    let said = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_xsched")]).env_remove("LD_PRELOAD");
        text(&command.output().expect("a shell").stdout)
    };
    let ignored = "sed -n 's/^SigIgn:\t//p' /proc/self/status";
    let open = "sh -c 'for n in 0 1 2; do test -e /proc/$$/fd/$n && echo $n; done'";
    for (script, program) in [
        ("trap '' PIPE; exec", ignored),
        ("exec", ignored),
        ("exec <&- 2>&-; exec", open),
        ("exec", open),
    ] {
        let expected = said(&format!("{script} {program}"));
        assert!(!expected.is_empty(), "{script}");
        assert_eq!(said(&format!("{script} \"$1\" run -- {program}")), expected, "{script}");
    }
}

#[test]
fn a_program_that_there_is_not_is_an_error() {
    let output = run(&["--", "/nowhere/program"]);
    assert_eq!(output.status.code(), Some(2));
    let why = text(&output.stderr);
    assert!(why.starts_with("error: cannot run /nowhere/program: "), "{why}");
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["--priority", "256", "true"]).status.code(), Some(2));
}

/// Output of the example for Slurm for the programs of a task in this partition.
fn prolog(partition: &str, folders: &str) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../daemon/examples/slurm/task_prolog.sh");
    let mut command = Command::new(script);
    for variable in ["LD_PRELOAD", "XSCHED_POLICY", "XSCHED_SCHEDULER"] {
        command.env_remove(variable);
    }
    let output = command.env("PATH", folders).env("SLURM_JOB_PARTITION", partition).output();
    let output = output.expect("a shell");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_task_of_slurm_gets_the_class_of_its_partition() {
    let system = std::env::var("PATH").expect("folders of programs");
    let program = Path::new(env!("CARGO_BIN_EXE_xsched"));
    let folder = program.parent().expect("a folder").display();
    let folders = format!("{folder}:{system}");
    for (partition, priority) in [("batch-long", "-100"), ("interactive", "100"), ("gpu", "0")] {
        let lines = prolog(partition, &folders);
        let line = format!("export XSCHED_AUTO_XQUEUE_PRIORITY={priority}");
        assert!(lines.contains(&line), "{partition}: {lines:?}");
        let is_preload = |line: &String| line.starts_with("export LD_PRELOAD=/");
        assert_eq!(lines.iter().filter(|line| is_preload(line)).count(), 1, "{lines:?}");
        assert!(lines.iter().all(|line| line.starts_with("export ")), "{lines:?}");
    }
    // Without xsched the task runs as it is.
    let tools = tempfile::tempdir().expect("a folder");
    for name in ["sed", "env", "sh"] {
        let found = std::env::split_paths(&system).map(|folder| folder.join(name));
        let found = found.into_iter().find(|file| file.exists()).expect("a tool");
        std::os::unix::fs::symlink(found, tools.path().join(name)).expect("a link");
    }
    assert_eq!(prolog("batch", &tools.path().to_string_lossy()), [""; 0]);
}
