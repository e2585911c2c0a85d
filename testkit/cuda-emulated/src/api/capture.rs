//! Captures.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::thread;

use xsched_emulated_device::Device;
use xsched_emulated_device::c::Out;
use xsched_emulated_device::code::{Answer, INVALID_VALUE, STREAM_CAPTURE_UNSUPPORTED};

use crate::driver::{Object, driver};
use crate::exports::exports;
use crate::graph::Graph;

/// Modes: of all threads, of one, of none.
const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

thread_local! {
    /// Capture mode of this thread.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// Fails, and spoils the captures, if one forbids this thread what is not safe while it is under
/// way.
pub(super) fn check_safe(engine: &Device) -> Answer {
    let (mode, here) = (MODE.get(), thread::current().id());
    let mut captures = engine.captures(false);
    captures.retain(|capture| match (mode, capture.mode) {
        (RELAXED, _) | (_, RELAXED) => false,
        (GLOBAL, GLOBAL) => true,
        _ => capture.thread == here,
    });
    captures.iter().for_each(|capture| capture.spoil());
    if captures.is_empty() { Ok(()) } else { Err(STREAM_CAPTURE_UNSUPPORTED) }
}

/// Writes whether a stream is captured, and the capture's number.
fn info(stream: usize, status: Out<u32>, id: Out<u64>) -> Answer {
    let stream = driver().stream(stream)?;
    status.set(stream.capture_status())?;
    if let Some((capture, _)) = stream.capture() {
        id.offer(capture.id);
    }
    Ok(())
}

exports! {
    [cuStreamBeginCapture_v2_ptsz]
    fn cuStreamBeginCapture_v2(stream: usize, mode: u32) {
        if mode > RELAXED {
            return Err(INVALID_VALUE);
        }
        let stream = driver().stream(stream)?;
        stream.device.check()?;
        stream.begin_capture(mode)
    }

    [cuStreamEndCapture_ptsz]
    fn cuStreamEndCapture(stream: usize, graph: Out<usize>) {
        let stream = driver().stream(stream)?;
        match stream.end_capture() {
            Ok(nodes) => {
                let made = Graph { nodes, ..Graph::default() };
                let object = Object::Graph(Arc::new(Mutex::new(made)));
                graph.set(driver().objects.add(object))
            }
            Err(code) => {
                graph.offer(0);
                Err(code)
            }
        }
    }

    [cuStreamIsCapturing_ptsz]
    fn cuStreamIsCapturing(stream: usize, status: Out<u32>) {
        status.set(driver().stream(stream)?.capture_status())
    }

    [cuStreamGetCaptureInfo_ptsz]
    fn cuStreamGetCaptureInfo(
        stream: usize,
        status: Out<u32>,
        id: Out<u64>,
    ) {
        info(stream, status, id)
    }


    [cuStreamGetCaptureInfo_v2_ptsz]
    fn cuStreamGetCaptureInfo_v2(
        stream: usize,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<usize>,
        nodes: Out<usize>,
        count: Out<usize>,
    ) {
        info(stream, status, id)?;
        graph.offer(0);
        nodes.offer(0);
        count.offer(0);
        Ok(())
    }

    [cuStreamGetCaptureInfo_v3_ptsz]
    fn cuStreamGetCaptureInfo_v3(
        stream: usize,
        status: Out<u32>,
        id: Out<u64>,
        graph: Out<usize>,
        nodes: Out<usize>,
        data: Out<usize>,
        count: Out<usize>,
    ) {
        info(stream, status, id)?;
        graph.offer(0);
        nodes.offer(0);
        data.offer(0);
        count.offer(0);
        Ok(())
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) {
        let wanted = mode.get()?;
        if wanted > RELAXED {
            return Err(INVALID_VALUE);
        }
        mode.set(MODE.replace(wanted))
    }
}
