//! The suite on the model device with its steps put off until a commit.

mod common;

use common::Model;
use xsched_conformance::checks;
use xsched_conformance::staged::Staged;
use xsched_core::level::{Level, Recovery};

fn main() {
    let model = Model::default();
    let lower = Model { level: Level::Deactivate, ..model };
    xsched_conformance::main([
        ("lv3-staged", checks(), Staged(model)),
        ("lv3-staged-late", checks(), Staged(Model { later: true, units: 2, ..model })),
        ("lv3-staged-replay", checks(), Staged(Model { recovery: Recovery::Replay, ..model })),
        ("lv2-staged", checks(), Staged(lower)),
    ]);
}
