//! The GPUs of the node, by what processes call them.

use xsched_core::id::DeviceId;

/// GPUs that there can be.
pub(crate) const DEVICES_MAX: usize = 64;

/// The GPUs that processes have named so far.
#[derive(Debug, Default)]
pub(crate) struct Devices(Vec<String>);

impl Devices {
    /// The number of a GPU; `None` if there are too many, or the name is empty or too long.
    pub(crate) fn number(&mut self, name: &str) -> Option<DeviceId> {
        if name.is_empty() || name.len() > 128 {
            return None;
        }
        let known = self.0.iter().position(|known| known == name);
        let number = known.or_else(|| {
            (self.0.len() < DEVICES_MAX).then(|| {
                self.0.push(name.to_owned());
                self.0.len() - 1
            })
        });
        number.map(|number| DeviceId(number as u16))
    }

    /// The names, in the order of the numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn name(&self, device: DeviceId) -> &str {
        self.0.get(device.index()).map_or("", String::as_str)
    }
}
