//! GPUs of a node, from what their drivers say in files.
//!
//! No library of a vendor is needed, so that the driver runs in any container.

use std::fs;
use std::path::Path;

/// Maker of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
}

impl Vendor {
    /// Short name, as in names of devices.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
        }
    }

    /// Kind of the container devices that the vendor's tool makes.
    #[must_use]
    pub const fn container_devices(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia.com/gpu",
            Self::Amd => "amd.com/gpu",
        }
    }

    /// Command that makes them.
    #[must_use]
    pub const fn generate(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
            Self::Amd => "amd-ctk cdi generate --output=/etc/cdi/amd.json",
        }
    }
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Name on the node: vendor, and number in the order of the places on the bus.
    pub name: String,
    /// Maker.
    pub vendor: Vendor,
    /// Number among those of its vendor.
    pub number: usize,
    /// Name of the product.
    pub model: String,
    /// Number that no other GPU has, if the driver says one.
    pub uuid: Option<String>,
    /// Place on the bus, as in `0000:01:00.0`.
    pub bus: String,
}

/// GPUs of the machine whose files are below `root`.
#[must_use]
pub fn find(root: &Path) -> Vec<Gpu> {
    let mut all = Vec::new();
    for (vendor, mut found) in [(Vendor::Nvidia, nvidia(root)), (Vendor::Amd, amd(root))] {
        found.sort_by(|a, b| a.bus.cmp(&b.bus));
        all.extend(found.into_iter().enumerate().map(|(number, gpu)| Gpu {
            name: format!("{}-{number}", vendor.name()),
            vendor,
            number,
            ..gpu
        }));
    }
    all
}

/// A GPU before it has its number.
fn unnumbered(vendor: Vendor, bus: &str, model: &str, uuid: Option<String>) -> Gpu {
    let (bus, model) = (bus.to_lowercase(), model.to_owned());
    Gpu { name: String::new(), vendor, number: 0, model, uuid, bus }
}

fn nvidia(root: &Path) -> Vec<Gpu> {
    let folders = fs::read_dir(root.join("proc/driver/nvidia/gpus")).into_iter().flatten();
    let files = folders.flatten().map(|folder| folder.path().join("information"));
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    let gpu = |text: String| {
        let of = |key: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let mut values = lines.filter(|(name, _)| *name == key).map(|(_, value)| value.trim());
            values.next().filter(|value| !value.is_empty())
        };
        let uuid = of("GPU UUID").filter(|uuid| !uuid.contains('?')).map(str::to_owned);
        Some(unnumbered(Vendor::Nvidia, of("Bus Location")?, of("Model")?, uuid))
    };
    texts.filter_map(gpu).collect()
}

fn amd(root: &Path) -> Vec<Gpu> {
    let folders = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes")).into_iter().flatten();
    let gpu = |folder: std::path::PathBuf| {
        let text = fs::read_to_string(folder.join("properties")).ok()?;
        let of = |key: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            pairs.find(|(name, _)| *name == key)?.1.trim().parse::<u64>().ok()
        };
        // Processors are nodes too.
        of("simd_count").filter(|count| *count > 0)?;
        let (domain, location) = (of("domain").unwrap_or(0), of("location_id")?);
        let (bus, device, function) =
            ((location >> 8) & 0xff, (location >> 3) & 0x1f, location & 7);
        let bus = format!("{domain:04x}:{bus:02x}:{device:02x}.{function}");
        let model = fs::read_to_string(folder.join("name")).unwrap_or_default();
        let model = Some(model.trim()).filter(|model| !model.is_empty()).unwrap_or("AMD GPU");
        let uuid = of("unique_id").filter(|id| *id > 0).map(|id| format!("GPU-{id:016x}"));
        Some(unnumbered(Vendor::Amd, &bus, model, uuid))
    };
    folders.flatten().filter_map(|folder| gpu(folder.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }

    #[test]
    fn gpus_are_found_in_the_order_of_the_bus() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        assert_eq!(find(root), []);
        for (bus, uuid) in [("0000:C1:00.0", "GPU-b"), ("0000:41:00.0", "GPU-a")] {
            let text = format!(
                "Model: \t\t NVIDIA H200\nIRQ:   \t\t 20\nGPU UUID: \t {uuid}\n\
                 Bus Type: \t PCIe\nBus Location: \t {bus}\nDevice Minor: \t 0\n"
            );
            write(root, &format!("proc/driver/nvidia/gpus/{bus}/information"), &text);
        }
        write(root, "sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 8\n");
        let node = "simd_count 304\nlocation_id 1280\ndomain 1\nunique_id 255\n";
        write(root, "sys/class/kfd/kfd/topology/nodes/1/properties", node);
        write(root, "sys/class/kfd/kfd/topology/nodes/1/name", "aqua_vanjaram\n");
        let found = find(root);
        let of = |gpu: &Gpu| (gpu.name.clone(), gpu.bus.clone(), gpu.uuid.clone());
        let expected = [
            ("nvidia-0", "0000:41:00.0", "GPU-a"),
            ("nvidia-1", "0000:c1:00.0", "GPU-b"),
            ("amd-0", "0001:05:00.0", "GPU-00000000000000ff"),
        ];
        let expected = expected
            .map(|(name, bus, uuid)| (name.to_owned(), bus.to_owned(), Some(uuid.to_owned())));
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!(
            (found[0].model.as_str(), found[2].model.as_str()),
            ("NVIDIA H200", "aqua_vanjaram")
        );
    }

    #[test]
    fn files_of_no_gpu_are_left_out() {
        let root = tempfile::tempdir().expect("a folder");
        write(root.path(), "proc/driver/nvidia/gpus/x/information", "Model: a\n");
        write(root.path(), "sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count many\n");
        assert_eq!(find(root.path()), []);
    }
}
