//! Rights of a process: what it asked for, what users have set, and its tenant's limits.

use std::time::{SystemTime, UNIX_EPOCH};

use xsched_core::hint::{Hints, Priority};
use xsched_core::time::Instant;
use xsched_node::Changed;

use crate::tenant::Party;

/// Pages that a process may have for one GPU: gates for some 4,000 streams.
const PAGES_MAX: usize = 64;
/// The highest priority in the lower class: that of `--class batch`.
const LOWERED: Priority = match Priority::new(-100) {
    Ok(priority) => priority,
    Err(_) => Priority::MIN,
};

/// User who changed something, and when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChangedBy {
    pub(crate) uid: u32,
    pub(crate) at_unix_ms: u64,
}

impl ChangedBy {
    /// A user, now.
    pub(crate) fn now(uid: u32) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { uid, at_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Entry of a status: `what` is `live` by this change, and `file` without it.
    pub(crate) fn changed(
        self,
        what: &str,
        pid: Option<i32>,
        file: String,
        live: String,
    ) -> Changed {
        let Self { uid, at_unix_ms } = self;
        Changed { what: what.to_owned(), pid, file, live, uid, at_unix_ms }
    }
}

/// Change of a process by a user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) priority: Option<Priority>,
    pub(crate) share: Option<u8>,
    pub(crate) active: Option<bool>,
    pub(crate) hold: Option<bool>,
    /// Earlier changes, but for holds, do not count any more.
    pub(crate) is_reset: bool,
    pub(crate) by: ChangedBy,
}

impl Change {
    pub(crate) fn of_hold(hold: bool, by: ChangedBy) -> Self {
        Self { hold: Some(hold), by, ..Self::default() }
    }
}

/// Settings of a process that users have changed.
#[derive(Clone, Copy, Debug, Default)]
struct UserChanges {
    priority: Option<(Priority, ChangedBy)>,
    share: Option<(u8, ChangedBy)>,
    active: Option<(bool, ChangedBy)>,
    hold: ChangedBy,
}

/// Rights of a process.
#[derive(Debug)]
pub(crate) struct Rights {
    pub(crate) party: Party,
    /// Hints that it asked for.
    pub(super) asked: Hints,
    changes: UserChanges,
    /// Until then it has a lower class, since it uses more than it reports.
    pub(super) lowered_until: Option<Instant>,
}

impl Rights {
    pub(crate) fn new(party: Party, asked: Hints) -> Self {
        Self { party, asked, changes: UserChanges::default(), lowered_until: None }
    }

    /// Returns whether the process has a lower class, since it uses more than it reports.
    pub(crate) const fn is_lowered(&self) -> bool {
        self.lowered_until.is_some()
    }

    /// The hints, in a lower class if the process has one.
    fn lowered(&self, mut hints: Hints) -> Hints {
        if self.is_lowered() {
            hints.priority = hints.priority.min(LOWERED);
        }
        hints
    }

    /// Returns the hints of the process: those that a user has set, or else what it asked for, and
    /// never above its tenant's limits.
    pub(crate) fn hints(&self) -> Hints {
        let mut hints = self.party.tenant.granted(self.asked);
        let UserChanges { priority, share, active, .. } = self.changes;
        hints.priority = priority.map_or(hints.priority, |(priority, _)| priority);
        hints.utilization = share.map(|(share, _)| share).or(hints.utilization);
        hints.active_window = active.map_or(hints.active_window, |(active, _)| active);
        self.lowered(self.party.tenant.capped(hints))
    }

    pub(crate) fn pages_max(&self) -> usize {
        self.party.tenant.pages_max(PAGES_MAX)
    }

    /// Makes a change, but for its effect on gates and the scheduler.
    pub(super) fn apply(&mut self, change: &Change) {
        let changes = &mut self.changes;
        if change.is_reset {
            (changes.priority, changes.share, changes.active) = (None, None, None);
        }
        let by = change.by;
        changes.priority = change.priority.map(|priority| (priority, by)).or(changes.priority);
        changes.share = change.share.map(|share| (share, by)).or(changes.share);
        changes.active = change.active.map(|active| (active, by)).or(changes.active);
        if change.hold.is_some() {
            changes.hold = by;
        }
    }

    /// Entries of a status for what a user has changed of a process, and of its hold.
    pub(super) fn changed(&self, pid: i32, is_suspended: bool) -> Vec<Changed> {
        let without = self.lowered(self.party.tenant.granted(self.asked));
        let hints = self.hints();
        let mut changed = Vec::new();
        let mut compare = |by: Option<ChangedBy>, what: &str, file: String, live: String| {
            if let Some(by) = by.filter(|_| file != live) {
                changed.push(by.changed(what, Some(pid), file, live));
            }
        };
        let share = |hints: Hints| hints.utilization.map_or("none".to_owned(), |s| s.to_string());
        let priority = |hints: Hints| hints.priority.get().to_string();
        let active = |hints: Hints| hints.active_window.to_string();
        let by = self.changes;
        compare(by.priority.map(|of| of.1), "priority", priority(without), priority(hints));
        compare(by.share.map(|of| of.1), "share", share(without), share(hints));
        compare(by.active.map(|of| of.1), "active", active(without), active(hints));
        compare(Some(by.hold), "hold", "false".to_owned(), is_suspended.to_string());
        changed
    }
}
