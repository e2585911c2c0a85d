//! Executable graphs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use xsched_hal_stream::{GateWord, StreamApi, StreamDevice};

use crate::api::CudaApi;
use crate::command::{Body, CudaCommand, Executable};
use crate::driver::{need, written};
use crate::error::CudaError;
use crate::table::{CuEvent, CuGraph, CuGraphExec, CuStream};

/// Interval at which a thread asks whether an executable graph has run.
const POLL: Duration = Duration::from_micros(50);

/// An executable graph: `CUgraphExec`. A clone is the same one.
///
/// One launch of it runs at a time: the driver has a launch wait for those before, in whatever
/// streams they are. What is to run at once must be made executable several times.
///
/// The last clone or command destroys it. The driver lets what is running then run to its
/// end and frees it afterwards; the word of its gates is kept for as long.
#[derive(Clone)]
pub struct CudaGraphExec(Arc<Exec>);

struct Exec {
    device: StreamDevice<CudaApi>,
    exec: CuGraphExec,
    gated: Mutex<Option<Gated>>,
}

/// State that is needed to give the word of its gates back.
#[derive(Debug)]
struct Gated {
    word: GateWord<CudaApi>,
    /// Recorded behind each launch. As launches of one executable run one after the other, it
    /// completes when all of them have run.
    event: CuEvent,
    launched: bool,
    /// Something was launched and no event recorded behind it.
    untold: bool,
}

impl CudaGraphExec {
    /// Makes a graph executable.
    ///
    /// # Safety
    /// The graph is alive, nothing else uses it now, and what its nodes use is alive and free for
    /// them whenever this is launched and runs. If it has gates, this is their word.
    pub(crate) unsafe fn new(
        device: &StreamDevice<CudaApi>,
        graph: CuGraph,
        word: Option<GateWord<CudaApi>>,
        flags: u64,
    ) -> Result<Self, CudaError> {
        let api = device.api();
        let table = api.table();
        let instantiate = need(table.graph_instantiate, "cuGraphInstantiateWithFlags")?;
        // So that both are known to be there.
        need(table.graph_launch, "cuGraphLaunch")?;
        let destroy = need(table.graph_exec_destroy, "cuGraphExecDestroy")?;
        let _entered = api.enter()?;
        // SAFETY: it writes a handle; as promised by the caller.
        let make = |exec| unsafe { instantiate(exec, graph, flags) };
        let exec = written(table, "cuGraphInstantiate", CuGraphExec::NULL, make)?;
        let gated = word.map(|word| {
            let event = api.create_event()?;
            Ok(Gated { word, event, launched: false, untold: false })
        });
        let gated = gated.transpose().inspect_err(|_: &CudaError| {
            // SAFETY: just made, and nothing else refers to it.
            let _ = unsafe { destroy(exec) };
        })?;
        Ok(Self(Arc::new(Exec { device: device.clone(), exec, gated: Mutex::new(gated) })))
    }

    /// The graph as a command. Say how long it takes, by [`crate::StreamCommand::expected_ns`], or
    /// let the queue measure it.
    #[must_use]
    pub fn command(&self) -> CudaCommand {
        CudaCommand(Body::Exec(Arc::<Exec>::clone(&self.0)))
    }

    /// Launches it.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The stream is alive and of the same context, which is current.
    pub(crate) unsafe fn launch(&self, stream: CuStream) -> Result<(), CudaError> {
        // SAFETY: as promised by the caller.
        unsafe { self.0.launch(stream) }
    }

    /// Has what is launched into a stream next come after all launches of this, which has gates.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The stream is alive, and the context current.
    pub(crate) unsafe fn comes_before(&self, stream: CuStream) -> Result<(), CudaError> {
        let api = self.0.device.api();
        let wait = need(api.table().event_wait, "cuStreamWaitEvent")?;
        let gated = self.0.gated.lock().unwrap_or_else(PoisonError::into_inner);
        match &*gated {
            Some(gated) if gated.launched => {
                // SAFETY: both are alive; an event that was never recorded is no wait.
                api.check("cuStreamWaitEvent", unsafe { wait(stream, gated.event, 0) })
            }
            _ => Ok(()),
        }
    }

    /// Opens all gates of the device until all launches of this, which has gates, have run, and no
    /// longer than `limit`.
    pub(crate) fn let_run(&self, limit: Duration) {
        let api = self.0.device.api();
        let is_done = || {
            let gated = self.0.gated.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(gated) = gated.as_ref().filter(|gated| gated.launched) else { return true };
            // SAFETY: it is alive. After an error there is nothing to wait for.
            unsafe { api.query(gated.event) }.unwrap_or(true)
        };
        let Ok(_entered) = api.enter() else { return };
        if is_done() {
            return;
        }
        let begin = Instant::now();
        self.0.device.with_gates_open(|| {
            while !is_done() && begin.elapsed() < limit {
                std::thread::sleep(POLL);
            }
        });
    }
}

impl Executable for Exec {
    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch(&self, stream: CuStream) -> Result<(), CudaError> {
        let api = self.device.api();
        let launch = need(api.table().graph_launch, "cuGraphLaunch")?;
        // The driver asks for one thread at a time, and the event goes with the last launch.
        let mut gated = self.gated.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: it lives as long as this; for the stream, as promised by the caller.
        api.check("cuGraphLaunch", unsafe { launch(self.exec, stream) })?;
        if let Some(gated) = &mut *gated {
            gated.launched = true;
            gated.word.has_gates_inside();
            // SAFETY: both are alive.
            gated.untold = unsafe { api.record(gated.event, stream) }.is_err();
        }
        Ok(())
    }
}

impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec").field("exec", &self.exec).finish_non_exhaustive()
    }
}

impl fmt::Debug for CudaGraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaGraphExec").field("exec", &self.0.exec).finish_non_exhaustive()
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        let api = self.device.api();
        let entered = api.enter();
        if let (Some(destroy), Ok(_)) = (api.table().graph_exec_destroy, &entered) {
            // Freeing what it has on the device may wait for the device.
            // SAFETY: nothing refers to it any more. Nothing can be done about an error.
            let _ = self.device.with_gates_open(|| unsafe { destroy(self.exec) });
        }
        let gated = self.gated.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(Gated { word, event, launched, untold }) = gated.take() else { return };
        if launched {
            // SAFETY: made by this device's driver and recorded behind the last launch, which is
            // the last to run; nothing else refers to it.
            unsafe { word.give_back_after((!untold).then_some(event)) };
        } else if entered.is_ok() {
            // SAFETY: made by this, and recorded nowhere.
            unsafe { api.destroy_event(event) };
        }
    }
}
