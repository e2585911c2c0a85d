//! What is written down about a queue while it is recorded.

use xsched_core::hal::Submit;
use xsched_core::id::{CmdId, EventRef};
use xsched_core::queue::Signal;
use xsched_core::record::{Body, QueueNote};
use xsched_core::time::Duration;

use super::state::State;
use crate::clock::now;
use crate::completion::Until;
use crate::record::Tape;

impl<S: Submit<Payload: Sized>> State<S> {
    /// Begins with a tape unless there is one, or ends; returns what is not needed any more, to be
    /// dropped without the lock.
    pub(super) fn set_tape(&mut self, tape: Option<Tape>) -> Option<Box<Tape>> {
        match tape {
            None => self.tape.take(),
            Some(tape) if self.tape.is_some() => Some(Box::new(tape)),
            Some(mut tape) => {
                tape.note(now(), Body::Queue(self.queue_note()));
                self.tape.replace(Box::new(tape))
            }
        }
    }

    fn queue_note(&self) -> QueueNote {
        let window = self.machine.window().config();
        QueueNote {
            threshold: window.threshold,
            batch: window.batch,
            adaptive: window.adaptive,
            capacity: u32::try_from(self.payloads.len()).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn note_submit(&mut self, cmd: CmdId, wait: Option<EventRef>) {
        if let Some(tape) = &mut self.tape {
            tape.note(now(), Body::Submit { cmd, wait });
        }
    }

    pub(super) fn note_wait(&mut self, until: Until) {
        if let Some(tape) = &mut self.tape {
            let (cmd, room) = match until {
                Until::Ended(cmd) | Until::Retired(cmd) => (cmd, false),
                Until::Room | Until::Turn(_) => (CmdId(self.machine.retired()), true),
            };
            tape.note(now(), Body::Wait { cmd, room });
        }
    }

    /// The device has said something, and `before` commands had retired until then.
    pub(super) fn note_retired(&mut self, before: u64, signal: Signal) {
        let Some(tape) = &mut self.tape else { return };
        let busy = match signal {
            Signal::Retired(retired) => retired.busy,
            _ => Duration::ZERO,
        };
        let retired = self.machine.retired();
        if retired > before {
            tape.note(self.time, Body::Retired { upto: CmdId(retired - 1), busy });
        }
    }
}
