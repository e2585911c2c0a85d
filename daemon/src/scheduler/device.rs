//! The GPUs of the node, by what processes call them.

use xsched_core::id::DeviceId;

/// GPUs that there can be.
pub(crate) const DEVICES_MAX: usize = 64;

/// The GPUs that processes have named. The place of one that no process is on becomes that of
/// another one when there is no other place.
#[derive(Debug, Default)]
pub(crate) struct Devices(Vec<String>);

impl Devices {
    /// The number of a GPU, and whether it was another one's before. `None` if there are too many
    /// GPUs that are in use.
    pub(crate) fn number(
        &mut self,
        name: &str,
        is_used: impl Fn(DeviceId) -> bool,
    ) -> Option<(DeviceId, bool)> {
        let id = |at: usize| DeviceId(at as u16);
        if let Some(at) = self.0.iter().position(|known| known == name) {
            return Some((id(at), false));
        }
        if self.0.len() < DEVICES_MAX {
            self.0.push(name.to_owned());
            return Some((id(self.0.len() - 1), false));
        }
        let unused = (0..DEVICES_MAX).find(|at| !is_used(id(*at)))?;
        name.clone_into(&mut self.0[unused]);
        Some((id(unused), true))
    }

    /// The names, in the order of the numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn name(&self, device: DeviceId) -> &str {
        self.0.get(device.index()).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_gpu_that_no_process_is_on_is_taken_when_there_is_no_other() {
        let mut devices = Devices::default();
        for n in 0..DEVICES_MAX {
            assert_eq!(
                devices.number(&n.to_string(), |_| false),
                Some((DeviceId(n as u16), false))
            );
        }
        let is_used = |device: DeviceId| device.index() != 7;
        assert_eq!(devices.number("3", is_used), Some((DeviceId(3), false)));
        assert_eq!(devices.number("new", is_used), Some((DeviceId(7), true)));
        assert_eq!(devices.number("new", |_| true), Some((DeviceId(7), false)));
        assert_eq!(devices.number("7", |_| true), None);
        assert_eq!((devices.name(DeviceId(7)), devices.names().count()), ("new", DEVICES_MAX));
    }
}
