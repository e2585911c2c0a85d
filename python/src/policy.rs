//! A policy that is written in Python, as the scheduler wants it.
//!
//! It is asked with the interpreter's lock held, so it is for the simulator: a real device does not
//! wait for an interpreter.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use xsched_core::hint::PolicyHint;
use xsched_core::id::QueueId;
use xsched_core::policy::{Changed, Decisions, Event, MayHold, Needs, Policy, Urgency, Verdict};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

use crate::decisions::Decisions as Taken;
use crate::table::{Event as RawEvent, QueueView, Table};

/// The object and what it said about itself.
pub(crate) struct PythonPolicy {
    object: Py<PyAny>,
    name: String,
    holds: bool,
    progress_every: Option<Duration>,
    observes: bool,
    /// The first error. From then on the object is not asked, and all queues run.
    failure: Option<PyErr>,
}

impl PythonPolicy {
    /// Takes an `xsched.sim.Policy`.
    ///
    /// # Errors
    /// If it has not the attributes of one.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if !object.hasattr(intern!(py, "decide"))? {
            let message = "a policy is the name of one or an object of a subclass of Policy";
            return Err(PyTypeError::new_err(message));
        }
        let every: Option<u64> = object.getattr(intern!(py, "progress_every_ns"))?.extract()?;
        Ok(Self {
            name: object.getattr(intern!(py, "name"))?.extract()?,
            holds: object.getattr(intern!(py, "holds"))?.extract()?,
            progress_every: every.map(Duration::from_ns),
            observes: object.getattr(intern!(py, "_observes"))?.extract()?,
            object: object.clone().unbind(),
            failure: None,
        })
    }

    /// The name that the object gave itself.
    pub(crate) fn title(&self) -> &str {
        &self.name
    }

    /// Failure, if any.
    pub(crate) fn into_failure(self) -> Option<PyErr> {
        self.failure
    }

    fn tell(
        &self,
        now: Instant,
        queue: QueueId,
        event: Event,
        queues: &QueueTable<'_>,
    ) -> PyResult<()> {
        let Some(&info) = queues.get(queue) else { return Ok(()) };
        Python::attach(|py| {
            let arguments =
                (now.as_ns(), QueueView::of(info), RawEvent::of(event), Table::of(queues));
            self.object.call_method1(py, intern!(py, "observe"), arguments).map(drop)
        })
    }

    fn ask(
        &self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) -> PyResult<()> {
        let all = matches!(changed, Changed::All);
        let rows: Vec<_> = changed.queues(queues).copied().collect();
        Python::attach(|py| {
            let rows: Vec<_> = rows.into_iter().map(QueueView::of).collect();
            let changed = (!all).then_some(rows);
            let taken = Bound::new(py, Taken::new())?;
            let arguments = (now.as_ns(), changed, Table::of(queues), &taken);
            let answer = self.object.call_method1(py, intern!(py, "decide"), arguments);
            match &answer {
                Ok(_) => taken.get().pass(out),
                Err(_) => taken.get().close(),
            }
            answer.map(drop)
        })
    }
}

/// Lets all queues run, so that a run whose policy failed comes to its end.
fn release(queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
    for device in queues.devices() {
        out.floor(device, None, Urgency::NOW);
    }
    for queue in queues.iter() {
        out.set(queue.id, Verdict::Run);
    }
}

fn hint_of(hint: PolicyHint) -> Option<(&'static str, Option<u64>)> {
    match hint {
        PolicyHint::Timeslice(span) => Some(("timeslice_ns", Some(span.as_ns()))),
        PolicyHint::K(k) => Some(("k", Some(u64::from(k)))),
        PolicyHint::Ageing(age) => Some(("ageing_ns", age.map(Duration::as_ns))),
        // A newer kind than these: the interface for Python has no name for it.
        _ => None,
    }
}

impl Policy for PythonPolicy {
    fn name(&self) -> &'static str {
        "python"
    }

    fn needs(&self) -> Needs {
        let may_hold = if self.holds { MayHold::Anything } else { MayHold::Nothing };
        Needs { may_hold, progress_every: self.progress_every, ..Needs::default() }
    }

    fn configure(&mut self, hint: PolicyHint) -> bool {
        let Some(arguments) = hint_of(hint).filter(|_| self.failure.is_none()) else {
            return false;
        };
        let answer = Python::attach(|py| {
            let answer = self.object.call_method1(py, intern!(py, "configure"), arguments)?;
            answer.extract(py)
        });
        answer.unwrap_or_else(|error| {
            self.failure = Some(error);
            false
        })
    }

    fn observe(&mut self, now: Instant, queue: QueueId, event: Event, queues: &QueueTable<'_>) {
        if self.observes && self.failure.is_none() {
            self.failure = self.tell(now, queue, event, queues).err();
        }
    }

    fn decide(
        &mut self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        if self.failure.is_none() {
            self.failure = self.ask(now, changed, queues, out).err();
        }
        if self.failure.is_some() {
            release(queues, out);
        }
    }
}
