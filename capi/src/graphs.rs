//! The copies with gates of the graphs that a program launches.
//!
//! The queue of a stream knows a launch of a graph as one command. So that a hold does not wait for
//! the end of that, a graph is copied when the program makes it executable, and once it is known
//! how long it takes, the copy gets gates and is launched instead: [`GatedCopy`] says when and
//! where.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xsched_hal_cuda::GatedCopy;
use xsched_hal_cuda::table::CuContext;

/// The copies of graphs, by the addresses of the executables that the program made of them.
#[derive(Debug, Default)]
pub(crate) struct Graphs(Mutex<HashMap<usize, Known>>);

#[derive(Clone, Debug)]
struct Known {
    /// The context that was current when the graph was made executable.
    context: CuContext,
    copy: Arc<Mutex<GatedCopy>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Graphs {
    /// The copy for an executable that the program made.
    pub(crate) fn find(&self, exec: *mut c_void) -> Option<Arc<Mutex<GatedCopy>>> {
        lock(&self.0).get(&exec.addr()).map(|known| Arc::clone(&known.copy))
    }

    /// Keeps the copy for an executable that was made in a context.
    pub(crate) fn insert(&self, exec: *mut c_void, context: CuContext, copy: GatedCopy) {
        let known = Known { context, copy: Arc::new(Mutex::new(copy)) };
        let before = lock(&self.0).insert(exec.addr(), known);
        // Not while the table is locked: its end calls the driver.
        drop(before);
    }

    /// Forgets the copy for an executable.
    pub(crate) fn remove(&self, exec: *mut c_void) {
        let gone = lock(&self.0).remove(&exec.addr());
        drop(gone);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Mutex<GatedCopy>>> {
        lock(&self.0).values().map(|known| Arc::clone(&known.copy)).collect()
    }

    /// Forgets those of a context. The program's executables are launched as they are.
    pub(crate) fn forget(&self, context: CuContext) {
        let gone: Vec<_> = lock(&self.0).extract_if(|_, known| known.context == context).collect();
        drop(gone);
    }
}
