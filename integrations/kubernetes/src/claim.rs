//! Claims of pods, and how their programs are scheduled.

use std::fmt::Write as _;

use clap::ValueEnum;
use k8s_openapi::api::resource::v1::{
    DeviceAllocationConfiguration, DeviceRequestAllocationResult, ResourceClaim,
};
use serde::Deserialize;
use xsched_launch::{Class, Scheduling};

use crate::{CAPACITY, DRIVER};

/// Version and kind of the parameters.
pub const API_VERSION: &str = "gpu.xsched.dev/v1alpha1";
/// Kind of the parameters.
pub const KIND: &str = "GpuConfig";
/// Origin of parameters that an administrator writes.
const FROM_CLASS: &str = "FromClass";
/// Characters of a gang's name at most.
const GANG_MAX: usize = 64;

/// Parameters of a device class or of a claim.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Parameters {
    api_version: String,
    kind: String,
    class: Option<String>,
    share: Option<u8>,
    gang: Option<String>,
}

/// Why a claim is not prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// No device was allocated.
    #[error("the claim is not allocated; the scheduler does that before a pod gets to a node")]
    NotAllocated,
    /// All its devices are of other drivers.
    #[error("the claim has no device of {DRIVER}")]
    NoDevice,
    /// Parameters that are none.
    #[error("parameters for {DRIVER} of the {origin}: {why}")]
    Parameters {
        /// Where they stand: the claim or its device class.
        origin: &'static str,
        /// Problem, and what to write.
        why: String,
    },
    /// A higher class than the device class has.
    #[error(
        "the claim asks for class {asked}, and its device class has {allowed}; use the device \
         class xsched-{asked}, or leave `class` out"
    )]
    Above {
        /// Class of the claim.
        asked: &'static str,
        /// Class of the device class.
        allowed: &'static str,
    },
    /// A capacity that is no number of percent.
    #[error("the capacity `{CAPACITY}` of the claim is `{0}`; write a whole number from 1 to 100")]
    Capacity(String),
    /// Devices with different rights.
    #[error(
        "requests of the claim differ in class, share or gang ({0}); a container has one of each: \
         make claims for different containers"
    )]
    Differ(String),
}

/// A device of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// Request of the claim, without the name of an alternative.
    pub request: String,
    /// Pool.
    pub pool: String,
    /// Name in the pool.
    pub device: String,
    /// Number of the claim's part of the device.
    pub share_id: Option<String>,
}

/// Rights of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Class.
    pub class: Class,
    /// Share of each GPU, in percent.
    pub share: Option<u8>,
    /// Gang.
    pub gang: Option<String>,
}

impl Rights {
    /// How its programs are scheduled.
    #[must_use]
    pub fn scheduling(&self) -> Scheduling {
        let gang = self.gang.clone();
        Scheduling { share: self.share, gang, ..Scheduling::of_class(self.class) }
    }

    fn text(&self) -> String {
        let mut text = self.class.name().to_owned();
        // Writing to a text cannot fail.
        let _ = self.share.map(|share| write!(text, ", share {share}"));
        let _ = self.gang.as_ref().map(|gang| write!(text, ", gang {gang}"));
        text
    }
}

/// Devices of this driver and rights of an allocated claim.
///
/// Its device class names the class, by default `normal`. The claim's own parameters may lower it.
/// The share is that of the capacity, which the scheduler counts; parameters may lower that too.
///
/// # Errors
/// [`ClaimError`].
pub fn resolve(claim: &ResourceClaim) -> Result<(Rights, Vec<Allocated>), ClaimError> {
    let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
    let allocation = allocation.and_then(|allocation| allocation.devices.as_ref());
    let allocation = allocation.ok_or(ClaimError::NotAllocated)?;
    let results = allocation.results.iter().flatten().filter(|result| result.driver == DRIVER);
    let configs: Vec<_> = allocation.config.iter().flatten().collect();
    let (mut rights, mut devices) = (None::<Rights>, Vec::new());
    for result in results {
        let own = rights_of(result, &configs)?;
        if let Some(other) = rights.as_ref().filter(|other| **other != own) {
            return Err(ClaimError::Differ(format!("{}; {}", other.text(), own.text())));
        }
        rights = Some(own);
        devices.push(Allocated {
            request: main_request(&result.request).to_owned(),
            pool: result.pool.clone(),
            device: result.device.clone(),
            share_id: result.share_id.clone(),
        });
    }
    Ok((rights.ok_or(ClaimError::NoDevice)?, devices))
}

/// A request without the alternative that was chosen: `gpu` of `gpu/large`.
fn main_request(request: &str) -> &str {
    request.split('/').next().unwrap_or(request)
}

fn rights_of(
    result: &DeviceRequestAllocationResult,
    configs: &[&DeviceAllocationConfiguration],
) -> Result<Rights, ClaimError> {
    let consumed = result.consumed_capacity.as_ref().and_then(|all| all.get(CAPACITY));
    let share = consumed.map(|quantity| percent(&quantity.0)).transpose()?;
    let mut rights = Rights { class: Class::Normal, share, gang: None };
    for config in configs.iter().filter(|config| is_for(config, &result.request)) {
        let Some(opaque) = config.opaque.as_ref().filter(|opaque| opaque.driver == DRIVER) else {
            continue;
        };
        let is_from_class = config.source == FROM_CLASS;
        let origin = if is_from_class { "device class" } else { "claim" };
        let wrong = |why: String| ClaimError::Parameters { origin, why };
        let parameters = parse(&opaque.parameters.0).map_err(wrong)?;
        if let Some(class) = parameters.class.as_deref() {
            let asked = class_of(class).map_err(wrong)?;
            // The parameters of device classes stand before those of claims.
            if !is_from_class && asked.priority() > rights.class.priority() {
                let (asked, allowed) = (asked.name(), rights.class.name());
                return Err(ClaimError::Above { asked, allowed });
            }
            rights.class = asked;
        }
        if let Some(share) = parameters.share {
            let most = rights.share.unwrap_or(100);
            if !(1..=most).contains(&share) {
                return Err(wrong(format!("share {share} is not from 1 to {most}")));
            }
            rights.share = Some(share);
        }
        rights.gang = parameters.gang.or(rights.gang);
    }
    Ok(rights)
}

/// True if a configuration is for a request: it names none, the request, or one with alternatives.
fn is_for(config: &DeviceAllocationConfiguration, request: &str) -> bool {
    let named = config.requests.as_deref().unwrap_or_default();
    named.is_empty() || named.iter().any(|name| name == request || name == main_request(request))
}

fn parse(value: &serde_json::Value) -> Result<Parameters, String> {
    let parameters = Parameters::deserialize(value).map_err(|error| error.to_string())?;
    if (parameters.api_version.as_str(), parameters.kind.as_str()) != (API_VERSION, KIND) {
        return Err(format!(
            "they are of another kind; write apiVersion {API_VERSION}, kind {KIND}"
        ));
    }
    let is_gang = |gang: &String| {
        (1..=GANG_MAX).contains(&gang.chars().count()) && !gang.chars().any(char::is_control)
    };
    if !parameters.gang.as_ref().is_none_or(is_gang) {
        return Err(format!("a gang has a name of 1 to {GANG_MAX} characters of text"));
    }
    Ok(parameters)
}

fn class_of(name: &str) -> Result<Class, String> {
    Class::from_str(name, false).map_err(|_| {
        let names = Class::value_variants().iter().map(|class| class.name());
        format!("there is no class `{name}`; write {}", names.collect::<Vec<_>>().join(", "))
    })
}

fn percent(quantity: &str) -> Result<u8, ClaimError> {
    let number = quantity.parse().ok().filter(|number| (1..=100).contains(number));
    number.ok_or_else(|| ClaimError::Capacity(quantity.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parameters(rest: Value) -> Value {
        let mut all = json!({"apiVersion": API_VERSION, "kind": KIND});
        let (all_keys, rest) = (all.as_object_mut().expect("an object"), rest);
        all_keys.extend(rest.as_object().expect("an object").clone());
        all
    }

    fn config(source: &str, requests: &[&str], parameters: Value) -> Value {
        let opaque = json!({"driver": DRIVER, "parameters": parameters});
        json!({"source": source, "requests": requests, "opaque": opaque})
    }

    fn device(request: &str, share: &str) -> Value {
        json!({"request": request, "driver": DRIVER, "pool": "node", "device": "nvidia-0",
               "shareID": "s1", "consumedCapacity": {CAPACITY: share}})
    }

    fn of(results: &[Value], configs: &[Value]) -> Result<(Rights, Vec<Allocated>), ClaimError> {
        let devices = json!({"results": results, "config": configs});
        let claim = json!({"metadata": {"name": "a"}, "spec": {},
                           "status": {"allocation": {"devices": devices}}});
        resolve(&serde_json::from_value(claim).expect("a claim"))
    }

    fn why(results: &[Value], configs: &[Value]) -> String {
        of(results, configs).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_claim_has_the_class_of_its_device_class_and_the_share_of_its_capacity() {
        let class = config(FROM_CLASS, &[], parameters(json!({"class": "interactive"})));
        let (rights, devices) = of(&[device("gpu/big", "30")], &[class]).expect("it is right");
        let expected = Rights { class: Class::Interactive, share: Some(30), gang: None };
        assert_eq!(rights, expected);
        assert_eq!((devices[0].request.as_str(), devices[0].device.as_str()), ("gpu", "nvidia-0"));
        let (rights, _) = of(&[device("gpu", "10")], &[]).expect("it is right");
        assert_eq!(rights.class, Class::Normal);
    }

    #[test]
    fn a_claim_lowers_its_rights_and_raises_none() {
        let class = config(FROM_CLASS, &[], parameters(json!({"class": "normal"})));
        let own = |rest| config("FromClaim", &["gpu"], parameters(rest));
        let with = |rest| of(&[device("gpu/big", "30")], &[class.clone(), own(rest)]);
        let lower = json!({"class": "batch", "share": 20, "gang": "ranks"});
        let gang = Some("ranks".to_owned());
        let expected = Rights { class: Class::Batch, share: Some(20), gang };
        assert_eq!(with(lower).expect("it is right").0, expected);
        let wrong = |rest| with(rest).expect_err("it is more").to_string();
        assert!(wrong(json!({"class": "interactive"})).contains("device class xsched-interactive"));
        assert!(wrong(json!({"share": 31})).contains("not from 1 to 30"));
        let other = config("FromClaim", &["other"], parameters(json!({"class": "batch"})));
        let (rights, _) = of(&[device("gpu", "30")], &[class, other]).expect("it is right");
        assert_eq!(rights.class, Class::Normal);
    }

    #[test]
    fn wrong_claims_are_refused_with_what_to_write() {
        let gpu = device("gpu", "30");
        let with =
            |rest| why(std::slice::from_ref(&gpu), &[config("FromClaim", &[], parameters(rest))]);
        assert!(with(json!({"class": "fast"})).contains("write interactive, normal, batch"));
        assert!(with(json!({"clas": "batch"})).contains("unknown field `clas`, expected one of"));
        assert!(with(json!({"share": 0})).contains("not from 1 to 30"));
        assert!(with(json!({"share": "half"})).contains("invalid type"));
        assert!(with(json!({"gang": ""})).contains("1 to 64"));
        assert!(with(json!({"kind": "Other"})).contains("write apiVersion"));
        let text = config(FROM_CLASS, &[], json!("batch"));
        assert!(why(std::slice::from_ref(&gpu), &[text]).contains("of the device class"));
        assert!(why(&[device("gpu", "1k")], &[]).contains("`1k`"));
        assert!(
            why(&[device("a", "10"), device("b", "20")], &[]).contains("share 10; normal, share")
        );
        assert!(why(&[], &[]).contains("no device of"));
        let of_other = config(FROM_CLASS, &[], json!({}));
        let mut of_other = of_other.clone();
        of_other["opaque"]["driver"] = json!("gpu.nvidia.com");
        of(&[gpu], &[of_other]).expect("parameters of another driver are not read");
        let none = serde_json::from_value(json!({"metadata": {}, "spec": {}})).expect("a claim");
        assert!(matches!(resolve(&none), Err(ClaimError::NotAllocated)));
    }
}
