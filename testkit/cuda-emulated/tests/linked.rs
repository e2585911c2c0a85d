//! Programs that get the emulated driver by its name: linked with it, by `dlopen`, and behind an
//! interposer of the same name.

use std::path::Path;
use std::process::Command;

/// Output of the program in C.
const EXPECTED: &str = "\
early 0 3
init 0, version 12080
launch 0
read 0 7
trap 0 719
lost 719
reset 0 0
release 0 709
table 500
";

/// Compiles a source of this folder, with more arguments.
fn compile(source: &str, to: &Path, arguments: &[&str]) {
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Werror", "-o"]).arg(to);
    compile.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source));
    assert!(compile.args(arguments).status().expect("a C compiler").success());
}

/// Output of a program.
fn run(program: &Path, environment: &[(&str, &Path)]) -> String {
    let mut command = Command::new(program);
    command.env("XSCHED_EMULATED_CUDA_VERSION", "12080").env_remove("LD_PRELOAD");
    let output = command.envs(environment.iter().copied()).output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_program_is_linked_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = xsched_cuda_emulated::place(folder.path()).expect("the library");
    assert_eq!(library.file_name().expect("a name"), xsched_cuda_emulated::NAME);
    let program = folder.path().join("linked");
    compile("linked.c", &program, &["-L", folder.path().to_str().expect("text"), "-lcuda"]);
    assert_eq!(run(&program, &[("LD_LIBRARY_PATH", folder.path())]), EXPECTED);
}

#[test]
fn a_program_loads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = xsched_cuda_emulated::place(folder.path()).expect("the library");
    let (program, interposer) = (folder.path().join("loaded"), folder.path().join("interposer"));
    compile("loaded.c", &program, &["-ldl"]);
    let found = [("LD_LIBRARY_PATH", folder.path())];
    assert_eq!(run(&program, &found), "init 0\ncount 0 1\n");
    // An interposer of the same name comes first, and finds the driver's own functions.
    let named = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-ldl"];
    compile("interposer.c", &interposer, &named);
    let preloaded = [("LD_PRELOAD", interposer.as_path()), ("DRIVER", library.as_path())];
    assert_eq!(run(&program, &preloaded), "interposed\ninit 0\ncount 0 1\n");
}
