//! Table of a policy in Python: copies, because the scheduler's table is lent for a call.

use pyo3::prelude::*;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy;
use xsched_core::scheduler::{QueueInfo, QueueTable};

/// A queue as it was when the policy was asked.
#[pyclass(frozen, name = "QueueView", module = "xsched._native")]
pub(crate) struct QueueView {
    info: QueueInfo,
}

impl QueueView {
    pub(crate) const fn of(info: QueueInfo) -> Self {
        Self { info }
    }

    pub(crate) const fn bits(&self) -> u64 {
        self.info.id.to_bits()
    }
}

#[pymethods]
impl QueueView {
    #[getter]
    fn id(&self) -> u64 {
        self.bits()
    }

    #[getter]
    fn index(&self) -> usize {
        self.info.id.index()
    }

    #[getter]
    fn device(&self) -> u16 {
        self.info.device.0
    }

    #[getter]
    fn process(&self) -> u32 {
        self.info.process.0
    }

    #[getter]
    fn ready(&self) -> bool {
        self.info.ready
    }

    #[getter]
    fn running(&self) -> bool {
        self.info.running
    }

    #[getter]
    fn held(&self) -> Option<u8> {
        self.info.held.map(xsched_core::level::Level::number)
    }

    #[getter]
    fn priority(&self) -> i16 {
        self.info.hints.priority.get()
    }

    #[getter]
    fn utilization(&self) -> Option<u8> {
        self.info.hints.utilization
    }

    #[getter]
    fn weight(&self) -> u32 {
        self.info.hints.weight
    }

    #[getter]
    fn deadline_ns(&self) -> Option<u64> {
        self.info.hints.deadline.map(xsched_core::time::Duration::as_ns)
    }

    #[getter]
    fn laxity(&self) -> Option<(u64, i16, i16)> {
        let laxity = self.info.hints.laxity?;
        Some((laxity.lax.as_ns(), laxity.lax_priority.get(), laxity.critical_priority.get()))
    }

    #[getter]
    fn active_window(&self) -> bool {
        self.info.hints.active_window
    }

    #[getter]
    fn ready_since_ns(&self) -> u64 {
        self.info.report.ready_since.as_ns()
    }

    #[getter]
    fn submitted(&self) -> u64 {
        self.info.report.submitted
    }

    #[getter]
    fn launched(&self) -> u64 {
        self.info.report.launched
    }

    #[getter]
    fn retired(&self) -> u64 {
        self.info.report.retired
    }

    #[getter]
    fn busy_ns(&self) -> u64 {
        self.info.report.busy.as_ns()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().info.id == self.info.id)
    }

    fn __hash__(&self) -> u64 {
        self.info.id.to_bits()
    }

    fn __repr__(&self) -> String {
        let QueueInfo { id, device, ready, running, .. } = &self.info;
        let priority = self.priority();
        format!(
            "QueueView(id={}, device={}, priority={priority}, ready={}, running={})",
            id.to_bits(),
            device.0,
            python(*ready),
            python(*running)
        )
    }
}

fn python(truth: bool) -> &'static str {
    if truth { "True" } else { "False" }
}

/// All queues, as they were when the policy was asked, in table order.
#[pyclass(frozen, module = "xsched._native")]
pub(crate) struct Table {
    rows: Vec<QueueInfo>,
    devices: u16,
}

impl Table {
    pub(crate) fn of(queues: &QueueTable<'_>) -> Self {
        let devices = queues.devices().count() as u16;
        Self { rows: queues.iter().copied().collect(), devices }
    }

    fn views(&self, wanted: impl Fn(&QueueInfo) -> bool) -> Vec<QueueView> {
        let wanted = self.rows.iter().filter(|info| wanted(info));
        wanted.map(|&info| QueueView::of(info)).collect()
    }

    fn on(info: &QueueInfo, device: Option<u16>) -> bool {
        device.is_none_or(|device| info.device == DeviceId(device))
    }
}

#[pymethods]
impl Table {
    /// The numbers of the devices: 0, 1 and so on.
    #[getter]
    fn devices(&self) -> Vec<u16> {
        (0..self.devices).collect()
    }

    /// The queues, of all devices or of one.
    #[pyo3(signature = (device=None))]
    fn queues(&self, device: Option<u16>) -> Vec<QueueView> {
        self.views(|info| Self::on(info, device))
    }

    /// The ready queues, of all devices or of one.
    #[pyo3(signature = (device=None))]
    fn ready(&self, device: Option<u16>) -> Vec<QueueView> {
        self.views(|info| info.ready && Self::on(info, device))
    }

    /// The queue with this id, or None.
    fn get(&self, queue: u64) -> Option<QueueView> {
        let id = QueueId::from_bits(queue);
        self.rows.iter().find(|info| info.id == id).map(|&info| QueueView::of(info))
    }

    /// The highest priority among a device's ready queues, or None. Those that must not run do
    /// not count.
    fn top_ready(&self, device: u16) -> Option<i16> {
        let ready = self.rows.iter().filter(|info| info.ready && Self::on(info, Some(device)));
        let priorities = ready.map(|info| info.hints.priority);
        let top = priorities.filter(|p| *p != xsched_core::hint::Priority::NO_EXECUTE).max();
        top.map(xsched_core::hint::Priority::get)
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }
}

/// Event of a queue.
#[pyclass(frozen, module = "xsched._native")]
pub(crate) struct Event {
    event: policy::Event,
}

impl Event {
    pub(crate) const fn of(event: policy::Event) -> Self {
        Self { event }
    }
}

#[pymethods]
impl Event {
    /// A word for it.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.event {
            policy::Event::Attached => "attached",
            policy::Event::Detached => "detached",
            policy::Event::Ready => "ready",
            policy::Event::Idle => "idle",
            policy::Event::Progress { .. } => "progress",
            policy::Event::Held(_) => "held",
            policy::Event::Resumed => "resumed",
            policy::Event::Hinted => "hinted",
            policy::Event::FailedOpen => "failed_open",
            policy::Event::Lost => "lost",
            // The enum may grow; its own name is better than none.
            _ => "other",
        }
    }

    /// For progress: device time since the last such event.
    #[getter]
    fn busy_ns(&self) -> Option<u64> {
        match self.event {
            policy::Event::Progress { busy } => Some(busy.as_ns()),
            _ => None,
        }
    }

    /// For a hold: how deep it is.
    #[getter]
    fn level(&self) -> Option<u8> {
        match self.event {
            policy::Event::Held(level) => Some(level.number()),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        format!("Event({:?})", self.event)
    }
}
