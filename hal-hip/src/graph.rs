//! Graphs: rows of commands that are launched with one call.

use std::ptr;
use std::sync::Arc;

use xsched_hal_stream::{Reach, StreamApi};

use crate::api::HipApi;
use crate::driver::HipStream;
use crate::error::HipError;
use crate::library::HipLibrary;
use crate::native::{Executable, HipNative};
use crate::raw;
use crate::raw::{Handle, Table};

/// The function that a runtime without graphs is said to lack.
const WHAT: &str = "graphs";

/// A graph that can be launched, until the last clone is gone.
///
/// A launch is one command of a queue: it is held as a whole, and at Lv2 in front of its first
/// kernel only. The runtime launches a graph that is a plain row in the stream's own ring.
#[derive(Clone, Debug)]
pub struct HipGraph(Arc<Made>);

#[derive(Debug)]
struct Made {
    /// The library stays loaded.
    _library: Arc<HipLibrary>,
    exec: usize,
    destroy: unsafe extern "C" fn(Handle) -> raw::Code,
    /// Keep the modules of their kernels loaded.
    commands: Vec<HipNative>,
}

/// The functions that graphs need.
#[derive(Clone, Copy, Debug)]
struct Calls {
    begin: unsafe extern "C" fn(Handle, u32) -> raw::Code,
    end: unsafe extern "C" fn(Handle, *mut Handle) -> raw::Code,
    instantiate: unsafe extern "C" fn(
        *mut Handle,
        Handle,
        *mut Handle,
        *mut std::ffi::c_char,
        usize,
    ) -> raw::Code,
    destroy: unsafe extern "C" fn(Handle) -> raw::Code,
    exec_destroy: unsafe extern "C" fn(Handle) -> raw::Code,
}

impl Calls {
    fn of(table: &Table) -> Result<Self, HipError> {
        let lacks = |symbol| HipError::Lacks { symbol, what: WHAT };
        // Without it, nothing else is of use.
        table.hipGraphLaunch.ok_or_else(|| lacks("hipGraphLaunch"))?;
        Ok(Self {
            begin: table.hipStreamBeginCapture.ok_or_else(|| lacks("hipStreamBeginCapture"))?,
            end: table.hipStreamEndCapture.ok_or_else(|| lacks("hipStreamEndCapture"))?,
            instantiate: table.hipGraphInstantiate.ok_or_else(|| lacks("hipGraphInstantiate"))?,
            destroy: table.hipGraphDestroy.ok_or_else(|| lacks("hipGraphDestroy"))?,
            exec_destroy: table.hipGraphExecDestroy.ok_or_else(|| lacks("hipGraphExecDestroy"))?,
        })
    }
}

impl HipGraph {
    /// A row of commands, each after the one before, captured from a stream that is made for it.
    /// Call it before anything is held: it may wait for the device.
    ///
    /// # Errors
    /// [`HipError::Lacks`] if the runtime has no graphs, or what it answers to the capture: it
    /// takes no cooperative kernels, for one.
    pub fn captured_row(api: &HipApi, commands: &[HipNative]) -> Result<Self, HipError> {
        let library = api.library();
        let calls = Calls::of(library.table())?;
        let _entered = api.enter()?;
        // One that does not wait for the legacy default stream, which no capture may.
        let stream = api.create_stream(Some(0))?;
        let captured = capture(library, calls, stream, commands);
        // SAFETY: made above, and nothing is left in it. Nothing depends on the answer.
        let _ = unsafe { api.destroy_stream(stream) };
        let graph = captured?;
        let mut exec: Handle = ptr::null_mut();
        let (failed, log) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the handle may be written to, the graph was just made, and a null log of no
        // bytes and a null node are not written to.
        let code = unsafe { (calls.instantiate)(&raw mut exec, graph, failed, log, 0) };
        // SAFETY: it was just made, and what was instantiated does not need it. Nothing depends on
        // the answer.
        let _ = unsafe { (calls.destroy)(graph) };
        HipError::check("hipGraphInstantiate", code)?;
        let (_library, exec) = (Arc::clone(library), exec.expose_provenance());
        let (destroy, commands) = (calls.exec_destroy, commands.to_vec());
        Ok(Self(Arc::new(Made { _library, exec, destroy, commands })))
    }
}

impl HipNative {
    /// A graph as one command.
    #[must_use]
    pub fn graph(graph: HipGraph) -> Self {
        Self::executable(graph.0)
    }
}

impl Executable for Made {
    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch(&self, library: &HipLibrary, stream: HipStream) -> Result<(), HipError> {
        let symbol = "hipGraphLaunch";
        let launch = library.table().hipGraphLaunch;
        let launch = launch.ok_or(HipError::Lacks { symbol, what: WHAT })?;
        let exec = ptr::with_exposed_provenance_mut(self.exec);
        // SAFETY: it lives as long as this, and the caller promises that the stream does.
        HipError::check(symbol, unsafe { launch(exec, stream.as_raw()) })
    }

    fn reach(&self) -> Reach {
        self.commands.iter().map(HipNative::reach).max().unwrap_or(Reach::Ring)
    }
}

/// Captures commands from a fresh stream, and ends the capture whatever happens.
fn capture(
    library: &HipLibrary,
    calls: Calls,
    stream: HipStream,
    commands: &[HipNative],
) -> Result<Handle, HipError> {
    // SAFETY: the stream was just made.
    let code = unsafe { (calls.begin)(stream.as_raw(), raw::CAPTURE_THREAD_LOCAL) };
    HipError::check("hipStreamBeginCapture", code)?;
    // SAFETY: the stream is alive and its device current; nothing runs yet, and the maker of the
    // commands promised that they may run at any time.
    let mut all = commands.iter().map(|command| unsafe { command.launch(library, stream) });
    let launched = all.try_for_each(|answer| answer);
    let mut graph: Handle = ptr::null_mut();
    // SAFETY: the stream is being captured, and the handle may be written to.
    let code = unsafe { (calls.end)(stream.as_raw(), &raw mut graph) };
    let ended = launched.and_then(|()| HipError::check("hipStreamEndCapture", code));
    if ended.is_err() && !graph.is_null() {
        // SAFETY: it was just made, and nothing else refers to it. Nothing depends on the answer.
        let _ = unsafe { (calls.destroy)(graph) };
    }
    ended.map(|()| graph)
}

impl Drop for Made {
    fn drop(&mut self) {
        let exec = ptr::with_exposed_provenance_mut(self.exec);
        // SAFETY: it was instantiated, and each queue that launches it has a clone. The runtime
        // itself keeps what still runs. There is nothing to be done about an error.
        let _ = unsafe { (self.destroy)(exec) };
    }
}
