//! Timeline semaphores: numbers that a stream writes and other streams wait for.
//!
//! A stream that waits for another one by an event keeps the device for its process: on an H200 a
//! process of which one stream was held at a gate and another one waited for that by an event still
//! had every other time slice, in which nothing ran. A wait for a number gives the slice up.

use std::sync::{Arc, OnceLock};

use crate::api::StreamApi;
use crate::device::StreamDevice;
use crate::error::StreamError;
use crate::flags::FlagWord;
use crate::inner::Inner;
use crate::sync::{Mutex, lock};

/// How far a stream has got, as a word that it writes rising numbers into.
#[derive(Debug)]
pub struct Timeline<A: StreamApi> {
    device: Arc<Inner<A>>,
    word: OnceLock<FlagWord>,
    last: Last,
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

/// The number that was written last.
#[derive(Debug)]
pub(crate) struct Last(Mutex<u32>);

impl Last {
    pub(crate) fn new(number: u32) -> Self {
        Self(Mutex::new(number))
    }

    /// Has the next number written. Numbers are written in their order, whichever threads write.
    pub(crate) fn write<E>(&self, write: impl FnOnce(u32) -> Result<(), E>) -> Result<u32, E> {
        let mut last = lock(&self.0);
        let next = last.wrapping_add(1);
        write(next)?;
        *last = next;
        Ok(next)
    }
}

impl<A: StreamApi> Timeline<A> {
    /// That of a stream of the device. It takes a word with the first number.
    #[must_use]
    pub fn new(device: &StreamDevice<A>) -> Self {
        Self { device: Arc::clone(&device.inner), word: OnceLock::new(), last: Last::new(0) }
    }

    /// Has the stream write the next number once what was launched into it has run. `None` if the
    /// device's streams cannot. A full stream may block, like a launch.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// It is the stream of this timeline, alive, and not captured.
    pub unsafe fn signal(&self, stream: A::Stream) -> Result<Option<Point>, StreamError<A::Error>> {
        let api = &self.device.api;
        if !api.has_numbers() {
            return Ok(None);
        }
        let entered = api.enter().map_err(StreamError::during("choosing the device"))?;
        let word = self.word()?;
        // SAFETY: as the caller promises; the word is never given back.
        let write = |number| unsafe { api.write_number(stream, word, number) };
        let number = self.last.write(write);
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
        waits.map_err(StreamError::during("waiting for another stream"))
    }

    /// Where the device sees the word. It is never given back: other streams may wait for it when
    /// this one has ended.
    fn word(&self) -> Result<u64, StreamError<A::Error>> {
        if let Some(word) = self.word.get() {
            return Ok(word.device);
        }
        let taken = self.device.flags().take(&*self.device.api)?;
        if self.word.set(taken).is_err() {
            self.device.flags().give_back(taken);
        }
        Ok(self.word.get().unwrap_or(&taken).device)
    }
}
