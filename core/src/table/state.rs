//! State that a policy keeps of each queue and each device.
//!
//! The table keeps [`QUEUE_WORDS`] words for each queue and [`DEVICE_WORDS`] for each device, which
//! belong to the policy in charge. [`policy_state!`](crate::policy_state) declares a struct whose
//! fields live in them.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use crate::time::{Duration, Instant};

/// Words (of 64 bits) for the state of a queue.
pub const QUEUE_WORDS: usize = 5;
/// Words (of 64 bits) for the state of a device.
pub const DEVICE_WORDS: usize = 12;

const WORD: u32 = u64::BITS;

/// A value that a field of a policy's state can have.
///
/// The value that 0 stands for is the first one: see [`PolicyState`].
pub trait Field: Copy {
    /// Bits that it takes, 1 to 64.
    const BITS: u32;

    /// The value as a number below 2 to the power of [`Field::BITS`].
    fn to_bits(self) -> u64;

    /// The value of a number.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integers {
    ($($integer:ty),*) => {
        $(impl Field for $integer {
            const BITS: u32 = <$integer>::BITS;

            #[inline]
            fn to_bits(self) -> u64 {
                u64::from(self)
            }

            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        })*
    };
}

integers!(u8, u16, u32, u64);

impl Field for bool {
    const BITS: u32 = 1;

    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self)
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

macro_rules! times {
    ($($time:ty),*) => {
        $(impl Field for $time {
            const BITS: u32 = WORD;

            #[inline]
            fn to_bits(self) -> u64 {
                self.as_ns()
            }

            #[inline]
            fn from_bits(bits: u64) -> Self {
                Self::from_ns(bits)
            }
        })*
    };
}

times!(Duration, Instant);

/// A policy's state for a queue or a device: a struct that [`policy_state!`](crate::policy_state)
/// declared, or a pair of such structs.
///
/// It starts as the value that zeroed words give.
pub trait PolicyState: Copy {
    /// Words that it takes.
    const WORDS: usize;

    /// The state that these words hold, of which there are [`PolicyState::WORDS`] or more.
    fn load(words: &[Cell<u64>]) -> Self;

    /// Puts the state into words, of which there are [`PolicyState::WORDS`] or more.
    fn store(self, words: &[Cell<u64>]);

    /// The state of a queue that was just attached: all fields are zero.
    #[must_use]
    fn zeroed() -> Self {
        Self::load(&[const { Cell::new(0) }; DEVICE_WORDS])
    }
}

impl<A: PolicyState, B: PolicyState> PolicyState for (A, B) {
    const WORDS: usize = A::WORDS + B::WORDS;

    #[inline]
    fn load(words: &[Cell<u64>]) -> Self {
        (A::load(words), B::load(&words[A::WORDS..]))
    }

    #[inline]
    fn store(self, words: &[Cell<u64>]) {
        self.0.store(words);
        self.1.store(&words[A::WORDS..]);
    }
}

/// Place of a field of `bits` bits that follows `at` bits: no field lies across two words.
const fn start(at: u32, bits: u32) -> u32 {
    if at % WORD + bits > WORD { at.next_multiple_of(WORD) } else { at }
}

/// Number of words for fields of these widths in bits, in this order.
#[doc(hidden)]
#[must_use]
pub const fn words_for(fields: &[u32]) -> usize {
    let (mut at, mut field) = (0, 0);
    while field < fields.len() {
        at = start(at, fields[field]) + fields[field];
        field += 1;
    }
    at.div_ceil(WORD) as usize
}

/// Goes through words field by field.
#[doc(hidden)]
#[derive(Debug)]
pub struct Fields<'w> {
    words: &'w [Cell<u64>],
    at: u32,
}

impl<'w> Fields<'w> {
    #[inline]
    #[must_use]
    pub const fn new(words: &'w [Cell<u64>]) -> Self {
        Self { words, at: 0 }
    }

    /// Returns the word of the next field of `bits` bits, and where the field begins in it.
    #[inline]
    const fn next(&mut self, bits: u32) -> (&'w Cell<u64>, u32) {
        let at = start(self.at, bits);
        self.at = at + bits;
        (&self.words[(at / WORD) as usize], at % WORD)
    }

    #[inline]
    pub fn take<F: Field>(&mut self) -> F {
        let (word, shift) = self.next(F::BITS);
        F::from_bits(word.get() >> shift & mask(F::BITS))
    }

    #[inline]
    pub fn put<F: Field>(&mut self, field: F) {
        let (word, shift) = self.next(F::BITS);
        let mask = mask(F::BITS) << shift;
        word.set(word.get() & !mask | field.to_bits() << shift & mask);
    }
}

/// Mask of the lowest `bits` bits.
const fn mask(bits: u32) -> u64 {
    u64::MAX >> (WORD - bits)
}

/// Declares the state that a policy keeps for each queue or each device.
///
/// The fields are of types that implement [`Field`]: unsigned integers, `bool`,
/// [`Duration`](crate::time::Duration), [`Instant`](crate::time::Instant), or a type of one's own.
/// All are zero at first. The struct does not compile into a policy if it is too large:
/// [`QUEUE_WORDS`] words for a queue, [`DEVICE_WORDS`] for a device.
///
/// ```
/// use xsched_core::id::QueueId;
/// use xsched_core::policy::{QueueTable, policy_state};
/// use xsched_core::time::Duration;
///
/// policy_state! {
///     /// What the policy remembers about a queue.
///     struct Usage {
///         used: Duration,
///         turns: u32,
///     }
/// }
///
/// fn count_turn(queue: QueueId, busy: Duration, queues: &QueueTable<'_>) {
///     if let Some(state) = queues.state::<Usage>(queue) {
///         state.update(|usage| {
///             usage.used += busy;
///             usage.turns += 1;
///         });
///     }
/// }
/// ```
#[macro_export]
macro_rules! policy_state {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visible:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        $visible struct $name {
            $($(#[$field_attribute])* $field_visible $field: $type,)*
        }

        impl $crate::table::PolicyState for $name {
            const WORDS: usize =
                $crate::table::state::words_for(&[$(<$type as $crate::table::Field>::BITS),*]);

            #[inline]
            fn load(words: &[::core::cell::Cell<u64>]) -> Self {
                let mut fields = $crate::table::state::Fields::new(words);
                Self { $($field: fields.take(),)* }
            }

            #[inline]
            fn store(self, words: &[::core::cell::Cell<u64>]) {
                let mut fields = $crate::table::state::Fields::new(words);
                $(fields.put(self.$field);)*
            }
        }
    };
}

/// The place in the table where a policy's state for one queue or device is kept.
pub struct StateCell<'t, S, const N: usize> {
    words: &'t Cell<[u64; N]>,
    state: PhantomData<fn() -> S>,
}

impl<'t, S: PolicyState, const N: usize> StateCell<'t, S, N> {
    pub(crate) const fn new(words: &'t Cell<[u64; N]>) -> Self {
        const { assert!(S::WORDS <= N, "the state has too many fields for the table") }
        Self { words, state: PhantomData }
    }

    /// The state now.
    #[inline]
    #[must_use]
    pub fn get(&self) -> S {
        S::load(self.words.as_array_of_cells())
    }

    /// Replaces the state.
    #[inline]
    pub fn set(&self, state: S) {
        state.store(self.words.as_array_of_cells());
    }

    /// Changes some of the state.
    #[inline]
    pub fn update(&self, change: impl FnOnce(&mut S)) {
        let mut state = self.get();
        change(&mut state);
        self.set(state);
    }
}

impl<S, const N: usize> Clone for StateCell<'_, S, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, const N: usize> Copy for StateCell<'_, S, N> {}

impl<S: PolicyState + fmt::Debug, const N: usize> fmt::Debug for StateCell<'_, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    policy_state! {
        #[derive(PartialEq, Eq)]
        struct Packed {
            a: u32,
            b: u32,
            c: bool,
            d: Instant,
            e: u16,
        }
    }

    policy_state! {
        #[derive(PartialEq, Eq)]
        struct One {
            all: u64,
        }
    }

    const PACKED: Packed = Packed { a: 1, b: u32::MAX, c: true, d: Instant::from_ns(9), e: 7 };

    #[test]
    fn fields_share_words_and_none_lies_across_two() {
        assert_eq!((Packed::WORDS, One::WORDS, <(One, Packed)>::WORDS), (4, 1, 5));
        let words = Cell::new([0; 5]);
        let cell = StateCell::<Packed, 5>::new(&words);
        assert_eq!(cell.get(), Packed { a: 0, b: 0, c: false, d: Instant::ZERO, e: 0 });
        cell.set(PACKED);
        assert_eq!(cell.get(), PACKED);
        assert_eq!(words.get(), [1 | u64::from(u32::MAX) << 32, 1, 9, 7, 0]);
    }

    #[test]
    fn a_field_is_changed_without_the_others() {
        let words = Cell::new([u64::MAX; 5]);
        let cell = StateCell::<(One, Packed), 5>::new(&words);
        cell.set((One { all: 3 }, PACKED));
        cell.update(|(_, packed)| packed.b = 0);
        assert_eq!(cell.get(), (One { all: 3 }, Packed { b: 0, ..PACKED }));
    }
}
