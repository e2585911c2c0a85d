//! Launches within a burst, behind a command that its caller launches.

use xsched_core::hal::LaunchMode;
use xsched_hal_process::burst::{Burst, BurstState};

use super::gates::in_unit;
use super::*;

/// Kinds of launches of 10 and of 500 µs.
const SHORT: u32 = 1;
const LONG: u32 = 2;

/// A queue with gates each 100 µs in a page of the node's, and its burst.
struct Bursting {
    page: Arc<SharedPage>,
    device: StreamDevice<Mock>,
    queue: Queue,
    state: &'static BurstState,
    number: u32,
    commands: u64,
}

impl Bursting {
    fn new() -> Self {
        let (page, mut device) = in_unit(Nature::default());
        let burst = Burst::take();
        let (state, number) = burst.share();
        let config = StreamConfig::default().spacing(Spacing::of_ns(100 * US)).burst(&burst);
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        for (n, (kind, us)) in [(SHORT, 10), (LONG, 500)].into_iter().enumerate() {
            let sample = command(us * US).of_kind(kind);
            queue.submit.launch(CmdId(n as u64), &sample, true).expect("a launch");
            device.api().pass(1_000 * US);
            assert!(poll(&mut queue).is_some());
        }
        Self { page, device, queue, state, number, commands: 2 }
    }

    /// The caller launches a short command by itself.
    fn launch(&mut self, mode: LaunchMode, fence: bool) {
        let (cmd, command) = (CmdId(self.commands), StreamCommand::of_caller().of_kind(SHORT));
        self.commands += 1;
        self.queue.submit.set_launch_mode(mode);
        self.queue.submit.begin_launch(cmd, &command, fence).expect("a launch");
        self.queue.submit.end_launch(cmd, fence, true).expect("an end");
    }

    /// Launches of this kind that the burst lets pass.
    fn passes(&self, kind: u32) -> u32 {
        let mut passed = 0;
        while let Some(launch) = self.state.begin(self.number, kind, 7) {
            launch.end();
            passed += 1;
        }
        passed
    }

    fn waits(&self) -> usize {
        puts(&self.device).iter().filter(|put| matches!(put, Put::Wait(_))).count()
    }
}

#[test]
fn a_burst_goes_to_the_next_gate_and_is_counted_with_its_command() {
    let mut all = Bursting::new();
    let (waits, retired) = (all.waits(), all.page.header().retired.load(Ordering::Relaxed));
    all.launch(LaunchMode::Unattended, false);
    assert!(all.queue.submit.is_in_burst());
    assert_eq!(all.passes(SHORT), 9, "100 µs with the command");
    assert_eq!(all.waits(), waits);
    all.launch(LaunchMode::Unattended, false);
    assert_eq!(all.waits(), waits + 1, "the next one has a gate");
    assert_eq!(all.page.header().retired.load(Ordering::Relaxed), retired + 9);
    assert_eq!(all.passes(SHORT), 9);
}

#[test]
fn there_is_none_where_a_scheduler_waits_or_a_fence_was_put() {
    let mut all = Bursting::new();
    all.launch(LaunchMode::Attended, false);
    assert_eq!((all.queue.submit.is_in_burst(), all.passes(SHORT)), (false, 0));
    all.launch(LaunchMode::Unattended, true);
    assert_eq!(all.passes(SHORT), 0);
    all.launch(LaunchMode::Unattended, false);
    all.queue.submit.fence(CmdId(all.commands - 1)).expect("a fence");
    assert_eq!((all.queue.submit.is_in_burst(), all.passes(SHORT)), (false, 0));
}

#[test]
fn a_hold_ends_it_and_what_follows_has_a_gate() {
    let mut all = Bursting::new();
    let waits = all.waits();
    all.launch(LaunchMode::Unattended, false);
    all.page.close_all(Holder::DAEMON);
    assert_eq!(all.passes(SHORT), 0);
    all.launch(LaunchMode::Unattended, false);
    assert_eq!((all.waits(), all.passes(SHORT)), (waits + 1, 0));
    all.page.release_all(Holder::DAEMON);
    all.launch(LaunchMode::Unattended, false);
    all.queue.submit.end_burst();
    assert_eq!(all.passes(SHORT), 0, "the process holds it");
}

#[test]
fn the_first_launch_into_an_empty_stream_may_be_of_any_length() {
    let mut all = Bursting::new();
    all.launch(LaunchMode::Unattended, false);
    assert_eq!(all.passes(LONG), 0);
    all.state.note_drained(all.number, all.state.mark());
    assert_eq!((all.passes(LONG), all.passes(SHORT)), (1, 0), "then a gate is due");
    all.state.note_drained(all.number, all.state.mark());
    let before = all.state.mark();
    assert_eq!(all.passes(SHORT), 10);
    all.state.note_drained(all.number, before);
    assert_eq!(all.passes(SHORT), 0, "something was launched meanwhile");
}

#[test]
fn a_launch_that_the_driver_refuses_takes_nothing() {
    let mut all = Bursting::new();
    all.launch(LaunchMode::Unattended, false);
    (0..100).for_each(|_| drop(all.state.begin(all.number, SHORT, 7)));
    assert_eq!(all.passes(SHORT), 9);
}
