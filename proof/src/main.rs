//! One scheduling round on bare metal, nearly: no std, no allocator, only the C runtime's start-up.
//!
//! Two queues share a device under highest-priority-first. The low one runs, work for the high one
//! arrives, the low one is taken off the device, the high one finishes, the low one continues. The
//! exit status is 0 if all of that happens, and the number of the [`Failure`] otherwise.
//!
//! `cargo xtask proof` builds and runs this and looks at the symbols of the binary.
#![no_std]
#![no_main]

use core::ffi::c_int;
use core::panic::PanicInfo;

use xsched_core::hint::{Hints, Priority};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level, Step};
use xsched_core::message::{HoldState, Order};
use xsched_core::queue::{
    Action, CommandSlot, Outcome, Queue, QueueConfig, Retired, Signal, Status,
};
use xsched_core::scheduler::{Attach, Inline, LevelChoice, Scheduler};
use xsched_core::time::{Duration, Instant};
use xsched_policies::Any;

#[link(name = "c")]
#[expect(unsafe_code, reason = "there is no other way to end with a status")]
// SAFETY: this is how the C library declares it; `_exit` has no conditions.
unsafe extern "C" {
    safe fn _exit(status: c_int) -> !;
}

/// Exit status after a panic.
const PANICKED: c_int = 101;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    _exit(PANICKED)
}

/// The prebuilt core library can unwind, so its tables name this. With `panic = "abort"` it is
/// never called.
#[expect(unsafe_code, reason = "the linker looks for this name")]
// SAFETY: nothing else in the binary has this name.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Called by the C runtime.
#[expect(unsafe_code, reason = "the C runtime looks for this name")]
// SAFETY: nothing else in the binary has this name, and C calls it with this signature.
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: c_int, _arguments: *const *const u8) -> c_int {
    match round() {
        Ok(()) => 0,
        Err(failure) => failure as c_int,
    }
}

/// Failed expectation. The numbers are exit statuses.
#[derive(Clone, Copy)]
enum Failure {
    /// No policy `hpf`.
    Policy = 1,
    /// The tables have no room for two queues.
    Attach = 2,
    /// A queue did not take a command.
    Submit = 3,
    /// The low queue, alone, did not launch both commands.
    LowLaunch = 4,
    /// The scheduler did not take a report.
    Report = 5,
    /// The low queue was held although nothing else had work.
    EarlyHold = 6,
    /// The high queue did not launch its command.
    HighLaunch = 7,
    /// The low queue was not ordered off the device when the high one got work.
    NoHold = 8,
    /// The low queue did not ask the device to deactivate, then to interrupt.
    HoldSteps = 9,
    /// The low queue launched or did something else while held.
    NotQuiet = 10,
    /// The hold was not acknowledged.
    NoAcknowledgement = 11,
    /// The scheduler's table does not show the hold.
    NotInTable = 12,
    /// The high queue's command is not done.
    HighNotDone = 13,
    /// The low queue was not ordered to run when the high one was idle again.
    NoRun = 14,
    /// The low queue did not ask the device to restore, then to reactivate.
    RunSteps = 15,
    /// The low queue does not count as running.
    NotRunning = 16,
    /// The low queue's commands are not done.
    LowNotDone = 17,
    /// There were orders or anomalies at the end that were not expected.
    NotClean = 18,
}

type Check = Result<(), Failure>;

fn ensure(holds: bool, failure: Failure) -> Check {
    if holds { Ok(()) } else { Err(failure) }
}

/// A queue and its place in the scheduler's table.
struct Party {
    id: QueueId,
    queue: Queue<[CommandSlot; 4]>,
}

/// Everything, on the stack.
struct World {
    now: Instant,
    scheduler: Scheduler<Any, Inline<2, 1, 1>>,
    low: Party,
    high: Party,
}

impl World {
    fn new() -> Result<Self, Failure> {
        let policy = "hpf".parse::<Any>().map_err(|_| Failure::Policy)?;
        let mut scheduler = Scheduler::new(policy, Inline::new());
        let low = Party::attach(&mut scheduler, Priority::MIN)?;
        let high = Party::attach(&mut scheduler, Priority::MAX)?;
        Ok(Self { now: Instant::ZERO, scheduler, low, high })
    }

    /// Lets some time pass, so that nothing happens at the same moment.
    fn tick(&mut self) -> Instant {
        self.now = Instant::from_ns(self.now.as_ns() + 1_000);
        self.now
    }

    /// Takes the reports to the scheduler and the orders back. Returns the last order for the low
    /// queue.
    fn exchange(&mut self) -> Result<Option<Order>, Failure> {
        let now = self.tick();
        for party in [&mut self.low, &mut self.high] {
            while let Some(report) = party.queue.poll_report() {
                let taken = self.scheduler.handle_report(now, party.id, &report);
                taken.map_err(|_| Failure::Report)?;
            }
        }
        let mut last = None;
        while let Some((id, order)) = self.scheduler.poll_order(now) {
            if id == self.low.id {
                self.low.queue.handle_order(order);
                last = Some(order);
            } else {
                self.high.queue.handle_order(order);
            }
        }
        Ok(last)
    }
}

impl Party {
    fn attach(
        scheduler: &mut Scheduler<Any, Inline<2, 1, 1>>,
        priority: Priority,
    ) -> Result<Self, Failure> {
        let hints = Hints::with_priority(priority);
        let level = LevelChoice::Exactly(Level::Interrupt);
        let attach = Attach { hints, level, ..Attach::default() };
        let id = scheduler.attach(Instant::ZERO, attach).map_err(|_| Failure::Attach)?;
        let config = QueueConfig { level: Level::Interrupt, ..QueueConfig::default() };
        let caps = Caps::up_to(Level::Interrupt, 64);
        Ok(Self { id, queue: Queue::new([CommandSlot::default(); 4], config, caps) })
    }

    /// Submits a command and has it launched at once.
    fn launch(&mut self, now: Instant, failure: Failure) -> Result<CmdId, Failure> {
        let cmd = self.queue.submit(now).map_err(|_| Failure::Submit)?;
        let launched = matches!(
            self.queue.poll_action(now),
            Some(Action::Launch { cmd: launched, .. }) if launched == cmd
        );
        ensure(launched, failure)?;
        Ok(cmd)
    }

    /// The queue must ask for this step next, and the device carries it out.
    fn step(&mut self, now: Instant, expected: Step, failure: Failure) -> Check {
        let Some(Action::Step { step, seq }) = self.queue.poll_action(now) else {
            return Err(failure);
        };
        self.queue.handle_signal(now, Signal::Stepped { seq, result: Ok(None) });
        ensure(step == expected, failure)
    }

    /// The device has run everything up to `upto`.
    fn retire(&mut self, now: Instant, upto: CmdId, failure: Failure) -> Check {
        let busy = Duration::from_us(10);
        let retired = Retired { upto, busy, outcome: Outcome::Ok };
        self.queue.handle_signal(now, Signal::Retired(retired));
        ensure(self.queue.status(upto) == Status::Done, failure)
    }
}

fn round() -> Check {
    let mut world = World::new()?;
    let last = run_low(&mut world)?;
    let urgent = hold_low_for_high(&mut world)?;
    finish_high(&mut world, urgent)?;
    resume_low(&mut world, last)
}

/// The low queue has the device to itself. Returns the last of its commands.
fn run_low(world: &mut World) -> Result<CmdId, Failure> {
    world.exchange()?;
    let now = world.tick();
    world.low.launch(now, Failure::LowLaunch)?;
    let last = world.low.launch(now, Failure::LowLaunch)?;
    let order = world.exchange()?;
    ensure(!matches!(order, Some(Order::Hold { .. })), Failure::EarlyHold)?;
    Ok(last)
}

/// The high queue gets work, and the low one is taken off the device. Returns the high command.
fn hold_low_for_high(world: &mut World) -> Result<CmdId, Failure> {
    let now = world.tick();
    let urgent = world.high.launch(now, Failure::HighLaunch)?;
    let order = world.exchange()?;
    let expected = matches!(order, Some(Order::Hold { level: Level::Interrupt, .. }));
    ensure(expected, Failure::NoHold)?;

    let now = world.tick();
    world.low.step(now, Step::Deactivate, Failure::HoldSteps)?;
    world.low.step(now, Step::Interrupt, Failure::HoldSteps)?;
    world.low.queue.submit(now).map_err(|_| Failure::Submit)?;
    ensure(world.low.queue.poll_action(now).is_none(), Failure::NotQuiet)?;
    let held = HoldState::Held(Level::Interrupt);
    ensure(world.low.queue.hold_state() == held, Failure::NoAcknowledgement)?;

    world.exchange()?;
    let entry = world.scheduler.table().get(world.low.id);
    let shown = entry.is_some_and(|entry| entry.held == Some(Level::Interrupt) && !entry.running);
    ensure(shown, Failure::NotInTable)?;
    Ok(urgent)
}

/// The high queue's work is done, so the low one may run again.
fn finish_high(world: &mut World, urgent: CmdId) -> Check {
    let now = world.tick();
    world.high.retire(now, urgent, Failure::HighNotDone)?;
    let order = world.exchange()?;
    ensure(matches!(order, Some(Order::Run { .. })), Failure::NoRun)
}

/// The low queue continues with what it was interrupted in, and finishes.
fn resume_low(world: &mut World, last: CmdId) -> Check {
    let now = world.tick();
    world.low.step(now, Step::Restore, Failure::RunSteps)?;
    world.low.step(now, Step::Reactivate, Failure::RunSteps)?;
    ensure(world.low.queue.hold_state() == HoldState::Running, Failure::NotRunning)?;
    let waited = matches!(world.low.queue.poll_action(now), Some(Action::Launch { .. }));
    ensure(waited, Failure::LowLaunch)?;
    world.low.retire(now, last, Failure::LowNotDone)?;
    world.low.retire(now, CmdId(last.0 + 1), Failure::LowNotDone)?;

    let order = world.exchange()?;
    let odd = world.low.queue.anomalies();
    let clean = order.is_none() && odd.protocol == 0 && odd.failed_steps == 0;
    ensure(clean && world.scheduler.stats().stale_acks == 0, Failure::NotClean)
}
