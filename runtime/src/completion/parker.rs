//! Parking a thread that waits, behind the standard waker, so that threads and futures wait in the
//! same index.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use super::poll_delay::{LATENESS, exactly};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use crate::sync::thread_local;

/// Wakes one thread.
#[derive(Debug)]
struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: what the waker did before is seen by the waiting thread.
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Lets the current thread wait for a waker.
#[derive(Debug)]
pub(crate) struct Parker {
    unpark: Arc<Unpark>,
    waker: Waker,
}

impl Parker {
    fn new() -> Self {
        let thread = thread::current();
        let unpark = Arc::new(Unpark { thread, woken: AtomicBool::new(false) });
        Self { waker: Waker::from(Arc::clone(&unpark)), unpark }
    }

    /// The parker of this thread, made once, so that waiting allocates nothing later. In a
    /// destructor of another thread local it may be gone; a new one serves then.
    pub(crate) fn current() -> Rc<Self> {
        thread_local!(static PARKER: Rc<Parker> = Rc::new(Parker::new()));
        PARKER.try_with(Rc::clone).unwrap_or_else(|_| Rc::new(Self::new()))
    }

    /// Waker of this thread.
    pub(crate) const fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Forgets earlier wakings. Call before the waker is handed out.
    pub(crate) fn reset(&self) {
        self.unpark.woken.store(false, Ordering::Relaxed);
    }

    /// Sleeps until woken, or for this long, and notes how late that ended.
    pub(crate) fn sleep(&self, span: Duration) {
        let start = Instant::now();
        exactly(|| self.park(Some(span)));
        if !self.unpark.woken.load(Ordering::Relaxed) {
            LATENESS.note(span, start.elapsed());
        }
    }

    /// Sleeps until woken, or for this long; spurious returns are possible.
    pub(crate) fn park(&self, at_most: Option<Duration>) {
        if self.unpark.woken.load(Ordering::Acquire) {
            return;
        }
        match at_most {
            Some(span) => thread::park_timeout(span),
            None => thread::park(),
        }
    }
}
