//! The policy of the guide, in charge of queues on the host device.

#[path = "../../../sim/examples/custom_policy/policy.rs"]
mod policy;

use xsched::prelude::*;
use xsched::time::Duration;

#[test]
fn a_policy_of_ones_own_needs_no_other_crate() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new(policy::TakeTurns(Duration::from_ms(1)))?;
    let device = runtime.device(HostDevice::new(HostConfig::default())?)?;
    let mut hints = Hints::default();
    hints.set_deadline(Duration::from_ms(5))?;
    let queues = [device.queue(XQueueConfig::default(), ())?, {
        let queue = device.queue(XQueueConfig::default(), ())?;
        queue.set_hints(hints);
        queue
    }];
    for queue in queues.iter().cycle().take(40) {
        queue.submit(HostCommand::new(|| std::thread::sleep(Duration::from_us(100).into())))?;
    }
    queues.iter().for_each(XQueue::close);
    assert!(queues.iter().all(|queue| queue.stats().retired == 20));
    Ok(())
}
