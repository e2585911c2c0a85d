//! Memory that GPUs reach: who has it, and where it is in the file that stands for the device's.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use super::{Asked, Change, Handled, Host, Model};
use crate::config::Config;
use crate::page::{DOORBELL_BYTES, doorbell_offset};
use crate::wire::{Argument, accessible, nr};

/// Buffers that a process can have, a bound of the emulator.
pub const BUFFERS_MAX: usize = 65_536;
/// GPUs that one call can name, a bound of the emulator.
const GPUS_MAX: u32 = 64;
/// Where a buffer is.
const VRAM: u32 = 1;
const GTT: u32 = 1 << 1;
const USERPTR: u32 = 1 << 2;
const DOORBELL: u32 = 1 << 3;
const MMIO_REMAP: u32 = 1 << 4;
const PAGE_BYTES: u64 = 4_096;
/// Memory of the host that GPUs can have in sum, in bytes.
const GTT_BYTES: u64 = 64 << 30;
/// Address swizzling of gfx942, as the hardware's register has it.
const GB_ADDR_CONFIG: u32 = 0x1000_0444;

/// A piece of memory.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    gpu: usize,
    kind: u32,
    bytes: u64,
    /// Where it is in the file, if it is there at all.
    offset: Option<u64>,
    /// The GPUs that reach it.
    mapped: BTreeSet<usize>,
}

/// A process's memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    buffers: BTreeMap<u64, Buffer>,
    /// The next buffer's number.
    next: u64,
    /// GPUs of which the process has an address space.
    spaces: BTreeSet<usize>,
}

/// The file that stands for the memory of all devices: which of it is free.
#[derive(Debug)]
pub(super) struct Space {
    /// Start and bytes.
    free: BTreeMap<u64, u64>,
    /// Bytes in use of each GPU, and of the host for GPUs.
    used: Vec<u64>,
    gtt_used: u64,
}

/// Bytes of the file that stands for the memory of all devices.
pub(crate) fn file_bytes(config: &Config) -> u64 {
    let devices: u64 = config.gpus.iter().map(|gpu| gpu.memory_bytes).sum();
    devices + GTT_BYTES
}

impl Space {
    pub(super) fn of(config: &Config) -> Self {
        let free = BTreeMap::from([(0, file_bytes(config))]);
        Self { free, used: vec![0; config.gpus.len()], gtt_used: 0 }
    }

    /// The first piece that is large enough.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&start, &free) = self.free.iter().find(|(_, free)| **free >= bytes)?;
        self.free.remove(&start);
        if free > bytes {
            self.free.insert(start + bytes, free - bytes);
        }
        Some(start)
    }

    fn give_back(&mut self, start: u64, bytes: u64) {
        let (mut start, mut bytes) = (start, bytes);
        if let Some(behind) = self.free.remove(&(start + bytes)) {
            bytes += behind;
        }
        if let Some((&before, &free)) = self.free.range(..start).next_back()
            && before + free == start
        {
            self.free.remove(&before);
            (start, bytes) = (before, free + bytes);
        }
        self.free.insert(start, bytes);
    }
}

impl Model {
    /// Bytes of a GPU's memory that are free.
    pub(super) fn free_bytes(&self, gpu: usize) -> u64 {
        self.config.gpus[gpu].memory_bytes.saturating_sub(self.space.used[gpu])
    }

    /// Buffers of a process, and the bytes in them.
    #[must_use]
    pub fn buffers(&self, pid: u32) -> (usize, u64) {
        let buffers = self.processes.get(&pid).map(|process| &process.memory.buffers);
        buffers.map_or((0, 0), |buffers| {
            (buffers.len(), buffers.values().map(|buffer| buffer.bytes).sum())
        })
    }

    pub(super) fn memory_call(
        &mut self,
        pid: u32,
        number: u8,
        (argument, host): Asked<'_, '_>,
    ) -> Handled {
        match number {
            nr::ACQUIRE_VM => self.acquire_vm(pid, argument, host),
            nr::ALLOC_MEMORY_OF_GPU => self.allocate(pid, argument),
            nr::FREE_MEMORY_OF_GPU => self.free(pid, argument.u64(0)),
            nr::MAP_MEMORY_TO_GPU => self.map(pid, true, (argument, host)),
            nr::UNMAP_MEMORY_FROM_GPU => self.map(pid, false, (argument, host)),
            // What the process says here concerns the hardware, which is not like this.
            nr::SET_SCRATCH_BACKING_VA => self.known_gpu(argument.u32(8)),
            nr::SET_TRAP_HANDLER => self.known_gpu(argument.u32(16)),
            nr::SET_MEMORY_POLICY => self.memory_policy(argument),
            nr::GET_TILE_CONFIG => self.tile_config(argument),
            // As a kernel that was built without it answers.
            nr::SVM => Err(Errno::PERM.into()),
            nr::EXPORT_DMABUF => self.export(pid, argument, host),
            // A file of a buffer is not made one of this driver's again.
            nr::GET_DMABUF_INFO | nr::IMPORT_DMABUF => Err(Errno::INVAL.into()),
            _ => self.not_modelled(number, 0),
        }
    }

    fn known_gpu(&self, gpu_id: u32) -> Handled {
        self.gpu(gpu_id).ok_or(Errno::INVAL)?;
        Ok(0)
    }

    fn memory_policy(&self, argument: &Argument<'_>) -> Handled {
        if argument.u32(20) > 1 || argument.u32(24) > 1 {
            return Err(Errno::INVAL.into());
        }
        self.known_gpu(argument.u32(16))
    }

    fn tile_config(&self, argument: &mut Argument<'_>) -> Handled {
        self.known_gpu(argument.u32(24))?;
        for (at, value) in [(16, 0), (20, 0), (28, GB_ADDR_CONFIG), (32, 0), (36, 0)] {
            argument.set_u32(at, value);
        }
        Ok(0)
    }

    /// Answers whether waves may have page faults: not here. Asked with a negative number.
    pub(super) fn set_xnack(&self, pid: u32, argument: &mut Argument<'_>) -> Handled {
        let wanted = argument.u32(0).cast_signed();
        let process = self.processes.get(&pid).ok_or(Errno::BADF)?;
        match wanted {
            ..0 => argument.set_u32(0, 0),
            _ if !process.queues.is_empty() => return Err(Errno::BUSY.into()),
            0 => {}
            _ => return Err(Errno::PERM.into()),
        }
        Ok(0)
    }

    fn acquire_vm(&mut self, pid: u32, argument: &Argument<'_>, host: &mut dyn Host) -> Handled {
        let gpu = self.gpu(argument.u32(4)).ok_or(Errno::INVAL)?;
        if !host.has_file(pid, argument.u32(0).cast_signed()) {
            return Err(Errno::INVAL.into());
        }
        self.processes.get_mut(&pid).ok_or(Errno::BADF)?.memory.spaces.insert(gpu);
        Ok(0)
    }

    fn allocate(&mut self, pid: u32, argument: &mut Argument<'_>) -> Handled {
        let (address, bytes) = (argument.u64(0), argument.u64(8));
        let (given, gpu_id, flags) = (argument.u64(24), argument.u32(32), argument.u32(36));
        let gpu = self.gpu(gpu_id).ok_or(Errno::INVAL)?;
        let memory = &self.processes.get(&pid).ok_or(Errno::BADF)?.memory;
        if bytes == 0 {
            return Err(Errno::INVAL.into());
        }
        if !memory.spaces.contains(&gpu) {
            return Err(Errno::NODEV.into());
        }
        if memory.buffers.len() >= BUFFERS_MAX {
            return Err(Errno::NOMEM.into());
        }
        accessible(address, bytes)?;
        let kind = flags & (VRAM | GTT | USERPTR | DOORBELL | MMIO_REMAP);
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(Errno::NOMEM)?;
        let offset = match kind {
            VRAM | GTT => Some(self.take(gpu, kind, bytes)?),
            USERPTR => {
                accessible(given, bytes)?;
                None
            }
            DOORBELL if bytes == DOORBELL_BYTES => None,
            // Behind the doorbells of all GPUs.
            MMIO_REMAP if bytes == PAGE_BYTES => None,
            _ => return Err(Errno::INVAL.into()),
        };
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        process.memory.next += 1;
        let handle = u64::from(gpu_id) << 32 | process.memory.next;
        let buffer = Buffer { gpu, kind, bytes, offset, mapped: BTreeSet::new() };
        process.memory.buffers.insert(handle, buffer);
        argument.set_u64(16, handle);
        if let Some(offset) = offset {
            argument.set_u64(24, offset);
        } else if kind == MMIO_REMAP {
            argument.set_u64(24, doorbell_offset(self.config.gpus.len()));
        }
        Ok(0)
    }

    /// Takes a piece of the device's memory, or of the host's.
    fn take(&mut self, gpu: usize, kind: u32, bytes: u64) -> Result<u64, Errno> {
        let is_device = kind == VRAM;
        let left = if is_device {
            self.free_bytes(gpu)
        } else {
            GTT_BYTES.saturating_sub(self.space.gtt_used)
        };
        if bytes > left {
            return Err(Errno::NOMEM);
        }
        let offset = self.space.take(bytes).ok_or(Errno::NOMEM)?;
        let used = if is_device { &mut self.space.used[gpu] } else { &mut self.space.gtt_used };
        *used += bytes;
        Ok(offset)
    }

    /// Makes a file that says where a buffer is: its first 16 bytes are the offset in the file of
    /// all memory, and the buffer's bytes. It does not keep the buffer.
    fn export(&self, pid: u32, argument: &mut Argument<'_>, host: &mut dyn Host) -> Handled {
        let memory = &self.processes.get(&pid).ok_or(Errno::BADF)?.memory;
        let buffer = memory.buffers.get(&argument.u64(0)).ok_or(Errno::INVAL)?;
        let offset = buffer.offset.ok_or(Errno::INVAL)?;
        let file = memfd_create("dmabuf", MemfdFlags::CLOEXEC)?;
        let text = [offset.to_ne_bytes(), buffer.bytes.to_ne_bytes()].concat();
        rustix::io::write(&file, &text)?;
        argument.set_u32(12, host.give_file(pid, file)?);
        Ok(0)
    }

    fn free(&mut self, pid: u32, handle: u64) -> Handled {
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        let buffer = process.memory.buffers.remove(&handle).ok_or(Errno::INVAL)?;
        self.release(&buffer);
        Ok(0)
    }

    fn release(&mut self, buffer: &Buffer) {
        let Some(offset) = buffer.offset else { return };
        let used = match buffer.kind {
            VRAM => &mut self.space.used[buffer.gpu],
            _ => &mut self.space.gtt_used,
        };
        *used = used.saturating_sub(buffer.bytes);
        self.space.give_back(offset, buffer.bytes);
        self.changes.push(Change::Freed { offset, bytes: buffer.bytes });
    }

    /// A process ends.
    pub(super) fn free_all(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        for buffer in std::mem::take(&mut process.memory.buffers).into_values() {
            self.release(&buffer);
        }
    }

    /// Lets GPUs reach a buffer, or not any more.
    fn map(&mut self, pid: u32, maps: bool, (argument, host): Asked<'_, '_>) -> Handled {
        let (handle, address, count) = (argument.u64(0), argument.u64(8), argument.u32(16));
        if count == 0 || count > GPUS_MAX || argument.u32(20) > count {
            return Err(Errno::INVAL.into());
        }
        let mut ids = vec![0; count as usize * 4];
        host.read(pid, address, &mut ids)?;
        let (ids, _) = ids.as_chunks::<4>();
        for (done, id) in (0..).zip(ids).skip(argument.u32(20) as usize) {
            argument.set_u32(20, done);
            let gpu = self.gpu(u32::from_ne_bytes(*id)).ok_or(Errno::INVAL)?;
            let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
            let buffer = process.memory.buffers.get_mut(&handle).ok_or(Errno::INVAL)?;
            if maps {
                if !process.memory.spaces.contains(&gpu) {
                    return Err(Errno::NODEV.into());
                }
                buffer.mapped.insert(gpu);
            } else {
                buffer.mapped.remove(&gpu);
            }
        }
        argument.set_u32(20, count);
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_in_one_piece() {
        let mut space = Space::of(&Config::without_gpu());
        let whole = file_bytes(&Config::without_gpu());
        let pieces: Vec<_> = (1..=4).map(|pages| space.take(pages * PAGE_BYTES)).collect();
        let [Some(one), Some(two), Some(three), Some(four)] = pieces[..] else {
            panic!("there is room");
        };
        assert_eq!((one, two), (0, PAGE_BYTES));
        assert_eq!(space.take(whole), None);
        for (start, pages) in [(two, 2), (four, 4), (one, 1), (three, 3)] {
            space.give_back(start, pages * PAGE_BYTES);
        }
        assert_eq!(space.free, BTreeMap::from([(0, whole)]));
        assert_eq!(space.take(whole), Some(0));
    }
}
