//! The scheduler of the node, `xschedd`, which holds this process and others that share its GPUs.
//!
//! Within the process, queues are scheduled by the [`Runtime`] as without it. Where there is no
//! daemon, or it leaves, the process runs on, and connects once there is one.
//!
//! With `features = ["cuda", "node"]`:
//!
#![cfg_attr(feature = "cuda", doc = "```no_run")]
#![cfg_attr(not(feature = "cuda"), doc = "```ignore")]
//! use xsched::node::{Link, SocketPath, open};
//! use xsched::prelude::*;
//!
//! let runtime = Runtime::new(Hpf::default())?;
//! // As `xsched run --class interactive` does.
//! let link = Link::open(SocketPath::from_env(), "server", 100, None)?;
//! let (device, gpu) = open(&runtime, &link, CudaApi::open(0)?, StreamDeviceConfig::default())?;
//! let queue = device.queue(XQueueConfig::default(), StreamConfig::default())?;
//! let empty = CudaCommand::kernel(gpu.api().kernels().empty());
//! queue.submit(StreamCommand::native(empty))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use xsched_core::hal::Backend;
use xsched_hal_stream::{About, StreamApi, StreamDevice, StreamDeviceConfig, StreamError};
pub use xsched_node::{LEASE, Link, NodeError, PageSource, SocketPath, Unit, socket_path};

use crate::{Activity, Device, Error, Holder, Runtime};

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
    let unit = unit_of(link, api.about());
    let mut config = config;
    config.hold_lease = LEASE;
    let gpu = StreamDevice::in_unit(api, config, Arc::clone(&unit) as _)?;
    let device = runtime.device(gpu.clone())?;
    report(&device, unit);
    Ok((device, gpu))
}

/// The unit of this process on a GPU, by what that says of itself.
pub fn unit_of(link: &Arc<Link>, about: &About) -> Arc<Unit> {
    let name = about.pci.clone();
    if about.side_by_side { link.unit_side_by_side(name) } else { link.unit(name) }
}

/// Adds a device of any backend, whose queues the scheduler of the node holds and releases
/// together, each as deep as it can, as [`report`] says. `name` tells the device from others: all
/// processes that use it have to say the same, 1 to 128 visible characters of ASCII.
///
/// With `features = ["host", "node"]`:
///
#[cfg_attr(feature = "host", doc = "```no_run")]
#[cfg_attr(not(feature = "host"), doc = "```ignore")]
/// use xsched::node::{Link, SocketPath, add};
/// use xsched::prelude::*;
///
/// let runtime = Runtime::new(Hpf::default())?;
/// let link = Link::open(SocketPath::from_env(), "batch", -100, None)?;
/// let device = add(&runtime, &link, HostDevice::new(HostConfig::default())?, "host")?;
/// let queue = device.queue(XQueueConfig::default().with_level(Level::Block), ())?;
/// queue.submit(HostCommand::new(|| println!("not while another process is more urgent")))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Runtime::device`].
pub fn add<B>(
    runtime: &Runtime,
    link: &Arc<Link>,
    backend: B,
    name: &str,
) -> Result<Device<B>, Error>
where
    B: Backend + Send + 'static,
{
    let device = runtime.device(backend)?;
    report(&device, link.unit(name.to_owned()));
    Ok(device)
}

/// Has the scheduler of the node be told what the queues of a device do, which is of this unit.
/// [`open`] and [`add`] do so. Before the first queue is made. False if the device is watched
/// already, by [`Device::watch`] or this.
///
/// Queues that are not held by their gates alone, because the device has none or they are at Lv3,
/// are held by a thread of this process as deep as they can, as the scheduler of the node says.
pub fn report<B>(device: &Device<B>, unit: Arc<Unit>) -> bool {
    let pages = Arc::clone(&unit) as _;
    report_from(device, unit, pages)
}

/// As [`report`], where the device has its pages from this source, which has them from the unit.
pub fn report_from<B>(device: &Device<B>, unit: Arc<Unit>, pages: Arc<dyn PageSource>) -> bool {
    let holder = device.holder();
    device.watch(move |activity| match activity {
        Activity::Opened { caps } => {
            if caps.needs_orders() {
                obey(&unit, &holder, &*pages);
            }
        }
        activity => note(&unit, activity),
    })
}

/// For [`Device::queue_watched`]: tells the scheduler of the node what a queue does that is a unit
/// of its own, and is held by its gates alone.
pub fn report_one(unit: Arc<Unit>) -> impl Fn(Activity) + Send + Sync + 'static {
    move |activity| note(&unit, activity)
}

fn note(unit: &Unit, activity: Activity) {
    match activity {
        Activity::Opened { .. } => {}
        Activity::Begun => unit.note(true),
        Activity::Ended => unit.note(false),
        Activity::Retired { commands, busy } => unit.note_retired(commands, busy.as_ns()),
    }
}

/// Has a thread hold a device's queues as the scheduler of the node says.
fn obey(unit: &Unit, holder: &Holder, pages: &dyn PageSource) {
    let holder = holder.clone();
    if let Err(error) = unit.follow(pages, move |hold| holder.hold(hold)) {
        tracing::warn!("queues without gates are not held for other processes: {error}");
    }
}
