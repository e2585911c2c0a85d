//! Commands of the host device.

use std::fmt;
use std::sync::Arc;

/// A command: a function with its arguments, or a shared closure. Cloning it and launching it
/// allocate nothing.
///
/// It runs on the thread of its hardware queue. If it panics, it counts as failed and the queue
/// goes on with the next one (not so where panics abort the process).
#[derive(Clone)]
pub struct HostCommand {
    body: Body,
    interruptible: bool,
}

#[derive(Clone)]
enum Body {
    Function(fn(u64, u64), u64, u64),
    Closure(Arc<dyn Fn() + Send + Sync>),
}

impl HostCommand {
    /// Calls `function(a, b)`.
    #[must_use]
    pub const fn function(function: fn(u64, u64), a: u64, b: u64) -> Self {
        Self { body: Body::Function(function, a, b), interruptible: false }
    }

    /// Calls a closure. This allocates; clone the command to launch it more than once.
    #[must_use]
    pub fn new(closure: impl Fn() + Send + Sync + 'static) -> Self {
        Self::shared(Arc::new(closure))
    }

    /// Calls a closure that the caller shares. The queue drops its reference before the completion
    /// is visible.
    #[must_use]
    pub const fn shared(closure: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { body: Body::Closure(closure), interruptible: false }
    }

    /// Lets an interrupt stop the command, at any instruction and for any time. Without this, an
    /// interrupt waits for its end.
    ///
    /// # Safety
    /// While it is stopped, every lock that it holds stays held, and the thread that waits for such
    /// a lock may be the one that would let it continue. So the command, and all that it calls,
    /// must not
    ///
    /// * allocate or free memory, print, or take any lock that other code takes;
    /// * use this device or its queues;
    /// * panic, or touch a thread local that needs initialization or a destructor;
    /// * load code (`dlopen`, or the first call through a lazily bound symbol);
    /// * break if a system call ends early (`EINTR`), takes long, or if time passes between two
    ///   instructions;
    /// * change the signal mask, or the handler of the device's signal;
    /// * leave shared memory in a state that other threads may not see.
    ///
    /// Computing, and atomic operations on memory that lives long enough, are fine.
    #[must_use]
    pub const unsafe fn interruptible(mut self) -> Self {
        self.interruptible = true;
        self
    }

    /// True if an interrupt may stop the command.
    #[must_use]
    pub const fn is_interruptible(&self) -> bool {
        self.interruptible
    }

    /// Runs the command on the calling thread, without a queue.
    pub fn call(&self) {
        match &self.body {
            Body::Function(function, a, b) => function(*a, *b),
            Body::Closure(closure) => closure(),
        }
    }
}

impl fmt::Debug for HostCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = match self.body {
            Body::Function(..) => "function",
            Body::Closure(_) => "closure",
        };
        let mut out = f.debug_struct("HostCommand");
        out.field("body", &body).field("interruptible", &self.interruptible).finish()
    }
}
