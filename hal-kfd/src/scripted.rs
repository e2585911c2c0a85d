//! A driver for tests whose answers are a function.

use std::fmt;
use std::sync::Mutex;

use rustix::io::Errno;

use crate::driver::Driver;

type Answer = dyn FnMut(u32, &mut [u8]) -> Result<u32, Errno> + Send;

/// Answers every call by a function, and remembers the requests.
pub(crate) struct Scripted {
    answer: Mutex<Box<Answer>>,
    requests: Mutex<Vec<u32>>,
}

impl Scripted {
    pub(crate) fn new(
        answer: impl FnMut(u32, &mut [u8]) -> Result<u32, Errno> + Send + 'static,
    ) -> Self {
        Self { answer: Mutex::new(Box::new(answer)), requests: Mutex::default() }
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<u32> {
        self.requests.lock().expect("no test panics with it").clone()
    }
}

impl Driver for Scripted {
    // SAFETY: what is asked of the caller is what the trait asks.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        self.requests.lock().expect("no test panics with it").push(request);
        (self.answer.lock().expect("no test panics with it"))(request, argument)
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}
