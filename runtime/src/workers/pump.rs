//! The pump, which launches what could not be launched when it was submitted.

use std::sync::Arc;

use super::{DeviceQueue, QueueList, USERS};
use crate::panics::contain;

/// Waits for queues that have something to launch, and sees to them. False when there will never
/// be any again.
pub(crate) fn pump_round(list: &QueueList, queues: &mut Vec<Arc<dyn DeviceQueue>>) -> bool {
    let news = list.take(queues, None);
    for queue in queues.drain(..) {
        contain(USERS, move || queue.pump());
    }
    !news.end
}
