//! Order of the launches of an executable graph and of its copy with gates.
//!
//! The driver runs launches of one executable one after the other, in the order in which they were
//! made, whatever streams they are in. Launches of two executables it does not order, so each
//! launch that may follow one of the other executable has to come behind that by other means: the
//! order of one stream, an event, or the proof that it has run.

/// Launches that are measured before the gates are placed. The shortest counts: the first one may
/// contain what the driver does once, and others what another stream had of the device.
const PROFILED_LAUNCHES: u32 = 2;

/// The graph that is launched: the program's or its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The program's executable.
    Program,
    /// The program's executable, whose time is measured.
    Measured,
    /// The program's executable, behind all launches of the copy.
    BehindCopy,
    /// The copy.
    Copy,
}

/// The launches of a graph up to now, as far as the next one depends on them. Queue 0 stands for
/// any stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaunchOrder {
    /// Phase without a copy. Since the last launch in another queue, this many launches in this one
    /// were measured and have run, and with them all that were launched before.
    Profiling { queue: u64, measured: u32, is_measuring: bool },
    /// Launches of the copy are in this queue's stream, and since the first of them all launches
    /// of the program's executable.
    Gated { queue: u64 },
    /// The copy is not launched any more, and may not have run yet.
    Draining { queue: u64 },
    /// Phase without a copy, in which the program's executable is launched.
    Ungated,
}

impl LaunchOrder {
    pub(crate) const fn new() -> Self {
        Self::Profiling { queue: 0, measured: 0, is_measuring: false }
    }

    /// Returns whether a launch in this queue comes behind a copy in another one, which may be held
    /// for it.
    pub(crate) const fn is_behind_other(self, queue: u64) -> bool {
        match self {
            Self::Gated { queue: of } | Self::Draining { queue: of } => of != queue,
            Self::Profiling { .. } | Self::Ungated => false,
        }
    }

    /// Returns whether a launch was measured in this queue, or is being measured.
    pub(crate) const fn is_profiled_in(self, queue: u64) -> bool {
        matches!(self, Self::Profiling { queue: of, .. } if of == queue && queue != 0)
    }

    /// Returns whether the copy may be launched next in this queue: all launches of the program's
    /// executable in other streams have run.
    pub(crate) const fn is_profiled(self, queue: u64) -> bool {
        matches!(self, Self::Profiling { measured, .. } if measured >= PROFILED_LAUNCHES)
            && self.is_profiled_in(queue)
    }

    /// Returns whether no launch was measured since the last one in another queue.
    pub(crate) const fn is_unmeasured(self) -> bool {
        matches!(self, Self::Profiling { measured: 0, .. })
    }

    /// The launch that was measured last is over: it has run if this says so, and was not measured
    /// otherwise.
    pub(crate) const fn end_measurement(&mut self, has_run: bool) {
        if let Self::Profiling { measured, is_measuring, .. } = self {
            *measured += (*is_measuring && has_run) as u32;
            *is_measuring = false;
        }
    }

    /// Notes that there is a copy for the queue that is profiled.
    pub(crate) const fn place(&mut self) {
        if let Self::Profiling { queue, .. } = *self {
            *self = Self::Gated { queue };
        }
    }

    /// The next launch, which is in this queue. The copy is launched only where it may be held, and
    /// measured only where there are gates.
    pub(crate) fn launch(
        &mut self,
        queue: u64,
        may_hold: bool,
        has_gates: impl FnOnce() -> bool,
    ) -> Next {
        match *self {
            Self::Profiling { queue: of, measured, is_measuring } if of == queue && of != 0 => {
                let starts = may_hold && !is_measuring && measured < PROFILED_LAUNCHES;
                let is_measuring = is_measuring || starts;
                *self = Self::Profiling { queue, measured, is_measuring };
                if starts { Next::Measured } else { Next::Program }
            }
            // What was measured does not show that this launch has run.
            Self::Profiling { .. } => {
                let starts = may_hold && queue != 0 && has_gates();
                let queue = if starts { queue } else { 0 };
                *self = Self::Profiling { queue, measured: 0, is_measuring: starts };
                if starts { Next::Measured } else { Next::Program }
            }
            Self::Gated { queue: of } if of == queue => {
                if may_hold {
                    Next::Copy
                } else {
                    Next::Program
                }
            }
            Self::Gated { .. } | Self::Draining { .. } => {
                self.ungate();
                Next::BehindCopy
            }
            Self::Ungated => Next::Program,
        }
    }

    /// The program's executable was launched behind the copy.
    pub(crate) const fn end_copy(&mut self) {
        *self = Self::Ungated;
    }

    /// The copy is not launched any more.
    pub(crate) const fn ungate(&mut self) {
        *self = match *self {
            Self::Gated { queue } | Self::Draining { queue } => Self::Draining { queue },
            Self::Profiling { .. } | Self::Ungated => Self::Ungated,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls in a row, of all kinds. A copy takes five, and three more have it launched, its stream
    /// left and entered again.
    const CALLS: usize = 8;
    /// Launches of which each is known by a bit.
    type Set = u16;

    /// A call, or what the device does.
    #[derive(Clone, Copy, Debug)]
    enum Call {
        /// A launch in a queue, prepared or not. That of the first two has gates, 0 is a stream of
        /// its own.
        Launch { queue: u64, may_hold: bool, is_prepared: bool },
        /// The program changes the executable.
        Change,
        /// The launch that is measured has run.
        Run,
    }

    #[derive(Clone, Copy, Debug)]
    struct Launched {
        is_copy: bool,
        stream: u64,
        /// The launches that have run when this begins.
        after: Set,
    }

    /// Streams, each of which runs one launch after the other, and a driver that orders launches of
    /// one executable.
    #[derive(Clone, Copy, Debug)]
    struct Model {
        order: LaunchOrder,
        launches: [Launched; CALLS],
        count: usize,
        /// The launches that are known to have run.
        run: Set,
        measured: usize,
        copies: u32,
    }

    impl Model {
        /// The last launch of which this says so, and those before it.
        fn upto(&self, is_one: impl Fn(&Launched) -> bool) -> Set {
            let last = self.launches[..self.count].iter().rposition(is_one);
            last.map_or(0, |last| self.launches[last].after | 1 << last)
        }

        fn add(&mut self, is_copy: bool, stream: u64, behind: Set) {
            let number = self.count;
            let in_stream = self.upto(|other| other.stream == stream);
            let of_executable = self.upto(|other| other.is_copy == is_copy);
            let after = in_stream | of_executable | behind | self.run;
            assert_eq!(after, (1 << number) - 1, "launch {number} in {stream}: {self:?}");
            self.launches[number] = Launched { is_copy, stream, after };
            self.count += 1;
            self.copies += u32::from(is_copy);
        }

        /// `None` if the call cannot be made now.
        fn call(&self, call: Call) -> Option<Self> {
            let mut next = *self;
            match call {
                Call::Run => {
                    let is_measuring =
                        matches!(self.order, LaunchOrder::Profiling { is_measuring: true, .. });
                    if !is_measuring {
                        return None;
                    }
                    next.run |= self.launches[self.measured].after | 1 << self.measured;
                    next.order.end_measurement(true);
                }
                Call::Change => next.order.ungate(),
                Call::Launch { queue, may_hold, is_prepared } => {
                    if is_prepared && next.order.is_behind_other(queue) {
                        next.order.ungate();
                    }
                    if is_prepared && may_hold && next.order.is_profiled(queue) {
                        next.order.place();
                    }
                    let behind = self.upto(|other| other.is_copy);
                    match next.order.launch(queue, may_hold, || queue == 1 || queue == 2) {
                        Next::Program => next.add(false, queue, 0),
                        Next::Measured => {
                            next.measured = next.count;
                            next.add(false, queue, 0);
                        }
                        Next::BehindCopy => {
                            next.add(false, queue, behind);
                            next.order.end_copy();
                        }
                        Next::Copy => next.add(true, queue, 0),
                    }
                }
            }
            Some(next)
        }
    }

    /// All calls in all orders. How many of these end with a copy that was launched.
    fn all_from(model: &Model, calls: &[Call], depth: usize) -> u64 {
        if depth == 0 {
            return u64::from(model.copies > 0);
        }
        let next = calls.iter().filter_map(|call| model.call(*call));
        next.map(|next| all_from(&next, calls, depth - 1)).sum()
    }

    #[test]
    fn launches_run_one_after_the_other_whatever_is_held() {
        let launch = |(queue, may_hold, is_prepared)| Call::Launch { queue, may_hold, is_prepared };
        let prepared = [(1, true, true), (1, false, true), (2, true, true), (0, false, true)];
        let launches = prepared.into_iter().chain([(3, false, false)]);
        let calls: Vec<_> = launches.map(launch).chain([Call::Change, Call::Run]).collect();
        let begin = Model {
            order: LaunchOrder::new(),
            launches: [Launched { is_copy: false, stream: 0, after: 0 }; CALLS],
            count: 0,
            run: 0,
            measured: 0,
            copies: 0,
        };
        let with_copy = all_from(&begin, &calls, CALLS);
        assert!(with_copy > 100, "{with_copy} ends have a copy");
    }

    #[test]
    fn a_launch_that_may_not_be_held_stays_in_its_stream_s_order() {
        let mut order = LaunchOrder::new();
        for _ in 0..PROFILED_LAUNCHES {
            assert_eq!(order.launch(5, true, || true), Next::Measured);
            assert_eq!(order.launch(5, true, || true), Next::Program);
            order.end_measurement(true);
        }
        assert!(order.is_profiled(5) && !order.is_profiled(6));
        order.place();
        let next: Vec<_> = [true, false, true].map(|held| order.launch(5, held, || true)).into();
        assert_eq!(next, [Next::Copy, Next::Program, Next::Copy]);
        assert!(order.is_behind_other(6));
        assert_eq!(order.launch(6, false, || true), Next::BehindCopy);
        // That launch has failed.
        assert_eq!(order.launch(5, true, || true), Next::BehindCopy);
        order.end_copy();
        assert_eq!(order.launch(5, true, || true), Next::Program);
    }
}
