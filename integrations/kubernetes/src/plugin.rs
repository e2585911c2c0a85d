//! Device plugin, for clusters without dynamic resource allocation: an extended resource for each
//! class, with some slots on each GPU.
//!
//! Kubelets before 1.26 send the path of the socket as the name of the server, which no URI may
//! have: the library for HTTP/2 refuses their calls, and the resources stay at 0.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};
use xsched_launch::Class;
use xsched_launch::cdi::CLASSES;

use crate::RESOURCES;
use crate::api::calls::plugin::device_plugin_server::{DevicePlugin, DevicePluginServer};
use crate::api::calls::plugin_registration::registration_client::RegistrationClient;
use crate::api::plugin::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateRequest,
    ContainerAllocateResponse, ContainerPreferredAllocationRequest,
    ContainerPreferredAllocationResponse, Device, DevicePluginOptions, Empty, ListAndWatchResponse,
    PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, RegisterRequest,
};
use crate::devices::Devices;
use crate::gpu::Gpu;
use crate::health::Health;
use crate::socket::{File, ServeError, Socket};
use crate::state::State;

/// Version of the interface.
const VERSION: &str = "v1beta1";
/// Folder of the sockets in the kubelet's.
const FOLDER: &str = "device-plugins";
/// Time between looks whether the kubelet has started again, and between attempts to register.
const INTERVAL: Duration = Duration::from_secs(1);
/// Annotation by which kubelets before 1.29 tell the container runtime of container devices.
const ANNOTATION: &str = "cdi.k8s.io/xsched";

/// The resource of a class.
#[derive(Debug)]
pub struct Plugin {
    class: Class,
    slots: u16,
    devices: Arc<Devices>,
    health: Arc<Health>,
}

impl Plugin {
    /// The resource of a class, of which each GPU has some slots.
    #[must_use]
    pub const fn new(class: Class, slots: u16, devices: Arc<Devices>, health: Arc<Health>) -> Self {
        Self { class, slots, devices, health }
    }

    /// Name of the resource.
    #[must_use]
    pub fn resource(&self) -> String {
        format!("{RESOURCES}{}", self.class.name())
    }

    fn socket(&self) -> String {
        format!("xsched-{}.sock", self.class.name())
    }

    /// Serves the kubelet with this folder, and registers again when it starts again. Does not end
    /// by itself.
    ///
    /// # Errors
    /// If the socket cannot be served.
    pub async fn serve(self: Arc<Self>, kubelet: &Path, state: &State) -> Result<(), ServeError> {
        let path = kubelet.join(FOLDER).join(self.socket());
        let kubelet = kubelet.join(FOLDER).join("kubelet.sock");
        loop {
            let failed = |source| ServeError::Socket { path: path.clone(), source };
            let (socket, connections) = Socket::bind(&path).map_err(failed)?;
            let service = DevicePluginServer::from_arc(Arc::clone(&self));
            let server = Server::builder().add_service(service).serve_with_incoming(connections);
            tokio::select! {
                ended = server => return Ok(ended?),
                () = self.while_registered(&kubelet, &socket, state) => {}
            }
            tracing::info!(resource = self.resource(), "the kubelet has started again");
        }
    }

    /// Registers, and waits until the kubelet has started again: it removes all sockets, and makes
    /// its own.
    async fn while_registered(&self, kubelet: &Path, socket: &Socket, state: &State) {
        let mut registered = None;
        while socket.is_there() && (registered.is_none() || File::at(kubelet) == registered) {
            let now = File::at(kubelet);
            if registered.is_none() && now.is_some() {
                match self.register(kubelet).await {
                    Ok(()) => {
                        registered = now;
                        tracing::info!(resource = self.resource(), "registered");
                        state.registrations.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => tracing::warn!(
                        resource = self.resource(),
                        "the kubelet does not register this plugin: {error}"
                    ),
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
        if registered.is_some() {
            state.registrations.fetch_sub(1, Ordering::Relaxed);
        }
    }

    async fn register(&self, kubelet: &Path) -> Result<(), Status> {
        let failed = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let endpoint = Endpoint::try_from(format!("unix://{}", kubelet.display()));
        let channel = endpoint.map_err(failed)?.connect().await.map_err(failed)?;
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: self.socket(),
            resource_name: self.resource(),
            options: Some(options()),
        };
        RegistrationClient::new(channel).register(request).await.map(drop)
    }

    /// The GPU of a slot.
    fn gpu(&self, id: &str) -> Option<&Gpu> {
        let (name, slot) = id.rsplit_once("-slot-")?;
        slot.parse().ok().filter(|slot: &u16| *slot < self.slots)?;
        self.health.gpus().iter().find(|gpu| gpu.name == name)
    }

    fn list(&self, are_there: &[bool]) -> Vec<Device> {
        let of_gpu = |(gpu, is_there): (&Gpu, &bool)| {
            let health = if *is_there { "Healthy" } else { "Unhealthy" };
            let slot = |slot| Device {
                id: format!("{}-slot-{slot}", gpu.name),
                health: health.to_owned(),
            };
            (0..self.slots).map(slot).collect::<Vec<_>>()
        };
        self.health.gpus().iter().zip(are_there).flat_map(of_gpu).collect()
    }

    fn allocate_one(
        &self,
        request: &ContainerAllocateRequest,
    ) -> Result<ContainerAllocateResponse, Status> {
        let mut names = BTreeSet::new();
        for id in &request.devices_ids {
            let gpu = self.gpu(id).ok_or_else(|| {
                Status::not_found(format!("there is no device `{id}` of {}", self.resource()))
            })?;
            let of_vendor = self.devices.of_vendor(gpu);
            names
                .insert(of_vendor.map_err(|error| Status::failed_precondition(error.to_string()))?);
        }
        let own = format!("{CLASSES}={}", self.class.name());
        let names: Vec<_> = names.into_iter().chain([own]).collect();
        Ok(ContainerAllocateResponse {
            annotations: BTreeMap::from([(ANNOTATION.to_owned(), names.join(","))]),
            cdi_devices: names.into_iter().map(|name| CdiDevice { name }).collect(),
        })
    }

    /// Slots on different GPUs first, and then on those with the most free slots.
    fn prefer(&self, request: &ContainerPreferredAllocationRequest) -> Vec<String> {
        let mut chosen = request.must_include_device_ids.clone();
        let size = usize::try_from(request.allocation_size).unwrap_or(0);
        while chosen.len() < size {
            let on = |ids: &[String], name: &str| {
                ids.iter().filter(|id| self.gpu(id).is_some_and(|gpu| gpu.name == name)).count()
            };
            let free = request.available_device_ids.iter().filter(|id| !chosen.contains(id));
            let rank = |id: &&String| {
                let name = self.gpu(id).map_or("", |gpu| gpu.name.as_str());
                (on(&chosen, name), usize::MAX - on(&request.available_device_ids, name))
            };
            let Some(best) = free.min_by_key(rank).cloned() else { break };
            chosen.push(best);
        }
        chosen
    }
}

const fn options() -> DevicePluginOptions {
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    type ListAndWatchStream = BoxStream<'static, Result<ListAndWatchResponse, Status>>;

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let copy =
            Self::new(self.class, self.slots, Arc::clone(&self.devices), Arc::clone(&self.health));
        let mut last = None;
        // The kubelet is told of changes alone.
        let lists = self.health.looks().filter_map(move |looked| {
            let is_new = last.as_ref() != Some(&looked.are_there);
            let devices = is_new.then(|| copy.list(&looked.are_there));
            last = Some(looked.are_there);
            futures::future::ready(devices.map(|devices| Ok(ListAndWatchResponse { devices })))
        });
        Ok(Response::new(lists.boxed()))
    }

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(options()))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let requests = request.into_inner().container_requests;
        let container_responses = requests
            .iter()
            .map(|request| ContainerPreferredAllocationResponse {
                device_ids: self.prefer(request),
            })
            .collect();
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let requests = request.into_inner().container_requests;
        let container_responses =
            requests.iter().map(|request| self.allocate_one(request)).collect::<Result<_, _>>()?;
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
