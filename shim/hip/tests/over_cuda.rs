//! A program of HIP's, scheduled on HIP's interface over CUDA, here on the emulated driver of that.
//! Where there is a GPU, real programs run so.

mod common;

use std::fs;

use serde_json::{Value, json};

// They are built with these tests.
use xsched_hip_over_cuda as _;

use common::{beside, check, compile, names, with_interposer};

#[test]
fn a_program_is_scheduled() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, kernels) = (folder.path().join("schedule"), folder.path().join("kernels.ptx"));
    names(&folder.path().join("names"));
    compile("schedule.c", &program, &["-ldl", "-pthread"]);
    fs::write(&kernels, ".version 7.0\n.target sm_70\n.visible .entry fill\n").expect("kernels");
    let driver = xsched_cuda_emulated::place(folder.path()).expect("the emulated driver");
    for mode in ["streams", "beside", "blocking"] {
        let counts = folder.path().join("counts.json");
        let mut command = with_interposer(&program, &folder.path().join("names"));
        command.arg(mode).env("XSCHED_AUTO_XQUEUE", "ON");
        command.env("XSCHED_AUTO_XQUEUE_UNIT", "streams").env("XSCHED_SHIM_COUNTS", &counts);
        command.env("XSCHED_HIP_RUNTIME", beside("libxsched_hip_over_cuda.so"));
        command.env("HIP_OVER_CUDA_KERNELS", &kernels);
        check(command.env("LD_LIBRARY_PATH", driver.parent().expect("a folder")), mode);
        let text = fs::read_to_string(counts).expect("counts");
        let counts: Value = serde_json::from_str(&text).expect("JSON");
        assert_ne!(counts["scheduled"]["hipLaunchKernel"], json!(null), "{mode}: {text}");
    }
}
