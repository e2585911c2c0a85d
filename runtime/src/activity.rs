//! What a scheduler above the runtime's wants to know of a device's queues.

use xsched_core::level::Caps;
use xsched_core::time::Duration;

/// Something that a queue does. See [`Device::watch`](crate::Device::watch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// It was made, and has no command yet. This is told with no queue locked.
    Opened {
        /// What the device can do for it.
        caps: Caps,
    },
    /// It has something to do from now on; the first of it is not launched yet.
    Begun,
    /// It has nothing to do any more.
    Ended,
    /// Commands were seen to have retired.
    Retired {
        /// How many.
        commands: u64,
        /// The device time that they used, as far as the device measures it.
        busy: Duration,
    },
}
