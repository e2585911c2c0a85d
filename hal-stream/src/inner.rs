//! The state of a device that its queues, words and pages share; what closed queues leave on it;
//! and its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use xsched_node::{PageSource, SharedPage};

use crate::api::{FlagMemory, StreamApi};
use crate::config::StreamDeviceConfig;
use crate::device_time::Occupancy;
use crate::error::NoGate;
use crate::error::StreamError;
use crate::flags::{FlagWord, Flags};
use crate::registry::GateRegistry;
use crate::stops::Stops;

/// State that the handles of a device share.
#[derive(Debug)]
pub(crate) struct Inner<A: StreamApi> {
    pub(crate) api: Arc<A>,
    pub(crate) gates: Arc<GateRegistry<Option<FlagWord>>>,
    pub(crate) occupancy: Arc<Occupancy>,
    /// Samples of commands of one kind that found the estimate of another one in their place.
    pub(crate) kind_collisions: AtomicU64,
    pub(crate) config: StreamDeviceConfig,
    /// Result of the test of gates, once one was wanted.
    pub(crate) tested: OnceLock<Tested>,
    pub(crate) flags: Mutex<Flags>,
    pub(crate) leaving: Mutex<Vec<Leaving<A>>>,
    /// Words of timelines that have ended, each with the last number.
    pub(crate) timelines: Mutex<Vec<(FlagWord, u32)>>,
    /// Gates that streams of the device have got.
    pub(crate) gates_put: Stops,
    /// Pages that other processes have mapped as well.
    pub(crate) shared: Mutex<Vec<(FlagMemory, Arc<SharedPage>)>>,
    /// Where the words of gates come from that another process holds as one unit.
    pub(crate) source: Option<Arc<dyn PageSource>>,
    /// Why streams are at Lv1, as far as the log says it.
    pub(crate) reasons: Mutex<Vec<&'static str>>,
    /// Streams that could not be destroyed, and words for which the device may still wait.
    pub(crate) lost: AtomicU64,
    /// True if the driver is not to be called by the probe any more, which has it locked while it
    /// calls.
    pub(crate) probe_ended: Arc<Mutex<bool>>,
}

/// Result of the test of gates on a device.
#[derive(Debug)]
pub(crate) struct Tested {
    pub(crate) no_gate: Option<NoGate>,
    pub(crate) entries_max: u32,
}

/// A closed queue that the device may still be busy with.
#[derive(Debug)]
pub(crate) struct Leaving<A: StreamApi> {
    event: A::Event,
    stream: Option<A::Stream>,
    word: Option<FlagWord>,
}

impl<A: StreamApi> Inner<A> {
    pub(crate) fn flags(&self) -> MutexGuard<'_, Flags> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A word for a gate: of the unit, if the device is part of one. The device is current.
    pub(crate) fn take_word(&self) -> Result<FlagWord, StreamError<A::Error>> {
        let mut flags = self.flags();
        if let Some(source) = &self.source {
            if let Some(word) = flags.take_of_unit() {
                return Ok(word);
            }
            match self.unit_page(&**source) {
                Ok(page) => flags.add_unit(page),
                Err(error) => tracing::warn!(%error, "gates are held by this process alone"),
            }
            if let Some(word) = flags.take_of_unit() {
                return Ok(word);
            }
        }
        flags.take(&*self.api)
    }

    /// A new page of a unit's, as the device sees it. The device is current.
    pub(crate) fn unit_page(
        &self,
        source: &dyn PageSource,
    ) -> Result<FlagMemory, StreamError<A::Error>> {
        let page = source.page().map_err(StreamError::Page)?;
        let (host, bytes) = page.memory();
        // SAFETY: this value owns the page. When it is dropped it unmaps the page only after the
        // driver has taken it back, and otherwise leaves it mapped until the process ends.
        let memory = unsafe { self.api.register_flags(host, bytes) };
        let memory = memory.map_err(StreamError::during("registering flags"))?;
        xsched_node::watch_page(&page);
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).push((memory, page));
        Ok(memory)
    }

    /// Notes a reason, and whether it is new.
    pub(crate) fn is_new_reason(&self, why: &'static str) -> bool {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !reasons.contains(&why);
        if is_new {
            reasons.push(why);
        }
        is_new
    }

    /// Gives a word back when the device has got past an event, and ends that. Without an event it
    /// never is.
    pub(crate) fn give_back_after(&self, event: Option<A::Event>, word: FlagWord) {
        let (Some(event), Ok(entered)) = (event, self.api.enter()) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let leaving = Leaving { event, stream: None, word: Some(word) };
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).push(leaving);
        self.sweep();
        drop(entered);
    }

    /// Sees to what a closed queue leaves behind, without waiting for the device.
    pub(crate) fn retire(
        &self,
        stream: A::Stream,
        owned: bool,
        word: Option<FlagWord>,
        idle: bool,
    ) {
        let Ok(entered) = self.api.enter() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let stream_to_end = owned.then_some(stream);
        // Where nothing is to be given back, the caller's stream may have ended.
        if idle || stream_to_end.is_none() && word.is_none() {
            self.end(stream_to_end, word);
        } else {
            let event = self.api.create_event().and_then(|event| {
                // SAFETY: the event is new; the stream outlives the queue.
                let recorded = unsafe { self.api.record(event, stream) };
                // SAFETY: nothing else refers to the event.
                recorded.inspect_err(|_| unsafe { self.api.destroy_event(event) }).map(|()| event)
            });
            match event {
                Ok(event) => {
                    let leaving = Leaving { event, stream: stream_to_end, word };
                    self.leaving.lock().unwrap_or_else(PoisonError::into_inner).push(leaving);
                }
                Err(_) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.sweep();
        drop(entered);
    }

    /// Ends queues that the device has got past. The device is current.
    pub(crate) fn sweep(&self) {
        self.sweep_queues();
        self.end_pages();
    }

    /// Takes pages back whose only word was given back. The device is current.
    fn end_pages(&self) {
        let ended = self.flags().take_ended();
        if ended.is_empty() {
            return;
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for (memory, _page) in shared.extract_if(.., |(memory, _)| ended.contains(&memory.device)) {
            // SAFETY: registered by `unit_page`. Its only word was given back, so nothing waits for
            // it any more, and the page is unmapped after this.
            unsafe { self.api.unregister_flags(memory) };
        }
    }

    fn sweep_queues(&self) {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|queue| {
            // SAFETY: made in `retire`, and destroyed only here.
            match unsafe { self.api.query(queue.event) } {
                Ok(false) => true,
                Ok(true) => {
                    self.end(queue.stream, queue.word);
                    // SAFETY: see above; it is forgotten now.
                    unsafe { self.api.destroy_event(queue.event) };
                    false
                }
                Err(_) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    false
                }
            }
        });
    }

    pub(crate) fn end(&self, stream: Option<A::Stream>, word: Option<FlagWord>) {
        if let Some(stream) = stream {
            // SAFETY: made by us, and its queue is closed.
            let ended = unsafe { self.api.destroy_stream(stream) };
            if ended.is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(word) = word {
            self.flags().give_back(word);
        }
    }
}

impl<A: StreamApi> Drop for Inner<A> {
    fn drop(&mut self) {
        *self.probe_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.gates.end_unwanted_probes();
        let shared = std::mem::take(self.shared.get_mut().unwrap_or_else(PoisonError::into_inner));
        let entered = self.api.enter();
        if entered.is_ok() {
            self.sweep();
        }
        let left = self.leaving.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        if entered.is_ok() && left == 0 && self.lost.load(Ordering::Relaxed) == 0 {
            self.flags.get_mut().unwrap_or_else(PoisonError::into_inner).close(&*self.api);
            for (memory, _page) in shared {
                // SAFETY: registered by `share`, and the device has passed all waits for it.
                unsafe { self.api.unregister_flags(memory) };
            }
        } else {
            // The device may still read the pages, so they stay mapped. `Flags` frees nothing
            // unless it is closed.
            std::mem::forget(shared);
        }
        drop(entered);
    }
}
