//! The environment variables that the product reads.

use anyhow::{Result, ensure};
use walkdir::WalkDir;
use xsched_sim::run::policy_names;

use crate::table::Table;
use crate::{read, root};

/// A variable: name, values, default, meaning, and the source that reads it.
struct Variable {
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
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
const POLICY: &str = "policy";
const C_API: &str = "capi/src/env.rs";

/// Every variable of the product. The check below compares names and ranges with the sources.
const VARIABLES: [Variable; 33] = [
    var(
        "XSCHED_SCHEDULER",
        "APP, LCL",
        "APP",
        "The program schedules, or a local scheduler.",
        C_API,
    ),
    var("XSCHED_POLICY", POLICY, "hpf", "The policy; setting it means LCL.", C_API),
    var(
        "XSCHED_AUTO_XQUEUE",
        "ON, OFF",
        "OFF",
        "For interposers: each stream gets an XQueue.",
        C_API,
    ),
    var(
        "XSCHED_AUTO_XQUEUE_UNIT",
        "process, streams",
        "process",
        "For CUDA's interposer: launches are made at once until something tells streams apart, or never.",
        C_API,
    ),
    var(
        "XSCHED_AUTO_XQUEUE_GRAPHS",
        "ON, OFF",
        "ON",
        "For CUDA's interposer: at level 2, graphs that the program launches get gates inside.",
        C_API,
    ),
    var("XSCHED_AUTO_XQUEUE_LEVEL", "1 to 3", "1", "Its level.", C_API),
    var("XSCHED_AUTO_XQUEUE_THRESHOLD", "1 to 65_536", "16", "Its in-flight threshold.", C_API),
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
    var("XSCHED_SCHEDULER_SUSPEND_SYNC_HWQ", "ON, OFF", "OFF", "Changes nothing.", C_API),
    var("XSCHED_SCHEDULER_SUSPEND_WAIT_ALL", "ON, OFF", "OFF", "Changes nothing.", C_API),
    var("XSCHED_SCHEDULER_SUSPEND_WAIT_IDLE", "ON, OFF", "OFF", "Changes nothing.", C_API),
    var(
        "XSCHED_GATE_SPACING_US",
        "0 to 1_000_000",
        "300",
        "Predicted work between two gates at level 2; 0 is a gate per command.",
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
        "XSCHED_LAUNCHER_THREAD",
        "ON, OFF",
        "OFF",
        "Each XQueue has a thread that launches, so submits return at once.",
        C_API,
    ),
    var(
        "XSCHED_LAUNCHER_THREADS",
        "0 to 64",
        "half the processors, at most 8; 0 below 4",
        "Threads of each device that launch for a thread that feeds XQueues in turn.",
        C_API,
    ),
    var(
        "XSCHED_STRICT",
        "ON, OFF",
        "OFF",
        "Refuses values out of range, and levels, flags and schedulers that there are not.",
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
        "For CUDA's interposer: the driver library that it forwards to.",
        "shim/cuda/src/vendor.rs",
    ),
    var(
        "XSCHED_SHIM_COUNTS",
        "path",
        "",
        "For CUDA's interposer: a file for its counts, written when a process ends; `%p` is the process.",
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
        "XSCHED_HIP_KERNELS",
        "path",
        "built in for gfx942",
        "Kernels of benches on HIP devices.",
        "hal-hip/src",
    ),
    var(
        "XSCHED_HIP_WORK_KERNELS",
        "path",
        "built in for gfx942",
        "Kernels of `bench interrupt`.",
        "lab/src/kernels",
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
    var(
        "XSCHED_SEED",
        "number",
        "1",
        "Random choices of the conformance suite.",
        "testkit/conformance/src/subject.rs",
    ),
];

pub(crate) fn reference() -> Result<String> {
    let mut table = Table::new(["variable", "values", "default", "meaning"]);
    for variable in &VARIABLES {
        is_read(variable)?;
        let values = match variable.values {
            POLICY => policy_names().join(", "),
            values => values.replace("day_us", "86_400_000_000").replace('_', ","),
        };
        let meaning = variable.meaning.to_owned();
        table.row([format!("`{}`", variable.name), values, variable.default.to_owned(), meaning]);
    }
    nothing_is_missing()?;
    Ok(table.markdown())
}

/// Fails if the source does not read the variable, or reads another range.
fn is_read(variable: &Variable) -> Result<()> {
    let Variable { name, values, source, .. } = variable;
    let text = sources(source)?;
    ensure!(text.contains(&format!("\"{name}\"")), "{source} does not read {name}");
    if let Some((min, max)) = values.split_once(" to ") {
        let call = format!("number(\"{name}\", {min}, {max})");
        ensure!(text.contains(&call), "{name} is not {values} in {source}");
    } else if *source == C_API && values.contains(", ") && *values != "ON, OFF" {
        for word in values.split(", ") {
            ensure!(text.contains(&format!("(\"{word}\", ")), "{name} cannot be {word}");
        }
    }
    Ok(())
}

/// The text of a file, or of all files of a folder.
fn sources(path: &str) -> Result<String> {
    let mut text = String::new();
    for entry in WalkDir::new(root().join(path)).sort_by_file_name() {
        let entry = entry?;
        let source = entry.path().extension().is_some_and(|end| end == "rs" || end == "py");
        if entry.file_type().is_file() && source {
            text.push_str(&read(entry.path())?);
        }
    }
    Ok(text)
}

/// Fails if the product names a variable that is not in the list.
fn nothing_is_missing() -> Result<()> {
    let product = ["capi/src", "shim", "runtime/src", "hal-host/src", "hal-stream/src"];
    let more =
        ["hal-cuda/src", "hal-hip/src", "hal-kfd/src", "python/xsched", "sim/src", "lab/src"];
    // For tests and models, and the beginning of names in what a report keeps.
    let known = ["XSCHED_MUTANT", "XSCHED_LOOM_LONG", "XSCHED_EMULATED_KFD", "XSCHED_"];
    for folder in product.into_iter().chain(more) {
        for literal in sources(folder)?.split('"').filter(|text| text.starts_with("XSCHED_")) {
            let name =
                literal.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            let listed = VARIABLES.iter().any(|variable| variable.name == literal);
            ensure!(
                !name || listed || known.contains(&literal),
                "`{literal}` of {folder} is not listed"
            );
        }
    }
    Ok(())
}
