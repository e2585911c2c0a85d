//! The suite that every backend must pass, with commands that can be stopped and with ones that
//! cannot.

mod host;

use host::Host;
use xsched_conformance::checks;

fn main() {
    xsched_conformance::main([
        ("host", checks(), Host { compute_units: 1, interruptible: true }),
        ("host-two-units", checks(), Host { compute_units: 2, interruptible: true }),
        ("host-unstoppable", checks(), Host { compute_units: 1, interruptible: false }),
    ]);
}
