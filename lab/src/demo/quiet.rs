//! Use of the processors by other programs while the demo measured.

use std::fs;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use xsched_console::machine::default_threads;

/// Between two looks at what the processors did. They count in steps of 10 ms.
const LOOK: Duration = Duration::from_millis(250);
/// Of this share of a machine's looks at most may be disturbed: a P99 is moved by one in a hundred.
const DISTURBED_MAX: f64 = 0.01;
/// The demo keeps one processor busy, and a part of another.
const OWN_CORES: f64 = 1.5;
/// The part of the other processors that other programs may use.
const OTHERS_PART: f64 = 0.5;
/// Processors that other programs may always use: about what the system needs for itself.
const OTHERS_MIN: f64 = 0.1;

/// How often other programs used the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Quiet {
    /// How often the processors were looked at; 0 where the system does not say what they do.
    pub(crate) looks: u32,
    /// At how many of these other programs had used more than the demo leaves.
    pub(crate) disturbed: u32,
}

impl Quiet {
    /// Returns whether figures are those of an otherwise idle machine. Where nothing is known they
    /// may not be.
    pub(crate) fn is_quiet(&self) -> bool {
        self.looks > 0 && f64::from(self.disturbed) <= f64::from(self.looks) * DISTURBED_MAX
    }

    fn count(&mut self, before: Used, after: Used, cores: usize) {
        let seconds = (after.at - before.at).as_secs_f64();
        let own_s = after.own_s - before.own_s;
        let others = (after.all_s - before.all_s - own_s) / seconds;
        let most = ((cores as f64 - OWN_CORES) * OTHERS_PART).max(OTHERS_MIN);
        self.looks += 1;
        self.disturbed += u32::from(others > most);
    }
}

/// Processor time that was used up to a moment, in seconds.
#[derive(Clone, Copy, Debug)]
struct Used {
    at: Instant,
    /// By all programs, and by other machines on the same processors.
    all_s: f64,
    /// By this program.
    own_s: f64,
}

impl Used {
    /// Reads the processor time that the system counts; `None` if it says nothing.
    fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let all_s = busy_ticks(&stat)? as f64 / clock_ticks_per_second() as f64;
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own_s = own.tv_sec as f64 + own.tv_nsec as f64 / 1e9;
        Some(Self { at: Instant::now(), all_s, own_s })
    }
}

/// All ticks of the first line of `/proc/stat` that were not idle; `None` if it counts none.
fn busy_ticks(stat: &str) -> Option<u64> {
    let mut ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut next = || ticks.next().and_then(|ticks| ticks.parse::<u64>().ok());
    let mut ran = 0;
    // User, nice and system; idle and waiting for disks; interrupts, twice, and other machines.
    for is_busy in [true, true, true, false, false, true, true, true] {
        ran += next()? * u64::from(is_busy);
    }
    (ran > 0).then_some(ran)
}

/// Looks at the processors until it is ended.
#[derive(Debug)]
pub(crate) struct Watch {
    end: Sender<()>,
    thread: Option<JoinHandle<Quiet>>,
}

impl Watch {
    /// Starts to look, on a thread of its own. If there can be none, nothing is known.
    pub(crate) fn start() -> Self {
        let (end, ended) = channel();
        let look = move || {
            let mut quiet = Quiet::default();
            let Some(mut before) = Used::now() else { return quiet };
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Some(after) = Used::now() else { return Quiet::default() };
                quiet.count(before, after, default_threads());
                before = after;
            }
            quiet
        };
        let thread = thread::Builder::new().name("xsched-quiet".to_owned()).spawn(look).ok();
        Self { end, thread }
    }

    /// Returns what was seen.
    pub(crate) fn end(self) -> Quiet {
        // The thread has ended if it does not hear this.
        let _ = self.end.send(());
        self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_that_are_idle_or_wait_for_disks_do_not_count() {
        let stat = "cpu  100 20 3 99999 88888 4 5 6 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(busy_ticks(stat), Some(138));
        assert_eq!(busy_ticks("cpu  0 0 0 0 0 0 0 0 0 0\n"), None, "a system that counts nothing");
        assert_eq!(busy_ticks("cpu  1 2\n"), None);
        assert_eq!(busy_ticks(""), None);
    }

    /// One second in which all programs used `all_s` and this one `own_s`, on `cores`.
    fn second(all_s: f64, own_s: f64, cores: usize) -> Quiet {
        let before = Used { at: Instant::now(), all_s: 7.0, own_s: 3.0 };
        let at = before.at + Duration::from_secs(1);
        let after = Used { at, all_s: 7.0 + all_s, own_s: 3.0 + own_s };
        let mut quiet = Quiet::default();
        quiet.count(before, after, cores);
        quiet
    }

    #[test]
    fn what_other_programs_use_disturbs_unless_there_is_room_for_it() {
        assert!(second(1.3, 1.1, 2).is_quiet());
        assert!(!second(1.6, 1.1, 2).is_quiet());
        assert!(second(3.0, 1.1, 8).is_quiet(), "other processors are idle");
        assert!(!second(5.0, 1.1, 8).is_quiet());
        assert!(!second(1.0, 0.8, 1).is_quiet());
    }

    #[test]
    fn one_look_in_a_hundred_may_be_disturbed_and_nothing_known_is_not_quiet() {
        assert!(Quiet { looks: 100, disturbed: 1 }.is_quiet());
        assert!(!Quiet { looks: 99, disturbed: 1 }.is_quiet());
        assert!(!Quiet::default().is_quiet());
    }

    #[test]
    fn a_watch_that_is_ended_at_once_has_seen_nothing() {
        assert_eq!(Watch::start().end().disturbed, 0);
    }
}
