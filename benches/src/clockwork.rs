//! A device whose commands take a set time and nothing of the processor, to see how late their
//! completion is noticed.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::Waker;
use std::time::{Duration, Instant};

use xsched_core::hal::{Backend, ErrorType, Halves, LevelAdapter, Lv1, Preempt, Retire, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::queue::{Outcome, Retired};

/// The device. Each command ends `delay` after its launch; with a bell, a thread that sleeps until
/// then wakes whoever asked for it.
#[derive(Clone, Debug)]
pub struct Clockwork {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    delay: Duration,
    fenced: AtomicU64,
    /// When the last command ends, or ended.
    due_ns: AtomicU64,
    waker: Mutex<Option<Waker>>,
    bell: Option<mpsc::Sender<u64>>,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn ring(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Clockwork {
    /// A device; with or without a bell.
    #[must_use]
    pub fn new(delay: Duration, bell: bool) -> Self {
        let (sender, rings) = mpsc::channel::<u64>();
        let shared = Arc::new(Shared {
            start: Instant::now(),
            delay,
            fenced: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
            waker: Mutex::new(None),
            bell: bell.then_some(sender),
        });
        if bell {
            let shared = Arc::downgrade(&shared);
            std::thread::spawn(move || {
                for due_ns in rings {
                    let Some(shared) = shared.upgrade() else { return };
                    let left_ns = due_ns.saturating_sub(shared.now_ns());
                    std::thread::sleep(Duration::from_nanos(left_ns));
                    // The sleep takes longer than asked for; the command ends when it is over.
                    shared.due_ns.store(shared.now_ns(), Ordering::Release);
                    shared.ring();
                }
            });
        }
        Self { shared }
    }

    /// Time since the last command ended.
    #[must_use]
    pub fn since_the_end(&self) -> Duration {
        let due_ns = self.shared.due_ns.load(Ordering::Acquire);
        Duration::from_nanos(self.shared.now_ns().saturating_sub(due_ns))
    }
}

/// A half of a queue of a [`Clockwork`].
#[derive(Debug)]
pub struct Half {
    shared: Arc<Shared>,
    seen: u64,
}

impl ErrorType for Clockwork {
    type Error = Infallible;
}

impl ErrorType for Half {
    type Error = Infallible;
}

impl Submit for Half {
    type Payload = u64;

    fn launch(&mut self, cmd: CmdId, _: &u64, _: bool) -> Result<(), Infallible> {
        let due_ns = self.shared.now_ns() + self.shared.delay.as_nanos() as u64;
        if let Some(bell) = &self.shared.bell {
            self.shared.due_ns.store(u64::MAX, Ordering::Relaxed);
            // The thread lives as long as the device.
            let _ = bell.send(due_ns);
        } else {
            self.shared.due_ns.store(due_ns, Ordering::Relaxed);
        }
        self.shared.fenced.store(cmd.count(), Ordering::Release);
        Ok(())
    }

    fn fence(&mut self, _: CmdId) -> Result<(), Infallible> {
        Ok(())
    }
}

impl Retire for Half {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Infallible> {
        let fenced = self.shared.fenced.load(Ordering::Acquire);
        let due_ns = self.shared.due_ns.load(Ordering::Acquire);
        if fenced <= self.seen || self.shared.now_ns() < due_ns {
            return Ok(None);
        }
        self.seen = fenced;
        let busy = xsched_core::time::Duration::from_ns(self.shared.delay.as_nanos() as u64);
        Ok(Some(Retired { upto: CmdId(fenced - 1), busy, outcome: Outcome::Ok }))
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        if self.shared.bell.is_none() {
            return false;
        }
        *self.shared.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
        let over = self.shared.now_ns() >= self.shared.due_ns.load(Ordering::Acquire);
        if over && self.shared.fenced.load(Ordering::Acquire) > self.seen {
            self.shared.ring();
        }
        true
    }
}

impl Preempt for Half {
    type Top = Lv1;
}

impl Backend for Clockwork {
    type Config = ();
    type Submit = Half;
    type Retire = Half;
    type Preempt = LevelAdapter<Half>;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<Half, Half, LevelAdapter<Half>>, Infallible> {
        let half = || Half { shared: Arc::clone(&self.shared), seen: 0 };
        let caps = Caps::up_to(Level::Block, 1 << 16);
        Ok(Halves { submit: half(), retire: half(), preempt: LevelAdapter(half()), caps })
    }
}
