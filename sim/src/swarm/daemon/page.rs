//! Memory that a process shares with the daemon: gates, and whether the process has work.

/// A page. Its gates are one here, since they close and open together.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) process: usize,
    pub(super) device: usize,
    /// Queues of the process that have work on the device. Counted in the first page of a unit.
    pub(super) load: u32,
    /// The daemon wants to be woken when that leaves or reaches zero.
    pub(super) wanted: bool,
    /// Device time that the process has used.
    pub(super) used_ns: u64,
    /// Commands of the process that have ended.
    pub(super) ended: u64,
    /// The daemon's bit in the words of the gates.
    pub(super) closed: bool,
    /// Changes when a daemon closes the gates or renews its lease, and when that was.
    pub(super) beat: u32,
    pub(super) beat_ns: u64,
    /// Since when the gates are closed, if they are.
    pub(super) closed_since_ns: u64,
    /// Since when the process uses it, and watches it.
    pub(super) since_ns: u64,
}

impl Page {
    /// For the process: a queue got work, or has none any more. True if the daemon is to be woken.
    pub(super) const fn note(&mut self, busy: bool) -> bool {
        let before = self.load;
        self.load = if busy { before + 1 } else { before.saturating_sub(1) };
        before == !busy as u32 && self.wanted
    }

    /// For the daemon: closes the gates.
    pub(super) const fn close(&mut self, now_ns: u64) {
        self.beat = self.beat.wrapping_add(1);
        self.beat_ns = now_ns;
        if !std::mem::replace(&mut self.closed, true) {
            self.closed_since_ns = now_ns;
        }
    }
}

/// State that the watch of a process's gates keeps from one look to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    /// Closed pages, with the last beat of each and when that was first seen.
    seen: Vec<(usize, u32, u64)>,
    /// Pages whose holds it is about to end.
    pub(super) overdue: Vec<usize>,
}

impl Watch {
    /// Looks at the pages of a process. Those whose holder was silent for longer than the lease are
    /// overdue. True if any is closed.
    pub(super) fn look(
        &mut self,
        own: &[usize],
        pages: &[Page],
        now_ns: u64,
        lease_ns: u64,
    ) -> bool {
        let before = std::mem::take(&mut self.seen);
        for &page in own.iter().filter(|page| pages[**page].closed) {
            let beat = pages[page].beat;
            let known = before.iter().find(|(other, last, _)| (*other, *last) == (page, beat));
            let since_ns = known.map_or(now_ns, |(.., since_ns)| *since_ns);
            if now_ns - since_ns > lease_ns {
                self.overdue.push(page);
            } else {
                self.seen.push((page, beat, since_ns));
            }
        }
        !self.seen.is_empty() || !self.overdue.is_empty()
    }
}
