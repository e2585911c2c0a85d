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
        let gpus = config.gpus.len() as u64;
        write_node(&topology, 0, 0, "", &processor(gpus))?;
        let bank =
            format!("heap_type 0\nsize_in_bytes {HOST_BYTES}\nflags 0\nwidth 64\nmem_clk_max 2400");
        put(&topology.join("nodes/0/mem_banks/0/properties"), &bank)?;
        for (number, gpu) in (1..).zip(&config.gpus) {
            write_node(&topology, number, gpu.gpu_id, "gfx942", &properties(number, gpu))?;
            let folder = topology.join(format!("nodes/{number}"));
            let bank = format!(
                "heap_type 1\nsize_in_bytes {}\nflags 0\nwidth 8192\nmem_clk_max 1300",
                gpu.memory_bytes
            );
            put(&folder.join("mem_banks/0/properties"), &bank)?;
            put(&folder.join("io_links/0/properties"), &link(number, 0))?;
            for (at, (level, kib)) in CACHES.into_iter().enumerate() {
                let at = folder.join(format!("caches/{at}/properties"));
                put(&at, &cache(number, level, kib))?;
            }
            let back = format!("nodes/0/io_links/{}/properties", number - 1);
            put(&topology.join(back), &link(0, number))?;
        }
        let parameters = tree.module().join("parameters");
        put(&parameters.join("cwsr_enable"), if config.cwsr { "1" } else { "0" })?;
        put(&parameters.join("sched_policy"), &config.sched_policy.to_string())?;
        put(&parameters.join("mes"), "0")?;
        put(&parameters.join("queue_preemption_timeout_ms"), "9000")?;
        put(&tree.module().join("initstate"), "live")?;
        put(&tree.module().join("srcversion"), "0000000000000000000000A")?;
        fs::create_dir_all(tree.kfd().join("proc"))?;
        fs::write(tree.log(), "")?;
        Ok(tree)
    }

    /// Path that stands for `/dev/kmsg`.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("kmsg")
    }

    /// Path that stands for `/etc/xsched/kfd-off`, the administrator's file.
    #[must_use]
    pub fn off(&self) -> PathBuf {
        self.root.join("kfd-off")
    }

    /// Writes a line into the kernel's log.
    pub(crate) fn say(&self, text: &str) -> io::Result<()> {
        let mut log = fs::OpenOptions::new().append(true).open(self.log())?;
        io::Write::write_all(&mut log, format!("3,1,1,-;{text}\n").as_bytes())
    }

    /// Path that stands for `/sys/class/kfd/kfd`.
    #[must_use]
    pub fn kfd(&self) -> PathBuf {
        self.root.join("class/kfd/kfd")
    }

    /// Path that stands for `/sys/module/amdgpu`.
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
            Change::Active { .. } | Change::Lost { .. } | Change::Freed { .. } => Ok(()),
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

/// Memory of the emulated host, in bytes.
const HOST_BYTES: u64 = 8 << 30;
/// The first render node.
pub(crate) const RENDER_FIRST: usize = 128;
/// Bits of `capability` that the driver reports for gfx942, an MI300.
const CAPABILITY: u64 = {
    let (queue_size_32_bit, doorbell_type_2) = (1 << 7, 2 << 12);
    let (watch_points, debug_trap, debug_trap_precise) = (2 << 8, 1 << 15, 1 << 16 | 1 << 17);
    let (coherent_host, reset_per_queue) = (1 << 29, 1 << 30);
    queue_size_32_bit
        | doorbell_type_2
        | watch_points
        | debug_trap
        | debug_trap_precise
        | coherent_host
        | reset_per_queue
};

fn write_node(
    topology: &Path,
    number: u64,
    gpu_id: u32,
    name: &str,
    properties: &str,
) -> io::Result<()> {
    let folder = topology.join(format!("nodes/{number}"));
    put(&folder.join("gpu_id"), &gpu_id.to_string())?;
    put(&folder.join("name"), name)?;
    for empty in ["caches", "io_links", "p2p_links", "mem_banks"] {
        fs::create_dir_all(folder.join(empty))?;
    }
    put(&folder.join("properties"), properties)
}

/// Caches of a GPU: their levels, and what each has in KiB.
const CACHES: [(u64, u64); 3] = [(1, 32), (2, 4 << 10), (3, 256 << 10)];

/// A cache of data of a GPU's, of which each compute unit is said to have one alike.
fn cache(number: u64, level: u64, kib: u64) -> String {
    let properties = lines(&[
        ("processor_id_low", simd_first(number)),
        ("level", level),
        ("size", kib),
        ("cache_line_size", 128),
        ("cache_lines_per_tag", 1),
        ("association", 16),
        ("latency", 1),
        ("type", 1 | 1 << 3),
    ]);
    properties + "\nsibling_map 1"
}

/// The number of a GPU's first SIMD.
const fn simd_first(number: u64) -> u64 {
    0x8000_1000 + (number << 16)
}

/// A PCIe link between two nodes.
fn link(from: u64, to: u64) -> String {
    format!(
        "type 2\nversion_major 0\nversion_minor 0\nnode_from {from}\nnode_to {to}\nweight 20\n\
         min_latency 0\nmax_latency 0\nmin_bandwidth 0\nmax_bandwidth 0\n\
         recommended_transfer_size 0\nrecommended_sdma_engine_id_mask 0\nflags 1"
    )
}

fn lines(lines: &[(&str, u64)]) -> String {
    lines.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join("\n")
}

/// Properties of the processor's node, in the kernel's form.
fn processor(gpus: u64) -> String {
    lines(&[
        ("cpu_cores_count", 8),
        ("simd_count", 0),
        ("mem_banks_count", 1),
        ("caches_count", 0),
        ("io_links_count", gpus),
        ("p2p_links_count", 0),
        ("cpu_core_id_base", 0),
        ("simd_id_base", 0),
        ("max_waves_per_simd", 0),
        ("num_xcc", 0),
        ("max_engine_clk_ccompute", 2_600),
    ])
}

/// Properties of a GPU's node. Four SIMDs make a compute unit.
fn properties(number: u64, gpu: &Gpu) -> String {
    let (units, xccs) = (u64::from(gpu.compute_units), u64::from(gpu.xccs).max(1));
    lines(&[
        ("cpu_cores_count", 0),
        ("simd_count", units * 4),
        ("mem_banks_count", 1),
        ("caches_count", CACHES.len() as u64),
        ("io_links_count", 1),
        ("p2p_links_count", 0),
        ("cpu_core_id_base", 0),
        ("simd_id_base", simd_first(number)),
        ("max_waves_per_simd", 8),
        ("lds_size_in_kb", 64),
        ("gds_size_in_kb", 0),
        ("num_gws", 64),
        ("wave_front_size", 64),
        ("array_count", xccs),
        ("simd_arrays_per_engine", 1),
        ("cu_per_simd_array", units.div_ceil(xccs)),
        ("simd_per_cu", 4),
        ("max_slots_scratch_cu", 32),
        ("gfx_target_version", u64::from(gpu.gfx_target_version)),
        ("vendor_id", 4_098),
        ("device_id", u64::from(gpu.device_id)),
        ("location_id", number << 8),
        ("domain", 0),
        ("drm_render_minor", RENDER_FIRST as u64 + number - 1),
        ("hive_id", 0),
        ("num_sdma_engines", u64::from(gpu.sdma_engines)),
        ("num_sdma_xgmi_engines", 0),
        ("num_sdma_queues_per_engine", 8),
        ("num_cp_queues", u64::from(gpu.cp_queues)),
        ("max_engine_clk_fcompute", 1_420),
        ("local_mem_size", 0),
        ("fw_version", 166),
        ("capability", CAPABILITY),
        ("capability2", 0),
        ("debug_prop", 1_495),
        ("sdma_fw_version", 20),
        ("unique_id", 0x0123_4567_89ab_cd00 + number),
        ("num_xcc", u64::from(gpu.xccs)),
        ("max_engine_clk_ccompute", 2_600),
    ])
}
