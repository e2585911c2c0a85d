//! Bytes as a supply of decisions.

/// Reads decisions from bytes. When they have run out, every decision is the first one.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    data: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        first
    }

    /// A number below `n`, which must be 1 to 256.
    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    /// A number from 1 to `n`.
    pub(super) fn up_to(&mut self, n: usize) -> usize {
        1 + self.below(n)
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
