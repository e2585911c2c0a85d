//! The driver's sysfs as a folder of files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::{Config, Gpu};
use crate::model::Change;

/// A sysfs below a folder: what is `/sys/class/kfd/kfd` and `/sys/module/amdgpu` on a machine.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Writes the tree of a driver that has just been loaded into an empty folder.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(root: &Path, config: &Config) -> io::Result<Self> {
        let tree = Self { root: root.to_path_buf() };
        let topology = tree.kfd().join("topology");
        put(&topology.join("generation_id"), "1")?;
        put(&topology.join("system_properties"), "platform_oem 0\nplatform_id 0\nplatform_rev 1")?;
        node(&topology.join("nodes/0"), 0, "", "cpu_cores_count 8\nsimd_count 0\nnum_xcc 0")?;
        for (number, gpu) in (1..).zip(&config.gpus) {
            let folder = topology.join(format!("nodes/{number}"));
            node(&folder, gpu.gpu_id, "gfx942", &properties(gpu))?;
            let bank = format!("heap_type 1\nsize_in_bytes {}\nflags 0", gpu.memory_bytes);
            put(&folder.join("mem_banks/0/properties"), &bank)?;
        }
        let parameters = tree.module().join("parameters");
        put(&parameters.join("cwsr_enable"), if config.cwsr { "1" } else { "0" })?;
        put(&parameters.join("sched_policy"), &config.sched_policy.to_string())?;
        put(&parameters.join("mes"), "0")?;
        put(&parameters.join("queue_preemption_timeout_ms"), "9000")?;
        put(&tree.module().join("srcversion"), "0000000000000000000000A")?;
        fs::create_dir_all(tree.kfd().join("proc"))?;
        fs::write(tree.log(), "")?;
        Ok(tree)
    }

    /// What stands for `/dev/kmsg`.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("kmsg")
    }

    /// What stands for `/etc/xsched/kfd-off`, the administrator's file.
    #[must_use]
    pub fn off(&self) -> PathBuf {
        self.root.join("kfd-off")
    }

    /// Writes a line into the kernel's log.
    pub(crate) fn say(&self, text: &str) -> io::Result<()> {
        let mut log = fs::OpenOptions::new().append(true).open(self.log())?;
        io::Write::write_all(&mut log, format!("3,1,1,-;{text}\n").as_bytes())
    }

    /// What stands for `/sys/class/kfd/kfd`.
    #[must_use]
    pub fn kfd(&self) -> PathBuf {
        self.root.join("class/kfd/kfd")
    }

    /// What stands for `/sys/module/amdgpu`.
    #[must_use]
    pub fn module(&self) -> PathBuf {
        self.root.join("module/amdgpu")
    }

    /// A process has opened the driver.
    fn open(&self, pid: u32) -> io::Result<()> {
        fs::create_dir_all(self.process(pid).join("queues"))
    }

    /// A process is gone.
    ///
    /// # Errors
    /// If its folder cannot be removed.
    pub fn exit(&self, pid: u32) -> io::Result<()> {
        let folder = self.process(pid);
        if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
    }

    /// Shows what has changed.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub fn apply(&self, change: &Change) -> io::Result<()> {
        match *change {
            Change::Created { pid, id, gpu_id, bytes, kind } => {
                let folder = self.queue(pid, id);
                put(&folder.join("gpuid"), &gpu_id.to_string())?;
                put(&folder.join("size"), &bytes.to_string())?;
                put(&folder.join("type"), &kind.to_string())
            }
            Change::Destroyed { pid, id } => {
                let folder = self.queue(pid, id);
                if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
            }
            Change::Opened { pid } => self.open(pid),
            Change::Active { .. } | Change::Lost { .. } => Ok(()),
        }
    }

    fn process(&self, pid: u32) -> PathBuf {
        self.kfd().join("proc").join(pid.to_string())
    }

    fn queue(&self, pid: u32, id: u32) -> PathBuf {
        self.process(pid).join("queues").join(id.to_string())
    }
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{text}\n"))
}

fn node(folder: &Path, gpu_id: u32, name: &str, properties: &str) -> io::Result<()> {
    put(&folder.join("gpu_id"), &gpu_id.to_string())?;
    put(&folder.join("name"), name)?;
    put(&folder.join("properties"), properties)
}

/// Properties in the kernel's form. Four SIMDs make a compute unit.
fn properties(gpu: &Gpu) -> String {
    let lines = [
        ("cpu_cores_count", 0),
        ("simd_count", u64::from(gpu.compute_units) * 4),
        ("mem_banks_count", 1),
        ("max_waves_per_simd", 8),
        ("lds_size_in_kb", 64),
        ("num_gws", 64),
        ("wave_front_size", 64),
        ("simd_per_cu", 4),
        ("max_slots_scratch_cu", 32),
        ("gfx_target_version", u64::from(gpu.gfx_target_version)),
        ("vendor_id", 4_098),
        ("drm_render_minor", 128),
        ("num_sdma_engines", 2),
        ("num_cp_queues", u64::from(gpu.cp_queues)),
        ("num_xcc", u64::from(gpu.xccs)),
    ];
    lines.map(|(name, value)| format!("{name} {value}")).join("\n")
}
