//! Programs that get the emulated driver by its name: linked with it, and by `dlopen`.

use std::path::Path;
use std::process::Command;

/// What the program in C prints.
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

fn run(program: &Path, folder: &Path) -> String {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder).env("XSCHED_EMULATED_CUDA_VERSION", "12080");
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_program_is_linked_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = xsched_cuda_emulated::place(folder.path()).expect("the library");
    assert_eq!(library.file_name().expect("a name"), xsched_cuda_emulated::NAME);
    let program = folder.path().join("linked");
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Werror", "-o"]).arg(&program).arg("-L").arg(folder.path());
    compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/linked.c")).arg("-lcuda");
    assert!(compile.status().expect("a C compiler").success());
    assert_eq!(run(&program, folder.path()), EXPECTED);
}
