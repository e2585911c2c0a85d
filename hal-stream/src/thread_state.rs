//! State of a thread of this process as Linux tells it: on a processor, waiting for one, or asleep.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

thread_local! {
    static CURRENT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The number of the calling thread below `/proc/self/task`, 0 if the system does not say. It is
/// read once per thread.
pub(crate) fn current() -> u32 {
    CURRENT.with(|current| {
        current.get().unwrap_or_else(|| {
            let number = read_current().unwrap_or(0);
            current.set(Some(number));
            number
        })
    })
}

fn read_current() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The thread is on a processor.
    Runs,
    /// The thread could run, and is on no processor.
    Waits,
    /// The thread sleeps, or is stopped.
    Sleeps,
}

/// One look at a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) state: State,
    /// For how long it waited for processors in its life, without a wait that has not ended.
    pub(crate) waited_ns: u64,
}

/// Source of the states of this process's threads.
pub(crate) trait Threads {
    /// [`Reading::waited_ns`] alone, which costs less.
    fn waited_ns(&self, thread: u32) -> Option<u64>;
    /// Looks at a thread. `None` if it has ended, or the system does not tell.
    fn look(&self, thread: u32) -> Option<Reading>;
}

/// Linux.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System;

impl System {
    fn read(thread: u32, file: &str) -> Option<String> {
        fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).ok()
    }
}

impl Threads for System {
    fn waited_ns(&self, thread: u32) -> Option<u64> {
        Some(times(&Self::read(thread, "schedstat")?)?.0)
    }

    fn look(&self, thread: u32) -> Option<Reading> {
        // In this order a thread that is given a processor meanwhile still counts as waiting, and
        // the next look tells.
        let schedstat = Self::read(thread, "schedstat")?;
        Reading::parse(&schedstat, &Self::read(thread, "status")?)
    }
}

/// For how long a thread waited for processors, in nanoseconds, and how often it came to one. A
/// system that does not count says 0.
fn times(schedstat: &str) -> Option<(u64, u64)> {
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse().ok());
    let (_ran_ns, waited_ns, came): (u64, _, _) =
        (numbers.next()??, numbers.next()??, numbers.next()??);
    (came > 0).then_some((waited_ns, came))
}

impl Reading {
    /// Linux counts how often a thread came to a processor and how often it left one, at once, but
    /// adds up the times later. So a thread that came once more than it left is on one now.
    fn parse(schedstat: &str, status: &str) -> Option<Self> {
        let (waited_ns, came) = times(schedstat)?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let count = |name| field(name)?.trim().parse::<u64>().ok();
        let left = count("voluntary_ctxt_switches:")? + count("nonvoluntary_ctxt_switches:")?;
        let state = match field("State:")?.trim().chars().next()? {
            'R' if came > left => State::Runs,
            'R' => State::Waits,
            _ => State::Sleeps,
        };
        Some(Self { state, waited_ns })
    }

    /// Returns whether the thread waits for a processor, or did so for most of the last `span`, at
    /// the begin of which it had waited for `before_ns`.
    pub(crate) fn is_starved(self, before_ns: Option<u64>, span: Duration) -> bool {
        let waited_ns = before_ns.map_or(0, |before_ns| self.waited_ns.saturating_sub(before_ns));
        self.state == State::Waits || Duration::from_nanos(waited_ns) > span / 2
    }
}

/// All threads are as this says.
#[cfg(test)]
impl Threads for Option<Reading> {
    fn waited_ns(&self, _: u32) -> Option<u64> {
        self.map(|reading| reading.waited_ns)
    }

    fn look(&self, _: u32) -> Option<Reading> {
        *self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn status(state: &str, voluntary: u64, other: u64) -> String {
        format!(
            "Name:\tState: S\nUmask:\t0022\nState:\t{state}\nTgid:\t41\nThreads:\t3\n\
             voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{other}\n"
        )
    }

    fn state(schedstat: &str, status: &str) -> Option<State> {
        Reading::parse(schedstat, status).map(|reading| reading.state)
    }

    #[test]
    fn files_of_the_system_are_understood() {
        let read = Reading::parse("68867711 47596147 208\n", &status("S (sleeping)", 140, 68));
        assert_eq!(read, Some(Reading { state: State::Sleeps, waited_ns: 47_596_147 }));
        assert_eq!(state("1 2 38\n", &status("R (running)", 30, 7)), Some(State::Runs));
        assert_eq!(state("1 2 37\n", &status("R (running)", 30, 7)), Some(State::Waits));
        for other in ["D (disk sleep)", "T (stopped)", "t (tracing stop)", "Z (zombie)"] {
            assert_eq!(state("1 2 37\n", &status(other, 30, 7)), Some(State::Sleeps), "{other}");
        }
    }

    #[test]
    fn what_the_system_does_not_tell_is_unknown() {
        let running = status("R (running)", 30, 7);
        assert_eq!(state("0 0 0\n", &running), None, "it does not count");
        assert_eq!(state("", &running), None);
        assert_eq!(state("1 2\n", &running), None);
        assert_eq!(state("1 2 x\n", &running), None);
        assert_eq!(state("1 2 38\n", ""), None);
        assert_eq!(state("1 2 38\n", "State:\tR (running)\n"), None);
        assert_eq!((System.look(0), System.waited_ns(0)), (None, None));
        assert_eq!(System.look(u32::MAX), None);
    }

    #[test]
    fn a_thread_that_was_on_a_processor_for_half_the_time_is_not_starved() {
        let at = |state, waited_ns| Reading { state, waited_ns };
        let span = Duration::from_nanos(200);
        let before_ns = Some(1_000);
        assert!(at(State::Waits, 1_000).is_starved(before_ns, span));
        assert!(at(State::Waits, 1_000).is_starved(None, span));
        assert!(at(State::Runs, 1_101).is_starved(before_ns, span));
        assert!(at(State::Sleeps, 1_150).is_starved(before_ns, span));
        assert!(!at(State::Runs, 1_100).is_starved(before_ns, span));
        assert!(!at(State::Sleeps, 1_000).is_starved(before_ns, span));
        assert!(!at(State::Runs, 1_150).is_starved(None, span));
        assert!(!at(State::Runs, 0).is_starved(before_ns, span));
    }

    /// Returns whether one of the threads is seen in that state before long.
    fn one_is(threads: &[u32], state: State) -> bool {
        let start = Instant::now();
        let is = |thread: &u32| System.look(*thread).is_some_and(|reading| reading.state == state);
        let looks = std::iter::repeat_with(|| threads.iter().any(is));
        looks.take_while(|_| start.elapsed() < Duration::from_secs(20)).any(|seen| seen)
    }

    #[test]
    fn a_thread_that_blocks_is_seen_to_sleep() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let blocked = thread::spawn(move || {
            tell.send(current()).expect("the test listens");
            let _ = ended.recv();
        });
        let number = told.recv().expect("the thread tells");
        assert_ne!(number, current());
        assert!(one_is(&[number], State::Sleeps));
        let before_ns = System.waited_ns(number);
        assert!(before_ns.is_some());
        let reading = System.look(number).expect("a reading");
        assert!(!reading.is_starved(before_ns, Duration::from_micros(200)));
        drop(end);
        blocked.join().expect("it ends");
    }

    /// There are more of them than processors.
    #[test]
    fn of_threads_that_run_one_has_a_processor_and_one_waits() {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let (tell, told) = mpsc::channel();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..=processors * 2 {
                scope.spawn(|| {
                    let _ = tell.send(current());
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let threads: Vec<_> = told.iter().take(processors * 2 + 1).collect();
            let seen = [State::Runs, State::Waits].map(|state| one_is(&threads, state));
            done.store(true, Ordering::Relaxed);
            assert_eq!(seen, [true, true], "one runs, one waits");
        });
    }
}
