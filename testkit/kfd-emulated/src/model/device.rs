//! Queries about the driver and its GPUs, and calls about whole processes.

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use super::{Asked, Clocks, Handled, Host, Model};
use crate::wire::Argument;

/// Bytes of one entry of `GET_PROCESS_APERTURES_NEW`.
const APERTURE_BYTES: usize = 56;
/// Entries in the argument of the old call.
const OLD_APERTURES: usize = 7;
/// Operations of `CRIU_OP`: pause everything of a process, and the end of that.
const CRIU_PROCESS_INFO: u32 = 0;
const CRIU_UNPAUSE: u32 = 2;
/// Events that listeners are told: the process's queues were taken away, and came back.
const EVICTION: &str = "9";
const RESTORE: &str = "a";

impl Model {
    pub(super) fn version(&self, argument: &mut Argument<'_>) -> Handled {
        argument.set_u32(0, 1);
        argument.set_u32(4, self.config.minor);
        Ok(0)
    }

    /// Clocks of the host in nanoseconds, and the GPU's at 100 MHz; 0 if it is unknown.
    pub(super) fn clocks(&self, argument: &mut Argument<'_>, host: &mut dyn Host) -> Handled {
        let now_ns = self.now_ns;
        let clocks = host.clocks();
        let clocks =
            clocks.unwrap_or(Clocks { gpu: now_ns / 10, cpu_ns: now_ns, system_ns: now_ns });
        let known = self.gpu(argument.u32(32)).is_some();
        argument.set_u64(0, if known { clocks.gpu } else { 0 });
        argument.set_u64(8, clocks.cpu_ns);
        argument.set_u64(16, clocks.system_ns);
        argument.set_u64(24, 1_000_000_000);
        Ok(0)
    }

    fn aperture(&self, gpu: usize) -> [u8; APERTURE_BYTES] {
        let mut bytes = [0; APERTURE_BYTES];
        let mut entry = Argument(&mut bytes);
        let lds = (gpu as u64 + 1) << 48;
        entry.set_u64(0, lds);
        entry.set_u64(8, lds + 0xffff_ffff);
        entry.set_u64(16, lds << 1);
        entry.set_u64(24, (lds << 1) + 0xffff_ffff);
        entry.set_u64(32, 0x1000);
        entry.set_u64(40, 0x7fff_ffff_ffff);
        entry.set_u32(48, self.config.gpus[gpu].gpu_id);
        bytes
    }

    pub(super) fn apertures_old(&self, argument: &mut Argument<'_>) -> Handled {
        let count = self.config.gpus.len().min(OLD_APERTURES);
        for gpu in 0..count {
            let entry = self.aperture(gpu);
            argument.0[gpu * APERTURE_BYTES..][..APERTURE_BYTES].copy_from_slice(&entry);
        }
        argument.set_u32(OLD_APERTURES * APERTURE_BYTES, count as u32);
        Ok(0)
    }

    pub(super) fn apertures(&self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let (address, room) = (argument.u64(0), argument.u32(8) as usize);
        let count = self.config.gpus.len();
        if room == 0 {
            argument.set_u32(8, count as u32);
            return Ok(0);
        }
        // The topology has the processor as well.
        if room > count + 1 {
            return Err(Errno::INVAL.into());
        }
        let count = count.min(room);
        let entries: Vec<u8> = (0..count).flat_map(|gpu| self.aperture(gpu)).collect();
        argument.set_u32(8, count as u32);
        host.write(pid, address, &entries)?;
        Ok(0)
    }

    pub(super) fn available_memory(&self, argument: &mut Argument<'_>) -> Handled {
        let gpu = self.gpu(argument.u32(8)).ok_or(Errno::INVAL)?;
        argument.set_u64(0, self.free_bytes(gpu));
        Ok(0)
    }

    pub(super) fn smi_events(&mut self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let gpu = self.gpu(argument.u32(0)).ok_or(Errno::INVAL)?;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(family, kind, flags, None)?;
        let file = host.give_file(pid, theirs)?;
        self.listeners.push((gpu, ours));
        argument.set_u32(4, file);
        Ok(0)
    }

    /// Writes a line to those who listen to a GPU: `EVENT DETAIL`, the event in hexadecimal.
    /// Each listener gets all events: its choice of events is ignored.
    pub(super) fn tell(&mut self, gpu: usize, line: &str) {
        let resets = self.nodes[gpu].resets;
        let text = format!("{line} {resets:x}\n");
        self.listeners.retain(|(listens_to, file)| {
            let full_or_fine = |errno| errno == Errno::AGAIN;
            let flags = SendFlags::NOSIGNAL;
            *listens_to != gpu
                || rustix::net::send(file.as_fd(), text.as_bytes(), flags)
                    .map_or_else(full_or_fine, |_| true)
        });
    }

    /// Pauses and resumes whole processes.
    pub(super) fn criu(&mut self, pid: u32, (argument, host): Asked<'_, '_>) -> Handled {
        let operation = argument.u32(48);
        if !host.may_checkpoint(pid) {
            return Err(Errno::ACCESS.into());
        }
        if self.config.gpus.is_empty() {
            return Err(Errno::NODEV.into());
        }
        let pauses = match operation {
            CRIU_PROCESS_INFO => true,
            CRIU_UNPAUSE => false,
            _ => return self.not_modelled(crate::wire::nr::CRIU_OP, operation),
        };
        let process = self.processes.get_mut(&pid).ok_or(Errno::BADF)?;
        if !pauses && !process.is_paused {
            return Err(Errno::INVAL.into());
        }
        process.is_paused = pauses;
        let ids: Vec<_> = process.queues.iter().map(|(id, queue)| (*id, queue.gpu)).collect();
        for gpu in 0..self.nodes.len() {
            let on_gpu = ids.iter().filter(|(_, at)| *at == gpu);
            self.preempting(gpu, |model| {
                for (id, _) in on_gpu {
                    model.changing(pid, *id, |queue| queue.stopped.evicted = pauses);
                }
            })?;
            self.tell(gpu, if pauses { EVICTION } else { RESTORE });
        }
        Ok(0)
    }
}
