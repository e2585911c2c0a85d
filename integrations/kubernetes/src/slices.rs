//! GPUs of a node, as the scheduler of Kubernetes knows them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceAttribute, DeviceCapacity,
    ResourcePool, ResourceSlice, ResourceSliceSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use crate::gpu::Gpu;
use crate::state::State;
use crate::{CAPACITY, DRIVER};

/// Share of a request that names none, as that of an extended resource: ten of them have a GPU.
const SHARE_DEFAULT: &str = "10";
/// Characters of an attribute at most.
const ATTRIBUTE_MAX: usize = 64;
/// Time until another attempt to publish.
const AGAIN: Duration = Duration::from_secs(5);

/// Why GPUs are not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The API server refuses, or does not answer.
    #[error("the API server: {0}")]
    Api(#[from] kube::Error),
    /// The node has no number.
    #[error("the node {0} has no uid; name the node that this runs on")]
    Node(String),
}

/// Name of the slice of a node.
#[must_use]
pub fn name(node: &str) -> String {
    format!("{node}-{DRIVER}")
}

/// The slice of a node with these GPUs. It goes with the node.
#[must_use]
pub fn slice(node: &str, node_uid: &str, gpus: &[Gpu], generation: i64) -> ResourceSlice {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.to_owned(),
        uid: node_uid.to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let owner_references = Some(vec![owner]);
    let metadata = ObjectMeta { name: Some(name(node)), owner_references, ..ObjectMeta::default() };
    let pool = ResourcePool { generation, name: node.to_owned(), resource_slice_count: 1 };
    let spec = ResourceSliceSpec {
        devices: Some(gpus.iter().map(device).collect()),
        driver: DRIVER.to_owned(),
        node_name: Some(node.to_owned()),
        pool,
        ..ResourceSliceSpec::default()
    };
    ResourceSlice { metadata, spec }
}

fn device(gpu: &Gpu) -> Device {
    let text = |value: &str| DeviceAttribute {
        string: Some(value.chars().take(ATTRIBUTE_MAX).collect()),
        ..DeviceAttribute::default()
    };
    let mut attributes = BTreeMap::from([
        ("vendor".to_owned(), text(gpu.vendor.name())),
        ("model".to_owned(), text(&gpu.model)),
        ("resource.kubernetes.io/pciBusID".to_owned(), text(&gpu.bus)),
    ]);
    attributes.extend(gpu.uuid.as_ref().map(|uuid| ("uuid".to_owned(), text(uuid))));
    let number = |number: &str| Quantity(number.to_owned());
    let valid_range = CapacityRequestPolicyRange {
        min: number("1"),
        max: Some(number("100")),
        step: Some(number("1")),
    };
    let policy = CapacityRequestPolicy {
        default: Some(number(SHARE_DEFAULT)),
        valid_range: Some(valid_range),
        ..CapacityRequestPolicy::default()
    };
    let share = DeviceCapacity { request_policy: Some(policy), value: number("100") };
    Device {
        name: gpu.name.clone(),
        allow_multiple_allocations: Some(true),
        attributes: Some(attributes),
        capacity: Some(BTreeMap::from([(CAPACITY.to_owned(), share)])),
        ..Device::default()
    }
}

/// Publishes GPUs, unless they are, and answers what the API server has now.
///
/// # Errors
/// [`PublishError`].
pub async fn publish(
    client: &Client,
    node: &str,
    gpus: &[Gpu],
) -> Result<ResourceSliceSpec, PublishError> {
    let about = Api::<Node>::all(client.clone()).get(node).await?;
    let uid = about.metadata.uid.ok_or_else(|| PublishError::Node(node.to_owned()))?;
    let slices = Api::<ResourceSlice>::all(client.clone());
    let there = slices.get_opt(&name(node)).await?;
    let generation = there.as_ref().map_or(0, |there| there.spec.pool.generation);
    if let Some(there) = there.filter(|there| {
        let owners = there.metadata.owner_references.iter().flatten();
        let is_same = there.spec == slice(node, &uid, gpus, generation).spec;
        is_same && owners.into_iter().any(|owner| owner.uid == uid)
    }) {
        return Ok(there.spec);
    }
    let wanted = slice(node, &uid, gpus, generation + 1);
    let apply = PatchParams::apply(DRIVER).force();
    let now = slices.patch(&name(node), &apply, &Patch::Apply(&wanted)).await?;
    if now.spec != wanted.spec {
        tracing::warn!(
            "the API server leaves fields of the GPUs out, so that a claim has a whole GPU; switch \
             its feature gate DRAConsumableCapacity on"
        );
    }
    Ok(now.spec)
}

/// Publishes GPUs, and again whenever the slice is changed or removed. Does not end.
pub async fn keep(client: Client, node: String, gpus: Vec<Gpu>, state: Arc<State>) {
    loop {
        match publish(&client, &node, &gpus).await {
            Ok(now) => {
                state.published.store(true, Ordering::Relaxed);
                tracing::info!(generation = now.pool.generation, gpus = gpus.len(), "published");
                changed(&client, &node, &now).await;
                state.published.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                tracing::warn!("GPUs are not published: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Waits until the slice of a node is another than this.
async fn changed(client: &Client, node: &str, now: &ResourceSliceSpec) {
    let slices = Api::<ResourceSlice>::all(client.clone());
    let only = watcher::Config::default().fields(&format!("metadata.name={}", name(node)));
    let mut events = pin!(watcher(slices, only).default_backoff());
    let mut is_there = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => is_there = false,
            Ok(Event::Apply(slice) | Event::InitApply(slice)) if slice.spec == *now => {
                is_there = true;
            }
            Ok(Event::InitDone) if is_there => {}
            Ok(_) => return,
            Err(error) => tracing::warn!("slices are not watched: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Vendor;

    #[test]
    fn a_gpu_is_divided_by_share() {
        let gpu = Gpu {
            name: "nvidia-0".to_owned(),
            vendor: Vendor::Nvidia,
            number: 0,
            model: "NVIDIA H200".to_owned(),
            uuid: Some("GPU-a".to_owned()),
            bus: "0000:41:00.0".to_owned(),
        };
        let json = serde_json::to_value(slice("node-1", "u1", &[gpu], 3)).expect("JSON");
        assert_eq!(json["metadata"]["name"], "node-1-gpu.xsched.dev");
        assert_eq!(json["metadata"]["ownerReferences"][0]["uid"], "u1");
        let device = &json["spec"]["devices"][0];
        assert_eq!(device["allowMultipleAllocations"], true);
        let share = &device["capacity"]["share"];
        assert_eq!(
            (&share["value"], &share["requestPolicy"]["default"]),
            (&"100".into(), &"10".into())
        );
        let range = serde_json::json!({"min": "1", "max": "100", "step": "1"});
        assert_eq!(share["requestPolicy"]["validRange"], range);
        assert_eq!(device["attributes"]["uuid"]["string"], "GPU-a");
        assert_eq!(json["spec"]["pool"]["generation"], 3);
    }
}
