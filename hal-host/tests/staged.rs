//! The suite on the host device with its steps put off until a commit: as a backend that can hold
//! several queues with one preemption.

mod host;

use host::Host;
use xsched_conformance::checks;
use xsched_conformance::staged::Staged;

fn main() {
    let host = |compute_units| Staged(Host { compute_units, interruptible: true });
    xsched_conformance::main([
        ("host-staged", checks(), host(1)),
        ("host-staged-two-units", checks(), host(2)),
    ]);
}
