//! Launches under way, between the launching thread and the watch.

use std::sync::Arc;

use loom::sync::Mutex;

use super::harness::{explore, join, start};
use crate::launches::LaunchCounter;

/// The watch sees a launch that has begun and not ended, and tells two launches apart.
#[test]
fn a_launch_is_seen() {
    explore("launches::a_launch_is_seen", 8, || {
        let launches = Arc::new(LaunchCounter::new());
        // The launch that has certainly begun and not ended, if any.
        let launch = Arc::new(Mutex::new(None));
        let launcher = {
            let (launches, launch) = (Arc::clone(&launches), Arc::clone(&launch));
            start(move || {
                for number in 0..2_u64 {
                    let inside = launches.begin();
                    *launch.lock().expect("no thread panics") = Some(number);
                    *launch.lock().expect("no thread panics") = None;
                    drop(inside);
                }
            })
        };
        let mut looks = Vec::new();
        for _ in 0..3 {
            let number = launch.lock().expect("no thread panics");
            let inside = launches.under_way();
            if let Some(number) = *number {
                let inside = inside.expect("a launch under way is not seen");
                let alike = looks.iter().any(|(n, i)| *n != number && *i == inside);
                assert!(!alike, "two launches are taken for one");
                looks.push((number, inside));
            }
            drop(number);
        }
        join(launcher);
        assert_eq!(launches.under_way(), None, "seen after it has ended");
    });
}
