//! The environment variables that the product reads: what the book lists, and what `xsched doctor`
//! compares the environment with.

use xsched_policies::Any;

/// A variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Name of the variable.
    pub name: &'static str,
    /// Values: [`POLICY`], words with commas between, `MIN to MAX`, `path` or `text`.
    pub values: &'static str,
    /// Value that counts if it is not set.
    pub default: &'static str,
    /// Effect of the variable.
    pub meaning: &'static str,
    /// The file or folder of the source that reads it.
    pub source: &'static str,
}

const fn var(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Variable {
    Variable { name, values, default, meaning, source }
}

/// Stands for the names of all policies.
pub const POLICY: &str = "policy";
/// Where the C API reads its variables.
pub const C_API: &str = "capi/src/env.rs";

/// Every variable of the product. `docs/generate` compares names and ranges with the sources.
pub const VARIABLES: &[Variable] = &[
    var(
        "XSCHED_SCHEDULER",
        "APP, LCL, GLB",
        "APP",
        "The program schedules, a local scheduler, or that of the node.",
        C_API,
    ),
    var(
        "XSCHED_SOCKET",
        "path",
        "/run/xsched/socket",
        "Where xschedd listens; a socket below `$XDG_RUNTIME_DIR` comes first.",
        "node/src/socket.rs",
    ),
    var(
        "XSCHED_GANG",
        "text",
        "",
        "The gang that xschedd holds this process with; 1 to 64 characters.",
        "node/src/link.rs",
    ),
    var("XSCHED_POLICY", POLICY, "hpf", "The policy; setting it means LCL.", C_API),
    var("XSCHED_AUTO_XQUEUE", "ON, OFF", "OFF", "Interposers give each stream an XQueue.", C_API),
    var(
        "XSCHED_AUTO_XQUEUE_UNIT",
        "process, streams",
        "process",
        "Launches are made at once until streams are told apart, or never; with streams, xschedd holds each CUDA stream by itself.",
        C_API,
    ),
    var(
        "XSCHED_AUTO_XQUEUE_GRAPHS",
        "ON, OFF",
        "ON",
        "At level 2, CUDA graphs get gates inside.",
        C_API,
    ),
    var("XSCHED_AUTO_XQUEUE_LEVEL", "1 to 3", "1", "The level of such an XQueue.", C_API),
    var(
        "XSCHED_AUTO_XQUEUE_THRESHOLD",
        "1 to 65_536",
        "16, with gates as there is room",
        "Its in-flight threshold.",
        C_API,
    ),
    var(
        "XSCHED_AUTO_XQUEUE_BATCH_SIZE",
        "1 to 65_536",
        "8",
        "Its commands per fence, at most the threshold.",
        C_API,
    ),
    var("XSCHED_AUTO_XQUEUE_PRIORITY", "-256 to 255", "the stream's", "Its priority.", C_API),
    var("XSCHED_AUTO_XQUEUE_UTILIZATION", "0 to 100", "", "Its share in percent.", C_API),
    var(
        "XSCHED_AUTO_XQUEUE_TIMESLICE",
        "100 to 10_000_000",
        "",
        "The policy's timeslice in µs.",
        C_API,
    ),
    var("XSCHED_AUTO_XQUEUE_DEADLINE", "1 to day_us", "", "Its deadline in µs.", C_API),
    var("XSCHED_AUTO_XQUEUE_LAXITY", "1 to day_us", "", "Its laxity in µs.", C_API),
    var(
        "XSCHED_AUTO_XQUEUE_KDEADLINE",
        "1 to 65_536",
        "",
        "Queues that run at once under KEDF.",
        C_API,
    ),
    var(
        "XSCHED_GATE_SPACING_US",
        "0 to 1_000_000",
        "300",
        "Work between two gates; 0 is a gate per command. Unless set, `xschedd` adapts it.",
        C_API,
    ),
    var(
        "XSCHED_QUEUE_CAPACITY",
        "64 to 65_536",
        "8192",
        "Commands that an XQueue has room for.",
        C_API,
    ),
    var(
        "XSCHED_STRICT",
        "ON, OFF",
        "OFF",
        "Refuses values out of range, and missing levels, flags and schedulers.",
        C_API,
    ),
    var("XLOG_LEVEL", "ERRO, WARN, INFO, DEBG", "WARN", "What is logged to standard error.", C_API),
    var(
        "XSCHED_CUDA_LIB",
        "path",
        "the system's",
        "CUDA's driver library.",
        "hal-cuda/src/table.rs",
    ),
    var(
        "XSCHED_CUDA_DRIVER",
        "path",
        "the system's",
        "The driver library that CUDA's interposer forwards to.",
        "shim/cuda/src/vendor.rs",
    ),
    var(
        "XSCHED_HIP_RUNTIME",
        "path",
        "what the loader would find",
        "The runtime library that HIP's interposer forwards to.",
        "shim/hip/src/vendor.rs",
    ),
    var(
        "XSCHED_SHIM_COUNTS",
        "path",
        "",
        "A file for the interposers' counts at a process's end; `%p` is the process, `%v` the vendor.",
        "shim/engine/src/counts.rs",
    ),
    var(
        "XSCHED_HIP_LIB",
        "path",
        "the system's",
        "HIP's runtime library.",
        "hal-hip/src/library.rs",
    ),
    var(
        "XSCHED_KFD",
        "on, off",
        "on",
        "Lv3 on AMD GPUs; the file `/etc/xsched/kfd-off` switches it off too.",
        "hal-kfd/src/guard.rs",
    ),
    var(
        "XSCHED_KFD_MECHANISM",
        "update-queue, debug-trap, preempt-queue",
        "by what the driver has",
        "How a queue is interrupted.",
        "hal-kfd/src/probe.rs",
    ),
    var(
        "XSCHED_KFD_PATCHED",
        "text",
        "",
        "Allows `preempt-queue` if the driver's version contains this text.",
        "hal-kfd/src/mechanism/patched.rs",
    ),
    var(
        "XSCHED_LIB_DIR",
        "path",
        "the wheel's",
        "Where the Python package looks for the C libraries.",
        "python/xsched/_library.py",
    ),
];

/// Variables that earlier versions or the C++ XSched read, and why nothing reads them now.
pub const DROPPED: [(&str, &str); 5] = [
    ("XSCHED_SCHEDULER_SUSPEND_SYNC_HWQ", HOLDS_NEVER_WAIT),
    ("XSCHED_SCHEDULER_SUSPEND_WAIT_ALL", HOLDS_NEVER_WAIT),
    ("XSCHED_SCHEDULER_SUSPEND_WAIT_IDLE", HOLDS_NEVER_WAIT),
    ("XSCHED_LAUNCHER_THREAD", "a program asks by the flag kQueueCreateFlagLauncherThread"),
    ("XSCHED_LAUNCHER_THREADS", "the thread that submits launches"),
];

const HOLDS_NEVER_WAIT: &str = "holds of the scheduler never wait";

/// The longest time that a variable takes, in microseconds, as a range names it.
const DAY_US: (&str, i128) = ("day_us", 86_400_000_000);

impl Variable {
    /// Returns the values that it can have, if `value` is none of them; `None` if it is. Whether a
    /// file is there is not looked at.
    #[must_use]
    pub fn refuses(&self, value: &str) -> Option<String> {
        let can_be = |text: &str| Some(format!("it can be {text}"));
        let number = |text: &str| match text {
            text if text == DAY_US.0 => Some(DAY_US.1),
            text => text.replace('_', "").parse::<i128>().ok(),
        };
        if self.values == POLICY {
            let names = Any::NAMES.join(", ");
            return if value.parse::<Any>().is_ok() { None } else { can_be(&names) };
        }
        if let Some((min, max)) = self.values.split_once(" to ") {
            let (min, max) = (number(min)?, number(max)?);
            let within = value.parse().is_ok_and(|value: i128| (min..=max).contains(&value));
            return if within { None } else { can_be(&format!("{min} to {max}")) };
        }
        let taken = match self.values {
            "path" | "text" => true,
            words => words.split(", ").any(|word| word.eq_ignore_ascii_case(value)),
        };
        if taken { None } else { can_be(self.values) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses(name: &str, value: &str) -> Option<String> {
        let variable = VARIABLES.iter().find(|variable| variable.name == name);
        variable.expect("a variable").refuses(value)
    }

    #[test]
    fn values_are_compared_with_what_a_variable_can_be() {
        for (name, value) in [
            ("XSCHED_POLICY", "HPF"),
            ("XSCHED_AUTO_XQUEUE", "on"),
            ("XSCHED_AUTO_XQUEUE_PRIORITY", "-256"),
            ("XSCHED_AUTO_XQUEUE_DEADLINE", "86400000000"),
            ("XSCHED_CUDA_DRIVER", "/nowhere"),
            ("XSCHED_GATE_SPACING_US", "0"),
        ] {
            assert_eq!(refuses(name, value), None, "{name}={value}");
        }
        let priority = refuses("XSCHED_AUTO_XQUEUE_PRIORITY", "256");
        assert_eq!(priority.as_deref(), Some("it can be -256 to 255"));
        let deadline = refuses("XSCHED_AUTO_XQUEUE_DEADLINE", "86400000001");
        assert_eq!(deadline.as_deref(), Some("it can be 1 to 86400000000"));
        let switch = refuses("XSCHED_AUTO_XQUEUE", "yes");
        assert_eq!(switch.as_deref(), Some("it can be ON, OFF"));
        assert!(refuses("XSCHED_POLICY", "GBL").is_some_and(|can| can.contains("hpf")));
    }
}
