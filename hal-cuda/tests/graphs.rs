//! Graphs with gates inside, on the first CUDA device, or on the emulated driver where there is no
//! other.
#![expect(unsafe_code, reason = "launches what is captured")]

mod common;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::hal::{Backend, Halves, LevelAdapter, Retire, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::Step;
use xsched_hal_cuda::{
    ClockProbe, CudaApi, CudaError, CudaGraph, CudaKernel, GateWord, NodeTimes, Stamps,
    StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig, device_count,
};
use xsched_hal_stream::{StreamPreempt, StreamRetire, StreamSubmit};

type Queue =
    Halves<StreamSubmit<CudaApi>, StreamRetire<CudaApi>, LevelAdapter<StreamPreempt<CudaApi>>>;

const KERNELS: usize = 20;
/// About 1 ms.
const CYCLES: u64 = 1_500_000;
const PATIENCE: Duration = Duration::from_secs(10);

struct Cuda {
    api: Arc<CudaApi>,
    device: StreamDevice<CudaApi>,
}

/// The device. `None` if there is none, or it has no gates.
fn cuda() -> Option<Cuda> {
    let emulated = common::choose_driver();
    match device_count() {
        Ok(count) if count > 0 => {}
        _ => {
            println!("skipped: there is no CUDA device");
            return None;
        }
    }
    let open = || CudaApi::open(0).expect("the first device");
    let mut config = StreamDeviceConfig::default();
    if emulated {
        // A thread that is very long without a processor counts as blocked in a launch, and all
        // gates would be opened.
        config.blocked_after = PATIENCE;
        config.probe_every = Duration::ZERO;
    }
    let device = StreamDevice::new(open(), config).expect("its streams");
    if let Some(why) = device.no_gate() {
        println!("skipped: {why}");
        return None;
    }
    Some(Cuda { api: Arc::new(open()), device })
}

impl Cuda {
    fn stamps(&self) -> (Stamps, Vec<CudaKernel>) {
        let stamps = Stamps::new(Arc::clone(&self.api), KERNELS).expect("places");
        let kernel = |n| stamps.kernel(n, (1, 32), CYCLES).expect("a kernel");
        let kernels = (0..KERNELS).map(kernel).collect();
        (stamps, kernels)
    }

    fn queue(&self, word: &GateWord<CudaApi>) -> Queue {
        let config = StreamConfig::default().with_gate(word);
        self.device.clone().open(QueueId::new(0, 0), config).expect("a queue")
    }
}

/// Waits until a command has retired.
fn wait(queue: &mut Queue, upto: u64) {
    let end = Instant::now() + PATIENCE;
    loop {
        let retired = queue.retire.poll_retired().expect("an answer");
        if retired.is_some_and(|retired| retired.upto.count() >= upto) {
            return;
        }
        assert!(Instant::now() < end, "the graph did not end");
        thread::sleep(Duration::from_micros(100));
    }
}

fn launch(queue: &mut Queue, n: u64, graph: &mut CudaGraph) {
    let command = StreamCommand::native(graph.instantiate().expect("an executable").command());
    queue.submit.launch(CmdId(n), &command, true).expect("a launch");
}

/// Tells whether each kernel started after the one before had ended.
fn in_order(stamps: &Stamps) -> bool {
    (1..KERNELS)
        .all(|n| stamps.start_ns(n) + 1_000 >= stamps.end_ns(n - 1) && stamps.start_ns(n - 1) > 0)
}

/// Kernels that have ended.
fn ended(stamps: &Stamps) -> usize {
    (0..KERNELS).filter(|&n| stamps.end_ns(n) > 0).count()
}

fn a_hold_stops(cuda: &Cuda, graph: &mut CudaGraph, stamps: &Stamps, word: &GateWord<CudaApi>) {
    let mut queue = cuda.queue(word);
    launch(&mut queue, 0, graph);
    let end = Instant::now() + PATIENCE;
    while ended(stamps) < 3 {
        assert!(Instant::now() < end, "the graph did not start");
    }
    queue.preempt.step(Step::Deactivate).expect("a hold");
    thread::sleep(Duration::from_millis(10));
    if common::choose_driver() {
        thread::sleep(Duration::from_millis(100));
    }
    let held_at = ended(stamps);
    assert!((3..KERNELS).contains(&held_at), "{held_at} kernels ended");
    thread::sleep(Duration::from_millis(10));
    assert_eq!(ended(stamps), held_at, "a kernel ended while the graph was held");
    queue.preempt.step(Step::Reactivate).expect("the end of it");
    wait(&mut queue, 1);
    assert_eq!(ended(stamps), KERNELS);
    assert!(in_order(stamps));
}

#[test]
fn a_hold_stops_a_row_of_kernels() {
    let Some(cuda) = cuda() else { return };
    let word = cuda.device.gate_word().expect("a word");
    let (stamps, kernels) = cuda.stamps();
    let mut graph = CudaGraph::row(&cuda.device, &kernels).expect("a graph");
    let gates = graph.insert_gates(&word, NodeTimes::Unknown, 200_000).expect("gates");
    assert_eq!((graph.nodes(), gates), (KERNELS, KERNELS - 1));
    a_hold_stops(&cuda, &mut graph, &stamps, &word);
}

#[test]
fn a_hold_stops_what_was_captured() {
    let Some(cuda) = cuda() else { return };
    let word = cuda.device.gate_word().expect("a word");
    let (stamps, kernels) = cuda.stamps();
    let graph = CudaGraph::captured_row(&cuda.device, &kernels, None);
    let mut graph = graph.expect("a graph");
    let after: Vec<_> = (0..KERNELS).map(|n| graph.dependencies(n).len()).collect();
    assert_eq!(after.iter().sum::<usize>(), KERNELS - 1, "{after:?}");
    let total_ns = KERNELS as u64 * 1_000_000;
    let gates = graph.insert_gates(&word, NodeTimes::Total(total_ns), 2_000_000).expect("gates");
    assert_eq!(gates, KERNELS / 2 - 1);
    a_hold_stops(&cuda, &mut graph, &stamps, &word);
}

#[test]
fn branches_are_held_and_joined() {
    let Some(cuda) = cuda() else { return };
    let word = cuda.device.gate_word().expect("a word");
    let (stamps, kernels) = cuda.stamps();
    let mut graph = CudaGraph::new(&cuda.device).expect("a graph");
    // Two branches between the first and the last.
    for (n, kernel) in kernels.iter().enumerate() {
        let after = match n {
            0 => vec![],
            1 | 2 => vec![0],
            n if n + 1 == KERNELS => vec![n - 1, n - 2],
            n => vec![n - 2],
        };
        assert_eq!(graph.add_kernel(kernel, &after).expect("a node"), n);
    }
    let wrong = graph.add_kernel(&kernels[0], &[KERNELS]);
    assert!(matches!(wrong, Err(CudaError::Graph(_))), "{wrong:?}");
    let few = graph.insert_gates(&word, NodeTimes::Each(&[1]), 0);
    assert_eq!(few, Err(CudaError::NodeTimes { given: 1, nodes: KERNELS }));
    let gates = graph.insert_gates(&word, NodeTimes::Unknown, 0).expect("gates");
    assert_eq!(gates, KERNELS - 1);
    let again = graph.insert_gates(&word, NodeTimes::Unknown, 0);
    assert_eq!(again, Err(CudaError::HasGates));

    let mut queue = cuda.queue(&word);
    launch(&mut queue, 0, &mut graph);
    while stamps.end_ns(4) == 0 {
        std::hint::spin_loop();
    }
    queue.preempt.step(Step::Deactivate).expect("a hold");
    thread::sleep(Duration::from_millis(10));
    if common::choose_driver() {
        thread::sleep(Duration::from_millis(100));
    }
    let held_at = ended(&stamps);
    thread::sleep(Duration::from_millis(10));
    assert_eq!(ended(&stamps), held_at);
    assert!(held_at < KERNELS);
    queue.preempt.step(Step::Reactivate).expect("the end of it");
    wait(&mut queue, 1);
    let last = stamps.start_ns(KERNELS - 1) + 1_000;
    assert!(last >= stamps.end_ns(KERNELS - 2) && last >= stamps.end_ns(KERNELS - 3));
}

#[test]
fn an_executable_may_go_while_it_runs() {
    let Some(cuda) = cuda() else { return };
    let (stamps, kernels) = cuda.stamps();
    let address = {
        let word = cuda.device.gate_word().expect("a word");
        let mut graph = CudaGraph::row(&cuda.device, &kernels).expect("a graph");
        graph.insert_gates(&word, NodeTimes::Unknown, 0).expect("gates");
        let mut queue = cuda.queue(&word);
        launch(&mut queue, 0, &mut graph);
        // The executable, the graph, the queue and the word go.
        word.address()
    };
    let taken = cuda.device.gate_word().expect("a word");
    let ran = ended(&stamps);
    assert!(ran == KERNELS || taken.address() != address, "the graph's word was given away");
    let end = Instant::now() + PATIENCE;
    while ended(&stamps) < KERNELS {
        assert!(Instant::now() < end, "the graph did not end");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(in_order(&stamps));
}

#[test]
fn a_capture_that_fails_says_so_and_leaves_the_thread_as_it_was() {
    let Some(cuda) = cuda() else { return };
    let failed = || CudaError::ClockSilent { ms: 0 };
    // SAFETY: nothing is launched.
    let captured = unsafe { CudaGraph::capture(&cuda.device, None, |_| Err(failed())) };
    assert_eq!(captured.map(|_| ()).unwrap_err(), failed());
    let (_, kernels) = cuda.stamps();
    CudaGraph::captured_row(&cuda.device, &kernels, None).expect("a graph");
}

#[test]
fn both_clocks_go_on_together() {
    let Some(cuda) = cuda() else { return };
    let mut probe = ClockProbe::new(Arc::clone(&cuda.api)).expect("a probe");
    for _ in 0..3 {
        let reads = probe.read(50).expect("readings");
        assert_eq!(reads.len(), 50);
        for pair in reads.windows(2) {
            assert!(pair[0].before <= pair[0].after && pair[0].after <= pair[1].before);
            assert!(pair[0].device_ns <= pair[1].device_ns);
        }
        let host = (reads[49].after - reads[0].before).as_nanos() as u64;
        assert!(reads[49].device_ns - reads[0].device_ns <= host + 2_000);
    }
}
