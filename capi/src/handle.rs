//! Handles that can be checked, and the table behind those of queues.

use std::sync::{Arc, PoisonError, RwLock};

/// Kind of object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    XQueue = 1,
    HwQueue = 2,
    Command = 3,
}

impl Kind {
    /// Bits of a place in a table. The other bits tell the users of a place from one another.
    const fn index_bits(self) -> u32 {
        match self {
            Self::XQueue | Self::HwQueue => 20,
            Self::Command => 23,
        }
    }

    /// Places that a table has at most.
    pub(crate) const fn places_max(self) -> usize {
        1 << self.index_bits()
    }

    /// The generation after this one, and after the last the first.
    pub(crate) const fn next_generation(self, generation: u32) -> u32 {
        generation.wrapping_add(1) & ((1 << (PLACE_BITS - self.index_bits())) - 1)
    }
}

/// Bits of a place and a generation together.
const PLACE_BITS: u32 = 46;
const KIND_BITS: u32 = 2;

/// A handle, taken apart: from the lowest bit, place, generation, kind, and a number of the
/// process. Never 0, as no kind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) kind: Kind,
    pub(crate) process: u16,
}

impl Handle {
    pub(crate) const fn pack(self) -> u64 {
        let upper = (self.process as u64) << KIND_BITS | self.kind as u64;
        let place = (self.generation as u64) << self.kind.index_bits() | self.index as u64;
        upper << PLACE_BITS | place
    }

    /// `None` if it cannot be of this kind and process.
    pub(crate) const fn unpack(raw: u64, kind: Kind, process: u16) -> Option<Self> {
        let upper = (process as u64) << KIND_BITS | kind as u64;
        if raw >> PLACE_BITS != upper {
            return None;
        }
        let (index, generation) = place_of(raw, kind);
        Some(Self { index, generation, kind, process })
    }
}

/// The place and the generation of a handle of this kind.
pub(crate) const fn place_of(raw: u64, kind: Kind) -> (u32, u32) {
    let place = raw & ((1 << PLACE_BITS) - 1);
    ((place & (kind.places_max() as u64 - 1)) as u32, (place >> kind.index_bits()) as u32)
}

/// Objects by handle.
#[derive(Debug)]
pub(crate) struct Table<T> {
    kind: Kind,
    process: u16,
    places: RwLock<Places<T>>,
}

#[derive(Debug)]
struct Places<T> {
    all: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: Kind, process: u16) -> Self {
        Self { kind, process, places: RwLock::new(Places { all: Vec::new(), free: Vec::new() }) }
    }

    /// Adds what `make` makes of its handle. `None` if the table is full.
    pub(crate) fn add(&self, make: impl FnOnce(u64) -> T) -> Option<Arc<T>> {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let index = match places.free.pop() {
            Some(index) => index,
            None if places.all.len() < self.kind.places_max() => {
                places.all.push(Place { generation: 1, object: None });
                u32::try_from(places.all.len() - 1).ok()?
            }
            None => return None,
        };
        let place = places.all.get_mut(index as usize)?;
        let (generation, kind, process) = (place.generation, self.kind, self.process);
        let handle = Handle { index, generation, kind, process }.pack();
        let object = Arc::new(make(handle));
        place.object = Some(Arc::clone(&object));
        Some(object)
    }

    /// The object of a handle, if there is one.
    pub(crate) fn get(&self, raw: u64) -> Option<Arc<T>> {
        let handle = Handle::unpack(raw, self.kind, self.process)?;
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let place = places.all.get(handle.index as usize)?;
        if place.generation == handle.generation { place.object.clone() } else { None }
    }

    /// Takes the object of a handle out. The handle is not found from then on.
    pub(crate) fn remove(&self, raw: u64) -> Option<Arc<T>> {
        let handle = Handle::unpack(raw, self.kind, self.process)?;
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let place = places.all.get_mut(handle.index as usize)?;
        if place.generation != handle.generation {
            return None;
        }
        let object = place.object.take()?;
        place.generation = self.kind.next_generation(place.generation);
        places.free.push(handle.index);
        Some(object)
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.all.iter().filter_map(|place| place.object.clone()).collect()
    }

    /// All objects, or none if the table is being changed just now.
    pub(crate) fn try_all(&self) -> Vec<Arc<T>> {
        let Ok(places) = self.places.try_read() else { return Vec::new() };
        places.all.iter().filter_map(|place| place.object.clone()).collect()
    }

    /// Shows each object. False, and shows none, if the table is being changed just now.
    pub(crate) fn try_each(&self, see: impl FnMut(&T)) -> bool {
        let Ok(places) = self.places.try_read() else { return false };
        places.all.iter().filter_map(|place| place.object.as_deref()).for_each(see);
        true
    }

    /// The first object that fits.
    pub(crate) fn find(&self, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.all.iter().filter_map(|place| place.object.as_ref()).find(|o| fits(o)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_of_one_kind_and_process() {
        let handle = Handle { index: 7, generation: 9, kind: Kind::Command, process: 0xabcd };
        let raw = handle.pack();
        assert_eq!(Handle::unpack(raw, Kind::Command, 0xabcd), Some(handle));
        assert_eq!(Handle::unpack(raw, Kind::XQueue, 0xabcd), None);
        assert_eq!(Handle::unpack(raw, Kind::Command, 0xabce), None);
        assert_eq!(Handle::unpack(0, Kind::XQueue, 0), None);
    }

    #[test]
    fn a_handle_that_was_removed_stays_unknown_when_its_place_is_used_again() {
        let table = Table::new(Kind::HwQueue, 1);
        let first = *table.add(|handle| handle).expect("room");
        assert_eq!(table.remove(first).as_deref(), Some(&first));
        let second = *table.add(|handle| handle).expect("room");
        assert_ne!(first, second);
        assert_eq!(first & 0xf_ffff, second & 0xf_ffff, "the same place");
        assert!(table.get(first).is_none() && table.remove(first).is_none());
        assert_eq!(table.get(second).as_deref(), Some(&second));
    }
}
