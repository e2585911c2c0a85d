//! Hardware rings: threads that carry out commands in order.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::code::Answer;
use crate::code::{LAUNCH_FAILURE, OUT_OF_MEMORY};
use crate::device::Device;
use crate::event::Record;
use crate::kfd::Queue;
use crate::stream::Stream;

/// A kernel: gets the block of its arguments, and answers 0 or its error.
pub(crate) type Kernel = extern "C" fn(*const u8) -> u32;

/// What a command does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// What comes before it is all that matters.
    Nothing,
    /// A captured row.
    Graph(Arc<[Self]>),
    Kernel {
        kernel: Kernel,
        block: Box<[u64]>,
    },
    Fill {
        to: usize,
        value: u8,
        bytes: usize,
    },
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Record(Arc<Record>),
    AwaitRecord(Arc<Record>),
    AwaitWord {
        word: usize,
        value: u32,
        mask: u32,
        how: Compare,
    },
    WriteWord {
        word: usize,
        value: u32,
    },
    Call {
        function: extern "C" fn(usize),
        data: usize,
    },
}

/// How a word is compared with a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Compare {
    GreaterOrEqual,
    Equal,
    And,
    Nor,
}

impl Compare {
    pub(crate) const fn from_flags(flags: u32) -> Option<Self> {
        Some(match flags {
            0 => Self::GreaterOrEqual,
            1 => Self::Equal,
            2 => Self::And,
            3 => Self::Nor,
            _ => return None,
        })
    }

    pub(crate) const fn holds(self, word: u32, value: u32, mask: u32) -> bool {
        let word = word & mask;
        match self {
            // As a difference, so that a counter may wrap.
            Self::GreaterOrEqual => word.wrapping_sub(value).cast_signed() >= 0,
            Self::Equal => word == value,
            Self::And => word & value != 0,
            Self::Nor => !(word | value & mask) != 0,
        }
    }
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
#[derive(Debug)]
pub(crate) struct Ring {
    entries: Arc<Entries>,
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
        let queue = Queue::create(device.ordinal, &device.units).map_err(|()| OUT_OF_MEMORY)?;
        let thread = thread::Builder::new().name("emulated-ring".into());
        let own = Arc::clone(&entries);
        let body = move || carry_out(device, &own, queue.as_ref());
        thread.spawn(body).map_err(|_| OUT_OF_MEMORY)?;
        Ok(Arc::new(Self { entries }))
    }

    /// Appends a command; blocks while `depth` are in the ring.
    pub(crate) fn push(&self, item: Item, depth: usize) {
        let mut state = self.entries.lock();
        while state.items.len() + state.busy >= depth {
            state = self.entries.wait(state);
        }
        state.items.push_back(item);
        self.entries.changed.notify_all();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.entries.lock().closed = true;
        self.entries.changed.notify_all();
    }
}

/// What a ring's thread does.
fn carry_out(device: &'static Device, entries: &Entries, queue: Option<&Queue>) {
    if let Some(queue) = queue {
        queue.take();
    }
    loop {
        let mut state = entries.lock();
        let item = loop {
            if let Some(item) = state.items.pop_front() {
                break item;
            }
            if state.closed {
                return;
            }
            state = entries.wait(state);
        };
        state.busy = 1;
        drop(state);
        for (stream, number) in &item.after {
            await_condition(|| device.error().is_some() || stream.done() >= *number);
        }
        let carry_out = |work| match queue {
            None => carry_out_one(device, work),
            Some(queue) => carry_out_in(device, queue, work),
        };
        match item.work {
            Work::Graph(row) => row.iter().cloned().for_each(carry_out),
            work => carry_out(work),
        }
        item.stream.finish(item.number);
        entries.lock().busy = 0;
        entries.changed.notify_all();
        // Not sooner: the ring may be the stream's own, and end with it.
        drop(item.stream);
    }
}

/// As [`carry_out_one`], by the leave of the driver that has the queue.
fn carry_out_in(device: &Device, queue: &Queue, work: Work) {
    let done = match work {
        Work::Kernel { kernel, block } if device.error().is_none() => {
            queue.run(|| kernel(block.as_ptr().cast())).is_some_and(|code| {
                device.lose(code);
                true
            })
        }
        // Waiting is not stopped, and the host's functions are not the device's; but nothing goes
        // on after them whose queue is stopped.
        wait @ (Work::AwaitRecord(_)
        | Work::AwaitWord { .. }
        | Work::Call { .. }
        | Work::Nothing) => {
            if queue.enter() {
                carry_out_one(device, wait);
            }
            queue.enter()
        }
        work => {
            let mut work = Some(work);
            let is_done = queue.run_short(|| {
                if let Some(work) = work.take() {
                    carry_out_one(device, work);
                }
            });
            if let Some(Work::Record(record)) = work {
                record.complete();
            }
            is_done
        }
    };
    if !done {
        device.lose(LAUNCH_FAILURE);
    }
}

fn carry_out_one(device: &Device, work: Work) {
    // A lost device carries nothing out, and no call waits for it.
    let lost = || device.error().is_some();
    match work {
        Work::Record(record) => record.complete(),
        _ if lost() => {}
        Work::Kernel { kernel, block } => {
            let code = device.with_unit(|| kernel(block.as_ptr().cast()));
            device.lose(code);
        }
        Work::Fill { to, value, bytes } => {
            // SAFETY: the launch found the memory in the table, and freeing waits for this.
            unsafe { std::ptr::write_bytes(pointer(to), value, bytes) };
        }
        Work::Copy { to, from, bytes } => {
            // SAFETY: the caller of HIP's function promises that the memory is there until it is
            // done; what was in the table stays until then.
            unsafe { std::ptr::copy(pointer(from).cast_const(), pointer(to), bytes) };
        }
        Work::AwaitRecord(record) => await_condition(|| lost() || record.time_ns().is_some()),
        Work::AwaitWord { word, value, mask, how } => {
            let word = crate::memory::word(word);
            let read = || word.load(std::sync::atomic::Ordering::Acquire);
            await_condition(|| lost() || how.holds(read(), value, mask));
        }
        Work::WriteWord { word, value } => {
            crate::memory::word(word).store(value, std::sync::atomic::Ordering::Release);
        }
        Work::Call { function, data } => function(data),
        // A graph has been taken apart.
        Work::Nothing | Work::Graph(_) => {}
    }
}

const fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Looks again and again, ever less often.
pub(crate) fn await_condition(mut holds: impl FnMut() -> bool) {
    let mut rounds = 0_u32;
    while !holds() {
        rounds = rounds.saturating_add(1);
        match rounds {
            0..100 => std::hint::spin_loop(),
            100..200 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(30)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_compared_as_hip_says() {
        let holds = |flags, word, value, mask| {
            Compare::from_flags(flags).expect("there is one").holds(word, value, mask)
        };
        assert!(holds(0, 5, 5, u32::MAX) && holds(0, 6, 5, u32::MAX) && !holds(0, 4, 5, u32::MAX));
        assert!(holds(1, 0xf5, 5, 0xf) && !holds(1, 0xf5, 5, 0xff));
        assert!(holds(2, 6, 2, u32::MAX) && !holds(2, 6, 1, u32::MAX));
        assert!(holds(3, 1, 2, u32::MAX) && !holds(3, u32::MAX, 0, u32::MAX));
        assert!(Compare::from_flags(4).is_none());
    }
}
