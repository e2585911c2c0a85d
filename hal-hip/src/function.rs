//! Kernels of loaded modules.

use std::ptr;
use std::sync::Arc;

use crate::library::HipLibrary;
use crate::raw::Handle;

/// A module that is loaded, until its last function is gone.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) library: Arc<HipLibrary>,
    pub(crate) module: usize,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let module = ptr::with_exposed_provenance_mut(self.module);
        // SAFETY: it was loaded, and nothing refers to it any more. There is nothing to be done
        // about an error.
        let _ = unsafe { (self.library.table().hipModuleUnload)(module) };
    }
}

/// A kernel. Keeps its module loaded.
#[derive(Clone, Debug)]
pub struct HipFunction {
    pub(crate) function: usize,
    pub(crate) _module: Option<Arc<Loaded>>,
}

impl HipFunction {
    /// A kernel that other code has loaded, by its `hipFunction_t`.
    ///
    /// # Safety
    /// The handle is a function's, and its module stays loaded as long as the answer, all its
    /// clones and all commands that were made with it.
    #[must_use]
    pub unsafe fn from_raw(function: Handle) -> Self {
        Self { function: function.expose_provenance(), _module: None }
    }
}
