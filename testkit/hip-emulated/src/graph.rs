//! Captured graphs, and how they are launched: a row into the stream, and branches into streams of
//! the runtime's own, as HIP 7.2.3 does.

use std::sync::Arc;

use xsched_emulated_device::code::{Answer, INVALID_HANDLE};
use xsched_emulated_device::{Device, Graph, Kind, NON_BLOCKING, Place, Stream, Work};

use crate::runtime::launch;

/// A captured graph.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) device: &'static Device,
    pub(crate) graph: Arc<Graph>,
}

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Executable {
    captured: Arc<Captured>,
    /// The branch of each node.
    branches: Vec<usize>,
    /// The streams of the branches; none for a row.
    streams: Vec<Arc<Stream>>,
}

impl Executable {
    pub(crate) fn new(captured: Arc<Captured>) -> Answer<Self> {
        let branches = branches(&captured.graph);
        let count = branches.iter().max().map_or(0, |last| last + 1);
        let open = |_| captured.device.open_stream(NON_BLOCKING, 0, Place::Shared);
        let streams = if count > 1 { (0..count).map(open).collect::<Answer<_>>()? } else { vec![] };
        Ok(Self { captured, branches, streams })
    }

    pub(crate) fn device(&self) -> &'static Device {
        self.captured.device
    }

    pub(crate) fn launch(&self, stream: &Arc<Stream>) -> Answer {
        if self.device().ordinal != stream.device.ordinal {
            return Err(INVALID_HANDLE);
        }
        if self.streams.is_empty() {
            return launch(stream, Kind::Graph, Work::Graph(Arc::clone(&self.captured.graph)));
        }
        stream.check_not_captured()?;
        let begin = (Arc::clone(stream), stream.launch_after(Work::Nothing, Vec::new())?);
        let mut ends: Vec<(Arc<Stream>, u64)> = Vec::new();
        for (node, branch) in self.captured.graph.nodes.iter().zip(&self.branches) {
            let mut after: Vec<_> = node.after.iter().map(|before| ends[*before].clone()).collect();
            after.push(begin.clone());
            let branch = &self.streams[*branch];
            let mut number = branch.launch_after(Work::Nothing, after)?;
            for work in &node.works {
                number = branch.launch_after(work.clone(), Vec::new())?;
            }
            ends.push((Arc::clone(branch), number));
        }
        stream.launch_after(Work::Nothing, ends).map(drop)
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        self.streams.iter().for_each(|stream| self.device().close_stream(stream));
    }
}

/// The branch of each node: that of the first node before it that no other one has gone on from.
fn branches(graph: &Graph) -> Vec<usize> {
    let (mut branches, mut lasts) = (Vec::new(), Vec::new());
    for (at, node) in graph.nodes.iter().enumerate() {
        let goes_on = |branch: &usize| node.after.contains(&lasts[*branch]);
        let branch = (0..lasts.len()).find(goes_on).unwrap_or_else(|| {
            lasts.push(at);
            lasts.len() - 1
        });
        lasts[branch] = at;
        branches.push(branch);
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_beside_is_another_branch() {
        let mut graph = Graph::default();
        for after in [&[][..], &[0], &[0], &[2], &[1, 3]] {
            graph.add(Kind::Kernel, Vec::new(), after);
        }
        assert_eq!(branches(&graph), [0, 0, 1, 1, 0]);
    }
}
