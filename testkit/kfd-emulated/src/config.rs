//! Configuration of the emulated driver and its GPUs.

/// The meaning of the private numbers 0x87 and 0x88.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Private {
    /// None, as in every released driver: `ENOTTY`.
    #[default]
    Absent,
    /// 0x87 preempts one queue and 0x88 resumes it, with arguments of 16 bytes.
    Preempt,
    /// 0x88 suspends or resumes several, with an argument of 32 bytes; 0x87 is absent.
    Suspend,
}

/// How long the device takes, in nanoseconds of the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// For each change of the run list, with any number of queues.
    pub fixed_ns: u64,
    /// For each queue that was running and had to be saved and restored.
    pub queue_ns: u64,
    /// A reset of the GPU. With 0 it lasts until it is ended by hand.
    pub reset_ns: u64,
}

/// One GPU partition: what amdkfd calls a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `gpu_id` in sysfs and in calls.
    pub gpu_id: u32,
    /// `gfx_target_version`: major × 10000 + minor × 100 + stepping.
    pub gfx_target_version: u32,
    /// Accelerator complex dies in the partition.
    pub xccs: u32,
    /// Compute units in the partition.
    pub compute_units: u32,
    /// Queues that the command processor has.
    pub cp_queues: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Bytes of a queue's context-save area that are used when it is saved, if no device writes
    /// to it.
    pub saved_bytes: u32,
    /// The device's number on its bus.
    pub device_id: u32,
    /// Engines that copy memory.
    pub sdma_engines: u32,
}

impl Gpu {
    /// An MI308X as one partition: 4 dies of 20 compute units, `gfx942`, 192 GiB.
    ///
    /// From a dump of its sysfs by a third party; not seen on the device.
    #[must_use]
    pub const fn mi308x(gpu_id: u32) -> Self {
        Self {
            gpu_id,
            gfx_target_version: 90_402,
            xccs: 4,
            compute_units: 80,
            cp_queues: 120,
            memory_bytes: 192 << 30,
            saved_bytes: 0x00ba_6000,
            device_id: 0x74a2,
            sdma_engines: 2,
        }
    }

    /// A `gfx942` as small as an interpreter of its instructions needs: one die of one compute
    /// unit, so that kernels that fill the GPU have few waves.
    #[must_use]
    pub const fn small(gpu_id: u32) -> Self {
        let (xccs, compute_units, cp_queues) = (1, 1, 24);
        Self { xccs, compute_units, cp_queues, memory_bytes: 8 << 30, ..Self::mi308x(gpu_id) }
    }
}

/// Configuration of the emulated driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The interface's version 1.`minor`. `RUNTIME_ENABLE` and `DBG_TRAP` are there from 13 on.
    pub minor: u32,
    /// The GPUs. Without any, calls answer what a driver without a GPU answers.
    pub gpus: Vec<Gpu>,
    /// Meaning of 0x87 and 0x88.
    pub private: Private,
    /// How long the device takes.
    pub latency: Latency,
    /// The module's parameter: 0 hardware scheduling, 2 none (then there is no `DBG_TRAP`).
    pub sched_policy: u32,
    /// The module's parameter: whether running waves can be saved at all.
    pub cwsr: bool,
    /// Another process's debugger has to trace it all the time, as in older versions of the driver,
    /// and not at the moment of attaching alone.
    pub debugger_traces: bool,
}

impl Config {
    /// One MI308X behind the driver of Linux 6.12.
    #[must_use]
    pub fn mi308x() -> Self {
        Self { gpus: vec![Gpu::mi308x(0x8c1f)], ..Self::without_gpu() }
    }

    /// The driver of Linux 6.12 on a machine without a GPU.
    #[must_use]
    pub const fn without_gpu() -> Self {
        Self {
            minor: 17,
            gpus: Vec::new(),
            private: Private::Absent,
            latency: Latency { fixed_ns: 0, queue_ns: 0, reset_ns: 0 },
            sched_policy: 0,
            cwsr: true,
            debugger_traces: false,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::mi308x()
    }
}
