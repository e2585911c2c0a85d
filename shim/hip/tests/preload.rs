//! Programs in C with the interposer in front of a library in the place of HIP's runtime.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

use common::{SONAMES, check, compile, interposer, names, says, with_interposer, with_preloaded};

/// Files that are built once for all tests: runtimes of three versions, the libraries that have
/// their names, and the programs.
struct Built {
    folder: TempDir,
}

impl Built {
    fn get() -> &'static Self {
        static BUILT: OnceLock<Built> = OnceLock::new();
        BUILT.get_or_init(|| {
            let built = Self { folder: tempfile::tempdir().expect("a folder") };
            let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/runtime.map");
            let map = format!("-Wl,--version-script={}", map.display());
            for (number, soname) in SONAMES.into_iter().enumerate() {
                let at = built.runtime(soname);
                fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
                let version = format!("-DVERSION={number}");
                let name = format!("-Wl,-soname,{soname}");
                compile("runtime.c", &at, &["-shared", "-fPIC", &version, &name, &map]);
            }
            names(&built.path("names"));
            compile("program.c", &built.path("opens"), &["-ldl"]);
            built
        })
    }

    /// Links a program with the runtime of this name, with an option more.
    fn link(&self, soname: &str, option: &str) -> PathBuf {
        let letters = option.chars().filter(char::is_ascii_alphabetic);
        let to = self.path(&format!("linked-{soname}-{}", letters.collect::<String>()));
        let define = format!("-DSONAME=\"{soname}\"");
        let runtime = self.runtime(soname);
        let arguments = ["-DLINKED", &define, runtime.to_str().expect("text"), "-ldl", option];
        compile("program.c", &to, &arguments);
        to
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn runtime(&self, soname: &str) -> PathBuf {
        self.path(&format!("fakeruntime-{soname}")).join(soname)
    }

    fn folder_of(&self, soname: &str) -> PathBuf {
        self.path(&format!("fakeruntime-{soname}"))
    }
}

/// Program that opens the runtime, in the way of this mode.
fn opens(mode: &str) -> (Command, &'static Built) {
    let built = Built::get();
    let mut command = with_interposer(built.path("opens"), &built.path("names"));
    command.arg(mode).env("XSCHED_HIP_RUNTIME", built.runtime("libamdhip64.so.7"));
    (command, built)
}

/// Runs it, and answers the counts that it leaves.
fn counts(command: &mut Command, built: &Built, last: &str) -> Value {
    let file = built.path(&format!("{:?}.json", std::thread::current().id()));
    check(command.env("XSCHED_SHIM_COUNTS", &file), last);
    serde_json::from_str(&fs::read_to_string(file).expect("counts")).expect("JSON")
}

#[test]
fn linked_programs_go_through_it() {
    let built = Built::get();
    for (number, soname) in SONAMES.into_iter().enumerate() {
        let program = built.link(soname, "-O1");
        let mut command = with_interposer(program, &built.path("names"));
        command.env("LD_LIBRARY_PATH", built.folder_of(soname));
        let counts = counts(&mut command, built, &format!("linked, version {number}"));
        // What this runtime itself calls goes through it as well.
        let launches = json!({"hipLaunchKernel": 1, "hipModuleLaunchKernel": 1});
        assert_eq!(counts["launches"], launches, "{soname}");
        let runtime = built.runtime(soname).canonicalize().expect("it");
        assert_eq!(counts["driver"], json!(runtime), "{soname}");
    }
}

#[test]
fn the_runtime_that_a_program_brings_along_is_found() {
    let built = Built::get();
    let soname = "libamdhip64.so.6";
    for tags in ["--enable-new-dtags", "--disable-new-dtags"] {
        let option = format!("-Wl,{tags},-rpath,$ORIGIN/fakeruntime-{soname}");
        let mut command = with_interposer(built.link(soname, &option), &built.path("names"));
        // One of another name, which the program does not ask for.
        command.env("LD_LIBRARY_PATH", built.folder_of("libamdhip64.so.7"));
        let counts = counts(&mut command, built, "linked, version 1");
        let runtime = built.runtime(soname).canonicalize().expect("it");
        assert_eq!(counts["driver"], json!(runtime), "{tags}");
    }
}

#[test]
fn alone_it_is_in_front_of_linked_programs() {
    let built = Built::get();
    // An option of its own, so that no other test writes the same file at the same time.
    let program = built.link("libamdhip64.so.7", "-g");
    let mut command = with_preloaded(program, [interposer()]);
    command.env("LD_LIBRARY_PATH", built.folder_of("libamdhip64.so.7"));
    // What the program finds in the runtime that it opens besides is this library's.
    check(&mut command, "linked, version 0");
}

/// A runtime of a version that no list has.
fn later(built: &Built) -> PathBuf {
    let soname = "libamdhip64.so.11";
    let at = built.runtime(soname);
    fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/runtime.map");
    let map = format!("-Wl,--version-script={}", map.display());
    let name = format!("-Wl,-soname,{soname}");
    compile("runtime.c", &at, &["-shared", "-fPIC", "-DVERSION=11", &name, &map]);
    at
}

#[test]
fn a_runtime_is_found_by_the_name_that_the_program_says() {
    let built = Built::get();
    let runtime = later(built);
    let folders = [built.folder_of("libamdhip64.so.7"), built.folder_of("libamdhip64.so.11")];
    let folders = env::join_paths(folders).expect("paths without colons");
    let opens = built.path("opens");
    let alone = with_preloaded(&opens, [interposer()]);
    for mut command in [alone, with_interposer(&opens, &built.path("names"))] {
        command.args(["launch", "libamdhip64.so.11"]).env("LD_LIBRARY_PATH", &folders);
        let counts = counts(&mut command, built, "launch, runtime open");
        let launches = json!({"hipLaunchKernel": 1, "hipModuleLaunchKernel": 1});
        assert_eq!(counts["launches"], launches);
        assert_eq!(counts["driver"], json!(runtime.canonicalize().expect("it")));
    }
    // One that is not there cannot be opened.
    let mut command = with_interposer(&opens, &built.path("names"));
    command.args(["launch", "libamdhip64.so.12"]).env("LD_LIBRARY_PATH", &folders);
    let output = command.output().expect("a program");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("FAILED: libamdhip64.so.12: cannot open"), "{said}");
}

#[test]
fn a_program_that_opens_the_runtime_goes_through_it() {
    for soname in SONAMES {
        for scope in [&["local"][..0], &["global"]] {
            let (mut command, built) = opens("arguments");
            command.arg(soname).args(scope);
            let counts = counts(&mut command, built, "arguments, runtime open");
            let launches = json!({
                "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11\
                 ihipEvent_tS6_j": 1,
                "hipExtModuleLaunchKernel": 1,
                "hipLaunchKernel": 1,
                "hipMallocAsync": 1,
                "hipMemset3DAsync": 1,
                "hipModuleLaunchKernel": 2,
            });
            assert_eq!(
                (&counts["launches"], &counts["not_listed"]),
                (&launches, &json!(["hipBrandNew"]))
            );
        }
    }
}

#[test]
fn the_newest_runtime_in_the_loader_s_folders_is_found() {
    let (mut command, built) = opens("version");
    let folders = ["libamdhip64.so.5", "libamdhip64.so.6"].map(|soname| built.folder_of(soname));
    let folders = [&[built.path("names")], &folders[..]].concat();
    let folders = env::join_paths(folders).expect("paths without colons");
    command.arg("libamdhip64.so").env_remove("XSCHED_HIP_RUNTIME");
    let output = says(command.env("LD_LIBRARY_PATH", folders));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("version 1\n"), "{output:?}");
}

#[test]
fn a_program_that_opens_a_path_goes_past_it() {
    let (mut command, built) = opens("launch");
    command.arg(built.runtime("libamdhip64.so.7"));
    // Not so what this runtime itself calls.
    let counts = counts(&mut command, built, "launch, runtime open");
    assert_eq!(counts["launches"], json!({"hipModuleLaunchKernel": 1}));
}

#[test]
fn addresses_are_exchanged() {
    let (mut command, built) = opens("addresses");
    let counts = counts(&mut command, built, "addresses, runtime open");
    let launches = json!({"hipLaunchKernel": 1, "hipModuleLaunchKernel": 1});
    assert_eq!(counts["launches"], launches);
    assert_eq!(counts["handed_out_past"], json!({"hipBrandNew": 1}));
}

#[test]
fn without_a_runtime_calls_fail() {
    let (mut command, _) = opens("missing");
    let output = says(command.env("XSCHED_HIP_RUNTIME", "/nowhere/libamdhip64.so.7"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    let expected = "xsched: HIP's runtime cannot be used: XSCHED_HIP_RUNTIME names /nowhere/";
    assert!(complaint.starts_with(expected), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn an_interposer_is_no_runtime_for_itself() {
    for own in [interposer(), Built::get().path("names/libamdhip64.so.6")] {
        let (mut command, _) = opens("missing");
        let output = says(command.env("XSCHED_HIP_RUNTIME", own));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.contains("is an interposer"), "{complaint}");
    }
}

#[test]
fn the_child_of_a_fork_may_call() {
    let (mut command, _) = opens("forks");
    check(&mut command, "forks, runtime open");
}

#[test]
fn nothing_is_opened_before_a_call() {
    let (mut command, built) = opens("nothing");
    command.env("XSCHED_SHIM_COUNTS", built.path("nothing.json"));
    check(&mut command, "nothing, runtime not open");
    assert!(!built.path("nothing.json").exists());
}

/// With HIP's own library, as its packages install it, and without a GPU.
#[test]
#[ignore = "needs libamdhip64"]
fn the_real_runtime_answers_as_without_the_interposer() {
    let built = Built::get();
    let program = built.path("real");
    compile("real.c", &program, &["-l:libamdhip64.so.5"]);
    let mut plain = with_preloaded(&program, []);
    let expected = String::from_utf8_lossy(&says(&mut plain).stdout).into_owned();
    let mut command = with_interposer(&program, &built.path("names"));
    let counts = counts(&mut command, built, expected.lines().last().expect("a line"));
    assert!(counts["driver"].as_str().is_some_and(|path| path.contains("libamdhip64.so")));
    assert_eq!(counts["launches"]["hipLaunchKernel"], json!(1), "{counts}");
    println!("the runtime {} says {expected}", counts["driver"]);
    println!("not listed: {}", counts["not_listed"]);
}
