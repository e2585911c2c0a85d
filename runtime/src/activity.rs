//! Activity of a device's queues, for a scheduler above the runtime's.

use xsched_core::level::Caps;
use xsched_core::time::Duration;

/// Something that a queue does. See [`Device::watch`](crate::Device::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// Made, without a command yet. Told with no queue locked.
    Opened {
        /// Capabilities of the device for it.
        caps: Caps,
    },
    /// Begins to have commands; the first is not launched yet.
    Begun,
    /// Has no commands any more.
    Ended,
    /// Commands were seen to have retired.
    Retired {
        /// How many.
        commands: u64,
        /// The device time that they used, as far as the device measures it.
        busy: Duration,
    },
}
