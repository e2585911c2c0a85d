//! Entries about a queue while it is recorded.

use xsched_core::hal::Submit;
use xsched_core::id::{CmdId, EventRef};
use xsched_core::queue::Signal;
use xsched_core::record::{Body, QueueNote};
use xsched_core::time::Duration;

use super::state::State;
use crate::clock::now;
use crate::completion::Until;
use crate::record::RecordBuffer;

impl<S: Submit<Payload: Sized>> State<S> {
    /// Begins with a buffer unless there is one, or ends; returns what is not needed any more, to
    /// be dropped without the lock.
    pub(super) fn set_record_buffer(
        &mut self,
        buffer: Option<RecordBuffer>,
    ) -> Option<Box<RecordBuffer>> {
        match buffer {
            None => self.record.take(),
            Some(buffer) if self.record.is_some() => Some(Box::new(buffer)),
            Some(mut buffer) => {
                buffer.note(now(), Body::Queue(self.queue_note()));
                self.record.replace(Box::new(buffer))
            }
        }
    }

    fn queue_note(&self) -> QueueNote {
        let window = self.machine.window().config();
        QueueNote {
            threshold: window.threshold,
            batch: window.batch,
            adaptive: window.adaptive,
            capacity: u32::try_from(self.capacity()).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn note_submit(&mut self, cmd: CmdId, wait: Option<EventRef>) {
        if let Some(buffer) = &mut self.record {
            buffer.note(now(), Body::Submit { cmd, wait });
        }
    }

    pub(super) fn note_wait(&mut self, until: Until) {
        if let Some(buffer) = &mut self.record {
            let (cmd, room) = match until {
                Until::Ended(cmd) | Until::Retired(cmd) => (cmd, false),
                Until::Room | Until::Turn(_) => (CmdId(self.machine.retired()), true),
            };
            buffer.note(now(), Body::Wait { cmd, room });
        }
    }

    /// The device has said something, and `before` commands had retired until then.
    pub(super) fn note_retired(&mut self, before: u64, signal: Signal) {
        let Some(buffer) = &mut self.record else { return };
        let busy = match signal {
            Signal::Retired(retired) => retired.busy,
            _ => Duration::ZERO,
        };
        let retired = self.machine.retired();
        if retired > before {
            buffer.note(self.time, Body::Retired { upto: CmdId(retired - 1), busy });
        }
    }
}
