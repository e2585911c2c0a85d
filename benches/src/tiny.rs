//! A single tiny command through an idle queue, beside the same on the device itself.

use std::error::Error;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use xsched::XQueue;
use xsched_core::hal::{Backend, Retire, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_hal_host::{HostCommand, HostConfig, HostDevice};

/// Looks at the device before going to sleep. The runtime's waiter takes 256, each of which takes
/// longer; this many take at least as long.
const LOOKS: u32 = 4_096;
/// Commands of one kind in a row.
const STRETCH: usize = 100;

/// Medians in nanoseconds, of at least this many commands each, in stretches that take turns:
/// straight on the host device, and through a queue of a runtime on another one.
///
/// # Errors
/// If the device cannot be made, or is lost.
pub fn tiny_ns(commands: usize, queue: &XQueue<HostCommand>) -> Result<(u64, u64), Box<dyn Error>> {
    let mut device = HostDevice::new(HostConfig::default())?;
    let mut halves = device.open(QueueId::new(0, 0), ())?;
    let command = HostCommand::function(|_, _| {}, 0, 0);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut plain, mut queued) = (Vec::new(), Vec::new());
    let mut cmds = (0..).map(CmdId);
    while plain.len() < commands {
        for cmd in cmds.by_ref().take(STRETCH) {
            let start = Instant::now();
            halves.submit.launch(cmd, &command, true)?;
            wait(&mut halves.retire, &waker)?;
            plain.push(start.elapsed().as_nanos() as u64);
        }
        for _ in 0..STRETCH {
            let start = Instant::now();
            let ticket = queue.submit(command.clone()).map_err(|_| "the device was lost")?;
            queue.wait(ticket)?;
            queued.push(start.elapsed().as_nanos() as u64);
        }
    }
    Ok((middle(plain), middle(queued)))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<R: Retire>(device: &mut R, waker: &Waker) -> Result<(), R::Error> {
    for _ in 0..LOOKS {
        if device.poll_retired()?.is_some() {
            return Ok(());
        }
    }
    loop {
        let woken = device.wake_on_retire(waker);
        if device.poll_retired()?.is_some() {
            return Ok(());
        }
        if woken {
            std::thread::park();
        }
    }
}

fn middle(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}
