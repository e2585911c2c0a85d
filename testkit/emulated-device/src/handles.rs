//! Handles, which stand for objects.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::code::{Answer, INVALID_HANDLE};

/// Where handles start, and how far they are apart: nothing that a program may read.
const FIRST: usize = 0x4000_0000;
const STEP: usize = 64;

/// All objects of one kind or of several, by their handles. None is given out twice.
#[derive(Debug)]
pub struct Handles<O> {
    table: Mutex<(usize, HashMap<usize, O>)>,
}

impl<O> Default for Handles<O> {
    fn default() -> Self {
        Self { table: Mutex::new((FIRST, HashMap::new())) }
    }
}

impl<O: Clone> Handles<O> {
    fn lock(&self) -> MutexGuard<'_, (usize, HashMap<usize, O>)> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an object a handle.
    pub fn add(&self, object: O) -> usize {
        let mut table = self.lock();
        table.0 += STEP;
        let handle = table.0;
        table.1.insert(handle, object);
        handle
    }

    /// The object.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, handle: usize) -> Answer<O> {
        self.lock().1.get(&handle).cloned().ok_or(INVALID_HANDLE)
    }

    /// Forgets a handle. What it stood for, if it did.
    pub fn remove(&self, handle: usize) -> Option<O> {
        self.lock().1.remove(&handle)
    }

    /// Forgets all handles but these. What is forgotten is answered, and dropped by the caller.
    pub fn retain(&self, mut keep: impl FnMut(&O) -> bool) -> Vec<O> {
        self.lock().1.extract_if(|_, object| !keep(object)).map(|(_, object)| object).collect()
    }

    /// The handle of an object of which something holds.
    pub fn find(&self, mut holds: impl FnMut(&O) -> bool) -> Option<usize> {
        let table = self.lock();
        table.1.iter().find(|(_, object)| holds(object)).map(|(handle, _)| *handle)
    }

    /// How many objects there are of which something holds.
    pub fn count(&self, mut counts: impl FnMut(&O) -> bool) -> usize {
        self.lock().1.values().filter(|object| counts(object)).count()
    }
}

/// Adds functions to a type with `objects`, which each find an object of one kind by its handle.
#[macro_export]
macro_rules! finders {
    ($owner:ident: $($name:ident, $variant:ident, $type:ty;)+) => {
        impl $owner {$(
            pub(crate) fn $name(&self, handle: usize) -> $crate::code::Answer<$type> {
                match self.objects.get(handle)? {
                    Object::$variant(object) => Ok(object),
                    _ => Err($crate::code::INVALID_HANDLE),
                }
            }
        )+}
    };
}
