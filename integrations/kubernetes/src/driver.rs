//! Driver for dynamic resource allocation: the kubelet's claims.
//!
//! The container devices of claims are all state that there is. A kubelet that starts asks for the
//! claims of its pods again, and a driver that starts finds them as they were.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Api, Client};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::DRIVER;
use crate::api::calls::dra_v1::d_r_a_plugin_server as v1;
use crate::api::calls::dra_v1beta1::d_r_a_plugin_server as v1beta1;
use crate::api::calls::health::d_r_a_resource_health_server as health;
use crate::api::calls::registration::registration_server as registration;
use crate::api::dra::{
    Claim, Device, NodePrepareResourceResponse, NodePrepareResourcesRequest,
    NodePrepareResourcesResponse, NodeUnprepareResourceResponse, NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
};
use crate::api::health::{
    DeviceHealth, DeviceIdentifier, HEALTHY, NodeWatchResourcesRequest, NodeWatchResourcesResponse,
    UNHEALTHY,
};
use crate::api::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use crate::claim::{ClaimError, resolve};
use crate::devices::{DeviceError, Devices};
use crate::gpu::Gpu;
use crate::health::{Health, Looked};
use crate::socket::{ServeError, Socket};
use crate::state::State;

/// Services that a kubelet may use.
const SERVICES: [&str; 3] = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"];
/// Claims that are prepared at the same time.
const AT_ONCE: usize = 16;
/// Time that the API server has to answer; the kubelet waits for 45 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The API server refuses, or cannot be reached.
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    /// The API server does not answer.
    #[error("the API server does not answer within {} s; the kubelet asks again", PATIENCE.as_secs())]
    Silent,
    /// The kubelet names no claim.
    #[error("a claim has a namespace and a name")]
    NoName,
    /// The claim was removed.
    #[error("the claim is not there any more")]
    Gone,
    /// The claim was removed, and there is another of its name.
    #[error("the claim is another one of the same name, with uid {0}")]
    Other(String),
    /// The claim is not as it should be.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A device of the claim is not of this node.
    #[error(
        "there is no GPU `{device}` on this node, which has {all}; remove the claim and its pod"
    )]
    NoGpu {
        /// Name in the claim.
        device: String,
        /// Names on the node.
        all: String,
    },
    /// A container device is missing, or cannot be written.
    #[error(transparent)]
    Devices(#[from] DeviceError),
}

/// The driver of a node.
pub struct Driver {
    client: Client,
    devices: Arc<Devices>,
    gpus: Vec<Gpu>,
    node: String,
    health: Arc<Health>,
    state: Arc<State>,
    /// Socket of the services, as the kubelet sees it.
    endpoint: PathBuf,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Socket of the driver's services in the kubelet's folder.
#[must_use]
pub fn endpoint(kubelet: &Path) -> PathBuf {
    kubelet.join("plugins").join(DRIVER).join("dra.sock")
}

/// Socket by which the kubelet finds the driver.
#[must_use]
pub fn registration(kubelet: &Path) -> PathBuf {
    kubelet.join("plugins_registry").join(format!("{DRIVER}-reg.sock"))
}

impl Driver {
    /// The driver of a node, for the kubelet with this folder.
    #[must_use]
    pub fn new(
        client: Client,
        devices: Arc<Devices>,
        node: String,
        health: Arc<Health>,
        state: Arc<State>,
        kubelet: &Path,
    ) -> Self {
        let gpus = health.gpus().to_vec();
        Self { client, devices, gpus, node, health, state, endpoint: endpoint(kubelet) }
    }

    /// Serves the kubelet with this folder. Does not end by itself.
    ///
    /// # Errors
    /// If a socket cannot be served.
    pub async fn serve(self: Arc<Self>, kubelet: &Path) -> Result<(), ServeError> {
        let failed = |path: PathBuf| move |source| ServeError::Socket { path, source };
        let path = endpoint(kubelet);
        let (_services, services) = Socket::bind(&path).map_err(failed(path.clone()))?;
        let server = Server::builder()
            .add_service(v1::DRAPluginServer::from_arc(Arc::clone(&self)))
            .add_service(v1beta1::DRAPluginServer::from_arc(Arc::clone(&self)))
            .add_service(health::DRAResourceHealthServer::from_arc(Arc::clone(&self)))
            .serve_with_incoming(services);
        // The kubelet calls the driver once it sees this socket.
        let path = registration(kubelet);
        let (_registration, registrations) = Socket::bind(&path).map_err(failed(path.clone()))?;
        let register = Server::builder()
            .add_service(registration::RegistrationServer::from_arc(self))
            .serve_with_incoming(registrations);
        tokio::try_join!(server, register)?;
        Ok(())
    }

    async fn prepare(&self, claims: Vec<Claim>) -> NodePrepareResourcesResponse {
        let prepared = futures::stream::iter(claims).map(|claim| async move {
            let start = Instant::now();
            let prepared = self.prepare_one(&claim).await;
            self.state.count_prepared(prepared.is_ok(), start.elapsed());
            let name = format!("{}/{}", claim.namespace, claim.name);
            let answer = match prepared {
                Ok(devices) => NodePrepareResourceResponse { devices, error: String::new() },
                Err(error) => {
                    tracing::warn!("claim {name} is not prepared: {error}");
                    let error = format!("claim {name}: {error}");
                    NodePrepareResourceResponse { devices: Vec::new(), error }
                }
            };
            (claim.uid, answer)
        });
        let claims = prepared.buffer_unordered(AT_ONCE).collect::<BTreeMap<_, _>>().await;
        NodePrepareResourcesResponse { claims }
    }

    async fn prepare_one(&self, asked: &Claim) -> Result<Vec<Device>, PrepareError> {
        if asked.namespace.is_empty() || asked.name.is_empty() {
            return Err(PrepareError::NoName);
        }
        let claims = Api::<ResourceClaim>::namespaced(self.client.clone(), &asked.namespace);
        let found = tokio::time::timeout(PATIENCE, claims.get_opt(&asked.name)).await;
        let found = found.map_err(|_| PrepareError::Silent)??.ok_or(PrepareError::Gone)?;
        let uid = found.metadata.uid.clone().unwrap_or_default();
        if uid != asked.uid {
            return Err(PrepareError::Other(uid));
        }
        let (rights, allocated) = resolve(&found)?;
        let vendors: Vec<_> = allocated
            .iter()
            .map(|device| Ok(self.devices.of_vendor(self.gpu(&device.device)?)?))
            .collect::<Result<_, PrepareError>>()?;
        let own = self.devices.write(&uid, &rights)?;
        tracing::info!(
            claim = %format_args!("{}/{}", asked.namespace, asked.name),
            class = rights.class.name(),
            share = rights.share,
            "prepared"
        );
        let device = |(device, vendor): (crate::claim::Allocated, String)| Device {
            request_names: vec![device.request],
            pool_name: device.pool,
            device_name: device.device,
            cdi_device_ids: vec![vendor, own.clone()],
            share_id: device.share_id,
        };
        Ok(allocated.into_iter().zip(vendors).map(device).collect())
    }

    fn gpu(&self, name: &str) -> Result<&Gpu, PrepareError> {
        let found = self.gpus.iter().find(|gpu| gpu.name == name);
        found.ok_or_else(|| PrepareError::NoGpu {
            device: name.to_owned(),
            all: self.gpus.iter().map(|gpu| gpu.name.clone()).collect::<Vec<_>>().join(", "),
        })
    }

    fn unprepare(&self, claims: Vec<Claim>) -> NodeUnprepareResourcesResponse {
        let unprepared = claims.into_iter().map(|claim| {
            let removed = self.devices.remove(&claim.uid);
            self.state.count_unprepared(removed.is_ok());
            let error = removed.err().map_or_else(String::new, |error| {
                format!("claim {}/{}: {error}", claim.namespace, claim.name)
            });
            (claim.uid, NodeUnprepareResourceResponse { error })
        });
        let claims = unprepared.collect();
        NodeUnprepareResourcesResponse { claims }
    }
}

#[tonic::async_trait]
impl v1::DRAPlugin for Driver {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, Status> {
        Ok(Response::new(self.prepare(request.into_inner().claims).await))
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, Status> {
        Ok(Response::new(self.unprepare(request.into_inner().claims)))
    }
}

#[tonic::async_trait]
impl v1beta1::DRAPlugin for Driver {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, Status> {
        v1::DRAPlugin::node_prepare_resources(self, request).await
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, Status> {
        v1::DRAPlugin::node_unprepare_resources(self, request).await
    }
}

#[tonic::async_trait]
impl health::DRAResourceHealth for Driver {
    type NodeWatchResourcesStream = BoxStream<'static, Result<NodeWatchResourcesResponse, Status>>;

    async fn node_watch_resources(
        &self,
        _: Request<NodeWatchResourcesRequest>,
    ) -> Result<Response<Self::NodeWatchResourcesStream>, Status> {
        let (gpus, node) = (self.gpus.clone(), self.node.clone());
        let answer = move |looked: Looked| {
            let devices = gpus.iter().zip(looked.are_there).map(|(gpu, is_there)| DeviceHealth {
                device: Some(DeviceIdentifier {
                    pool_name: node.clone(),
                    device_name: gpu.name.clone(),
                }),
                health: if is_there { HEALTHY } else { UNHEALTHY },
                last_updated_time: looked.at_s,
            });
            Ok(NodeWatchResourcesResponse { devices: devices.collect() })
        };
        Ok(Response::new(self.health.looks().map(answer).boxed()))
    }
}

#[tonic::async_trait]
impl registration::Registration for Driver {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: DRIVER.to_owned(),
            endpoint: self.endpoint.to_string_lossy().into_owned(),
            supported_versions: SERVICES.map(str::to_owned).into(),
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = status.into_inner();
        if status.plugin_registered {
            tracing::info!("the kubelet has registered this driver");
        } else {
            tracing::warn!("the kubelet does not register this driver: {}", status.error);
        }
        let count = usize::from(status.plugin_registered);
        self.state.registrations.store(count, Ordering::Relaxed);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
