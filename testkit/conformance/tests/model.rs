//! The suite on the model device, in all that it can be.

mod common;

use common::Model;
use xsched_conformance::checks;
use xsched_core::level::{Level, Recovery};

fn main() {
    let model = Model::default();
    let replay = Recovery::Replay;
    xsched_conformance::main([
        ("lv3", checks(), model),
        ("lv3-late", checks(), Model { later: true, lost_on_failure: true, ..model }),
        ("lv3-replay", checks(), Model { recovery: replay, ..model }),
        ("lv3-unstoppable", checks(), Model { stops: false, units: 2, ..model }),
        ("lv2", checks(), Model { level: Level::Deactivate, ..model }),
        ("lv2-replay", checks(), Model { level: Level::Deactivate, recovery: replay, ..model }),
        ("lv1", checks(), Model { level: Level::Block, units: 2, ..model }),
    ]);
}
