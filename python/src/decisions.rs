//! Where a policy in Python puts what it decides.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use xsched_core::hint::Priority;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy::{self, Urgency, Verdict};
use xsched_core::time::{Duration, Instant};

use crate::table::QueueView;

#[derive(Clone, Copy)]
enum Decision {
    Set(QueueId, Verdict),
    Floor(DeviceId, Option<Priority>, Urgency),
    Wake(Instant),
}

/// Takes decisions while a policy is asked, and not afterwards.
// The list is `None` once the call is over.
#[pyclass(frozen, module = "xsched._native")]
pub(crate) struct Decisions(Mutex<Option<Vec<Decision>>>);

impl Decisions {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    fn list(&self) -> MutexGuard<'_, Option<Vec<Decision>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, decision: Decision) -> PyResult<()> {
        let over = "decisions count only until `decide` returns; make them there";
        match self.list().as_mut() {
            Some(list) => list.push(decision),
            None => return Err(PyRuntimeError::new_err(over)),
        }
        Ok(())
    }

    /// Ends the call, and passes on what was decided.
    pub(crate) fn pass(&self, out: &mut policy::Decisions<'_>) {
        for decision in self.list().take().unwrap_or_default() {
            match decision {
                Decision::Set(queue, verdict) => out.set(queue, verdict),
                Decision::Floor(device, priority, urgency) => out.floor(device, priority, urgency),
                Decision::Wake(at) => out.wake_at(at),
            }
        }
    }

    /// Ends the call, and forgets what was decided.
    pub(crate) fn close(&self) {
        self.list().take();
    }
}

/// A queue, or its id.
fn id_of(queue: &Bound<'_, PyAny>) -> PyResult<QueueId> {
    let id = match queue.cast::<QueueView>() {
        Ok(view) => view.get().bits(),
        Err(_) => queue
            .extract()
            .map_err(|_| PyTypeError::new_err("a queue of the table or its id is expected"))?,
    };
    Ok(QueueId::from_bits(id))
}

fn priority_of(value: i32) -> PyResult<Priority> {
    Priority::new(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymethods]
impl Decisions {
    /// The queue may run.
    fn run(&self, queue: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(Decision::Set(id_of(queue)?, Verdict::Run))
    }

    /// The queue must be held, and be off the device within this time (0: as soon as it can be).
    #[pyo3(signature = (queue, within_ns=0))]
    fn hold(&self, queue: &Bound<'_, PyAny>, within_ns: u64) -> PyResult<()> {
        let urgency = Urgency::within(Duration::from_ns(within_ns));
        self.add(Decision::Set(id_of(queue)?, Verdict::Hold(urgency)))
    }

    /// Queues of the device below this priority are held; None for no floor.
    #[pyo3(signature = (device, priority, within_ns=0))]
    fn floor(&self, device: u16, priority: Option<i32>, within_ns: u64) -> PyResult<()> {
        let priority = priority.map(priority_of).transpose()?;
        let urgency = Urgency::within(Duration::from_ns(within_ns));
        self.add(Decision::Floor(DeviceId(device), priority, urgency))
    }

    /// Ask again at this time.
    fn wake_at(&self, at_ns: u64) -> PyResult<()> {
        self.add(Decision::Wake(Instant::from_ns(at_ns)))
    }
}
