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

use xsched_hal_process::burst::{BurstLaunch, BurstState};

use crate::{Code, Stream};

/// The number of the generation. 0 is none.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// Streams that a thread knows at a time.
const PLACES: usize = 8;

/// A stream, and its XQueue in a generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    stream: usize,
    generation: u64,
    /// 0 if the stream gets it later.
    pub(crate) xq: u64,
    burst: KnownBurst,
}

/// A moment in a burst.
#[derive(Debug)]
pub(crate) struct BurstMark {
    state: &'static BurstState,
    number: u32,
    mark: u64,
}

impl BurstMark {
    /// The program has waited for all that was launched into the stream by then.
    pub(crate) fn has_run(self) {
        self.state.note_drained(self.number, self.mark);
    }
}

/// The burst of an XQueue.
#[derive(Clone, Copy, Debug)]
enum KnownBurst {
    /// Nothing has been launched through the XQueue yet.
    NotAsked,
    /// The XQueue has no burst.
    None,
    /// The state with this number.
    Of(&'static BurstState, u32),
}

impl Known {
    const NONE: Self = Self { stream: 0, generation: 0, xq: 0, burst: KnownBurst::NotAsked };

    /// Begins a launch of this kind within the burst of the XQueue, if it lets it.
    #[inline]
    pub(crate) fn begin_in_burst(&self, kind: u32) -> Option<BurstLaunch<'static>> {
        let KnownBurst::Of(state, number) = self.burst else { return None };
        state.begin(number, kind, thread_number())
    }

    /// Returns a mark of what was launched within the burst of the XQueue by now.
    pub(crate) fn mark(&self) -> Option<BurstMark> {
        let KnownBurst::Of(state, number) = self.burst else { return None };
        Some(BurstMark { state, number, mark: state.mark() })
    }

    /// Returns whether the XQueue has a burst, as far as is known.
    #[inline]
    pub(crate) const fn has_burst(&self) -> bool {
        matches!(self.burst, KnownBurst::Of(..))
    }
}

thread_local! {
    static KNOWN: [Cell<Known>; PLACES] = const { [const { Cell::new(Known::NONE) }; PLACES] };
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The number of this thread below `/proc/self/task`.
pub(crate) fn thread_number() -> u32 {
    THREAD.with(|thread| {
        if thread.get() == 0 {
            // SAFETY: it only answers.
            thread.set(unsafe { libc::gettid() }.cast_unsigned());
        }
        thread.get()
    })
}

/// Where a stream is kept.
const fn place_of(stream: usize) -> usize {
    // The upper bits depend on all.
    stream.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.trailing_zeros())
}

/// Returns the thread's entry of a stream, if it has a valid one.
#[inline]
pub(crate) fn known(stream: Stream) -> Option<Known> {
    let id = stream.id();
    let known = KNOWN.with(|known| known.get(place_of(id)).map(Cell::get))?;
    let is_known = known.stream == id && known.generation == generation();
    is_known.then_some(known)
}

/// The XQueue of a stream that this thread knows.
#[inline]
pub(crate) fn xqueue(stream: Stream) -> Option<u64> {
    known(stream).map(|known| known.xq)
}

/// Asks for the burst of a stream that this thread knows, whose XQueue it has launched through.
pub(crate) fn ask_for_burst(
    stream: Stream,
    ask: impl FnOnce(u64) -> Option<(&'static BurstState, u32)>,
) {
    let Some(known) = known(stream).filter(|known| matches!(known.burst, KnownBurst::NotAsked))
    else {
        return;
    };
    let burst = match ask(known.xq) {
        Some((state, number)) => KnownBurst::Of(state, number),
        None => KnownBurst::None,
    };
    place(known.stream, Known { burst, ..known });
}

fn place(stream: usize, known: Known) {
    KNOWN.with(|all| {
        if let Some(place) = all.get(place_of(stream)) {
            place.set(known);
        }
    });
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

/// Keeps for this thread a stream, which was looked up after this generation was read, and while
/// nothing was captured: a captured stream launches nothing.
pub(crate) fn keep(stream: Stream, generation: u64, xq: u64) {
    if stream == Stream::Elsewhere {
        return;
    }
    let stream = stream.id();
    place(stream, Known { stream, generation, xq, burst: KnownBurst::NotAsked });
}

/// Makes a call that may have another context or device be current on this thread, whose default
/// streams are others.
pub fn change_context(call: impl FnOnce() -> Code) -> Code {
    let code = call();
    for stream in [Stream::Legacy, Stream::PerThread] {
        place(stream.id(), Known::NONE);
    }
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
