//! Other interposers that are preloaded, before and behind this one, on the emulated driver.

mod common;

use std::env;
use std::fs;
use std::path::PathBuf;

use serde_json::json;

use common::emulated::{counts, scheduled};
use common::{compile, interposer};

/// Runs a program of 200 launches with another interposer that replaces `dlsym`, and answers how
/// many of them that has seen.
fn seen(is_first: bool, level: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (hook, file) = (folder.path().join("hook.so"), folder.path().join("seen"));
    compile("hook.c", &hook, &["-shared", "-fPIC", "-ldl"]);
    let mut both: Vec<PathBuf> = vec![interposer(), hook];
    if is_first {
        both.reverse();
    }
    let mut command = scheduled("schedule", "streams");
    command.env("LD_PRELOAD", env::join_paths(both).expect("paths without colons"));
    command.env("HOOK_SEEN", &file).env("XSCHED_AUTO_XQUEUE_UNIT", "streams");
    let counts = counts("streams", command.env("XSCHED_AUTO_XQUEUE_LEVEL", level));
    assert_eq!(counts["launches"]["cuLaunchKernel"], json!(200), "{counts:#}");
    assert_eq!(counts["scheduled"], counts["launches"], "{counts:#}");
    fs::read_to_string(file).expect("a number")
}

#[test]
fn an_interposer_that_replaces_dlsym_sees_each_launch_once() {
    for is_first in [true, false] {
        for level in ["1", "2"] {
            assert_eq!(seen(is_first, level), "200", "first: {is_first}, level {level}");
        }
    }
}
