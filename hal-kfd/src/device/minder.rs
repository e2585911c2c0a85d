//! The thread that looks after suspended queues.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::Lifted;
use super::holds::{Bell, Holds};

/// Between two looks while a queue is suspended. Two calls of HIP's can be seen to be blocked that
/// far apart.
const PERIOD: Duration = Duration::from_micros(650);
/// Between two looks at a blocked launch.
const GLANCE: Duration = Duration::from_micros(50);
/// With nothing suspended, it looks this often whether it is still needed.
const REST: Duration = Duration::from_millis(500);
/// Others' updates are looked for once in so many looks: each asks the driver for each queue.
const REASSERTS: u32 = 16;

/// Starts the thread, which ends with the device.
pub(super) fn start(
    holds: &Arc<Holds>,
    lifted: Option<Lifted>,
    patience: Duration,
) -> std::io::Result<()> {
    let (weak, bell) = (Arc::downgrade(holds), Arc::clone(holds.bell()));
    let lifted = lifted.unwrap_or_else(|| Box::new(|| false));
    let run = move || mind(&weak, &bell, &*lifted, patience);
    thread::Builder::new().name("xsched-kfd".to_owned()).spawn(run).map(drop)
}

fn mind(holds: &Weak<Holds>, bell: &Bell, lifted: &dyn Fn() -> bool, patience: Duration) {
    let mut look = Look::default();
    let mut looks = 0_u32;
    while holds.strong_count() > 0 {
        if !bell.wait(REST) {
            look = Look::default();
            continue;
        }
        thread::sleep(PERIOD.min(patience.max(GLANCE)));
        let Some(holds) = holds.upgrade() else { return };
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(REASSERTS) {
            holds.reassert();
        }
        let blocked = look.blocked(&holds, Instant::now(), patience);
        if !blocked && !lifted() {
            continue;
        }
        if blocked {
            tracing::warn!(
                "a launch did not come back while queues were suspended, so they were let go for \
                 as long as it takes; it may have loaded a kernel or waited for memory"
            );
        }
        holds.lift(true);
        while look.still_blocked(&holds) || lifted() {
            thread::sleep(GLANCE);
        }
        holds.lift(false);
    }
}

/// Launches that were under way at the last look, each since when.
#[derive(Debug, Default)]
struct Look {
    inside: Vec<(u64, u64, Instant)>,
    blocked: Vec<(u64, u64)>,
}

impl Look {
    /// Whether a launch has been under way for too long.
    fn blocked(&mut self, holds: &Holds, now: Instant, patience: Duration) -> bool {
        let before = std::mem::take(&mut self.inside);
        self.blocked.clear();
        for slot in holds.slots() {
            let Some(count) = slot.inside() else { continue };
            let known = before.iter().find(|(k, c, _)| (*k, *c) == (slot.key(), count));
            let since = known.map_or(now, |(_, _, since)| *since);
            if now.saturating_duration_since(since) >= patience {
                self.blocked.push((slot.key(), count));
            }
            self.inside.push((slot.key(), count, since));
        }
        !self.blocked.is_empty()
    }

    /// Whether one of them still is.
    fn still_blocked(&self, holds: &Holds) -> bool {
        let slots = holds.slots();
        let is_inside = |(key, count): &(u64, u64)| {
            slots.iter().any(|slot| slot.key() == *key && slot.inside() == Some(*count))
        };
        self.blocked.iter().any(is_inside)
    }
}
