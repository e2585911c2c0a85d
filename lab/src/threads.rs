//! Threads of this program that use a processor.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

/// A thread that runs for more than this share of the time counts as busy.
const BUSY: f64 = 0.5;

/// Processor time of every thread of this program, at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    at: Instant,
    /// By thread id: name, and nanoseconds on a processor.
    threads: BTreeMap<u64, (String, u64)>,
}

/// A thread that was busy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct BusyThread {
    /// Name of the thread.
    pub(crate) name: String,
    /// The share of the time in which it was on a processor, 0 to 1.
    pub(crate) share: f64,
}

impl Usage {
    /// Reads what the system says now. Empty where it does not keep account.
    pub(crate) fn now() -> Self {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let threads = tasks.filter_map(|entry| thread(&entry.path())).collect();
        Self { at: Instant::now(), threads }
    }

    /// The threads that were busy most of the time since `before` and are there still.
    pub(crate) fn busy_since(&self, before: &Self) -> Vec<BusyThread> {
        let wall = self.at.saturating_duration_since(before.at).as_nanos().max(1) as f64;
        let share = |(id, (name, ns)): (&u64, &(String, u64))| {
            let earlier = before.threads.get(id).map_or(0, |(_, ns)| *ns);
            BusyThread { name: name.clone(), share: ns.saturating_sub(earlier) as f64 / wall }
        };
        let threads = self.threads.iter().map(share);
        threads.filter(|thread| thread.share > BUSY).collect()
    }
}

/// Id, name and processor time of the thread with this folder.
fn thread(folder: &Path) -> Option<(u64, (String, u64))> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let name = fs::read_to_string(folder.join("comm")).ok()?;
    let account = fs::read_to_string(folder.join("schedstat")).ok()?;
    let ns = account.split_whitespace().next()?.parse().ok()?;
    Some((id, (name.trim().to_owned(), ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn busy_is_more_than_half_of_the_time() {
        let at = Instant::now();
        let usage = |ms: u64, ns: [u64; 2]| Usage {
            at: at + Duration::from_millis(ms),
            threads: [(1, ("a".to_owned(), ns[0])), (2, ("b".to_owned(), ns[1]))].into(),
        };
        let busy = usage(1, [500_001, 1_499_999]).busy_since(&usage(0, [0, 1_000_000]));
        assert_eq!(busy.len(), 1);
        assert_eq!(busy[0].name, "a");
        assert_eq!(usage(1, [0, 0]).busy_since(&usage(0, [1, 1])), []);
    }

    #[test]
    fn this_thread_is_found() {
        assert!(!Usage::now().threads.is_empty());
    }
}
