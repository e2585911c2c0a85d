//! A line of text for the emulated driver itself, from the programs that run on it.
//!
//! | line | what it does | answer |
//! |---|---|---|
//! | `latency FIXED QUEUE RESET` | sets [`Latency`], in nanoseconds | `ok` |
//! | `timeout GPU` | the next preemption on the GPU times out | `ok` |
//! | `lose GPU PID ID` | the next preemption on the GPU resets that queue | `ok` |
//! | `reset GPU start`, `reset GPU end` | starts and ends a reset | `ok` |
//! | `node GPU` | | `preemptions N saved N resets N resetting 0` |
//! | `queue PID ID` | | `active 1 suspended 0 reset 0 percentage 100 priority 7` |
//! | `queues PID` | | the ids, with spaces between |
//! | `debugger ok`, `busy`, `secondary` | how `DBG_TRAP` answers: [`Debugging`] | `ok` |
//! | `attach ok`, `busy`, `error` | what a debugger finds that attaches: [`Attach`] | `ok` |
//! | `log TEXT` | writes a line into `/dev/kmsg` | `ok` |
//! | `off TEXT`, `on` | puts `/etc/xsched/kfd-off`, with the text, or takes it away | `ok` |
//! | `raise PID ID CODE` | the device stopped the queue for an exception | who is told: `runtime` |
//! | `fault PID GPU_ID ADDRESS WRITES` | the process used a wrong address | events that were set |
//! | `buffers PID` | | `buffers N bytes N` |
//!
//! GPUs are given by their place in the configuration, from 0, but for `fault`, which has the id.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};

use crate::config::Latency;
use crate::model::{Attach, Debugging, Fault, Model, Told};
use crate::tree::Tree;

/// File that a program opens to send lines.
pub const CONTROL_PATH: &str = "/dev/xsched-emulated-kfd";
/// The longest line, and the longest answer, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 8_192;

/// Sends a line from a program that runs on the emulated driver, and gives the answer.
///
/// # Errors
/// If the program does not run on it, or the line is refused.
pub fn send(line: &str) -> io::Result<String> {
    let mut file = OpenOptions::new().read(true).write(true).open(CONTROL_PATH)?;
    file.write_all(line.as_bytes())?;
    let mut answer = vec![0; LINE_BYTES_MAX];
    let bytes = file.read(&mut answer)?;
    answer.truncate(bytes);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match answer.strip_prefix("error ") {
        Some(why) => Err(io::Error::other(why.to_owned())),
        None => Ok(answer),
    }
}

/// Carries a line out that is about files. `None` if it is not.
pub(crate) fn carry_out_on_files(tree: &Tree, line: &str) -> Option<String> {
    let (word, text) = line.split_once(' ').unwrap_or((line, ""));
    let done = match word {
        "log" => tree.say(text),
        "off" => fs::write(tree.off(), text),
        "on" => fs::remove_file(tree.off()),
        _ => return None,
    };
    Some(done.map_or_else(|error| format!("error {error}"), |()| "ok".to_owned()))
}

/// Carries a line out.
pub(crate) fn carry_out(model: &mut Model, line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let answer = match words[..] {
        ["latency", fixed, queue, reset] => latency(model, [fixed, queue, reset]),
        ["timeout", gpu] => number(gpu).map(|gpu| inject(model, gpu, Fault::Timeout)),
        ["lose", gpu, pid, id] => (|| {
            let fault = Fault::QueueReset { pid: number(pid)?, id: number(id)? };
            Some(inject(model, number(gpu)?, fault))
        })(),
        ["reset", gpu, "start"] => number(gpu).map(|gpu| done(model.start_reset(gpu))),
        ["reset", gpu, "end"] => number(gpu).map(|gpu| {
            model.end_reset(gpu);
            "ok".to_owned()
        }),
        ["debugger", how] => debugger(how).map(|how| {
            model.set_debugging(how);
            "ok".to_owned()
        }),
        ["attach", how] => attach(how).map(|how| {
            model.set_attach(how);
            "ok".to_owned()
        }),
        ["node", gpu] => number(gpu).and_then(|gpu| node(model, gpu)),
        ["queue", pid, id] => {
            number(pid).zip(number(id)).and_then(|(pid, id)| queue(model, pid, id))
        }
        ["queues", pid] => number(pid).map(|pid| {
            let ids = model.queue_ids(pid);
            ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
        }),
        ["raise", pid, id, code] => raise(model, [pid, id, code]),
        ["fault", pid, gpu_id, address, writes] => fault(model, [pid, gpu_id, writes], address),
        ["buffers", pid] => number(pid).map(|pid| {
            let (buffers, bytes) = model.buffers(pid);
            format!("buffers {buffers} bytes {bytes}")
        }),
        _ => None,
    };
    answer.unwrap_or_else(|| format!("error `{line}` is not understood, or names nothing"))
}

fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    word.parse().ok()
}

fn debugger(how: &str) -> Option<Debugging> {
    Some(match how {
        "ok" => Debugging::Works,
        "busy" => Debugging::Busy,
        "secondary" => Debugging::Secondary,
        _ => return None,
    })
}

fn attach(how: &str) -> Option<Attach> {
    Some(match how {
        "ok" => Attach::Enabled,
        "busy" => Attach::Busy,
        "error" => Attach::Error,
        _ => return None,
    })
}

fn done(is_done: bool) -> String {
    if is_done { "ok".to_owned() } else { "error there is no such GPU".to_owned() }
}

fn inject(model: &mut Model, gpu: usize, fault: Fault) -> String {
    done(model.inject(gpu, fault))
}

fn latency(model: &mut Model, words: [&str; 3]) -> Option<String> {
    let [fixed_ns, queue_ns, reset_ns] = words.map(number::<u64>);
    let latency = Latency { fixed_ns: fixed_ns?, queue_ns: queue_ns?, reset_ns: reset_ns? };
    model.set_latency(latency);
    Some("ok".to_owned())
}

fn raise(model: &mut Model, words: [&str; 3]) -> Option<String> {
    let [pid, id, code] = words.map(number::<u32>);
    let told = match model.raise(pid?, id?, code?)? {
        Told::Debugger => "debugger",
        Told::Runtime => "runtime",
    };
    Some(told.to_owned())
}

fn fault(model: &mut Model, words: [&str; 3], address: &str) -> Option<String> {
    let [pid, gpu_id, writes] = words.map(number::<u32>);
    let set = model.memory_fault(pid?, gpu_id?, number(address)?, writes? != 0)?;
    Some(set.to_string())
}

fn node(model: &Model, gpu: usize) -> Option<String> {
    let node = model.node(gpu)?;
    let (preemptions, saved) = (node.preemptions, node.queues_saved);
    let (resets, resetting) = (node.resets, u8::from(node.is_resetting));
    Some(format!("preemptions {preemptions} saved {saved} resets {resets} resetting {resetting}"))
}

fn queue(model: &Model, pid: u32, id: u32) -> Option<String> {
    let queue = model.queue(pid, id)?;
    let [active, suspended, reset] =
        [queue.is_active, queue.is_suspended, queue.is_reset].map(u8::from);
    let (percentage, priority) = (queue.percentage, queue.priority);
    Some(format!(
        "active {active} suspended {suspended} reset {reset} percentage {percentage} priority {priority}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn lines_are_carried_out_or_refused() {
        let mut model = Model::new(Config::mi308x());
        for line in ["latency 1 2 3", "timeout 0", "reset 0 start", "reset 0 end", "lose 0 1 2"] {
            assert_eq!(carry_out(&mut model, line), "ok", "{line}");
        }
        assert_eq!(model.config().latency.queue_ns, 2);
        for line in ["debugger busy", "debugger secondary", "debugger ok", "attach error"] {
            assert_eq!(carry_out(&mut model, line), "ok", "{line}");
        }
        let node = carry_out(&mut model, "node 0");
        assert_eq!(node, "preemptions 0 saved 0 resets 1 resetting 0");
        for line in
            ["", "node 9", "timeout 9", "latency 1 2", "latency x 2 3", "queue 1 1", "debugger 1"]
        {
            assert!(carry_out(&mut model, line).starts_with("error "), "{line}");
        }
    }
}
