//! Highest priority first, per device.
//!
//! On each device the ready queues of the highest priority run, all of them; every queue below
//! holds (idle ones too, so that their first command does not slip through). A device without a
//! ready queue lets everybody run. [`Priority::NO_EXECUTE`] queues never run. Unhinted queues have
//! priority 0.

use xsched_core::hint::Priority;
use xsched_core::id::DeviceId;
use xsched_core::policy::{Changed, Decisions, Policy, Urgency};
use xsched_core::scheduler::QueueTable;
use xsched_core::time::Instant;

/// The policy. It has no state of its own: the table keeps the highest ready priority per device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hpf;

impl Hpf {
    fn set_floor(device: DeviceId, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        let floor = queues.top_ready(device).unwrap_or(Priority::MIN);
        out.floor(device, Some(floor), Urgency::NOW);
    }
}

impl Policy for Hpf {
    fn name(&self) -> &'static str {
        "hpf"
    }

    fn decide(
        &mut self,
        _now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        match changed {
            Changed::Some { devices, .. } => {
                for &device in devices {
                    Self::set_floor(device, queues, out);
                }
            }
            Changed::All => {
                for device in queues.devices() {
                    Self::set_floor(device, queues, out);
                }
            }
        }
    }
}
