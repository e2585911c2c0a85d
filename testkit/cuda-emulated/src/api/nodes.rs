//! Nodes of graphs.

use std::sync::Arc;

use xsched_emulated_device::c::{In, Out};
use xsched_emulated_device::code::{Answer, INVALID_VALUE};
use xsched_emulated_device::{Kind, Work};

use super::copies::{Copy3D, Fill, copy};
use super::launches;
use super::modules::callable;
use super::operations::{Operation, works};
use crate::driver::driver;
use crate::exports::{exports, on_host};
use crate::graph::{add, split, with};

/// `CUDA_KERNEL_NODE_PARAMS_v1`, with which the second edition begins.
#[repr(C)]
#[derive(Debug)]
struct Kernel {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: usize,
    extra: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Debug)]
struct Kernel2 {
    first: Kernel,
    kernel: usize,
    context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
struct Memset {
    to: usize,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
struct Host {
    function: Option<extern "C" fn(usize)>,
    data: usize,
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
struct Batch {
    context: usize,
    count: u32,
    operations: In<Operation>,
    flags: u32,
}

impl Kernel {
    fn work(&self, function: usize) -> Answer<Vec<Work>> {
        let function = callable(function).map_err(|_| INVALID_VALUE)?;
        let (parameters, extra) = (In::at(self.parameters), In::at(self.extra));
        Ok(vec![launches::work(&function, self.grid, self.block, parameters, extra)?])
    }
}

impl Kernel2 {
    fn work(&self) -> Answer<Vec<Work>> {
        let Self { first, kernel, .. } = self;
        first.work(if first.function == 0 { *kernel } else { first.function })
    }
}

/// Adds a node behind others, and writes its handle.
fn put(
    node: Out<usize>,
    graph: usize,
    after: &In<usize>,
    count: usize,
    (kind, works): (Kind, Vec<Work>),
) -> Answer {
    driver().graph(graph)?;
    node.set(add(graph, kind, works, after.slice(count)?)?)
}

/// Changes what a node does.
fn set(node: usize, kind: Kind, works: Vec<Work>) -> Answer {
    let (graph, number) = split(node)?;
    with(graph, |graph| {
        let is_it = graph.nodes.node(number).is_some_and(|node| node.kind == kind);
        if !is_it {
            return Err(INVALID_VALUE);
        }
        graph.nodes.nodes[number].works = works;
        Ok(())
    })
}

/// Exports functions that add a node behind others, of which each says the arguments that it has
/// beside those of all, and by its body what kind of node it is and what that does; and functions
/// of other kinds.
macro_rules! nodes {
    (
        add { $(fn $name:ident($($arg:ident: $type:ty),*) $body:block)+ }
        $($rest:tt)+
    ) => {
        exports! {
            $(fn $name(
                node: Out<usize>,
                graph: usize,
                after: In<usize>,
                count: usize
                $(, $arg: $type)*
            ) {
                put(node, graph, &after, count, $body)
            })+
            $($rest)+
        }
    };
}

nodes! {
    add {
        fn cuGraphAddKernelNode(kernel: In<Kernel>) {
            let kernel = kernel.get()?;
            (Kind::Kernel, kernel.work(kernel.function)?)
        }

        fn cuGraphAddKernelNode_v2(kernel: In<Kernel2>) {
            (Kind::Kernel, kernel.get()?.work()?)
        }

        fn cuGraphAddMemcpyNode(parameters: In<Copy3D>, _context: usize) {
            (Kind::Copy, vec![copy(parameters.get()?.rows()?)?])
        }

        fn cuGraphAddMemsetNode(parameters: In<Memset>, _context: usize) {
            let &Memset { to, pitch, value, element, width, height } = parameters.get()?;
            let fill = Fill { to, pitch, value, element: element as usize, width, height };
            (Kind::Fill, vec![fill.work()?])
        }

        fn cuGraphAddHostNode(parameters: In<Host>) {
            let &Host { function, data } = parameters.get()?;
            let function = function.ok_or(INVALID_VALUE)?;
            (Kind::Call, vec![Work::Call(Arc::new(move || on_host(|| function(data))))])
        }

        fn cuGraphAddEmptyNode() {
            (Kind::Empty, Vec::new())
        }

        fn cuGraphAddChildGraphNode(child: usize) {
            let nodes = with(child, |child| Ok(Arc::new(child.nodes.clone())))?;
            (Kind::Graph, vec![Work::Graph(nodes)])
        }

        fn cuGraphAddEventRecordNode(event: usize) {
            let event = driver().event(event)?;
            let record = Work::Short(Arc::new(move || event.start().complete()));
            (Kind::RecordEvent, vec![record])
        }

        fn cuGraphAddEventWaitNode(event: usize) {
            let event = driver().event(event)?;
            let is_over =
                move || event.last().is_none_or(|record| record.time_ns().is_some());
            (Kind::AwaitEvent, vec![Work::Await(Arc::new(is_over))])
        }

        fn cuGraphAddBatchMemOpNode(parameters: In<Batch>) {
            let batch = parameters.get()?;
            (Kind::MemoryOperations, works(batch.count, &batch.operations)?)
        }
    }

    fn cuGraphKernelNodeSetParams(node: usize, kernel: In<Kernel>) {
        let kernel = kernel.get()?;
        set(node, Kind::Kernel, kernel.work(kernel.function)?)
    }

    fn cuGraphKernelNodeSetParams_v2(node: usize, kernel: In<Kernel2>) {
        set(node, Kind::Kernel, kernel.get()?.work()?)
    }

    fn cuGraphExecKernelNodeSetParams(exec: usize, node: usize, kernel: In<Kernel>) {
        let kernel = kernel.get()?;
        driver().exec(exec)?.set(split(node)?.1, Kind::Kernel, kernel.work(kernel.function)?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: usize, node: usize, kernel: In<Kernel2>) {
        driver().exec(exec)?.set(split(node)?.1, Kind::Kernel, kernel.get()?.work()?)
    }
}
