//! Launches under way, as whoever launches and the watch see them.

use std::sync::Arc;

use loom::sync::Mutex;

use super::harness::{explore, join, start};
use crate::watch::Entries;

/// A launch that has begun and not ended is seen, and no two are taken for one.
#[test]
fn a_launch_is_seen() {
    explore("watch::a_launch_is_seen", 8, || {
        let entries = Arc::new(Entries::new());
        // The launch that has certainly begun and not ended.
        let launch = Arc::new(Mutex::new(None));
        let launcher = {
            let (entries, launch) = (Arc::clone(&entries), Arc::clone(&launch));
            start(move || {
                for number in 0..2_u64 {
                    let inside = entries.enter();
                    *launch.lock().expect("nobody panics") = Some(number);
                    *launch.lock().expect("nobody panics") = None;
                    drop(inside);
                }
            })
        };
        let mut looks = Vec::new();
        for _ in 0..3 {
            let number = launch.lock().expect("nobody panics");
            let inside = entries.inside();
            if let Some(number) = *number {
                let inside = inside.expect("a launch under way is not seen");
                let alike = looks.iter().any(|(n, i)| *n != number && *i == inside);
                assert!(!alike, "two launches are taken for one");
                looks.push((number, inside));
            }
            drop(number);
        }
        join(launcher);
        assert_eq!(entries.inside(), None, "seen after it has ended");
    });
}
