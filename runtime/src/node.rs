//! The scheduler of the node, `xschedd`, which holds this process and others that share its GPUs.
//!
//! Within the process, queues are scheduled by the [`Runtime`] as without it. Where there is no
//! daemon, or it leaves, the process runs on, and connects once there is one.
//!
//! With `features = ["cuda", "node"]`:
//!
#![cfg_attr(feature = "cuda", doc = "```no_run")]
#![cfg_attr(not(feature = "cuda"), doc = "```ignore")]
//! use xsched::node::{Link, open, socket_path};
//! use xsched::prelude::*;
//!
//! let runtime = Runtime::new(Hpf::default())?;
//! // As `xsched run --class interactive` does.
//! let link = Link::open(socket_path(), "server", 100, None)?;
//! let (device, gpu) = open(&runtime, &link, CudaApi::open(0)?, StreamDeviceConfig::default())?;
//! let queue = device.queue(XQueueConfig::default(), StreamConfig::default())?;
//! let empty = CudaCommand::kernel(gpu.api().kernels().empty());
//! queue.submit(StreamCommand::native(empty))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use xsched_hal_stream::{StreamApi, StreamDevice, StreamDeviceConfig, StreamError};
pub use xsched_node::{LEASE, Link, NodeError, Unit, socket_path};

use crate::{Activity, Device, Error, Runtime};

/// Why a GPU could not be opened for the scheduler of the node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError<E: std::error::Error + 'static> {
    /// The device.
    #[error(transparent)]
    Device(#[from] StreamError<E>),
    /// The runtime.
    #[error(transparent)]
    Runtime(#[from] Error),
}

/// A GPU that was opened: the device of the runtime, which queues are made on, and what it is of.
pub type Opened<A> = (Device<StreamDevice<A>>, StreamDevice<A>);

/// Opens a GPU whose queues the scheduler of the node holds and releases together, whatever their
/// streams are. It knows the GPU by its PCI id, and is told when there is work for it, and how much
/// device time that took.
///
/// Queues have gates, also while the process is alone on the GPU; see
/// [`StreamConfig::spacing`](xsched_hal_stream::StreamConfig::spacing) for what they cost. The
/// configuration's `hold_lease` becomes [`LEASE`].
///
/// # Errors
/// If the system refuses a thread, or the runtime has no room for another device.
pub fn open<A>(
    runtime: &Runtime,
    link: &Arc<Link>,
    api: A,
    config: StreamDeviceConfig,
) -> Result<Opened<A>, OpenError<A::Error>>
where
    A: StreamApi,
{
    let unit = link.unit(api.about().pci.clone());
    let mut config = config;
    config.hold_lease = LEASE;
    let gpu = StreamDevice::in_unit(api, config, Arc::clone(&unit) as _)?;
    let device = runtime.device(gpu.clone())?;
    report(&device, unit);
    Ok((device, gpu))
}

/// Has the scheduler of the node be told what the queues of a device do, which is of this unit.
/// [`open`] does so. Before the first queue is made. False if the device is watched already, by
/// [`Device::watch`] or this.
pub fn report<B>(device: &Device<B>, unit: Arc<Unit>) -> bool {
    device.watch(move |activity| match activity {
        Activity::Begun => unit.note(true),
        Activity::Ended => unit.note(false),
        Activity::Retired { commands, busy } => unit.note_retired(commands, busy.as_ns()),
    })
}
