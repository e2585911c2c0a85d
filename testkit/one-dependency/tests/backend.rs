//! The backend of the guide, under a policy.

#[path = "../../conformance/tests/minimal_backend/backend.rs"]
mod backend;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backend::{Job, Workers};
use xsched::fault::Fault;
use xsched::prelude::*;

#[test]
fn a_backend_of_ones_own_needs_no_other_crate() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new(Hpf::default())?;
    let device = runtime.device(Workers)?;
    let queue = device.queue(XQueueConfig::default(), ())?;
    let ran = Arc::new(AtomicU32::new(0));
    let submit = |ends: Result<(), Fault>| {
        let ran = Arc::clone(&ran);
        let job: Job = Arc::new(move || {
            ran.fetch_add(1, Ordering::Relaxed);
            ends
        });
        queue.submit(job)
    };
    let (good, bad) = (submit(Ok(()))?, submit(Err(Fault::Execution))?);
    queue.wait(good)?;
    assert_eq!(queue.wait(bad), Err(WaitError::Failed(Fault::Execution)));
    queue.close();
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    Ok(())
}
