//! What deadline and class policies have in common: each ready queue has a key, and the lowest keys
//! of a device run. A queue without a key holds, ready or not.
//!
//! Only ready queues are held. So a queue that becomes ready on a busy device may launch what fits
//! into its window before the hold arrives; in return an idle device lets everybody start at once,
//! and a decision costs nothing for queues that have nothing to do.

use xsched_core::hint::Priority;
use xsched_core::id::DeviceId;
use xsched_core::policy::{Changed, Decisions, Event, Urgency, Verdict};
use xsched_core::scheduler::{QueueInfo, QueueTable};

use crate::ready::{Place, Ready};

const HOLD: Verdict = Verdict::Hold(Urgency::NOW);

/// How many of the ready queues of a device run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// So many, at least 1.
    Top(u32),
    /// All that have the lowest key.
    Class,
}

/// Follows what changed and chooses anew where something did.
pub(crate) fn decide(
    changed: Changed<'_>,
    queues: &QueueTable<'_>,
    out: &mut Decisions<'_>,
    width: Width,
    key: impl Fn(&QueueInfo) -> Option<u64>,
) {
    match changed {
        Changed::Some { queues: ids, devices } => {
            for info in ids.iter().filter_map(|&id| queues.get(id)) {
                follow(info, queues, out, &key);
            }
            devices.iter().for_each(|&device| choose(device, queues, out, width));
        }
        Changed::All => {
            queues.iter().for_each(|info| follow(info, queues, out, &key));
            queues.devices().for_each(|device| choose(device, queues, out, width));
        }
    }
}

/// A queue that leaves the table leaves the order as well.
pub(crate) fn observe(queue: xsched_core::id::QueueId, event: Event, queues: &QueueTable<'_>) {
    if let (Event::Detached, Some(info)) = (event, queues.get(queue))
        && let Some(ready) = Ready::on(queues, info.device)
    {
        ready.remove(queue);
    }
}

fn follow(
    info: &QueueInfo,
    queues: &QueueTable<'_>,
    out: &mut Decisions<'_>,
    key: &impl Fn(&QueueInfo) -> Option<u64>,
) {
    let Some(ready) = Ready::on(queues, info.device) else { return };
    let key = if info.hints.priority == Priority::NO_EXECUTE { None } else { key(info) };
    let Some(key) = key.filter(|_| info.ready) else {
        ready.remove(info.id);
        out.set(info.id, if key.is_some() { Verdict::Run } else { HOLD });
        return;
    };
    if ready.place(info.id) == Place::Out {
        ready.insert(info.id, key);
    } else if ready.key(info.id) != key {
        ready.put_back(info.id, key);
    } else {
        return;
    }
    out.set(info.id, HOLD);
}

/// Lets the best run. At equal keys whoever runs goes on.
fn choose(device: DeviceId, queues: &QueueTable<'_>, out: &mut Decisions<'_>, width: Width) {
    let Some(ready) = Ready::on(queues, device) else { return };
    match width {
        Width::Top(k) => choose_top(&ready, k.max(1), out),
        Width::Class => choose_class(&ready, out),
    }
}

fn choose_top(ready: &Ready<'_>, k: u32, out: &mut Decisions<'_>) {
    while ready.chosen_count() > k {
        give_up_worst(ready, out);
    }
    while let Some((_, key)) = ready.best() {
        if ready.chosen_count() >= k {
            if worst(ready).is_none_or(|(_, worst)| worst <= key) {
                return;
            }
            give_up_worst(ready, out);
        }
        let Some(queue) = ready.choose_best() else { return };
        out.set(queue, Verdict::Run);
    }
}

fn worst(ready: &Ready<'_>) -> Option<(xsched_core::id::QueueId, u64)> {
    ready.chosen().map(|queue| (queue, ready.key(queue))).max_by_key(|(_, key)| *key)
}

fn give_up_worst(ready: &Ready<'_>, out: &mut Decisions<'_>) {
    if let Some((queue, key)) = worst(ready) {
        ready.put_back(queue, key);
        out.set(queue, HOLD);
    }
}

fn choose_class(ready: &Ready<'_>, out: &mut Decisions<'_>) {
    while let Some((_, key)) = ready.best() {
        let running = ready.chosen().next().map(|queue| ready.key(queue));
        if running.is_some_and(|running| running < key) {
            return;
        }
        if running.is_some_and(|running| running > key) {
            while ready.chosen_count() > 0 {
                give_up_worst(ready, out);
            }
        }
        let Some(queue) = ready.choose_best() else { return };
        out.set(queue, Verdict::Run);
    }
}
