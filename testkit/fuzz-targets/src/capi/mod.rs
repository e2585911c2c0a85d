//! Calls of the C API that bytes stand for, valid and not, for the fuzzer.
//!
//! Handles stay from one sequence to the next, which may use them on another thread. A thread of
//! its own resumes all queues and takes back what would keep them from ever running, since calls
//! may wait for them.

mod calls;
mod pool;

use std::sync::Once;
use std::thread;
use std::time::Duration;

use self::calls::Caller;
use self::pool::pool;
use preempt::hint::{XHintLaxity, XHintPriority, XHintUtilization};
use preempt::types::NO_LAXITY;
use preempt::xqueue::XQueueResume;

/// Calls of a sequence at most.
const CALLS_MAX: usize = 24;
/// Between two rescues.
const RESCUE: Duration = Duration::from_micros(500);

/// Makes the calls that the bytes stand for.
///
/// # Panics
/// If a call answers what it must not, or a callback is called twice.
pub fn sequence(data: &[u8]) {
    rescue();
    let mut caller = Caller::new(data);
    for _ in 0..CALLS_MAX {
        if !caller.call() {
            break;
        }
    }
    pool().check();
}

/// Destroys everything that sequences have left.
///
/// # Panics
/// If something of it cannot be destroyed.
pub fn end() {
    pool().clear();
}

/// Starts the thread that lets queues go, once.
fn rescue() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        thread::spawn(|| {
            loop {
                thread::sleep(RESCUE);
                for xq in pool().all_xqs() {
                    XQueueResume(xq, 0);
                    XHintPriority(xq, 0);
                    XHintUtilization(xq, 100);
                    // Both its priorities may be the one at which nothing runs.
                    XHintLaxity(xq, NO_LAXITY, 0, 0);
                }
            }
        });
    });
}
