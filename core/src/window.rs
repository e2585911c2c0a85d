//! The in-flight window: how many commands may be launched and not yet retired (threshold), and how
//! many go by between two fences (batch). XSched paper, §5.2.

use crate::level::Caps;
use crate::time::{Duration, Instant};

/// How the window is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// The threshold, 1 to 65,536; the most that an adaptive window may use.
    pub threshold: u32,
    /// Commands per fence, 1 to the threshold. An adaptive window chooses its own.
    pub batch: u32,
    /// True to use the smallest threshold that keeps the device fed.
    pub adaptive: bool,
}

impl WindowConfig {
    /// The largest threshold.
    pub const THRESHOLD_MAX: u32 = 65_536;

    /// A fixed window. Values are brought into range: `threshold` to 1…65,536, `batch` to
    /// 1…threshold.
    #[must_use]
    pub fn fixed(threshold: u32, batch: u32) -> Self {
        let threshold = threshold.clamp(1, Self::THRESHOLD_MAX);
        Self { threshold, batch: batch.clamp(1, threshold), adaptive: false }
    }

    /// A window that adapts, with at most `threshold_max` (1 to 65,536) commands in flight.
    #[must_use]
    pub fn adaptive(threshold_max: u32) -> Self {
        Self { adaptive: true, ..Self::fixed(threshold_max, threshold_max.div_ceil(2)) }
    }
}

impl Default for WindowConfig {
    /// Threshold 16, batch 8, the defaults of the C++ XSched.
    fn default() -> Self {
        Self::fixed(16, 8)
    }
}

/// A fence is worth its cost once per this much device work.
const WORK_PER_FENCE_NS: u64 = 20_000;
/// Number of batches without starving after which one command of the safety margin is given back.
const CALM_BATCHES: u32 = 256;

/// The shortest time after which a window in which nothing retires is widened: a completion may be
/// seen half of it late, as a reaper sleeps for that long.
const PATIENCE_MIN: Duration = Duration::from_ms(1);
/// Patience of a window of which no command was measured.
const PATIENCE_UNMEASURED: Duration = Duration::from_ms(50);
/// The longest: where commands have waited before, they count as long. Of commands that take a 16th
/// of it, as many as a batch of 8 retire within it.
const PATIENCE_MAX: Duration = Duration::from_ms(500);
/// How many windows' work may have taken its time before a window is widened. What is let in then
/// takes the device at most this part of the time that was waited.
const PATIENCE_WINDOWS: u64 = 4;

/// The window of one queue.
///
/// An adaptive window measures two things. `T` is the device time of a command. `Λ` is the time the
/// device would have to wait for the host: from a completion on the device to the next launched
/// command being ready there. It shows when a command is launched into an idle queue, as the time
/// until it is seen to retire, less the time it ran. After a fence has retired, `threshold -
/// batch` commands are left on the device, so it stays fed as long as `(threshold - batch) · T ≥
/// Λ`; the smallest such threshold is `batch + ⌈Λ / T⌉`. A margin grows when the device was seen to
/// starve all the same, and shrinks slowly when it was not.
///
/// ```
/// use xsched_core::level::{Caps, Level};
/// use xsched_core::window::{Window, WindowConfig};
///
/// let window = Window::new(WindowConfig::fixed(16, 8), &Caps::up_to(Level::Block, 64));
/// assert_eq!((window.threshold(), window.batch()), (16, 8));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Window {
    config: WindowConfig,
    device_max: u32,
    threshold: u32,
    batch: u32,
    latency_ns: Option<u64>,
    command_ns: u64,
    margin: u32,
    calm: u32,
    /// How often it was doubled since something retired last.
    doublings: u32,
    /// Commands in flight are held, and are not to be more than before.
    is_held: bool,
}

impl Window {
    /// A window for a device with these capabilities.
    #[must_use]
    pub fn new(config: WindowConfig, caps: &Caps) -> Self {
        let mut window = Self {
            config,
            device_max: 1,
            threshold: config.threshold,
            batch: config.batch,
            latency_ns: None,
            command_ns: 0,
            margin: 0,
            calm: 0,
            doublings: 0,
            is_held: false,
        };
        window.configure(config, caps);
        window
    }

    /// Changes the configuration. Takes effect at the next launch; nothing has to drain.
    pub fn configure(&mut self, config: WindowConfig, caps: &Caps) {
        self.config = if config.adaptive {
            WindowConfig::adaptive(config.threshold)
        } else {
            WindowConfig::fixed(config.threshold, config.batch)
        };
        // Whatever the batch: a program that waits for each command puts a fence behind each.
        self.device_max = if caps.in_unit { u32::MAX } else { caps.in_flight_max(1) };
        self.margin = 0;
        self.resize();
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> WindowConfig {
        self.config
    }

    /// Commands that may be in flight now.
    #[must_use]
    pub const fn threshold(&self) -> u32 {
        let doublings = if self.is_held { 0 } else { self.doublings };
        // No further than the sign: what it is compared with is no larger.
        self.threshold.saturating_mul(1 << doublings)
    }

    /// Doubles the window until something retires: see
    /// [`Queue::widen_window`](crate::queue::Queue::widen_window).
    pub(crate) fn widen(&mut self) {
        self.doublings = (self.doublings + 1).min(u32::BITS - 1);
    }

    /// Has that count or not.
    pub(crate) const fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Returns whether it has been widened since something retired last: see
    /// [`Queue::widen_window`](crate::queue::Queue::widen_window).
    #[must_use]
    pub const fn is_widened(&self) -> bool {
        self.doublings > 0 && !self.is_held
    }

    /// The time without a completion after which the window may be widened.
    #[must_use]
    pub fn patience(&self) -> Duration {
        if self.command_ns == 0 {
            return PATIENCE_UNMEASURED;
        }
        let full = Duration::from_ns(self.command_ns).times(self.threshold.into());
        full.times(PATIENCE_WINDOWS).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// Commands per fence now.
    #[must_use]
    pub const fn batch(&self) -> u32 {
        self.batch
    }

    /// Mean device time of a command, in nanoseconds; 0 before anything was measured.
    #[must_use]
    pub const fn command_ns(&self) -> u64 {
        self.command_ns
    }

    /// A batch of `commands` retired and used `busy` device time; `left` commands are still in
    /// flight, and more are waiting to be launched if `backlog`.
    pub fn on_retired(&mut self, commands: u64, busy: Duration, left: u64, backlog: bool) {
        self.doublings = 0;
        if let Some(sample) = busy.as_ns().checked_div(commands) {
            self.command_ns = smooth(self.command_ns, sample, 8);
        }
        if !self.config.adaptive {
            return;
        }
        if backlog && left == 0 {
            self.margin = (self.margin + 1).min(self.config.threshold);
            self.calm = 0;
        } else if backlog {
            self.calm += 1;
            if self.calm >= CALM_BATCHES {
                self.margin = self.margin.saturating_sub(1);
                self.calm = 0;
            }
        }
        self.resize();
    }

    /// A command that was launched into the idle queue at `launched` has been seen to retire now,
    /// having run for `busy`.
    pub fn on_lone_retired(&mut self, launched: Instant, now: Instant, busy: Duration) {
        let sample = now.since(launched).as_ns().saturating_sub(busy.as_ns());
        // Other queues can only make the sample larger, so the smallest recent one is the truth.
        self.latency_ns = Some(match self.latency_ns {
            Some(known) if sample > known => smooth(known, sample, 64),
            _ => sample,
        });
    }

    fn resize(&mut self) {
        let max = self.config.threshold.min(self.device_max).max(1);
        let (threshold, batch) = match self.latency_ns {
            Some(latency) if self.config.adaptive && self.command_ns > 0 => {
                let batch = (WORK_PER_FENCE_NS / self.command_ns).clamp(1, u64::from(max / 2 + 1));
                let fed = latency.div_ceil(self.command_ns);
                (batch.saturating_add(fed).saturating_add(u64::from(self.margin)), batch)
            }
            _ => (u64::from(max), u64::from(self.config.batch)),
        };
        self.threshold = u32::try_from(threshold).unwrap_or(u32::MAX).clamp(1, max);
        self.batch = u32::try_from(batch).unwrap_or(u32::MAX).clamp(1, self.threshold);
    }
}

/// An exponential moving average with weight `1 / n`; the first sample is taken as it is.
fn smooth(mean: u64, sample: u64, n: u64) -> u64 {
    if mean == 0 {
        return sample;
    }
    if sample >= mean {
        mean.saturating_add((sample - mean).div_ceil(n))
    } else {
        mean - (mean - sample).div_ceil(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    const CAPS: Caps = Caps::up_to(Level::Block, 4096);

    fn adaptive(latency_us: u64, command_us: u64) -> Window {
        let mut window = Window::new(WindowConfig::adaptive(256), &CAPS);
        let busy = Duration::from_us(command_us);
        let seen = Instant::ZERO + Duration::from_us(latency_us + command_us);
        window.on_lone_retired(Instant::ZERO, seen, busy);
        window.on_retired(1, busy, 1, true);
        window
    }

    #[test]
    fn smallest_threshold_that_covers_the_host_latency() {
        let long = adaptive(20, 1_000);
        assert_eq!((long.threshold(), long.batch()), (2, 1));
        let short = adaptive(20, 5);
        assert_eq!((short.threshold(), short.batch()), (8, 4));
    }

    #[test]
    fn starving_widens_and_calm_narrows() {
        let mut window = adaptive(20, 100);
        let before = window.threshold();
        for _ in 0..3 {
            window.on_retired(1, Duration::from_us(100), 0, true);
        }
        assert_eq!(window.threshold(), before + 3);
        for _ in 0..3 * CALM_BATCHES {
            window.on_retired(1, Duration::from_us(100), 1, true);
        }
        assert_eq!(window.threshold(), before);
    }

    #[test]
    fn a_fixed_window_stays() {
        let mut window = Window::new(WindowConfig::fixed(8, 4), &CAPS);
        window.on_retired(4, Duration::from_us(4), 0, true);
        assert_eq!((window.threshold(), window.batch()), (8, 4));
    }

    #[test]
    fn the_device_limits_both() {
        let window = Window::new(WindowConfig::fixed(1_000, 10), &Caps::up_to(Level::Block, 64));
        assert!(window.threshold() < 64);
        assert!(window.batch() <= window.threshold());
    }
}
