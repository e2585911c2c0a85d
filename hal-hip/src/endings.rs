//! Streams in rings of their own that are to be destroyed.
//!
//! HIP 7.2.3 destroys the queue of such a stream on whichever thread drops the last reference to
//! it. If that is the runtime's own thread for signals, which also has to answer the queue's end,
//! it waits for itself for ever. That thread has references while it handles the stream's last
//! commands, also after they are seen to have completed; and the destruction of a stream with
//! commands that nothing has waited for gives it one more to handle.
//!
//! Therefore a stream is waited for once more when its event has completed. Then the thread is
//! asked to call back. It looks at its signals one after the other, and the stream's are among
//! those of this turn, before or behind the one for the call. Only a second call, which is asked
//! for after the first, says that the turn is over, and that it has no references any more.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::HipStream;
use crate::error::HipError;
use crate::raw::{Code, Handle};

/// Calls of the runtime that the end of streams needs. The device is current during each call.
pub(crate) trait EndingCalls {
    /// Waits for a stream, which has nothing to do any more.
    fn wait_for(&self, stream: HipStream) -> Result<(), HipError>;

    /// Has the runtime's thread for signals call.
    fn call_back(&self) -> Result<Call, HipError>;
}

/// A call of the runtime's thread: whether it has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call(Arc<AtomicBool>);

impl Call {
    /// The call has come.
    pub(crate) fn come(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn has_come(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The function that the runtime's thread calls.
///
/// # Safety
/// The data is a boxed [`Call`], and nothing else uses it.
pub(crate) unsafe extern "C" fn called(_: Handle, _: Code, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let call = unsafe { Box::from_raw(data.cast::<Call>()) };
    call.come();
}

/// Streams that are to be destroyed.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// Waited for, and not part of the turn.
    waiting: Vec<HipStream>,
    turn: Option<Turn>,
}

/// Streams that the thread may have references to until the call has come, or the one after it.
#[derive(Debug)]
struct Turn {
    streams: Vec<HipStream>,
    call: Call,
    is_last: bool,
}

impl Endings {
    pub(crate) const fn are_none(&self) -> bool {
        self.waiting.is_empty() && self.turn.is_none()
    }

    /// Takes a stream whose event has completed. One that cannot be waited for stays to the end of
    /// the process.
    pub(crate) fn push(&mut self, stream: HipStream, calls: &impl EndingCalls) {
        if calls.wait_for(stream).is_ok() {
            self.waiting.push(stream);
        }
    }

    /// The streams that nothing refers to any more. Asks for calls as they are needed; where the
    /// runtime makes none, the streams of the turn stay to the end of the process.
    pub(crate) fn ended(&mut self, calls: &impl EndingCalls) -> Vec<HipStream> {
        let mut ended = Vec::new();
        loop {
            let next = match self.turn.take() {
                Some(turn) if !turn.call.has_come() => {
                    self.turn = Some(turn);
                    return ended;
                }
                Some(turn) if turn.is_last => {
                    ended.extend(turn.streams);
                    continue;
                }
                Some(turn) => (turn.streams, true),
                None if self.waiting.is_empty() => return ended,
                None => (std::mem::take(&mut self.waiting), false),
            };
            let (streams, is_last) = next;
            self.turn = calls.call_back().ok().map(|call| Turn { streams, call, is_last });
        }
    }
}
