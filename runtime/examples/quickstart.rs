//! Two queues on one device: a background job that keeps it busy, and an urgent command that does
//! not wait for it.
//!
//! `cargo run --release -p xsched --example quickstart --features host`

use std::time::{Duration, Instant};

use xsched::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The highest priority first. The host device runs commands on threads of this process.
    let runtime = Runtime::new(Hpf::default())?;
    let device = runtime.device(HostDevice::new(HostConfig::default())?)?;

    let with_priority = |priority| -> Result<XQueueConfig, Box<dyn std::error::Error>> {
        Ok(XQueueConfig::default().with_priority(Priority::new(priority)?))
    };
    let background = device.queue(with_priority(-1)?, ())?;
    let urgent = device.queue(with_priority(1)?, ())?;

    // Half a second of work, all submitted at once.
    for _ in 0..100 {
        background.submit(HostCommand::new(|| std::thread::sleep(Duration::from_millis(5))))?;
    }

    let start = Instant::now();
    let ticket = urgent.submit(HostCommand::new(|| println!("urgent: running")))?;
    urgent.wait(ticket)?;
    let left = background.stats().submitted - background.stats().retired;
    println!("urgent: done after {:?}, {left} background commands are left", start.elapsed());

    background.wait_all();
    println!("background: done after {:?}", start.elapsed());
    Ok(())
}
