//! Dispatch packets, kernel descriptors, and the registers that waves start with.

use crate::decode::Limits;
use crate::execution::{Config, PACKET_BYTES};
use crate::wave::{EXEC, LANES, SCALARS, SPARE_ROWS, State, Wave};
use crate::{Error, Memory};

const DESCRIPTOR_BYTES: usize = 64;
/// The most work-items of a workgroup.
const ITEMS_MAX: u32 = 1024;
/// The most bytes of the local data share.
const LDS_MAX: u32 = 64 << 10;
/// The most bytes of scratch memory for a work-item.
const SCRATCH_MAX: u32 = 128 << 10;
/// Kernels that expect arguments in registers begin with this many bytes for firmware that does not
/// put them there.
const PRELOAD_SKIP: u64 = 256;

/// Requirements of a packet and its kernel's descriptor.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) limits: Limits,
    pub(crate) lds_bytes: usize,
    /// For each work-item.
    pub(crate) scratch_bytes: usize,
    entry: u64,
    mode: u32,
    size: [u32; 3],
    grid: [u32; 3],
    /// Numbers of the workgroup that follow the user registers, numbers of the work-item that the
    /// first vector register has.
    group_ids: u32,
    item_ids: u32,
    user: Vec<u32>,
}

/// Little-endian numbers at places in bytes, 0 behind the end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    fn u16(&self, at: usize) -> u32 {
        u16::from_le_bytes(self.get(at)).into()
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.get(at))
    }
}

impl Kernel {
    pub(crate) fn read(
        packet: &[u8; PACKET_BYTES],
        packet_address: u64,
        memory: &dyn Memory,
        config: &Config,
    ) -> Result<Self, Error> {
        let packet = Fields(packet);
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let object = packet.u64(32);
        memory.read(object, &mut bytes).map_err(Error::Kernel)?;
        let descriptor = Fields(&bytes);
        let (rsrc1, rsrc2) = (descriptor.u32(48), descriptor.u32(52));
        let limits = limits(&descriptor)?;
        let (size, grid) = sizes(&packet)?;
        let (scratch, lds) = (packet.u32(24), packet.u32(28));
        check(&descriptor, scratch, lds)?;
        let preloaded = descriptor.u16(58) & 0x7f;
        let entry = object.wrapping_add(descriptor.u64(16));
        let entry = entry.wrapping_add(if preloaded == 0 { 0 } else { PRELOAD_SKIP });
        if entry % 4 != 0 {
            return Err(Error::Descriptor("its entry is not a multiple of 4"));
        }
        let user = user_registers(&packet, &descriptor, packet_address, memory, config)?;
        // Clamping makes what is not a number 0, and signaling numbers become quiet.
        let mode = rsrc1 >> 12 & 0xff | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9;
        Ok(Self {
            limits,
            lds_bytes: lds as usize,
            scratch_bytes: scratch as usize,
            entry,
            mode,
            size,
            grid,
            group_ids: rsrc2 >> 7 & 15,
            item_ids: rsrc2 >> 11 & 3,
            user,
        })
    }

    fn groups(&self) -> [u64; 3] {
        [0, 1, 2].map(|n| u64::from(self.grid[n].div_ceil(self.size[n])))
    }

    /// How many workgroups there are.
    pub(crate) fn groups_total(&self) -> Option<u64> {
        let [x, y, z] = self.groups();
        x.checked_mul(y)?.checked_mul(z)
    }

    /// The place of a workgroup in the grid.
    fn place(&self, group: u64) -> [u32; 3] {
        let [x, y, _] = self.groups();
        [(group % x) as u32, (group / x % y) as u32, (group / x / y) as u32]
    }

    /// The work-items of a workgroup in each direction. At the end of the grid they may be fewer.
    fn items(&self, group: u64) -> [u32; 3] {
        let place = self.place(group);
        [0, 1, 2].map(|n| self.size[n].min(self.grid[n] - place[n] * self.size[n]))
    }

    pub(crate) fn waves(&self, group: u64) -> usize {
        let [x, y, z] = self.items(group);
        (x * y * z).div_ceil(LANES as u32) as usize
    }

    /// A wave of a workgroup, before its first instruction.
    pub(crate) fn wave(&self, group: u64, number: usize, config: &Config) -> Wave {
        let items = self.items(group);
        let mut wave = self.blank(config);
        let first = number * LANES;
        let count = ((items[0] * items[1] * items[2]) as usize - first).min(LANES);
        wave.set_pair(EXEC, u64::MAX >> (LANES - count));
        for lane in 0..count {
            let item = (first + lane) as u32;
            let (x, y) = (item % items[0], item / items[0] % items[1]);
            let z = item / items[0] / items[1];
            // Those that the kernel does not ask for are there all the same.
            let asked = if self.item_ids == 0 { x } else { x | y << 10 | z << 20 };
            wave.v[0][lane] = asked;
        }
        let place = self.place(group);
        wave.s[..self.user.len()].copy_from_slice(&self.user);
        let mut next = self.user.len();
        for (n, id) in place.into_iter().enumerate() {
            if self.group_ids >> n & 1 == 1 {
                wave.s[next] = id;
                next += 1;
            }
        }
        wave
    }

    /// A wave whose registers are all 0.
    pub(crate) fn blank(&self, config: &Config) -> Wave {
        Wave {
            pc: self.entry,
            state: State::Ready,
            scc: false,
            mode: self.mode,
            s: [0; SCALARS],
            v: vec![[0; LANES]; self.limits.rows + SPARE_ROWS],
            scratch: vec![0; self.scratch_bytes * LANES],
            bases: [config.shared_base, config.private_base],
        }
    }
}

/// The vector registers that the descriptor gives a wave.
fn limits(descriptor: &Fields<'_>) -> Result<Limits, Error> {
    let (rsrc3, rsrc1) = (descriptor.u32(44), descriptor.u32(48));
    let rows = ((rsrc1 & 0x3f) as usize + 1) * 8;
    let accumulators = ((rsrc3 & 0x3f) as usize + 1) * 4;
    if rows > 512 {
        return Err(Error::Descriptor("more than 512 vector registers"));
    }
    Ok(Limits { rows, accumulators, floats: (rsrc1 >> 12) as u8 })
}

/// The sizes of a workgroup and of the grid.
fn sizes(packet: &Fields<'_>) -> Result<([u32; 3], [u32; 3]), Error> {
    let dimensions = packet.u16(2) & 3;
    let size = [4, 6, 8].map(|at| packet.u16(at));
    let grid = [12, 16, 20].map(|at| packet.u32(at));
    // Beyond the dimensions that the packet has, sizes are 1.
    let used = |n: u32, value: u32| if n < dimensions { value } else { 1 };
    let size = [used(0, size[0]), used(1, size[1]), used(2, size[2])];
    let grid = [used(0, grid[0]), used(1, grid[1]), used(2, grid[2])];
    if dimensions == 0 {
        return Err(Error::Packet("it has no dimensions"));
    }
    if size.contains(&0) || grid.contains(&0) {
        return Err(Error::Packet("a size is 0"));
    }
    let items = size.iter().map(|&size| u64::from(size)).product::<u64>();
    if items > ITEMS_MAX.into() {
        return Err(Error::Packet("more than 1024 work-items in a workgroup"));
    }
    Ok((size, grid))
}

fn check(descriptor: &Fields<'_>, scratch: u32, lds: u32) -> Result<(), Error> {
    if lds > LDS_MAX {
        return Err(Error::Packet("more than 64 KiB of the local data share"));
    }
    if scratch > SCRATCH_MAX {
        return Err(Error::Packet("more than 128 KiB of scratch memory for a work-item"));
    }
    if lds < descriptor.u32(0) || scratch < descriptor.u32(4) {
        return Err(Error::Packet("less memory than the kernel's descriptor asks for"));
    }
    if descriptor.u16(56) >> 10 & 1 == 1 {
        return Err(Error::Descriptor("waves of 32 lanes"));
    }
    Ok(())
}

/// The scalar registers that are set before the first instruction, but for the workgroup's numbers.
fn user_registers(
    packet: &Fields<'_>,
    descriptor: &Fields<'_>,
    packet_address: u64,
    memory: &dyn Memory,
    config: &Config,
) -> Result<Vec<u32>, Error> {
    let properties = descriptor.u16(56);
    let kernarg = packet.u64(40);
    let mut user = Vec::new();
    let mut pair = |bit: u32, value: u64| {
        if properties >> bit & 1 == 1 {
            user.extend([value as u32, (value >> 32) as u32]);
        }
    };
    // A buffer over scratch memory: this hardware has none.
    pair(0, 0);
    pair(0, 0);
    pair(1, packet_address);
    pair(2, config.queue_address);
    pair(3, kernarg);
    pair(4, config.dispatch_id);
    pair(5, 0);
    if properties >> 6 & 1 == 1 {
        user.push(packet.u32(24));
    }
    let preload = descriptor.u16(58);
    let (length, offset) = (preload & 0x7f, preload >> 7);
    for n in 0..length {
        let at = kernarg.wrapping_add(u64::from(4 * (offset + n)));
        user.push(memory.read_u32(at).map_err(Error::Kernel)?);
    }
    let count = (descriptor.u32(52) >> 1 & 0x1f) as usize;
    if user.len() > count {
        return Err(Error::Descriptor("more user registers than it says"));
    }
    user.resize(count, 0);
    Ok(user)
}
