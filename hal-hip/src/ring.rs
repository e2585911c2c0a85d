//! The hardware ring that a stream is in.
//!
//! HIP has no call that answers this, and what it does has changed from version to version: rings
//! are shared by streams of a priority, or exchanged between commands. But what is launched is
//! written into the stream's ring, and the number of packets that were written is in the memory of
//! the process. The library that watches calls to the driver, preloaded by itself or as part of the
//! interposer, knows where: so a launch shows the ring.

use std::collections::BTreeSet;
use std::mem::transmute;
use std::ptr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::loaded;

/// `xsched_kfd_watch_written_v1`: for each ring its number, the driver's id of it, and the packets
/// that were written; at most `most`. Answers how many rings there are.
type Written = unsafe extern "C" fn(*mut [u64; 3], usize) -> usize;

/// A launch is written to a ring within this time. Without direct dispatch a thread of the
/// runtime's does it.
const PATIENCE: Duration = Duration::from_millis(20);
/// Launches that have to agree. Other threads may launch at the same time.
const AGREEING: usize = 3;
/// Launches at most.
const LAUNCHES_MAX: usize = 12;

/// The runtime's own variable that has streams change their rings between commands.
const EXCHANGES: &str = "DEBUG_HIP_DYNAMIC_QUEUES";
/// From this version on the runtime may do so unless the variable says otherwise.
const MAY_EXCHANGE: u32 = 70_300_000;

/// Tells whether streams change their rings between commands, in a runtime of this version.
pub(crate) fn exchanges_rings(version: u32) -> bool {
    exchanges(std::env::var(EXCHANGES).ok().as_deref(), version)
}

fn exchanges(value: Option<&str>, version: u32) -> bool {
    let says = |text: &str| !matches!(text.trim(), "0" | "false");
    value.map_or(version >= MAY_EXCHANGE, says)
}

/// A hardware ring, which is a queue of AMD's kernel driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HipRing {
    /// The how manyth queue it is that the process has made. No other one has the same.
    pub number: u64,
    /// The driver's id of it, which may be another queue's later.
    pub id: u32,
}

/// A ring, and the packets that were written into it.
type Row = (HipRing, u64);

fn rows() -> Option<Vec<Row>> {
    static WRITTEN: LazyLock<Option<Written>> = LazyLock::new(|| {
        let found = loaded::symbol(c"xsched_kfd_watch_written_v1", ptr::null())?;
        // SAFETY: only that library has a function of this name, and in this version it has this
        // type.
        Some(unsafe { transmute::<*mut std::ffi::c_void, Written>(found.address) })
    });
    let written = (*WRITTEN)?;
    let mut rows = vec![[0; 3]; 64];
    loop {
        // SAFETY: there is room for as many rows.
        let count = unsafe { written(rows.as_mut_ptr(), rows.len()) };
        if count <= rows.len() {
            rows.truncate(count);
            break;
        }
        rows.resize(count, [0; 3]);
    }
    let row = |[number, id, packets]: &[u64; 3]| {
        (HipRing { number: *number, id: u32::try_from(*id).unwrap_or(u32::MAX) }, *packets)
    };
    Some(rows.iter().map(row).collect())
}

/// The ring that `launch` writes into; `None` if nothing watches, the launches do not agree, or one
/// fails.
pub(crate) fn ring_of(launch: impl FnMut() -> bool) -> Option<HipRing> {
    found(rows, launch)
}

fn found(
    mut rows: impl FnMut() -> Option<Vec<Row>>,
    mut launch: impl FnMut() -> bool,
) -> Option<HipRing> {
    let mut agreeing: Option<BTreeSet<HipRing>> = None;
    for launches in 1..=LAUNCHES_MAX {
        let before = rows()?;
        if !launch() {
            return None;
        }
        if before.is_empty() && rows()?.is_empty() {
            // Rings are not queues of the driver that is watched.
            return None;
        }
        let written = written_since(&before, &mut rows)?;
        let all = agreeing.map_or(written.clone(), |agreeing| &agreeing & &written);
        if launches >= AGREEING && all.len() <= 1 {
            return all.first().copied();
        }
        agreeing = Some(all);
    }
    None
}

/// The rings that were written to.
fn written_since(
    before: &[Row],
    mut rows: impl FnMut() -> Option<Vec<Row>>,
) -> Option<BTreeSet<HipRing>> {
    let since = Instant::now();
    loop {
        let now = rows()?;
        let is_new = |row: &&Row| row.1 > 0 && !before.contains(row);
        let written: BTreeSet<_> = now.iter().filter(is_new).map(|(ring, _)| *ring).collect();
        if !written.is_empty() || since.elapsed() >= PATIENCE {
            return Some(written);
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const fn ring(number: u64) -> HipRing {
        HipRing { number, id: 7 }
    }

    /// Where launches are written to, one after the other, of which these are ours.
    fn find(launches: &[&[usize]]) -> Option<HipRing> {
        let rings = RefCell::new(vec![(ring(1), 5_u64), (ring(2), 0), (ring(3), 9)]);
        let mut next = launches.iter();
        let launch = || {
            for at in *next.next().unwrap_or(&launches[launches.len() - 1]) {
                rings.borrow_mut()[*at].1 += 1;
            }
            true
        };
        found(|| Some(rings.borrow().clone()), launch)
    }

    #[test]
    fn a_launch_shows_its_ring() {
        assert_eq!(find(&[&[1]]), Some(ring(2)));
        // Other threads launch, but not each time.
        assert_eq!(find(&[&[1, 0], &[1], &[1, 2]]), Some(ring(2)));
        assert_eq!(find(&[&[1, 0], &[1, 0], &[1, 0], &[1, 0], &[1]]), Some(ring(2)));
    }

    #[test]
    fn launches_that_do_not_agree_show_none() {
        assert_eq!(find(&[&[0, 2]]), None, "always two");
        assert_eq!(find(&[&[0], &[2], &[1]]), None, "a ring for each");
        assert_eq!(find(&[&[]]), None, "none");
    }

    #[test]
    fn rings_are_exchanged_as_the_variable_says_or_the_version() {
        assert!(!exchanges(None, 70_253_211) && exchanges(None, 71_500_000));
        assert!(exchanges(Some("2"), 60_443_484) && !exchanges(Some(" 0"), 71_500_000));
    }

    #[test]
    fn a_launch_that_fails_shows_none() {
        assert_eq!(found(|| Some(Vec::new()), || false), None);
        assert_eq!(found(|| None, || true), None, "nothing watches");
    }
}
