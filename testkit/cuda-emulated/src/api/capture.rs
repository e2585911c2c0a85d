//! Captures.

use std::sync::{Arc, Mutex};

use xsched_emulated_device::c::Out;
use xsched_emulated_device::code::Answer;
use xsched_emulated_device::exchange_mode;

use crate::driver::{Object, driver};
use crate::exports::exports;
use crate::graph::Graph;

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
        let before = exchange_mode(mode.get()?)?;
        mode.set(before)
    }
}
