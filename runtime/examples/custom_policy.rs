//! A policy of one's own on real threads: the object that the simulator's example of the same name
//! simulates first.
//!
//! `cargo run --release -p xsched --example custom_policy --features host`

#[path = "../../sim/examples/custom_policy/policy.rs"]
mod policy;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration as Span;

use xsched::prelude::*;
use xsched::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new(policy::TakeTurns(Duration::from_ms(10)))?;
    let device = runtime.device(HostDevice::new(HostConfig::default())?)?;
    let done: Vec<_> = (0..3).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let mut queues = Vec::new();
    for done in &done {
        let queue = device.queue(XQueueConfig::default(), ())?;
        for _ in 0..200 {
            let done = Arc::clone(done);
            queue.submit(HostCommand::new(move || {
                std::thread::sleep(Span::from_millis(1));
                done.fetch_add(1, Ordering::Relaxed);
            }))?;
        }
        queues.push(queue);
    }
    while queues.iter().any(|queue| queue.stats().retired < 200) {
        std::thread::sleep(Span::from_millis(60));
        let done: Vec<_> = done.iter().map(|done| done.load(Ordering::Relaxed)).collect();
        println!("commands done per queue: {done:?}");
    }
    Ok(())
}
