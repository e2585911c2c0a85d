//! Figures of all queues in the OpenMetrics text format, as Prometheus scrapes them.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use xsched_core::id::QueueId;
use xsched_core::message::HoldState;

use crate::latency::Latencies;
use crate::runtime::Runtime;
use crate::scheduler::{ScheduledQueue, SchedulerHandle};
use crate::stats::{Label, Stats, number};

/// Reads the figures when they are scraped; between scrapes it costs nothing. Register it with a
/// [`Registry`] of your own, or take the text of [`Metrics::encode`].
///
/// Each figure of a queue has the labels `queue`, `id`, `device` and `policy`. `id` is the queue's
/// place in the scheduler's table and how often that was given away before; `queue` is its
/// [name](crate::XQueueConfig::name), or the same if it has none; `device` is the backend's name
/// with the device's number. A queue's figures end with it.
///
/// ```
/// # use xsched::hal::{Noop, NoopQueue};
/// # use xsched::prelude::*;
/// #
/// # static HARDWARE: [NoopQueue; 1] = [const { NoopQueue::new() }; 1];
/// # let runtime = Runtime::new(Hpf::default())?;
/// # let device = runtime.device(Noop::<u32>::new(&HARDWARE))?;
/// # let queue = device.queue(XQueueConfig::default(), ())?;
/// queue.wait(queue.submit(7)?)?;
/// let text = runtime.metrics().encode();
/// assert!(text.contains("xsched_submitted_total"), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Metrics {
    scheduler: Weak<SchedulerHandle>,
}

impl Runtime {
    /// The figures of the runtime and its queues. Does not keep the runtime alive.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics { scheduler: Arc::downgrade(self.scheduler()) }
    }
}

type Labels = [(&'static str, String); 4];
type Named = (Labels, Stats);

fn labels(id: QueueId, label: &Label, policy: &str) -> Labels {
    [
        ("queue", label.name(id)),
        ("id", number(id)),
        ("device", label.device.to_string()),
        ("policy", policy.to_owned()),
    ]
}

/// Latencies as a histogram.
struct Histogram<'a>(&'a Latencies);

impl EncodeMetric for Histogram<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bound =
            |bound: Option<Duration>| bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64());
        let buckets: Vec<_> = self.0.buckets().map(|(b, count)| (bound(b), count)).collect();
        let (sum, count) = (self.0.sum().as_secs_f64(), self.0.count());
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl Metrics {
    /// All figures as OpenMetrics text.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(scheduler) = self.scheduler.upgrade() else { return Ok(()) };
        let to = &mut encoder;
        let policy = scheduler.policy_name();
        let named = |(id, queue): (QueueId, Arc<dyn ScheduledQueue>)| -> Named {
            let stats = Stats::from_snapshot(&queue.snapshot());
            (labels(id, queue.label(), policy), stats)
        };
        let queues: Vec<Named> = scheduler.queues().into_iter().map(named).collect();
        let open = scheduler.times_failed_open();
        let name = "xsched_failed_open";
        let help = "Times all holds ended because the scheduler failed";
        one(to, name, help, &ConstCounter::new(open))?;
        let scheduling = i64::from(!scheduler.is_gone());
        one(to, "xsched_scheduling", "Whether the scheduler works", &ConstGauge::new(scheduling))?;
        counters(to, &queues)?;
        gauges(to, &queues)?;
        histograms(to, &queues)
    }
}

fn counters(to: &mut DescriptorEncoder<'_>, queues: &[Named]) -> fmt::Result {
    count(to, "submitted", "Commands submitted", queues, |s| s.submitted)?;
    count(to, "launched", "Commands launched", queues, |s| s.launched)?;
    count(to, "retired", "Commands retired", queues, |s| s.retired)?;
    count(to, "failed", "Commands failed or cancelled", queues, |s| s.failed)?;
    count(to, "failed_steps", "Steps of holds that the device refused", queues, |s| {
        s.failed_steps
    })?;
    count(to, "protocol_errors", "Wrong answers of the driver", queues, |s| s.protocol_errors)?;
    let help = "Device time used, if the device measures it";
    let seconds = |s: &Stats| ConstCounter::new(s.busy.as_secs_f64());
    family(to, "xsched_busy", help, Some(&Unit::Seconds), queues, seconds)?;
    count(to, "holds", "Holds that came into effect", queues, |s| s.hold_latency.count())
}

fn histograms(to: &mut DescriptorEncoder<'_>, queues: &[Named]) -> fmt::Result {
    let help = "Time from the submit of a sampled command until its end was seen";
    family(to, "xsched_latency", help, Some(&Unit::Seconds), queues, |s| Histogram(&s.latency))?;
    let help = "Time from the order of a hold until it was in effect";
    let unit = Some(&Unit::Seconds);
    family(to, "xsched_hold_latency", help, unit, queues, |s| Histogram(&s.hold_latency))
}

fn gauges(to: &mut DescriptorEncoder<'_>, queues: &[Named]) -> fmt::Result {
    let gauge = |n: u64| ConstGauge::new(i64::try_from(n).unwrap_or(i64::MAX));
    let help = "Commands submitted and not retired";
    family(to, "xsched_pending", help, None, queues, |s| gauge(s.submitted - s.retired))?;
    let help = "Commands launched and not retired";
    family(to, "xsched_in_flight", help, None, queues, |s| {
        gauge(s.launched.saturating_sub(s.retired))
    })?;
    let help = "In-flight threshold";
    family(to, "xsched_threshold", help, None, queues, |s| gauge(u64::from(s.threshold)))?;
    let help = "Level of the hold in effect, 0 without one";
    family(to, "xsched_held_level", help, None, queues, |s| gauge(held_level(s)))?;
    let help = "Whether the user has suspended the queue";
    family(to, "xsched_held_by_hand", help, None, queues, |s| gauge(s.suspended.into()))?;
    let help = "Whether the device is lost";
    family(to, "xsched_lost", help, None, queues, |s| gauge(s.lost.into()))
}

fn held_level(stats: &Stats) -> u64 {
    match stats.hold {
        HoldState::Held(level) => u64::from(level.number()),
        _ => 0,
    }
}

fn one(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(to.encode_descriptor(name, help, None, metric.metric_type())?)
}

fn count(
    to: &mut DescriptorEncoder<'_>,
    what: &str,
    help: &str,
    queues: &[Named],
    value: impl Fn(&Stats) -> u64,
) -> fmt::Result {
    let name = format!("xsched_{what}");
    family(to, &name, help, None, queues, |stats| ConstCounter::new(value(stats)))
}

fn family<'a, M: EncodeMetric>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    queues: &'a [Named],
    metric: impl Fn(&'a Stats) -> M,
) -> fmt::Result {
    let Some((_, first)) = queues.first() else { return Ok(()) };
    let kind = metric(first).metric_type();
    let mut family = to.encode_descriptor(name, help, unit, kind)?;
    for (labels, stats) in queues {
        metric(stats).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}
