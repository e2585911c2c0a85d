//! Graphs and cooperative kernels on the emulated runtime.
#![expect(unsafe_code, reason = "drivers' handles")]

mod common;

use std::sync::atomic::Ordering;

use xsched_hal_hip::{HipApi, HipError, HipGraph, HipNative, HipStream};
use xsched_hal_stream::{FlagMemory, StreamApi};

use common::{Control, Kernels, counter, device, launch, throughout, until};

fn stream(api: &HipApi) -> HipStream {
    let _entered = api.enter().expect("the device becomes current");
    api.create_stream(None).expect("a stream")
}

fn wait(api: &HipApi, stream: HipStream) {
    let _entered = api.enter().expect("the device becomes current");
    // SAFETY: it is alive.
    unsafe { api.synchronize(stream) }.expect("all of it runs");
}

fn hold(api: &HipApi, stream: HipStream, word: FlagMemory) {
    let _entered = api.enter().expect("the device becomes current");
    // SAFETY: both are alive, the word for ever.
    unsafe { api.wait_zero(stream, word.device) }.expect("a wait");
}

/// A word that streams can wait for. It is never given back.
fn gate_word(api: &HipApi) -> FlagMemory {
    let _entered = api.enter().expect("the device becomes current");
    api.flag_memory(8).expect("a word")
}

fn store(word: FlagMemory, value: u32) {
    // SAFETY: the memory is never given back, and touched atomically only.
    unsafe { word.host.as_ref() }.store(value, Ordering::SeqCst);
}

#[test]
fn a_graph_is_one_command_and_runs_as_often_as_it_is_launched() {
    let api = device();
    let (kernels, word, stream) = (Kernels::load(&api), counter(), stream(&api));
    let rows = [kernels.add(0, word), kernels.add_by_block(0, word), kernels.add(0, word)];
    let graph = HipGraph::captured_row(&api, &rows).expect("a graph");
    assert_eq!(word.load(Ordering::Acquire), 0, "nothing of it runs while it is captured");
    let graph = HipNative::graph(graph);
    let gate = gate_word(&api);
    store(gate, 1);
    hold(&api, stream, gate);
    launch(&api, &graph, stream);
    assert_eq!(Control::get().in_flight(stream), 2, "the wait, and the graph");
    throughout("it is behind the gate", || word.load(Ordering::Acquire) == 0);
    store(gate, 0);
    until("all three", || word.load(Ordering::Acquire) == 3);
    launch(&api, &graph, stream);
    wait(&api, stream);
    assert_eq!(word.load(Ordering::Acquire), 6);
}

#[test]
fn a_graph_with_something_that_cannot_be_captured_is_refused_and_leaves_nothing_behind() {
    let api = device();
    let (kernels, word) = (Kernels::load(&api), counter());
    let inner = HipGraph::captured_row(&api, &[kernels.add(0, word)]).expect("a graph");
    let nested = HipGraph::captured_row(&api, &[HipNative::graph(inner)]);
    let error = nested.expect_err("a graph in a graph");
    assert!(matches!(error, HipError::Driver { call: "hipGraphLaunch", code: 900 }), "{error}");
    // Another capture works, so the first one has ended.
    HipGraph::captured_row(&api, &[kernels.add(0, word)]).expect("a graph");
    assert_eq!(word.load(Ordering::Acquire), 0);
}

#[test]
fn a_cooperative_kernel_is_in_order_with_its_stream_and_not_in_its_ring() {
    let api = device();
    let kernels = Kernels::load(&api);
    let (word, own, other) = (counter(), stream(&api), stream(&api));
    let gate = gate_word(&api);
    store(gate, 1);
    hold(&api, own, gate);
    launch(&api, &kernels.together(word), own);
    launch(&api, &kernels.add(0, word), own);
    throughout("it waits for what is before it", || word.load(Ordering::Acquire) == 0);
    // The ring for such kernels is one for all streams, so this is stuck behind the other.
    launch(&api, &kernels.together(word), other);
    throughout("it is stuck", || word.load(Ordering::Acquire) == 0);
    store(gate, 0);
    wait(&api, own);
    wait(&api, other);
    assert_eq!(word.load(Ordering::Acquire), 3);
    let captured = HipGraph::captured_row(&api, &[kernels.together(word)]);
    assert!(captured.is_err(), "it is in another ring");
}
