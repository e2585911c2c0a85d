//! Graphs.

use std::ffi::c_char;
use std::sync::Arc;

use xsched_emulated_device::code::INVALID_HANDLE;
use xsched_emulated_device::{Kind, Work};

use super::{Out, exports};
use crate::runtime::{Captured, Object, launch, runtime};

exports! {
    fn hipStreamEndCapture(stream: usize, graph: Out<usize>) {
        let stream = runtime().stream(stream)?;
        let row = Arc::new(stream.end_capture()?);
        let captured = Captured { device: stream.device, row };
        graph.set(runtime().add(Object::Graph(Arc::new(captured))))
    }

    fn hipGraphInstantiate(
        exec: Out<usize>,
        graph: usize,
        _failed: *mut usize,
        _log: *mut c_char,
        _log_bytes: usize,
    ) {
        let graph = runtime().graph(graph)?;
        exec.set(runtime().add(Object::Exec(graph)))
    }

    fn hipGraphInstantiateWithFlags(exec: Out<usize>, graph: usize, _flags: u64) {
        let graph = runtime().graph(graph)?;
        exec.set(runtime().add(Object::Exec(graph)))
    }

    fn hipGraphLaunch(exec: usize, stream: usize) {
        let (exec, stream) = (runtime().exec(exec)?, runtime().stream(stream)?);
        if exec.device.ordinal != stream.device.ordinal {
            return Err(INVALID_HANDLE);
        }
        launch(&stream, Kind::Graph, Work::Graph(Arc::clone(&exec.row)))
    }

    fn hipGraphDestroy(graph: usize) {
        runtime().graph(graph)?;
        runtime().forget(graph);
        Ok(())
    }

    fn hipGraphExecDestroy(exec: usize) {
        runtime().exec(exec)?;
        runtime().forget(exec);
        Ok(())
    }
}
