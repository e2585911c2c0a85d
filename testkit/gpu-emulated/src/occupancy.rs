//! How many workgroups of a kernel fit on the GPU at once.

use xsched_gfx942::{Memory, PACKET_BYTES};

/// Bytes of vector registers of a compute unit, and of its local data share.
const REGISTER_BYTES: u64 = 512 << 10;
const LDS_BYTES: u64 = 64 << 10;
/// Waves of a compute unit.
const WAVES: u64 = 32;
/// Lanes of a wave, and the bytes of a register of each.
const LANES: u64 = 64;
const WORD_BYTES: u64 = 4;
/// Where a descriptor has the number of registers, and in what portions.
const AT_RESOURCES: u64 = 48;
const PORTION: u64 = 8;

/// Workgroups of the kernel of a packet that fit at once on one compute unit, from 1 to `most`: as
/// registers, local memory and waves allow. If the kernel cannot be read, that is noticed later.
pub(crate) fn workgroups(packet: &[u8; PACKET_BYTES], memory: &impl Memory, most: usize) -> usize {
    let half = |at: usize| u64::from(u16::from_le_bytes([packet[at], packet[at + 1]]));
    let mut object = [0; 8];
    object.copy_from_slice(&packet[32..40]);
    let resources = memory.read_u32(u64::from_le_bytes(object).wrapping_add(AT_RESOURCES));
    let portions = u64::from(resources.unwrap_or(0) & 0x3f) + 1;
    let items = half(4).max(1) * half(6).max(1) * half(8).max(1);
    let waves = items.div_ceil(LANES);
    let registers = waves.saturating_mul(portions * PORTION * LANES * WORD_BYTES);
    let lds = u64::from(u32::from_le_bytes([packet[28], packet[29], packet[30], packet[31]]));
    let fit = (REGISTER_BYTES / registers).min(WAVES / waves.min(WAVES));
    let fit = fit.min(LDS_BYTES.checked_div(lds).unwrap_or(u64::MAX));
    usize::try_from(fit).unwrap_or(most).clamp(1, most.max(1))
}
