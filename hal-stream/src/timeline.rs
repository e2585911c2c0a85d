//! Timeline semaphores: numbers that a stream writes and other streams wait for.
//!
//! A stream that waits for another one by an event keeps the device for its process: on an H200 a
//! process of which one stream was held at a gate and another one waited for that by an event still
//! had every other time slice, in which nothing ran. A wait for a number gives the slice up.
//!
//! A stream can be held at its *stops*: gates, and waits for numbers of other streams. It writes a
//! number only if it has got a stop since the last one, or any stream of the device a gate, as
//! streams may share a connection. What follows without a stop ends by itself once the last number
//! is written, so a wait for its event is short.

use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};

use crate::api::StreamApi;
use crate::device::StreamDevice;
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::inner::Inner;
use crate::stops::Stops;
use crate::sync::{Mutex, lock};

/// How far a stream has got, as a word that it writes rising numbers into.
///
/// The word goes on to another stream's timeline when this one is gone and its last number is
/// written. Other streams may still wait for that, so numbers go on as well.
#[derive(Debug)]
pub struct Timeline<A: StreamApi> {
    device: Arc<Inner<A>>,
    own: OnceLock<(FlagWord, Last)>,
    /// The waits for numbers of other streams.
    waits: Stops,
}

/// A point in a stream: its work up to there is done once the word has this number, or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Where the device sees the word of the stream's [`Timeline`], which stays as long as the
    /// driver's context.
    pub word: u64,
    /// The number.
    pub number: u32,
}

/// Last point that a stream has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastPoint {
    /// Others need none: there was no stop, nothing but this process holds streams, or they cannot
    /// write numbers.
    NotNeeded,
    /// One that says as much as another one would.
    At(Point),
    /// [`Timeline::signal`] is needed.
    Unwritten,
}

/// The number that was written last.
#[derive(Debug)]
pub(crate) struct Last(Mutex<Written>);

#[derive(Debug)]
struct Written {
    number: u32,
    /// Stops that were counted before. 0 before the first number.
    stops: u64,
}

impl Last {
    pub(crate) fn new(number: u32) -> Self {
        Self(Mutex::new(Written { number, stops: 0 }))
    }

    fn number(&self) -> u32 {
        lock(&self.0).number
    }

    /// Has the next number written. Numbers are written in their order, whichever threads write.
    pub(crate) fn write<E>(
        &self,
        stops: impl FnOnce() -> u64,
        write: impl FnOnce(u32) -> Result<(), E>,
    ) -> Result<u32, E> {
        let mut last = lock(&self.0);
        // What is counted from now on may be behind the number.
        let stops = stops();
        let next = last.number.wrapping_add(1);
        write(next)?;
        *last = Written { number: next, stops };
        Ok(next)
    }

    /// The last number, if no stop was counted since.
    pub(crate) fn standing(&self, stops: u64) -> Option<u32> {
        let last = lock(&self.0);
        (last.stops == stops).then_some(last.number)
    }
}

impl<A: StreamApi> Timeline<A> {
    /// Timeline of a stream of the device. It takes a word with the first number.
    #[must_use]
    pub fn new(device: &StreamDevice<A>) -> Self {
        Self { device: Arc::clone(&device.inner), own: OnceLock::new(), waits: Stops::default() }
    }

    /// The last point. Asks nothing of the driver.
    #[must_use]
    pub fn last_point(&self) -> LastPoint {
        let stops = self.stops();
        let is_in_unit = self.device.source.is_some();
        if stops == 0 || !is_in_unit || !self.device.api.has_numbers() {
            return LastPoint::NotNeeded;
        }
        let standing = |(word, last): &(FlagWord, Last)| {
            Some(Point { word: word.device, number: last.standing(stops)? })
        };
        self.own.get().and_then(standing).map_or(LastPoint::Unwritten, LastPoint::At)
    }

    /// Has the stream write the next number once what was launched into it has run. `None` if the
    /// device's streams cannot. A full stream may block, like a launch.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The stream is that of this timeline, alive, and not captured.
    pub unsafe fn signal(&self, stream: A::Stream) -> Result<Option<Point>, StreamError<A::Error>> {
        let api = &self.device.api;
        if !api.has_numbers() {
            return Ok(None);
        }
        let entered = api.enter().map_err(StreamError::during("choosing the device"))?;
        let (word, last) = self.own()?;
        let word = word.device;
        // SAFETY: as the caller promises; the word's memory stays as long as the context.
        let write = |number| unsafe { api.write_number(stream, word, number) };
        let number = last.write(|| self.stops(), write);
        drop(entered);
        let number = number.map_err(StreamError::during("signalling a stream's progress"))?;
        Ok(Some(Point { word, number }))
    }

    /// Has the stream of this timeline wait until another one has got to a point.
    ///
    /// # Errors
    /// If the driver refuses, for example since the context of the other one has ended.
    ///
    /// # Safety
    /// As [`Timeline::signal`]. The point is one that [`Timeline::signal`] answered.
    pub unsafe fn wait(
        &self,
        stream: A::Stream,
        point: Point,
    ) -> Result<(), StreamError<A::Error>> {
        let api = &self.device.api;
        let entered = api.enter().map_err(StreamError::during("choosing the device"))?;
        // SAFETY: as the caller promises.
        let waits = unsafe { api.await_number(stream, point.word, point.number) };
        drop(entered);
        self.waits.add();
        waits.map_err(StreamError::during("waiting for another stream"))
    }

    /// Stops that the last number may have to be behind.
    fn stops(&self) -> u64 {
        self.device.gates_put.count() + self.waits.count()
    }

    fn own(&self) -> Result<&(FlagWord, Last), StreamError<A::Error>> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let (word, number) = self.free_word()?;
        // Another thread may have been first.
        if let Err((word, last)) = self.own.set((word, Last::new(number))) {
            self.free_words().push((word, last.number()));
        }
        self.own.get().ok_or(StreamError::NoFlags)
    }

    fn free_words(&self) -> MutexGuard<'_, Vec<(FlagWord, u32)>> {
        self.device.timelines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A word with the number that was written last.
    fn free_word(&self) -> Result<(FlagWord, u32), StreamError<A::Error>> {
        let mut free = self.free_words();
        // A number behind one that is still to be written would be overwritten by that.
        if let Some(at) = free.iter().position(|(word, last)| word.value() == *last) {
            return Ok(free.swap_remove(at));
        }
        Ok((self.device.flags().take(&*self.device.api)?, 0))
    }
}

impl<A: StreamApi> Drop for Timeline<A> {
    fn drop(&mut self) {
        if let Some((word, last)) = self.own.take() {
            self.free_words().push((word, last.number()));
        }
    }
}
