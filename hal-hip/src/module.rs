//! Modules, which kernels come from.

use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use crate::api::HipApi;
use crate::error::HipError;
use crate::function::{HipFunction, Loaded};
use crate::raw::Handle;

/// A module of kernels that is loaded on a device, until the last clone and the last of its
/// functions are gone.
///
/// Load modules before anything is held: loading and unloading may wait for the device.
#[derive(Clone, Debug)]
pub struct HipModule(Arc<Loaded>);

impl HipModule {
    /// Loads a code object, a bundle of them, or whatever else the runtime takes, on a device.
    ///
    /// # Errors
    /// If the runtime refuses it.
    ///
    /// # Safety
    /// The image is complete and well-formed: the runtime learns its length from what is in it.
    pub unsafe fn load(api: &HipApi, image: &[u8]) -> Result<Self, HipError> {
        let _entered = api.enter_device()?;
        let library = Arc::clone(api.library());
        let mut module: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to; the caller promises that the image is one.
        let code =
            unsafe { (library.table().hipModuleLoadData)(&raw mut module, image.as_ptr().cast()) };
        HipError::check("hipModuleLoadData", code)?;
        Ok(Self(Arc::new(Loaded { library, module: module.expose_provenance() })))
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn function(&self, name: &str) -> Result<HipFunction, HipError> {
        let name = CString::new(name).map_err(|_| HipError::KernelName)?;
        let Loaded { library, module } = &*self.0;
        let mut function: Handle = ptr::null_mut();
        // SAFETY: the handle may be written to, the module is loaded, and the name ends with zero.
        let code = unsafe {
            (library.table().hipModuleGetFunction)(
                &raw mut function,
                ptr::with_exposed_provenance_mut(*module),
                name.as_ptr(),
            )
        };
        HipError::check("hipModuleGetFunction", code)?;
        Ok(HipFunction {
            function: function.expose_provenance(),
            _module: Some(Arc::clone(&self.0)),
        })
    }
}
