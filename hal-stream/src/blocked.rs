//! Launches that are under way for too long: blocked in the driver, or without a processor.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xsched_hal_process::calls::CallsView;

use crate::gated_stream::GatedStream;
use crate::launches::{Call, UnderWay};
use crate::sync::Word;
use crate::thread_state::{Reading, State, Threads};

/// Multiple of the span after which a launch whose thread waits for processors counts as blocked.
/// On a machine with three times as many busy threads as processors few waits take longer.
pub(crate) const STARVED_MAX: u32 = 100;
/// Time after which a copy beside one that is held counts as blocked by it. Before, it may just
/// have much to wait for in its own stream.
pub(crate) const COPY_MAX: Duration = Duration::from_millis(100);

/// Launches that the watch has seen under way.
#[derive(Debug, Default)]
pub(crate) struct LaunchWatch {
    inside: Vec<Sighting>,
    /// How many calls with all gates forced open had ended.
    ended: u64,
}

/// Looks in a row that find some call that may wait for the device, after which one counts as one
/// that does not return, though others do meanwhile. Not measured.
const LOOKS_WITH_CALLS: u32 = 4;

/// Calls that may wait for the device, as the watch has seen them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallsWatch {
    /// Looks in a row that have found some, and how many had ended at the last one.
    looks: u32,
    ended: u64,
}

impl CallsWatch {
    pub(crate) const fn new() -> Self {
        Self { looks: 0, ended: 0 }
    }

    /// Looks once more. Whether a call does not return: none has ended since the last look, or
    /// there were some at each of several looks. `waits`: the thread of the last one waits for a
    /// processor, which explains that for as long as a launch.
    pub(crate) fn do_not_return(&mut self, calls: CallsView, waits: impl FnOnce() -> bool) -> bool {
        let before = std::mem::replace(&mut self.ended, calls.ended);
        self.looks = match self.looks {
            _ if !calls.is_any => 0,
            1.. if before == calls.ended => self.looks.max(LOOKS_WITH_CALLS) + 1,
            looks => looks.saturating_add(1),
        };
        self.looks >= LOOKS_WITH_CALLS && (self.looks >= STARVED_MAX || !waits())
    }
}

/// A launch that was seen under way.
#[derive(Debug)]
struct Sighting {
    queue: usize,
    number: u64,
    /// When it was first seen.
    first: Instant,
    /// From when on its time counts, and for how long its thread had waited for processors then.
    since: Instant,
    waited_ns: Option<u64>,
    /// Set once the launch's thread was seen to wait for a processor.
    starved: bool,
}

/// A launch that has been under way for long.
#[derive(Debug)]
pub(crate) struct LongLaunch<W> {
    member: Arc<GatedStream<W>>,
    launch: UnderWay,
    span: Duration,
    state: Option<State>,
}

/// Launches that the watch finds.
#[derive(Debug)]
pub(crate) struct Found<W> {
    /// Launches that do not return.
    pub(crate) blocked: Vec<LongLaunch<W>>,
    /// Launches that would be blocked by their time, but whose threads are found for the first
    /// time to wait for a processor.
    pub(crate) starved: Vec<LongLaunch<W>>,
}

impl LaunchWatch {
    pub(crate) const fn new() -> Self {
        Self { inside: Vec::new(), ended: 0 }
    }

    /// The launches that have been under way for too long. A launch that was blocked by a call with
    /// all gates open returns a moment after that call, so time before the end of such a call does
    /// not count; nor does time for which the thread waits for a processor, up to a limit; nor time
    /// in which another process holds the queue apart from others: a copy that waits for its stream
    /// then waits for that, and keeps none of the others.
    pub(crate) fn at<W: Word>(
        &mut self,
        members: &[Arc<GatedStream<W>>],
        ended: u64,
        now: Instant,
        blocked_after: Duration,
        threads: &impl Threads,
    ) -> Found<W> {
        let mut before = std::mem::take(&mut self.inside);
        if std::mem::replace(&mut self.ended, ended) != ended {
            before.clear();
        }
        let mut found = Found { blocked: Vec::new(), starved: Vec::new() };
        for member in members {
            let Some(launch) = member.launches.under_way() else { continue };
            let queue = Arc::as_ptr(member) as usize;
            let known = before.iter().position(|s| (s.queue, s.number) == (queue, launch.number));
            let mut seen = match known {
                Some(place) => before.swap_remove(place),
                None => Sighting::new(queue, launch.number, now, threads.waited_ns(launch.thread)),
            };
            if member.gate.word().is_alone() && member.gate.foreign_heartbeat().is_some() {
                seen.since = now;
            } else if now.saturating_duration_since(seen.since) >= blocked_after {
                let reading = threads.look(launch.thread);
                let long = LongLaunch {
                    member: Arc::clone(member),
                    launch,
                    span: now.saturating_duration_since(seen.first),
                    state: reading.map(|reading| reading.state),
                };
                found.add(long, &mut seen, now, blocked_after, reading);
            }
            self.inside.push(seen);
        }
        found
    }
}

impl<W: Word> Found<W> {
    /// The calls for which all gates have to be opened. A copy of pageable memory waits for its
    /// stream, which may be held, or just have much to do; where that keeps others, their launches
    /// and the probe are blocked too. Copies alone may be kept by what a driver has for copies.
    pub(crate) fn stuck(mut self, members: &[Arc<GatedStream<W>>]) -> Vec<LongLaunch<W>> {
        if self.blocked.iter().any(|launch| !launch.copies()) {
            return self.blocked;
        }
        let is_held = |member: &GatedStream<W>| {
            member.gate.is_closed() || member.gate.foreign_heartbeat().is_some()
        };
        let copies = |member: &GatedStream<W>| {
            member.launches.under_way().is_some_and(|launch| launch.call == Call::Copy)
        };
        let keeps = members.iter().any(|member| copies(member) && is_held(member));
        let waits = |copy: &LongLaunch<W>| copy.span >= COPY_MAX && !is_held(&copy.member);
        self.blocked.retain(|copy| keeps && waits(copy));
        self.blocked
    }

    /// Adds a launch whose time is over, if there is something to say of it.
    fn add(
        &mut self,
        launch: LongLaunch<W>,
        seen: &mut Sighting,
        now: Instant,
        blocked_after: Duration,
        reading: Option<Reading>,
    ) {
        if !seen.is_blocked(now, blocked_after, reading) {
            if !std::mem::replace(&mut seen.starved, true) {
                self.starved.push(launch);
            }
        } else if launch.is_under_way() {
            // It might have returned while its thread was looked at.
            self.blocked.push(launch);
        }
    }
}

impl Sighting {
    const fn new(queue: usize, number: u64, now: Instant, waited_ns: Option<u64>) -> Self {
        Self { queue, number, first: now, since: now, waited_ns, starved: false }
    }

    /// Returns whether the driver keeps a launch whose time is over. If its thread only waited for
    /// a processor, its time begins anew.
    fn is_blocked(
        &mut self,
        now: Instant,
        blocked_after: Duration,
        reading: Option<Reading>,
    ) -> bool {
        let span = now.saturating_duration_since(self.since);
        let limit = blocked_after.saturating_mul(STARVED_MAX);
        let is_starved = now.saturating_duration_since(self.first) < limit
            && reading.is_some_and(|reading| reading.is_starved(self.waited_ns, span));
        if is_starved {
            self.since = now;
            self.waited_ns = reading.map(|reading| reading.waited_ns);
        }
        !is_starved
    }
}

impl<W> LongLaunch<W> {
    fn copies(&self) -> bool {
        self.launch.call == Call::Copy
    }
}

impl<W: Word> LongLaunch<W> {
    /// Returns whether the launch has not returned yet.
    pub(crate) fn is_under_way(&self) -> bool {
        let now = self.member.launches.under_way();
        now.is_some_and(|launch| launch.number == self.launch.number)
    }
}

impl<W> fmt::Display for LongLaunch<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnderWay { thread, call, .. } = self.launch;
        write!(f, "{call} (")?;
        if !self.member.stream.is_empty() {
            write!(f, "stream {}, ", self.member.stream)?;
        }
        match thread {
            0 => f.write_str("unknown thread")?,
            thread => write!(f, "thread {thread}")?,
        }
        f.write_str(match self.state {
            Some(State::Runs) => ", on a processor",
            Some(State::Waits) => ", waiting for a processor",
            Some(State::Sleeps) => ", asleep",
            None => "",
        })?;
        write!(f, ") for {} µs", self.span.as_micros())
    }
}

/// Lists launches for messages.
pub(crate) fn list<W>(launches: &[LongLaunch<W>]) -> String {
    launches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::flags::FlagWord;
    use crate::launches::{Call, LaunchGuard};

    const BLOCKED_AFTER: Duration = Duration::from_millis(1);

    type Members = [Arc<GatedStream<Option<FlagWord>>>; 2];

    /// A watch over two queues, with a clock in milliseconds.
    struct Rig {
        members: Members,
        launches: LaunchWatch,
        start: Instant,
    }

    impl Rig {
        fn new() -> Self {
            let member = |stream: &str| Arc::new(GatedStream::new(None, stream.to_owned()));
            Self {
                members: [member("0x5"), member("")],
                launches: LaunchWatch::default(),
                start: Instant::now(),
            }
        }

        /// Lists blocked and starved launches at a time, with all threads as `reading` says.
        fn at(&mut self, ended: u64, ms: u32, reading: Option<Reading>) -> (String, String) {
            let now = self.start + BLOCKED_AFTER * ms;
            let found = self.launches.at(&self.members, ended, now, BLOCKED_AFTER, &reading);
            (list(&found.blocked), list(&found.starved))
        }

        /// How many launches are blocked and how many are starved.
        fn counts(&mut self, ms: u32, state: State, waited_ns: u64) -> (usize, usize) {
            let (blocked, starved) = self.at(0, ms, Some(Reading { state, waited_ns }));
            (blocked.matches("µs").count(), starved.matches("µs").count())
        }
    }

    #[test]
    fn time_with_all_gates_forced_open_does_not_count() {
        let mut rig = Rig::new();
        let members = rig.members.clone();
        let _inside = members[0].launches.begin(Call::Launch);
        let mut blocked = |ended, ms| !rig.at(ended, ms, None).0.is_empty();
        assert!(!blocked(0, 0));
        assert!(!blocked(1, 2));
        assert!(blocked(1, 3));
    }

    #[test]
    fn a_thread_that_sleeps_or_runs_in_a_launch_is_blocked() {
        for state in [State::Sleeps, State::Runs] {
            let mut rig = Rig::new();
            let members = rig.members.clone();
            let _inside = members[0].launches.begin(Call::Launch);
            assert_eq!(rig.counts(0, state, 7), (0, 0));
            assert_eq!(rig.counts(1, state, 7), (1, 0), "{state:?}");
        }
    }

    #[test]
    fn a_thread_without_a_processor_is_not_blocked_until_it_gets_one() {
        let mut rig = Rig::new();
        let members = rig.members.clone();
        let _inside = members[0].launches.begin(Call::Launch);
        assert_eq!(rig.counts(0, State::Runs, 0), (0, 0));
        assert_eq!(rig.counts(1, State::Waits, 0), (0, 1));
        assert_eq!(rig.counts(2, State::Waits, 0), (0, 0), "told again");
        // It has just come to one.
        assert_eq!(rig.counts(3, State::Runs, 900_000), (0, 0));
        assert_eq!(rig.counts(4, State::Runs, 900_000), (1, 0));
    }

    #[test]
    fn a_thread_that_never_gets_a_processor_is_blocked_in_the_end() {
        let mut rig = Rig::new();
        let members = rig.members.clone();
        let _inside = members[0].launches.begin(Call::Launch);
        let first = (0..).find(|ms| rig.counts(*ms, State::Waits, 0).0 > 0);
        assert_eq!(first, Some(STARVED_MAX));
    }

    #[test]
    fn the_next_launch_of_the_same_thread_begins_anew() {
        let mut rig = Rig::new();
        let members = rig.members.clone();
        for ms in 0..4 {
            let _inside = members[0].launches.begin(Call::Launch);
            assert_eq!(rig.counts(ms, State::Sleeps, 0), (0, 0));
        }
    }

    /// Threads that end their launch when they are looked at.
    struct Returns<'a>(Cell<Option<LaunchGuard<'a>>>);

    impl Threads for Returns<'_> {
        fn waited_ns(&self, _: u32) -> Option<u64> {
            None
        }

        fn look(&self, _: u32) -> Option<Reading> {
            drop(self.0.take());
            None
        }
    }

    #[test]
    fn a_launch_that_returns_while_its_thread_is_looked_at_is_not_blocked() {
        let rig = Rig::new();
        let threads = Returns(Cell::new(Some(rig.members[0].launches.begin(Call::Launch))));
        let mut launches = LaunchWatch::default();
        for ms in 0..2 {
            assert!(rig.members[0].launches.under_way().is_some());
            let now = rig.start + BLOCKED_AFTER * ms;
            let found = launches.at(&rig.members, 0, now, BLOCKED_AFTER, &threads);
            assert!(found.blocked.is_empty());
        }
        assert_eq!(rig.members[0].launches.under_way(), None);
    }

    #[test]
    fn calls_of_which_none_ends_do_not_return() {
        let view = |ended, is_any| CallsView { ended, is_any, thread: 7 };
        let looks = |views: &[CallsView], waits: bool| {
            let mut calls = CallsWatch::new();
            views.iter().map(|view| calls.do_not_return(*view, || waits)).collect::<Vec<_>>()
        };
        assert_eq!(looks(&[view(3, true), view(3, true)], false), [false, true]);
        assert_eq!(looks(&[view(3, true), view(3, true)], true), [false, false], "no processor");
        let others: Vec<_> = (3..7).map(|ended| view(ended, true)).collect();
        assert_eq!(looks(&others, false), [false, false, false, true]);
        let pauses = [view(3, true), view(4, false), view(4, true), view(5, true)];
        assert_eq!(looks(&pauses, false), [false; 4]);
        let long = vec![view(3, true); STARVED_MAX as usize];
        assert_eq!(looks(&long, true).last(), Some(&true));
    }

    #[test]
    fn the_calls_are_named() {
        let mut rig = Rig::new();
        let members = rig.members.clone();
        let _launch = members[0].launches.begin_on(4711, Call::Launch);
        let _probe = members[1].launches.begin_on(0, Call::Probe);
        rig.at(0, 0, None);
        members[0].launches.goes_on(Call::Gate);
        let asleep = Some(Reading { state: State::Sleeps, waited_ns: 0 });
        let (blocked, _) = rig.at(0, 3, asleep);
        assert_eq!(
            blocked,
            "placing a gate (stream 0x5, thread 4711, asleep) for 3000 µs; \
             making an event as a probe (unknown thread, asleep) for 3000 µs"
        );
        let waits = Some(Reading { state: State::Waits, waited_ns: 0 });
        let mut rig = Rig::new();
        let members = rig.members.clone();
        let _fence = members[0].launches.begin_on(1, Call::Event);
        rig.at(0, 0, waits);
        let starved = rig.at(0, 1, waits).1;
        assert_eq!(
            starved,
            "making or recording an event (stream 0x5, thread 1, waiting for a processor) for \
             1000 µs"
        );
    }
}
