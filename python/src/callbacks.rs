//! Functions of Python that are still to run, by the number that the C library has for each, and
//! the exceptions of those that failed.
//!
//! The table is here and not in Python, because no code of Python runs while its lock is held. Code
//! of Python is interrupted where it stands: an object is freed, the garbage collector runs, a
//! signal has come. What that calls is the program's, and may destroy a command, or wait for a
//! thread that runs one. So under the lock objects are only moved, and what the table lets go of is
//! freed after it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

/// Most exceptions that are kept for calls that wait; the oldest go first.
const FAILURES_MAX: usize = 256;

/// A function that is still to run.
struct Waiting {
    /// The function, unless only the object of its command refers to it.
    function: Option<Py<PyAny>>,
    /// A weak reference to the function, if its command has an object.
    lent: Option<Py<PyAny>>,
    /// Handle of the command; 0 until it has one.
    command: u64,
    /// Handle of the XQueue that it was submitted to; 0 if it was not.
    queue: u64,
    /// Calls that are submitting it.
    calls: u32,
    /// One of them has returned, and the library has it.
    submitted: bool,
}

/// An exception that no call has returned yet.
struct Failure {
    command: u64,
    /// With the queue, so that a wait for all of it raises them as well.
    queue: u64,
    exception: Py<PyAny>,
}

#[derive(Default)]
struct Table {
    /// The last number that was given.
    last: usize,
    waiting: HashMap<usize, Waiting>,
    of_command: HashMap<u64, usize>,
    of_queue: HashMap<u64, BTreeSet<usize>>,
    /// The oldest first.
    failures: VecDeque<Failure>,
}

impl Table {
    fn of_command(&mut self, command: u64) -> Option<&mut Waiting> {
        self.of_command.get(&command).and_then(|number| self.waiting.get_mut(number))
    }

    fn take(&mut self, number: usize) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        if self.of_command.get(&waiting.command) == Some(&number) {
            self.of_command.remove(&waiting.command);
        }
        self.leave(number, waiting.queue);
        Some(waiting)
    }

    fn leave(&mut self, number: usize, queue: u64) {
        let Some(numbers) = self.of_queue.get_mut(&queue) else { return };
        numbers.remove(&number);
        if numbers.is_empty() {
            self.of_queue.remove(&queue);
        }
    }

    fn take_failure(&mut self, is_it: impl Fn(&Failure) -> bool) -> Option<Failure> {
        let at = self.failures.iter().position(is_it)?;
        self.failures.remove(at)
    }
}

/// The functions that are still to run. What a method lets go of is freed once it has ended.
#[pyclass(frozen, name = "Callbacks", module = "xsched._native")]
pub(crate) struct Callbacks {
    table: Mutex<Table>,
}

impl Callbacks {
    /// Changes the table. What comes out of it is freed by the caller, after the lock.
    fn with<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The object of a weak reference, if it is there still.
fn target(py: Python<'_>, lent: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    let Some(lent) = lent else { return Ok(None) };
    let object = lent.call0(py)?;
    Ok((!object.is_none(py)).then_some(object))
}

#[pymethods]
impl Callbacks {
    #[new]
    fn new() -> Self {
        Self { table: Mutex::default() }
    }

    /// Gives a function a number. Of one whose command has an object, it takes a weak reference.
    #[pyo3(signature = (function, lent))]
    fn add(&self, function: Option<Py<PyAny>>, lent: Option<Py<PyAny>>) -> usize {
        let (command, queue, calls, submitted) = (0, 0, 0, false);
        let waiting = Waiting { function, lent, command, queue, calls, submitted };
        self.with(|table| {
            table.last += 1;
            table.waiting.insert(table.last, waiting);
            table.last
        })
    }

    /// Says which command the function became.
    fn name(&self, number: usize, command: u64) {
        drop(self.with(|table| {
            if let Some(waiting) = table.waiting.get_mut(&number) {
                waiting.command = command;
                table.of_command.insert(command, number);
            }
            table.take_failure(|failure| failure.command == command)
        }));
    }

    /// The function will not run.
    fn forget(&self, number: usize) {
        drop(self.with(|table| table.take(number)));
    }

    /// Drops functions that will not run.
    fn forget_all(&self, numbers: Vec<usize>) {
        let take = |table: &mut Table| -> Vec<_> {
            numbers.into_iter().filter_map(|number| table.take(number)).collect()
        };
        drop(self.with(take));
    }

    /// The command was destroyed.
    fn destroyed(&self, command: u64) {
        drop(self.with(|table| {
            let number = table.of_command.get(&command).copied();
            let waiting = number.and_then(|number| table.take(number));
            (waiting, table.take_failure(|failure| failure.command == command))
        }));
    }

    /// The command goes into a queue, or (0) to hardware: from now on the function is kept. A drop
    /// there is not announced: see `submitted_to`.
    fn submitting(&self, py: Python<'_>, queue: u64, command: u64) -> PyResult<()> {
        let lent = self.with(|table| {
            let waiting = table.of_command(command)?;
            waiting.lent.as_ref().map(|lent| lent.clone_ref(py))
        });
        let function = target(py, lent)?;
        drop(self.with(|table| {
            let number = table.of_command.get(&command).copied()?;
            let waiting = table.waiting.get_mut(&number)?;
            waiting.calls += 1;
            if waiting.submitted || waiting.calls > 1 {
                // Another call was first, and the library takes the command once.
                return function;
            }
            waiting.queue = queue;
            if queue != 0 {
                table.of_queue.entry(queue).or_default().insert(number);
            }
            function.and_then(|function| waiting.function.replace(function))
        }));
        Ok(())
    }

    /// The library has the command.
    fn submitted(&self, command: u64) {
        self.with(|table| {
            if let Some(waiting) = table.of_command(command) {
                waiting.calls = waiting.calls.saturating_sub(1);
                waiting.submitted = true;
            }
        });
    }

    /// The library did not take the command, which is its object's again.
    fn refused(&self, command: u64) {
        drop(self.with(|table| {
            let number = table.of_command.get(&command).copied()?;
            let waiting = table.waiting.get_mut(&number)?;
            waiting.calls = waiting.calls.saturating_sub(1);
            if waiting.submitted || waiting.calls > 0 {
                return None;
            }
            let queue = std::mem::take(&mut waiting.queue);
            let kept = if waiting.lent.is_some() { waiting.function.take() } else { None };
            table.leave(number, queue);
            kept
        }));
    }

    /// The functions in the queue that have not been called. When it has done all that is in it
    /// now, those that still have not were dropped: `forget_all` them.
    fn submitted_to(&self, queue: u64) -> Vec<usize> {
        self.with(|table| {
            let numbers = table.of_queue.get(&queue).into_iter().flatten().copied();
            let is_there = |number: &usize| table.waiting.get(number).is_some_and(|w| w.submitted);
            numbers.filter(is_there).collect()
        })
    }

    /// The queue is gone, and what it had not run will not run.
    fn closed(&self, queue: u64) {
        let take = |table: &mut Table| -> Vec<_> {
            let numbers = table.of_queue.remove(&queue).into_iter().flatten();
            numbers.filter_map(|number| table.take(number)).collect()
        };
        drop(self.with(take));
    }

    /// The function with this number, which is to run now.
    fn function(&self, py: Python<'_>, number: usize) -> PyResult<Option<Py<PyAny>>> {
        let (function, lent) = self.with(|table| {
            let waiting = table.waiting.get(&number);
            let of =
                |object: &Option<Py<PyAny>>| object.as_ref().map(|object| object.clone_ref(py));
            waiting.map_or((None, None), |waiting| (of(&waiting.function), of(&waiting.lent)))
        });
        // Where no call of this module submitted it.
        if function.is_some() { Ok(function) } else { target(py, lent) }
    }

    /// The function has run, and raised this or nothing.
    #[pyo3(signature = (number, exception))]
    fn ended(&self, number: usize, exception: Option<Py<PyAny>>) {
        drop(self.with(|table| {
            let waiting = table.take(number);
            let (command, queue) = waiting.as_ref().map_or((0, 0), |w| (w.command, w.queue));
            table.failures.extend(exception.map(|exception| Failure { command, queue, exception }));
            let is_full = table.failures.len() > FAILURES_MAX;
            (waiting, is_full.then(|| table.failures.pop_front()))
        }));
    }

    /// Returns what the function of the command raised, once.
    fn failure(&self, command: u64) -> Option<Py<PyAny>> {
        let failure = self.with(|table| table.take_failure(|failure| failure.command == command));
        failure.map(|failure| failure.exception)
    }

    /// The first that a function in the queue raised and no call has returned yet, once.
    fn failure_in(&self, queue: u64) -> Option<Py<PyAny>> {
        let failure = self.with(|table| table.take_failure(|failure| failure.queue == queue));
        failure.map(|failure| failure.exception)
    }

    /// Forgets all, in the child of a fork: what waited waits in the parent.
    fn clear(&self) {
        drop(self.with(|table| {
            let last = table.last;
            std::mem::replace(table, Table { last, ..Table::default() })
        }));
    }

    fn __len__(&self) -> usize {
        self.with(|table| table.waiting.len())
    }
}
