//! The watchdog thread of a device with suspended queues.
//!
//! It resumes all queues while a launch is blocked or the device below has opened its gates, and
//! suspends again the queues that their owner has made active. It also looks for what ends all
//! suspensions.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::GatesOpen;
use super::holds::{HeldFlag, Holds};

/// Between two checks while a queue is suspended. A blocked call of HIP's is seen at two checks.
const PERIOD: Duration = Duration::from_micros(650);
/// Between two checks of a blocked launch.
const BLOCKED_PERIOD: Duration = Duration::from_micros(50);
/// Between two checks whether the device still exists, while no queue is suspended.
const IDLE_PERIOD: Duration = Duration::from_millis(500);
/// Number of checks among which one also looks for the owner's updates, and for what ends all
/// suspensions: the former asks the driver about each queue.
const REASSERT_EVERY: u32 = 16;

/// Starts the thread, which ends with the device.
pub(super) fn start(
    holds: &Arc<Holds>,
    gates_open: Option<GatesOpen>,
    patience: Duration,
) -> std::io::Result<()> {
    let (weak, held_flag) = (Arc::downgrade(holds), Arc::clone(holds.held_flag()));
    let gates_open = gates_open.unwrap_or_else(|| Box::new(|| false));
    let run = move || watch(&weak, &held_flag, &*gates_open, patience);
    thread::Builder::new().name("xsched-kfd".to_owned()).spawn(run).map(drop)
}

fn watch(
    holds: &Weak<Holds>,
    held_flag: &HeldFlag,
    gates_open: &dyn Fn() -> bool,
    patience: Duration,
) {
    let mut launches = LaunchWatch::default();
    let mut checks = 0_u32;
    while holds.strong_count() > 0 {
        if !held_flag.wait(IDLE_PERIOD) {
            launches = LaunchWatch::default();
            continue;
        }
        thread::sleep(PERIOD.min(patience.max(BLOCKED_PERIOD)));
        let Some(holds) = holds.upgrade() else { return };
        checks = checks.wrapping_add(1);
        holds.follow();
        if checks.is_multiple_of(REASSERT_EVERY) {
            holds.look();
            holds.reassert();
        }
        let blocked = launches.blocked(&holds, Instant::now(), patience);
        if !blocked && !gates_open() {
            continue;
        }
        if blocked {
            tracing::warn!(
                "a launch did not return while queues were suspended, so all queues were resumed \
                 until it returns; it may have loaded a kernel or waited for memory"
            );
        }
        holds.set_released(true);
        while launches.still_blocked(&holds) || gates_open() {
            thread::sleep(BLOCKED_PERIOD);
        }
        holds.set_released(false);
    }
}

/// Launches that were under way at the last check.
#[derive(Debug, Default)]
struct LaunchWatch {
    /// Each launch by its queue's key and its number, with the time of the first check that saw it.
    under_way: Vec<(u64, u64, Instant)>,
    /// Launches that took too long.
    blocked: Vec<(u64, u64)>,
}

impl LaunchWatch {
    /// True if a launch has been under way for too long.
    fn blocked(&mut self, holds: &Holds, now: Instant, patience: Duration) -> bool {
        let before = std::mem::take(&mut self.under_way);
        self.blocked.clear();
        for slot in holds.slots() {
            let Some(count) = slot.launch_under_way() else { continue };
            let known = before.iter().find(|(k, c, _)| (*k, *c) == (slot.key(), count));
            let since = known.map_or(now, |(_, _, since)| *since);
            if now.saturating_duration_since(since) >= patience {
                self.blocked.push((slot.key(), count));
            }
            self.under_way.push((slot.key(), count, since));
        }
        !self.blocked.is_empty()
    }

    /// True if a launch that [`LaunchWatch::blocked`] found has not returned yet.
    fn still_blocked(&self, holds: &Holds) -> bool {
        let slots = holds.slots();
        let is_inside = |(key, count): &(u64, u64)| {
            slots.iter().any(|slot| slot.key() == *key && slot.launch_under_way() == Some(*count))
        };
        self.blocked.iter().any(is_inside)
    }
}
