//! Gates inside the graphs of programs in C, on the emulated driver.

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use common::{beside, compile, says, with_interposer};

struct Built {
    folder: TempDir,
    driver: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        compile("graphs.c", &folder.path().join("graphs"), &["-ldl", "-pthread"]);
        let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
        Built { folder, driver }
    })
}

/// The program in this mode, with XQueues of level 2.
fn program(mode: &str) -> Command {
    let built = built();
    let mut command = with_interposer(built.folder.path().join("graphs"));
    command.arg(mode).env("XSCHED_CUDA_DRIVER", &built.driver).env("XSCHED_AUTO_XQUEUE", "ON");
    command.env("XSCHED_AUTO_XQUEUE_LEVEL", "2").env("XSCHED_AUTO_XQUEUE_UNIT", "streams");
    command.env("PREEMPT", beside("libpreempt.so"));
    command
}

/// Runs it, and checks that it gets to its end and finds nothing wrong.
fn check(command: &mut Command) {
    let output = says(command);
    let text = String::from_utf8_lossy(&output.stdout);
    let mode = command.get_args().next().and_then(|mode| mode.to_str());
    assert_eq!(text.lines().last(), mode, "{output:?}");
}

#[test]
fn a_hold_stops_a_graph() {
    check(&mut program("held"));
}

#[test]
fn holds_at_any_time_stop_a_graph() {
    check(&mut program("holds"));
}

#[test]
fn an_urgent_stream_waits_for_a_part_of_a_graph() {
    // Without the variable of the unit, as the priorities tell the streams apart.
    let mut command = program("urgent");
    check(command.env("XSCHED_POLICY", "hpf").env_remove("XSCHED_AUTO_XQUEUE_UNIT"));
}

#[test]
fn an_urgent_stream_may_wait_for_a_graph_of_another() {
    let mut command = program("awaited");
    check(command.env("XSCHED_POLICY", "hpf").env_remove("XSCHED_AUTO_XQUEUE_UNIT"));
}

#[test]
fn an_urgent_stream_may_wait_for_kernels_of_another() {
    let mut command = program("awaited-kernels");
    check(command.env("XSCHED_POLICY", "hpf").env_remove("XSCHED_AUTO_XQUEUE_UNIT"));
}

#[test]
fn a_graph_whose_executable_changes_is_left_as_it_is() {
    check(&mut program("changed"));
    check(&mut program("disabled"));
}

#[test]
fn an_executable_may_end_while_it_is_held() {
    check(&mut program("ended"));
}

#[test]
fn launches_in_several_streams_stay_one_behind_the_other() {
    check(&mut program("elsewhere"));
    check(&mut program("past"));
    check(&mut program("order"));
}

#[test]
fn launches_in_streams_of_several_priorities_stay_one_behind_the_other() {
    let mut command = program("priorities");
    check(command.env("XSCHED_POLICY", "hpf").env_remove("XSCHED_AUTO_XQUEUE_UNIT"));
}

#[test]
fn a_graph_outlives_its_stream_and_goes_with_its_device() {
    check(&mut program("orphan"));
    check(&mut program("reset"));
}

#[test]
fn graphs_that_cannot_have_gates_are_left_as_they_are() {
    check(program("left").env("XSCHED_GATE_SPACING_US", "6000"));
}

#[test]
fn nothing_is_copied_where_there_are_no_gates() {
    check(program("plain").env("XSCHED_AUTO_XQUEUE_LEVEL", "1"));
    check(program("plain").env("XSCHED_AUTO_XQUEUE_GRAPHS", "OFF"));
    check(program("plain").env("XSCHED_AUTO_XQUEUE", "OFF"));
    // While nothing tells the streams apart, a graph is copied and stays as it is.
    check(program("plain").env_remove("XSCHED_AUTO_XQUEUE_UNIT").env("COPIES", "1"));
    // And while the policy holds none of them.
    for policy in ["fcfs", "kedf", "hpf"] {
        check(program("plain").env("XSCHED_POLICY", policy).env("COPIES", "1"));
    }
}

#[test]
fn a_graph_in_a_program_s_own_xqueue_has_gates_whatever_the_environment_says() {
    for auto in ["OFF", "ON"] {
        check(program("own").env("XSCHED_AUTO_XQUEUE", auto));
    }
}

#[test]
fn nodes_of_other_kinds_are_nodes() {
    check(&mut program("nodes"));
}

#[test]
fn kernels_that_may_begin_before_others_end_have_gates() {
    check(&mut program("edges"));
}

#[test]
fn a_graph_that_is_captured_is_the_program_s() {
    check(&mut program("captured"));
}
