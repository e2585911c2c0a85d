//! A device that forgets what it has not run when it is held, and a driver that blocks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration as Span;

use xsched::WaitError;
use xsched::core::fault::Fault;
use xsched::core::hal::{Backend, Deactivate, ErrorType, Halves, LevelAdapter, Lv2, Preempt};
use xsched::core::hal::{Retire, StepDone, Submit};
use xsched::core::id::{CmdId, QueueId};
use xsched::core::level::{Caps, Level, Recovery};
use xsched::core::queue::{Outcome, Retired};
use xsched::core::time::Duration;
use xsched::policies::fcfs::Fcfs;

use crate::{config, soon};

#[derive(Default)]
struct Line {
    /// Launched and not run.
    pending: Vec<(CmdId, u64)>,
    /// Numbers of the commands that ran.
    ran: Vec<u64>,
    /// Commands that may run.
    allowed: usize,
    fenced: u64,
    /// Commands that have run, and of these reported.
    done: u64,
    seen: u64,
    held: bool,
    /// The first that was launched while the device was held.
    late: Option<CmdId>,
    /// The launch of this number waits in the driver.
    blocked: Option<u64>,
    inside: bool,
}

#[derive(Default)]
struct Forgetful {
    line: Mutex<Line>,
    bell: Condvar,
}

impl Forgetful {
    fn get(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap()
    }
}

struct Half(Arc<Forgetful>);
struct Device(Arc<Forgetful>);

impl ErrorType for Half {
    type Error = Fault;
}

impl ErrorType for Device {
    type Error = Fault;
}

impl Submit for Half {
    type Payload = u64;

    fn launch(&mut self, cmd: CmdId, number: &u64, fence: bool) -> Result<(), Fault> {
        let mut line = self.0.get();
        line.inside = true;
        while line.blocked == Some(*number) {
            line = self.0.bell.wait(line).unwrap();
        }
        line.inside = false;
        if line.held {
            line.late = line.late.or(Some(cmd));
        } else {
            line.pending.push((cmd, *number));
            if fence {
                line.fenced = cmd.count();
            }
        }
        Ok(())
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
        self.0.get().fenced = upto.count();
        Ok(())
    }
}

impl Retire for Half {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        let mut line = self.0.get();
        while !line.held && !line.pending.is_empty() && line.ran.len() < line.allowed {
            let (cmd, number) = line.pending.remove(0);
            line.ran.push(number);
            line.done = cmd.count();
            if line.done <= line.fenced {
                break;
            }
        }
        // A fence may have come after what it covers had run.
        if line.done == line.seen || line.done > line.fenced {
            return Ok(None);
        }
        line.seen = line.done;
        let (upto, busy) = (CmdId(line.done - 1), Duration::from_us(1));
        Ok(Some(Retired { upto, busy, outcome: Outcome::Ok }))
    }
}

impl Preempt for Half {
    type Top = Lv2;
}

impl Deactivate for Half {
    fn deactivate(&mut self) -> Result<StepDone, Fault> {
        let mut line = self.0.get();
        line.held = true;
        let first = line.pending.first().map(|(cmd, _)| *cmd);
        line.pending.clear();
        Ok(StepDone::Now(first))
    }

    fn reactivate(&mut self) -> Result<StepDone, Fault> {
        let mut line = self.0.get();
        line.held = false;
        Ok(StepDone::Now(line.late.take()))
    }
}

impl Backend for Device {
    type Config = ();
    type Submit = Half;
    type Retire = Half;
    type Preempt = LevelAdapter<Half>;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<Half, Half, LevelAdapter<Half>>, Fault> {
        let half = || Half(Arc::clone(&self.0));
        let mut caps = Caps::up_to(Level::Deactivate, 1 << 10);
        caps.deactivate = Some(Recovery::Replay);
        Ok(Halves { submit: half(), retire: half(), preempt: LevelAdapter(half()), caps })
    }
}

fn queue() -> (Arc<Forgetful>, xsched::XQueue<u64>) {
    let device = Arc::new(Forgetful::default());
    let runtime = xsched::Runtime::new(Fcfs).unwrap();
    let opened = runtime.device(Device(device.clone())).unwrap();
    (device, opened.queue(config(0, Level::Deactivate, 8), ()).unwrap())
}

#[test]
fn what_was_forgotten_is_launched_again_in_order() {
    let (device, queue) = queue();
    for n in 0..6 {
        queue.submit(n).unwrap();
    }
    device.get().allowed = 2;
    soon("two have run", || device.get().ran.len() == 2);
    queue.hold(Level::Deactivate);
    for n in 6..12 {
        queue.submit(n).unwrap();
    }
    assert!(device.get().pending.is_empty());
    device.get().allowed = usize::MAX;
    queue.resume();
    queue.wait_all();
    assert_eq!(device.get().ran, (0..12).collect::<Vec<_>>());
}

/// The queue is resumed while a launch from before the hold still waits in the driver.
#[test]
fn a_launch_on_its_way_holds_the_release_up() {
    let (device, queue) = queue();
    queue.submit(0).unwrap();
    device.get().blocked = Some(1);
    let submitter = std::thread::spawn({
        let queue = queue.clone();
        move || queue.submit(1).unwrap()
    });
    soon("it is inside", || device.get().inside);
    queue.hold(Level::Deactivate);
    queue.resume();
    let last = queue.submit(2).unwrap();
    device.get().allowed = usize::MAX;
    assert_eq!(queue.wait_timeout(last, Span::from_millis(20)), Err(WaitError::Timeout));
    device.get().blocked = None;
    device.bell.notify_all();
    submitter.join().unwrap();
    assert_eq!(queue.wait(last), Ok(()));
    assert_eq!(device.get().ran, [0, 1, 2]);
}

#[test]
fn holds_and_launches_at_random_lose_and_repeat_nothing() {
    let (device, queue) = queue();
    device.get().allowed = usize::MAX;
    std::thread::scope(|scope| {
        let holder = queue.clone();
        scope.spawn(move || {
            for n in 0..2_000u64 {
                holder.hold(Level::Deactivate);
                (0..n % 97).for_each(|_| std::hint::spin_loop());
                holder.resume();
                (0..n % 89).for_each(|_| std::hint::spin_loop());
            }
        });
        for n in 0..20_000 {
            queue.submit(n).unwrap();
        }
    });
    queue.wait_all();
    let ran = std::mem::take(&mut device.get().ran);
    let wrong = ran.iter().copied().enumerate().find(|&(at, n)| at as u64 != n);
    assert_eq!((wrong, ran.len()), (None, 20_000), "lost, repeated, or out of order");
}
