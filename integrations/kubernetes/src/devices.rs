//! Container devices: those of claims and classes, which this driver writes, and those of vendors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use saphyr::{LoadableYamlNode, Yaml};
use serde::Serialize;
use xsched_launch::cdi::{self, Places};
use xsched_launch::{Interposers, LaunchError};

use crate::claim::Rights;
use crate::gpu::Gpu;

/// Kind of the container devices of claims.
pub const CLAIMS: &str = "xsched.dev/claim";
/// Begin of the names of their files, before the number of the claim.
const PREFIX: &str = "xsched-claim-";
/// Folder of the vendors' container devices, beside that which this driver writes to.
const CONFIGURED: &str = "etc/cdi";

/// Why a container device is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The vendor's tool has not made any.
    #[error(
        "{gpu} has no container device {kind} in {folders}; run `{generate}` on the node, as root"
    )]
    NoVendorDevice {
        /// The GPU.
        gpu: String,
        /// Kind of the vendor's devices.
        kind: &'static str,
        /// Folders without it.
        folders: String,
        /// Command that makes it.
        generate: &'static str,
    },
    /// A number of a claim that cannot be part of a file's name.
    #[error("`{0}` is no number of a claim")]
    Uid(String),
    /// Libraries for containers are not there.
    #[error(transparent)]
    Interposers(#[from] LaunchError),
    /// A file cannot be written or removed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Problem.
        source: io::Error,
    },
}

/// Container devices of a node.
#[derive(Debug)]
pub struct Devices {
    folder: PathBuf,
    searched: [PathBuf; 2],
    places: Places,
    /// Held by the one that writes, as two may write the device of a claim.
    writing: Mutex<()>,
}

impl Devices {
    /// Devices in a folder, on a node with `bin/xsched` and `lib/xsched` below `xsched`.
    ///
    /// # Errors
    /// [`DeviceError::Interposers`], and [`DeviceError::File`] if the folder cannot be written to.
    pub fn new(
        folder: &Path,
        root: &Path,
        xsched: &Path,
        socket: &Path,
    ) -> Result<Self, DeviceError> {
        let interposers = Interposers::find(&[xsched.join("lib/xsched")])?;
        let list = folder.join("xsched-kubernetes.preload");
        let (xsched, socket) = (xsched.join("bin/xsched"), socket.to_owned());
        let places = Places { xsched, interposers, socket, list };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        places.write_list().map_err(failed(&places.list))?;
        let searched = [root.join(CONFIGURED), folder.to_owned()];
        Ok(Self { folder: folder.to_owned(), searched, places, writing: Mutex::new(()) })
    }

    fn file(&self, uid: &str) -> Result<PathBuf, DeviceError> {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if !(1..=63).contains(&uid.len()) || !uid.chars().all(is_fine) {
            return Err(DeviceError::Uid(uid.chars().take(64).collect()));
        }
        Ok(self.folder.join(format!("{PREFIX}{uid}.json")))
    }

    /// Writes the container device of a claim, and answers its full name. The file is whole at any
    /// time.
    ///
    /// # Errors
    /// [`DeviceError::Uid`] and [`DeviceError::File`].
    pub fn write(&self, uid: &str, rights: &Rights) -> Result<String, DeviceError> {
        let container_edits = self.places.granted(&rights.scheduling());
        let device = cdi::Device { name: uid.to_owned(), container_edits };
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        replace(&self.file(uid)?, &self.places.specification(CLAIMS, vec![device]))?;
        Ok(format!("{CLAIMS}={uid}"))
    }

    /// Removes the container device of a claim, if it is there.
    ///
    /// # Errors
    /// [`DeviceError::Uid`] and [`DeviceError::File`].
    pub fn remove(&self, uid: &str) -> Result<(), DeviceError> {
        let file = self.file(uid)?;
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&file)(error)),
            _ => Ok(()),
        }
    }

    /// Number of claims with a container device.
    #[must_use]
    pub fn count(&self) -> usize {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_claim = |name: &str| name.starts_with(PREFIX) && name.ends_with(".json");
        entries.filter(|entry| is_claim(&entry.file_name().to_string_lossy())).count()
    }

    /// Writes the container devices of the classes.
    ///
    /// # Errors
    /// [`DeviceError::File`].
    pub fn write_classes(&self) -> Result<(), DeviceError> {
        replace(&self.folder.join("xsched-kubernetes.json"), &self.places.classes())
    }

    /// Full name of the vendor's container device of a GPU, which has its device files and
    /// libraries.
    ///
    /// # Errors
    /// [`DeviceError::NoVendorDevice`].
    pub fn of_vendor(&self, gpu: &Gpu) -> Result<String, DeviceError> {
        let kind = gpu.vendor.container_devices();
        let files = self.searched.iter().filter_map(|folder| fs::read_dir(folder).ok());
        let paths = files.flatten().flatten().map(|entry| entry.path());
        let is_read = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            !name.starts_with(PREFIX)
                && [".json", ".yaml"].iter().any(|ending| name.ends_with(ending))
        };
        let texts = paths.filter(is_read).filter_map(|path| fs::read_to_string(path).ok());
        let there: Vec<_> = texts.flat_map(|text| names(&text, kind)).collect();
        let number = gpu.number.to_string();
        let wanted = gpu.uuid.iter().chain([&number]);
        let found = wanted.into_iter().find(|name| there.contains(name));
        found.map(|name| format!("{kind}={name}")).ok_or_else(|| {
            let folders = self.searched.each_ref().map(|folder| folder.display().to_string());
            DeviceError::NoVendorDevice {
                gpu: gpu.name.clone(),
                kind,
                folders: folders.join(" and "),
                generate: gpu.vendor.generate(),
            }
        })
    }
}

/// Names of the devices of a kind in a specification; none if it is of another, or none.
fn names(text: &str, kind: &str) -> Vec<String> {
    let documents = Yaml::load_from_str(text).unwrap_or_default();
    let of_kind = documents
        .iter()
        .filter(|document| document.as_mapping_get("kind").and_then(Yaml::as_str) == Some(kind));
    let devices = of_kind.filter_map(|document| document.as_mapping_get("devices")?.as_vec());
    let name = |device: &Yaml<'_>| {
        let name = device.as_mapping_get("name")?;
        // A number without quotes is a name as well.
        let number = || name.as_integer().map(|number| number.to_string());
        name.as_str().map(str::to_owned).or_else(number)
    };
    devices.flatten().filter_map(name).collect()
}

fn failed(path: &Path) -> impl Fn(io::Error) -> DeviceError {
    let path = path.to_owned();
    move |source| DeviceError::File { path: path.clone(), source }
}

/// Replaces a file, which no reader sees in part. Engines read no file of another ending.
fn replace(path: &Path, value: &impl Serialize) -> Result<(), DeviceError> {
    let new = path.with_extension("new");
    let text = serde_json::to_vec_pretty(value).map_err(|error| failed(path)(error.into()))?;
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map_err(failed(path))
}

#[cfg(test)]
mod tests {
    use xsched_launch::{Class, INTERPOSERS, LIBRARY};

    use super::*;
    use crate::gpu::Vendor;

    fn devices(root: &Path) -> Devices {
        let xsched = root.join("opt");
        fs::create_dir_all(xsched.join("lib/xsched")).expect("a folder");
        for name in [INTERPOSERS[0], LIBRARY] {
            fs::write(xsched.join("lib/xsched").join(name), "").expect("a file");
        }
        Devices::new(&root.join("cdi"), root, &xsched, Path::new("/run/xsched/socket"))
            .expect("libraries are there")
    }

    fn gpu() -> Gpu {
        let (name, bus) = ("nvidia-1".to_owned(), "0000:41:00.0".to_owned());
        let uuid = Some("GPU-b".to_owned());
        Gpu { name, vendor: Vendor::Nvidia, number: 1, model: "H200".to_owned(), uuid, bus }
    }

    #[test]
    fn the_device_of_a_claim_is_written_again_and_removed_again() {
        let root = tempfile::tempdir().expect("a folder");
        let devices = devices(root.path());
        let rights = Rights { class: Class::Batch, share: Some(30), gang: None };
        for _ in 0..2 {
            let name = devices.write("uid-1", &rights).expect("it can be written");
            assert_eq!((name.as_str(), devices.count()), ("xsched.dev/claim=uid-1", 1));
        }
        let text = fs::read_to_string(root.path().join("cdi/xsched-claim-uid-1.json"));
        let json: serde_json::Value = serde_json::from_str(&text.expect("a file")).expect("JSON");
        assert_eq!((&json["kind"], &json["devices"][0]["name"]), (&CLAIMS.into(), &"uid-1".into()));
        for _ in 0..2 {
            devices.remove("uid-1").expect("it can be removed");
            assert_eq!(devices.count(), 0);
        }
        for uid in ["", "../x", "a/b", "a.b", &"x".repeat(64)] {
            assert!(matches!(devices.write(uid, &rights), Err(DeviceError::Uid(_))), "{uid}");
            assert!(matches!(devices.remove(uid), Err(DeviceError::Uid(_))), "{uid}");
        }
    }

    #[test]
    fn a_vendor_s_device_is_found_by_uuid_or_number() {
        let root = tempfile::tempdir().expect("a folder");
        let devices = devices(root.path());
        let found = || devices.of_vendor(&gpu()).map_err(|error| error.to_string());
        assert!(found().is_err_and(|why| why.contains("run `nvidia-ctk cdi generate")));
        let folder = root.path().join(CONFIGURED);
        fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        write("a.json", r#"{"kind": "amd.com/gpu", "devices": [{"name": "1"}]}"#);
        write("b.yaml", "kind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n- name: all\n");
        write("c.yaml", "kind: [");
        assert!(found().is_err());
        write("b.yaml", "kind: nvidia.com/gpu\ndevices:\n- name: 1\n");
        assert_eq!(found().as_deref(), Ok("nvidia.com/gpu=1"));
        write("b.yaml", "kind: nvidia.com/gpu\ndevices:\n- name: \"1\"\n- name: GPU-b\n");
        assert_eq!(found().as_deref(), Ok("nvidia.com/gpu=GPU-b"));
    }
}
