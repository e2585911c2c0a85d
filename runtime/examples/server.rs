//! A service: each request of a client becomes some commands on the client's queue. Paying clients
//! have priority; a full queue pushes back; what the queues do can be scraped.
//!
//! `cargo run --release -p xsched --example server --features host,metrics`

use std::sync::mpsc;
use std::time::{Duration, Instant};

use xsched::prelude::*;

const REQUESTS: u32 = 100;
/// Commands of a request, as the layers of a model would be.
const LAYERS: usize = 8;

struct Client {
    name: &'static str,
    queue: XQueue<HostCommand>,
}

impl Client {
    fn new(
        device: &Device<HostDevice>,
        name: &'static str,
        priority: i32,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let config = XQueueConfig::default()
            .with_priority(Priority::new(priority)?)
            .with_window(WindowConfig::fixed(8, 4))
            // Two requests may wait; more are refused.
            .with_capacity(2 * LAYERS);
        Ok(Self { name, queue: device.queue(config, ())? })
    }

    /// Takes a request. Its latency goes into `latencies` when it is done; false if it is refused.
    fn request(
        &self,
        latencies: &mpsc::Sender<Duration>,
    ) -> Result<bool, Box<dyn std::error::Error>> {
        let stats = self.queue.stats();
        if stats.submitted - stats.retired > LAYERS as u64 {
            return Ok(false);
        }
        let start = Instant::now();
        let layer = HostCommand::new(|| std::thread::sleep(Duration::from_micros(200)));
        let mut last = None;
        for _ in 0..LAYERS {
            match self.queue.try_submit(layer.clone()) {
                Ok(ticket) => last = Some(ticket),
                Err(SubmitError::Full(_)) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(ticket) = last {
            let latencies = latencies.clone();
            self.queue.on_retired(ticket, move |outcome| {
                if outcome.is_ok() {
                    // There is no listener if the client has gone.
                    let _ = latencies.send(start.elapsed());
                }
            })?;
        }
        Ok(true)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new(Hpf::default())?;
    let device = runtime.device(HostDevice::new(HostConfig::default())?)?;
    let clients = [
        (Client::new(&device, "paying", 10)?, Duration::from_millis(5)),
        (Client::new(&device, "free", 0)?, Duration::from_millis(2)),
    ];
    let mut threads = Vec::new();
    for (client, pause) in clients {
        threads.push(std::thread::spawn(move || -> Result<String, String> {
            let (sender, latencies) = mpsc::channel();
            let mut refused = 0;
            for _ in 0..REQUESTS {
                let taken = client.request(&sender).map_err(|error| error.to_string())?;
                refused += u32::from(!taken);
                std::thread::sleep(pause);
            }
            client.queue.wait_all();
            drop(sender);
            let mut latencies: Vec<_> = latencies.iter().collect();
            latencies.sort();
            let median = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
            Ok(format!(
                "{:>6}: {} requests, {refused} refused, median latency {median:?}",
                client.name,
                latencies.len()
            ))
        }));
    }
    for thread in threads {
        match thread.join() {
            Ok(line) => println!("{}", line?),
            Err(_) => return Err("a client panicked".into()),
        }
    }
    #[cfg(feature = "metrics")]
    print!("{}", runtime.metrics().encode());
    Ok(())
}
