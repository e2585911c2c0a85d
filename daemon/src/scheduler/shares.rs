//! Shares of the tenants whose processes share a limit on each GPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xsched_core::id::DeviceId;

use super::gpu_clients::VISITS_MAX;
use super::on_gpu::Sweep;
use crate::tenant::{counted, scaled};

/// A tenant on a GPU.
type Place = (String, DeviceId);

/// The processes of a tenant on a GPU.
#[derive(Debug, Default)]
struct Group {
    keys: BTreeSet<u32>,
    /// Sum of the shares that they ask for, in percent.
    sum: u32,
    /// Processes whose shares may have changed.
    stale: Sweep,
}

/// Shares that processes ask for, by tenant and GPU, where a tenant has a limit.
#[derive(Debug, Default)]
pub(super) struct Shares {
    groups: BTreeMap<Place, Group>,
    /// Of each process, where it is, what it asks for, and the limit.
    of: HashMap<u32, (Place, Option<u8>, u8)>,
    /// Where shares may have changed.
    stale: BTreeSet<Place>,
}

impl Shares {
    /// A process of a tenant with this limit asks for this share from now on.
    pub(super) fn set(&mut self, key: u32, at: Place, share: Option<u8>, max: u8) {
        if self.of.get(&key).is_some_and(|known| *known == (at.clone(), share, max)) {
            return;
        }
        self.remove(key);
        let group = self.groups.entry(at.clone()).or_default();
        group.keys.insert(key);
        group.sum += counted(share);
        group.stale.begin(group.keys.len());
        self.stale.insert(at.clone());
        self.of.insert(key, (at, share, max));
    }

    /// A process has left, or its tenant has no limit.
    pub(super) fn remove(&mut self, key: u32) {
        let Some((at, share, _)) = self.of.remove(&key) else { return };
        let Some(group) = self.groups.get_mut(&at) else { return };
        group.keys.remove(&key);
        group.sum -= counted(share);
        group.stale.begin(group.keys.len());
        if group.keys.is_empty() {
            self.groups.remove(&at);
            self.stale.remove(&at);
        } else {
            self.stale.insert(at);
        }
    }

    /// The share that a process has, of that which it asks for.
    pub(super) fn scaled(&self, key: u32) -> Option<u8> {
        let (at, share, max) = self.of.get(&key)?;
        scaled(*share, self.groups.get(at)?.sum, Some(*max))
    }

    /// Some processes whose shares may have changed.
    pub(super) fn take_stale(&mut self) -> Vec<u32> {
        let (groups, mut keys) = (&mut self.groups, Vec::new());
        self.stale.retain(|at| {
            let Some(group) = groups.get_mut(at) else { return false };
            keys.extend(group.stale.take(&group.keys, VISITS_MAX));
            !group.stale.is_over()
        });
        keys
    }

    pub(super) fn is_any_stale(&self) -> bool {
        !self.stale.is_empty()
    }
}
