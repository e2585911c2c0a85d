//! The script of calls on the emulated driver, with real system calls, against the answers of the
//! real driver of Linux 6.12.117.

use std::fs::{File, read_to_string};
use std::process::Command;

use xsched_kfd_emulated::Config;
use xsched_kfd_emulated::answers::{compare, normalise};
use xsched_kfd_emulated::system::{Options, run};

#[test]
fn the_emulator_answers_as_the_real_driver_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("answers");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kfd-answers"));
    command.stdout(File::create(&file).expect("a file"));
    let options = Options { config: Config::without_gpu(), as_root: true, ..Options::default() };
    let report = run(&options, &mut command).expect("it runs");
    assert!(report.status.success(), "{}", report.status);
    assert_eq!(report.unmodelled, []);
    let table = include_str!("../tables/answers-6.12.txt");
    let found = normalise(&read_to_string(&file).expect("answers"));
    if let Err(differences) = compare(table, &found) {
        panic!("\n{differences}\n");
    }
}

#[test]
fn a_driver_of_another_version_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("answers");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kfd-answers"));
    command.stdout(File::create(&file).expect("a file"));
    let config = Config { minor: 12, ..Config::without_gpu() };
    run(&Options { config, as_root: true, ..Options::default() }, &mut command).expect("it runs");
    let found = normalise(&read_to_string(&file).expect("answers"));
    let table = include_str!("../tables/answers-6.12.txt");
    let told = compare(table, &found).expect_err("there is no DBG_TRAP");
    assert!(told.contains("DBG_TRAP"), "{told}");
}
