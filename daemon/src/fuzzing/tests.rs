//! The bodies under random bytes. `testkit/mutants/daemon.toml` has defects that they notice.

use super::{pages, socket};
use xsched_core::rng::SplitMix64;

fn inputs(count: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|seed| {
        let mut rng = SplitMix64::new(seed);
        (0..rng.below(900)).map(|_| rng.next_u64() as u8).collect()
    })
}

#[test]
fn what_others_send_does_no_harm() {
    inputs(150).for_each(|bytes| socket(&bytes));
}

#[test]
fn what_others_write_into_their_pages_does_no_harm() {
    inputs(300).for_each(|bytes| pages(&bytes));
}
