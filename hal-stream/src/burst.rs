//! Bursts of the launching half: what threads launch behind a command, and how far gates are apart.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use xsched_core::hal::{LaunchMode, Submit};
use xsched_hal_process::burst::BurstUse;

use crate::api::StreamApi;
use crate::device_time::Work;
use crate::error::StreamError;
use crate::events::Events;
use crate::growing_ring::RingWriter;
use crate::queue::{Batch, Fence, Queue};
use crate::spacing::{Placement, rare_spacing_ns};
use crate::submit::StreamSubmit;

impl<A: StreamApi> StreamSubmit<A> {
    /// The half of a queue that was just opened.
    pub(crate) fn new(
        queue: Arc<Queue<A>>,
        fences: RingWriter<Fence<A::Event>>,
        events: Events<A>,
    ) -> Self {
        Self {
            queue,
            fences,
            events,
            placement: Placement::default(),
            behind: None,
            batch: Batch::default(),
            end: None,
            since_event_ns: None,
            since_lone_sample: 0,
            busy_until: None,
            stream_drained: false,
            begun: None,
            mode: LaunchMode::Attended,
            is_drained: false,
            holds_ended: 0,
            held_at: Instant::now(),
            spacing_ns: 0,
            entries_fenced: 0,
            in_burst_since: None,
            is_sealed: false,
        }
    }

    /// Lets threads launch behind the last command by themselves, up to the next gate, if no
    /// scheduler has a use for when they do.
    pub(crate) fn open_burst(&mut self) {
        let queue = &self.queue;
        let is_used = queue.burst.is_shared() && queue.is_in_unit();
        // Also without work left: a program that waits for the stream has all of it again.
        let may_be = self.mode == LaunchMode::Unattended && is_used && !self.is_held();
        let left_ns = self.placement.left_ns(self.spacing_ns);
        // A quarter, after which the next command puts a fence.
        let launches = queue.entries_left().min(queue.entries_in_unit() / 4);
        let launches = u16::try_from(launches).unwrap_or(u16::MAX);
        if may_be && launches > 0 {
            let [left_ns, spacing_ns] =
                [left_ns, self.spacing_ns].map(|ns| u32::try_from(ns).unwrap_or(u32::MAX));
            queue.burst.open(launches, left_ns, spacing_ns);
            self.in_burst_since = Some(Instant::now());
        }
    }

    /// Ends a burst and counts what was launched in it with the last command, of which it is part
    /// from then on.
    pub(crate) fn close_burst(&mut self, at_most: Duration) -> Result<(), StreamError<A::Error>> {
        if self.in_burst_since.is_none() {
            return Ok(());
        }
        let used = self.queue.burst.close(at_most).ok_or(StreamError::InBurst)?;
        self.in_burst_since = None;
        let BurstUse { launches, predicted_ns, is_drained, has_pauses } = used;
        self.is_drained = is_drained;
        let expected_ns = Some(predicted_ns);
        let work = Work { commands: launches, expected_ns, has_pauses, ..Work::default() };
        self.batch.work.add(&work);
        self.placement.add_ns(predicted_ns);
        self.since_lone_sample = self.since_lone_sample.saturating_add(launches);
        self.busy_until = self.busy_until.map(|end| end + Duration::from_nanos(predicted_ns));
        self.queue.note_entries(launches.into());
        if let Some(word) = self.queue.word {
            word.count_unseen(launches.into());
        }
        Ok(())
    }

    /// Predicted work between gates now, in nanoseconds: where the environment does not say it, the
    /// longer ago the last hold of the process by others is, the more.
    pub(crate) fn note_holds(&mut self, now: Instant, is_held: bool) -> u64 {
        let queue = &self.queue;
        let spacing_ns = queue.spacing.ns();
        let Some(ended) = queue.word.and_then(|word| word.holds_ended()) else { return spacing_ns };
        if is_held || std::mem::replace(&mut self.holds_ended, ended) != ended {
            self.held_at = now;
        }
        // This process's scheduler holds it as well.
        self.held_at = self.held_at.max(queue.member.gate.opened_at().unwrap_or(self.held_at));
        let rare_ns = rare_spacing_ns(spacing_ns, now.saturating_duration_since(self.held_at));
        let spacing_ns = if queue.spacing.widens() { rare_ns } else { spacing_ns };
        queue.gates_apart_ns.store(spacing_ns, Ordering::Relaxed);
        spacing_ns
    }

    /// Tells whether what was launched since the last fence takes a quarter of the entries that the
    /// stream may use: room for more is seen by fences alone.
    pub(crate) fn fills_stream(&self) -> bool {
        let queue = &self.queue;
        let since = queue.entries.load(Ordering::Relaxed).saturating_sub(self.entries_fenced);
        queue.is_in_unit() && since >= u64::from(queue.entries_in_unit() / 4)
    }
}
