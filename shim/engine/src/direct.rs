//! Direct launches: those that the hook of a function hands to the driver at once.
//!
//! A launch is direct if nothing requires scheduling (`libpreempt.so` says that in one word), and
//! its thread knows the stream: it has an XQueue, or gets one later. What a thread knows is kept
//! with the thread, and is so for one *generation*. A new one begins when a stream or an XQueue
//! ends, when a capture begins, and in the child of a fork.
//!
//! So a direct launch reads the word, by two pointers, the generation, and a place of the thread's
//! own, and writes nothing. It cannot be the word alone: whether the process is alone on its GPU is
//! said by the scheduler of the node, in memory that this shares with it, and which streams there
//! are is known to the driver alone. A default stream is that of the current context or device,
//! which a thread changes by hooked functions: [`change_context`].

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Code, Stream};

/// The number of the generation. 0 is none.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Streams that a thread knows at a time.
const PLACES: usize = 8;

/// A stream, and its XQueue in a generation; 0 if it gets it later.
#[derive(Clone, Copy, Debug)]
struct Known {
    stream: usize,
    generation: u64,
    xq: u64,
}

thread_local! {
    static KNOWN: [Cell<Known>; PLACES] =
        const { [const { Cell::new(Known { stream: 0, generation: 0, xq: 0 }) }; PLACES] };
}

/// Where a stream is kept.
const fn place_of(stream: usize) -> usize {
    // The upper bits depend on all.
    stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.trailing_zeros())
}

/// The XQueue of a stream that this thread knows.
#[inline]
pub(crate) fn xqueue(stream: Stream) -> Option<u64> {
    let id = stream.id();
    let known = KNOWN.with(|known| known.get(place_of(id)).map(Cell::get))?;
    let is_known = known.stream == id && known.generation == generation();
    is_known.then_some(known.xq)
}

/// The present generation.
#[inline]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// From now on, what threads know of streams is asked anew.
pub(crate) fn begin_generation() {
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

/// This thread knows a stream, which was looked up after this generation was read, and while
/// nothing was captured: a captured stream launches nothing.
pub(crate) fn keep(stream: Stream, generation: u64, xq: u64) {
    if stream == Stream::Elsewhere {
        return;
    }
    let stream = stream.id();
    KNOWN.with(|known| {
        if let Some(place) = known.get(place_of(stream)) {
            place.set(Known { stream, generation, xq });
        }
    });
}

/// Makes a call that may have another context or device be current on this thread, whose default
/// streams are others.
pub fn change_context(call: impl FnOnce() -> Code) -> Code {
    let code = call();
    KNOWN.with(|known| {
        for stream in [Stream::Legacy, Stream::PerThread].map(Stream::id) {
            if let Some(place) = known.get(place_of(stream)) {
                place.set(Known { stream: 0, generation: 0, xq: 0 });
            }
        }
    });
    code
}

#[cfg(test)]
mod tests {
    use std::ptr::without_provenance_mut;

    use super::*;

    #[test]
    fn a_stream_is_known_until_the_next_generation() {
        let own = || Stream::Own(without_provenance_mut(0x5580_1000));
        let stream = own();
        assert_eq!(xqueue(stream), None);
        keep(stream, generation(), 7);
        assert_eq!(xqueue(stream), Some(7));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(xqueue(own()), None, "another thread"));
        });
        let before = generation();
        begin_generation();
        assert_eq!(xqueue(stream), None);
        // What was looked up before is not known either.
        keep(stream, before, 7);
        assert_eq!(xqueue(stream), None);
    }

    #[test]
    fn default_streams_are_known_until_the_context_changes() {
        let own = Stream::Own(without_provenance_mut(0x5580_2000));
        // No other test's generation, which may begin meanwhile.
        let known = |stream| {
            (0..100).any(|_| {
                keep(stream, generation(), 3);
                xqueue(stream) == Some(3)
            })
        };
        assert!(known(Stream::Legacy) && known(Stream::PerThread) && known(own));
        assert_eq!(change_context(|| 0), 0);
        assert_eq!((xqueue(Stream::Legacy), xqueue(Stream::PerThread)), (None, None));
        assert!(!known(Stream::Elsewhere));
    }

    #[test]
    fn all_places_are_used() {
        let places = (0..64_usize).map(|n| place_of(0x5580_0000 + 0x40 * n));
        let used: std::collections::BTreeSet<_> = places.collect();
        assert_eq!(used, (0..PLACES).collect());
    }
}
