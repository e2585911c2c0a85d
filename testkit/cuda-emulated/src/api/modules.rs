//! Modules, libraries and their kernels.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::{fs, ptr};

use xsched_emulated_device::c::{Out, Text, layout};
use xsched_emulated_device::code::{
    Answer, FILE_NOT_FOUND, INVALID_HANDLE, INVALID_VALUE, NO_BINARY, NOT_FOUND,
};
use xsched_emulated_device::{Device, check_safe};

use crate::attributes::{self, BLOCK_THREADS, UNIT_THREADS, UNITS};
use crate::context::engine;
use crate::driver::{Function, Module, Object, driver};
use crate::exports::exports;
use crate::kernels;

/// An image as far as a zero, as CUDA's caller promises; all images here are texts. The beginning
/// of another one, which is too short to be more.
fn bytes(image: &Text) -> Answer<Vec<u8>> {
    // An image that is no text begins with a number that is none of a text's.
    image
        .get()
        .map(String::into_bytes)
        .map_err(|code| if image.is_null() { code } else { NO_BINARY })
}

fn load(image: &Text) -> Answer<usize> {
    let engine = engine()?;
    check_safe(engine)?;
    let kernels = kernels::load(&bytes(image)?)?;
    Ok(driver().objects.add(Object::Module(Arc::new(Module { engine: Some(engine), kernels }))))
}

/// The function of a kernel, in a context if it is not a library's.
fn function(
    handle: usize,
    module: &Module,
    name: &str,
    engine: Option<&'static Device>,
) -> Answer<Function> {
    let found = module.kernels.iter().find(|kernel| kernel.name == name);
    Ok(Function { module: handle, engine, builtin: *found.ok_or(NOT_FOUND)? })
}

/// The handle of a function, the same one each time.
fn handle_of(function: &Function, object: fn(Function) -> Object) -> usize {
    let wanted = object(function.clone());
    let is_it = |known: &Object| match (known, &wanted) {
        (Object::Function(known), Object::Function(wanted))
        | (Object::Kernel(known), Object::Kernel(wanted)) => {
            let is_there = |of: &Function| of.engine.map(ptr::from_ref);
            known.module == wanted.module
                && known.builtin.name == wanted.builtin.name
                && is_there(known) == is_there(wanted)
        }
        _ => false,
    };
    driver().objects.find(is_it).unwrap_or_else(|| driver().objects.add(wanted.clone()))
}

/// Forgets a module or a library, and its functions.
fn forget(module: usize) {
    driver().objects.remove(module);
    let keep = |object: &Object| match object {
        Object::Function(of) | Object::Kernel(of) => of.module != module,
        _ => true,
    };
    drop(driver().objects.retain(keep));
}

/// A kernel by the handle of a function, or of a library's kernel.
pub(super) fn callable(handle: usize) -> Answer<Function> {
    match driver().objects.get(handle)? {
        Object::Function(function) | Object::Kernel(function) => Ok(function),
        _ => Err(INVALID_HANDLE),
    }
}

/// The text of a name, which is kept for ever.
fn name_of(kernel: &Function) -> *const c_char {
    let name = CString::new(kernel.builtin.name).unwrap_or_default();
    CStr::as_ptr(Box::leak(name.into_boxed_c_str()))
}

fn parameter(kernel: &Function, at: usize, start: Out<usize>, bytes: Out<usize>) -> Answer {
    let (starts, _) = layout(kernel.builtin.sizes);
    start.set(*starts.get(at).ok_or(INVALID_VALUE)?)?;
    bytes.offer(kernel.builtin.sizes[at]);
    Ok(())
}

exports! {
    fn cuModuleLoadData(module: Out<usize>, image: Text) {
        module.set(load(&image)?)
    }

    fn cuModuleLoadDataEx(
        module: Out<usize>,
        image: Text,
        _count: u32,
        _options: *const u32,
        _values: *const *mut c_void,
    ) {
        module.set(load(&image)?)
    }

    fn cuModuleLoadFatBinary(_module: Out<usize>, _image: *const c_void) {
        Err(NO_BINARY)
    }

    fn cuModuleLoad(module: Out<usize>, path: Text) {
        let engine = engine()?;
        let image = fs::read(path.get()?).map_err(|_| FILE_NOT_FOUND)?;
        let kernels = kernels::load(&image)?;
        let object = Module { engine: Some(engine), kernels };
        module.set(driver().objects.add(Object::Module(Arc::new(object))))
    }

    fn cuModuleUnload(module: usize) {
        let object = driver().module(module)?;
        if let Some(engine) = object.engine {
            engine.synchronize();
        }
        forget(module);
        Ok(())
    }

    fn cuModuleGetLoadingMode(mode: Out<u32>) {
        mode.set(1)
    }

    fn cuModuleGetFunction(to: Out<usize>, module: usize, name: Text) {
        let object = driver().module(module)?;
        let found = function(module, &object, &name.get()?, object.engine)?;
        to.set(handle_of(&found, Object::Function))
    }

    fn cuModuleGetFunctionCount(count: Out<u32>, module: usize) {
        count.set(driver().module(module)?.kernels.len() as u32)
    }

    fn cuModuleGetGlobal_v2(
        _address: Out<usize>,
        _bytes: Out<usize>,
        module: usize,
        _name: Text,
    ) {
        driver().module(module)?;
        Err(NOT_FOUND)
    }

    fn cuLibraryLoadData(
        library: Out<usize>,
        image: Text,
        _jit_options: *const u32,
        _jit_values: *const *mut c_void,
        _jit_count: u32,
        _options: *const u32,
        _values: *const *mut c_void,
        _count: u32,
    ) {
        let kernels = kernels::load(&bytes(&image)?)?;
        let object = Module { engine: None, kernels };
        library.set(driver().objects.add(Object::Library(Arc::new(object))))
    }

    fn cuLibraryUnload(library: usize) {
        driver().library(library)?;
        forget(library);
        Ok(())
    }

    fn cuLibraryGetKernel(kernel: Out<usize>, library: usize, name: Text) {
        let object = driver().library(library)?;
        let found = function(library, &object, &name.get()?, None)?;
        kernel.set(handle_of(&found, Object::Kernel))
    }

    fn cuKernelGetFunction(to: Out<usize>, kernel: usize) {
        let found = Function { engine: Some(engine()?), ..driver().kernel(kernel)? };
        to.set(handle_of(&found, Object::Function))
    }

    fn cuKernelGetName(name: Out<*const c_char>, kernel: usize) {
        name.set(name_of(&driver().kernel(kernel)?))
    }

    fn cuKernelGetParamInfo(kernel: usize, at: usize, start: Out<usize>, bytes: Out<usize>) {
        parameter(&driver().kernel(kernel)?, at, start, bytes)
    }

    fn cuFuncGetName(name: Out<*const c_char>, function: usize) {
        name.set(name_of(&callable(function)?))
    }

    fn cuFuncGetModule(module: Out<usize>, function: usize) {
        module.set(callable(function)?.module)
    }

    fn cuFuncGetParamInfo(function: usize, at: usize, start: Out<usize>, bytes: Out<usize>) {
        parameter(&callable(function)?, at, start, bytes)
    }

    fn cuFuncIsLoaded(state: Out<u32>, function: usize) {
        callable(function)?;
        state.set(1)
    }

    fn cuFuncLoad(function: usize) {
        callable(function).map(drop)
    }

    fn cuFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: usize) {
        callable(function)?;
        value.set(attributes::function(attribute)?)
    }

    fn cuFuncSetAttribute(function: usize, attribute: c_int, _value: c_int) {
        callable(function)?;
        attributes::function(attribute).map(drop)
    }

    fn cuFuncSetCacheConfig(function: usize, _configuration: u32) {
        callable(function).map(drop)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<c_int>,
        function: usize,
        threads: c_int,
        _shared_bytes: usize,
    ) {
        callable(function)?;
        let fits = (1..=BLOCK_THREADS).contains(&threads);
        blocks.set(if fits { (UNIT_THREADS / threads).min(32) } else { return Err(INVALID_VALUE) })
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<c_int>,
        function: usize,
        threads: c_int,
        _shared_bytes: usize,
        _flags: u32,
    ) {
        callable(function)?;
        let fits = (1..=BLOCK_THREADS).contains(&threads);
        blocks.set(if fits { (UNIT_THREADS / threads).min(32) } else { return Err(INVALID_VALUE) })
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<c_int>,
        block: Out<c_int>,
        function: usize,
        _shared_of: *const c_void,
        _shared_bytes: usize,
        limit: c_int,
    ) {
        callable(function)?;
        let threads = if limit > 0 { limit.min(BLOCK_THREADS) } else { BLOCK_THREADS };
        grid.set(UNITS * (UNIT_THREADS / threads))?;
        block.set(threads)
    }
}
