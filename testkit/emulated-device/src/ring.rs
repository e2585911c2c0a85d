//! Hardware rings: threads that carry out commands in order.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::code::{Answer, LAUNCH_FAILURE, OUT_OF_MEMORY};
use crate::device::Device;
use crate::graph::pause;
use crate::slices;
use crate::stream::Stream;
use crate::work::Work;

/// Something whose leave a ring needs for all that it carries out.
pub trait Leave: Send + Sync {
    /// The calling thread carries the ring's commands out from now on.
    fn take(&self);

    /// A command was put into the ring.
    fn note_written(&self);

    /// Waits until something may start. False if nothing ever will.
    fn enter(&self) -> bool;

    /// Runs a kernel, with a unit of the device. `None` if it was not run, and never will be.
    fn run(&self, kernel: &dyn Fn() -> u32) -> Option<u32>;

    /// Runs something short. False if it was not run, and never will be.
    fn run_short(&self, body: &mut dyn FnMut()) -> bool;
}

/// A command of a stream, and what has to be done before it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) stream: Arc<Stream>,
    pub(crate) number: u64,
    /// Streams, and how many of their commands.
    pub(crate) after: Vec<(Arc<Stream>, u64)>,
    pub(crate) work: Work,
}

/// A ring. Its thread ends when no handle is left that could launch into it.
pub(crate) struct Ring {
    entries: Arc<Entries>,
    leave: Option<Arc<dyn Leave>>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("entries", &self.entries).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Entries {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// The one that is being carried out counts as well.
    busy: usize,
    closed: bool,
}

impl Entries {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    pub(crate) fn start(device: &'static Device) -> Answer<Arc<Self>> {
        let entries = Arc::<Entries>::default();
        // On the caller's thread, as a real runtime does.
        let leave: Option<Arc<dyn Leave>> = device.make_leave()?.map(Arc::from);
        let thread = thread::Builder::new().name("emulated-ring".into());
        let own = Arc::clone(&entries);
        let its_leave = leave.clone();
        let body = move || carry_out(device, &own, its_leave.as_deref());
        thread.spawn(body).map_err(|_| OUT_OF_MEMORY)?;
        Ok(Arc::new(Self { entries, leave }))
    }

    /// How many commands are in it.
    pub(crate) fn load(&self) -> usize {
        let state = self.entries.lock();
        state.items.len() + state.busy
    }

    /// Appends a command; blocks while `depth` are in the ring.
    pub(crate) fn push(&self, item: Item, depth: usize) {
        slices::call();
        let mut state = self.entries.lock();
        while state.items.len() + state.busy >= depth {
            state = self.entries.wait(state);
        }
        state.items.push_back(item);
        if let Some(leave) = &self.leave {
            leave.note_written();
        }
        self.entries.changed.notify_all();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.entries.lock().closed = true;
        self.entries.changed.notify_all();
    }
}

thread_local! {
    /// Device whose ring the thread carries out.
    static DEVICE: Cell<Option<&'static Device>> = const { Cell::new(None) };
}

/// True if the device was lost whose kernel the calling thread runs, which then is to end.
#[must_use]
pub fn is_lost() -> bool {
    DEVICE.get().is_some_and(|device| device.error().is_some())
}

/// Body of a ring's thread.
fn carry_out(device: &'static Device, entries: &Entries, leave: Option<&dyn Leave>) {
    DEVICE.set(Some(device));
    if let Some(leave) = leave {
        leave.take();
    }
    loop {
        let mut state = entries.lock();
        let item = loop {
            if let Some(item) = state.items.pop_front() {
                break item;
            }
            if state.closed {
                return slices::leave();
            }
            slices::leave();
            state = entries.wait(state);
        };
        state.busy = 1;
        drop(state);
        for (stream, number) in &item.after {
            await_condition(|| device.error().is_some() || stream.done() >= *number);
        }
        carry_out_work(device, leave, &item.work);
        item.stream.finish(item.number);
        entries.lock().busy = 0;
        entries.changed.notify_all();
        // Not sooner: the ring may be the stream's own, and end with it.
        drop(item);
    }
}

fn carry_out_work(device: &Device, leave: Option<&dyn Leave>, work: &Work) {
    match (work, leave) {
        (Work::Graph(graph), _) => {
            let is_lost = || device.error().is_some();
            graph.run(&is_lost, &mut |work| carry_out_work(device, leave, work));
        }
        (_, None) => carry_out_one(device, work),
        (_, Some(leave)) => carry_out_by(device, leave, work),
    }
}

/// As [`carry_out_one`], by the leave of something.
fn carry_out_by(device: &Device, leave: &dyn Leave, work: &Work) {
    let done = match work {
        Work::Kernel(kernel) if device.error().is_none() => {
            leave.run(&**kernel).is_some_and(|code| {
                device.lose(code);
                true
            })
        }
        // Waiting is not stopped, and the host's functions are not the device's; but nothing goes
        // on after them that has no leave.
        Work::Await(_) | Work::Call(_) | Work::Nothing => {
            if leave.enter() {
                carry_out_one(device, work);
            }
            leave.enter()
        }
        work => {
            let mut ran = false;
            let is_done = leave.run_short(&mut || {
                ran = true;
                carry_out_one(device, work);
            });
            if let (Work::Record(record), false) = (work, ran) {
                record.complete();
            }
            is_done
        }
    };
    if !done {
        device.lose(LAUNCH_FAILURE);
    }
}

fn carry_out_one(device: &Device, work: &Work) {
    // A lost device carries nothing out, and no call waits for it.
    let lost = || device.error().is_some();
    match work {
        Work::Record(record) => record.complete(),
        _ if lost() => {}
        Work::Kernel(kernel) => {
            let code = device.with_unit(|| kernel());
            device.lose(code);
        }
        Work::Short(body) | Work::Call(body) => body(),
        Work::Await(holds) => await_condition(|| {
            let is_over = lost() || holds();
            if !is_over {
                slices::leave();
            }
            is_over
        }),
        // A graph has been taken apart.
        Work::Nothing | Work::Graph(_) => {}
    }
}

/// Looks again and again, ever less often.
pub fn await_condition(mut holds: impl FnMut() -> bool) {
    let mut rounds = 0_u32;
    while !holds() {
        rounds = rounds.saturating_add(1);
        pause(rounds);
    }
}
