//! Where tables live: in slices that the caller lends, in arrays, or on the heap.

/// A table of `T` that the machines index. Implemented by `&mut [T]`, `[T; N]`, `Vec<T>`,
/// `Box<[T]>` and everything else that lends a slice.
pub trait Store<T>: AsRef<[T]> + AsMut<[T]> {}

impl<T, S: AsRef<[T]> + AsMut<[T]> + ?Sized> Store<T> for S {}
