//! A GPU or partition, from its properties in sysfs.

use std::collections::BTreeMap;

/// Bytes of registers that save and restore moves for each compute unit besides vectors' and LDS:
/// scalar registers, LDS and hardware registers (`kfd_queue.c`, Linux 6.12).
const SCALAR_AND_LDS_BYTES: u64 = 0x4000 + 0x1_0000 + 0x1000;
/// A page.
const PAGE: u64 = 4_096;
/// Bytes of the header of a save area.
const HEADER_BYTES: u64 = 40;

/// The size of a queue's save area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveArea {
    /// Bytes for each XCC.
    pub bytes_per_xcc: u64,
    /// True if the driver listed it (since Linux 6.12). Otherwise it is computed as the driver
    /// does.
    pub read: bool,
}

/// A GPU, or a partition of one, which is what a preemption stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The number of its node in the topology.
    pub node: u32,
    /// Id in the driver's calls.
    pub gpu_id: u32,
    /// The driver's name for it.
    pub name: String,
    /// The driver's properties of it, by name.
    pub properties: BTreeMap<String, u64>,
    /// Number of the partition of its GPU, from 0, and the count of partitions.
    pub partition: (u32, u32),
}

impl Gpu {
    pub(super) fn property(&self, name: &str) -> u64 {
        self.properties.get(name).copied().unwrap_or(0)
    }

    /// The version of its instruction set as `90402` for gfx942.
    #[must_use]
    pub fn target_version(&self) -> u32 {
        u32::try_from(self.property("gfx_target_version")).unwrap_or(0)
    }

    /// The instruction set in the form of compilers, such as `gfx942`.
    #[must_use]
    pub fn target(&self) -> String {
        let version = self.target_version();
        format!("gfx{}{}{:x}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Accelerator dies (XCC) of this partition. At least 1.
    #[must_use]
    pub fn xccs(&self) -> u32 {
        u32::try_from(self.property("num_xcc")).unwrap_or(1).max(1)
    }

    /// The number of compute units.
    #[must_use]
    pub fn units(&self) -> u32 {
        let units = self.property("simd_count") / self.property("simd_per_cu").max(1);
        u32::try_from(units).unwrap_or(0)
    }

    /// The PCI address without the function, as `0000:3b:00`.
    #[must_use]
    pub fn pci(&self) -> String {
        let (domain, location) = (self.property("domain"), self.property("location_id"));
        format!("{domain:04x}:{:02x}:{:02x}", location >> 8 & 0xff, location >> 3 & 0x1f)
    }

    /// The save area of a queue on one XCC, or `None` if this GPU has none.
    #[must_use]
    pub fn save_area(&self) -> Option<SaveArea> {
        if let Some(bytes) = self.properties.get("cwsr_size") {
            let area = SaveArea { bytes_per_xcc: *bytes, read: true };
            return (*bytes > 0).then_some(area);
        }
        let bytes_per_xcc = computed_save_bytes(self)?;
        Some(SaveArea { bytes_per_xcc, read: false })
    }

    /// Bytes that a preemption saves of a queue whose waves fill this partition; 0 if it saves
    /// none.
    #[must_use]
    pub fn context_bytes(&self) -> u64 {
        let area = self.save_area();
        area.map_or(0, |area| area.bytes_per_xcc.saturating_mul(u64::from(self.xccs())))
    }
}

/// The result of the driver's `kfd_queue_ctx_save_restore_size`, for gfx9 as this crate uses it.
fn computed_save_bytes(gpu: &Gpu) -> Option<u64> {
    let version = gpu.target_version();
    if version < 80_001 || gpu.units() == 0 {
        return None;
    }
    let units = u64::from(gpu.units() / gpu.xccs());
    let vectors: u64 = match version {
        90_400..=90_499 | 90_010 | 90_008 => 0x8_0000,
        110_000 | 110_001 | 110_501 | 120_000 | 120_001 => 0x6_0000,
        _ => 0x4_0000,
    };
    let groups = align(units * (vectors + SCALAR_AND_LDS_BYTES));
    let arrays = gpu.property("array_count") / gpu.property("simd_arrays_per_engine").max(1);
    let is_navi = version >= 100_100;
    let waves = if is_navi { units * 32 } else { (units * 40).min(arrays.saturating_mul(512)) };
    let stack = HEADER_BYTES + 8 + waves * if is_navi { 12 } else { 8 };
    let stack = align(stack);
    let limited = if version / 10_000 == 10 { stack.min(0x7000) } else { stack };
    Some(limited + groups)
}

const fn align(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}
