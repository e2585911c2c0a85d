//! The series: their names, what they mean, and their labels.
//!
//! Series of a tenant on a GPU are there from the start, with zeros, and stay. Those of a process
//! go with it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use xsched_node::{ClientStatus, GpuStatus, Outsider};

use crate::scheduler::{BOUNDS_NS, Figures, Histogram, Present, Total};

/// Pairs of a GPU and a tenant that have series.
const PAIRS_MAX: usize = 1_024;

/// Figures that a scrape is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrape {
    pub(super) node: String,
    pub(super) figures: Figures,
    /// The names of the users of processes.
    pub(super) users: BTreeMap<u32, String>,
    pub(super) tenants: Vec<String>,
    pub(super) outsiders: Vec<Outsider>,
    pub(super) outsiders_unknown: u64,
    pub(super) connections: u64,
    pub(super) refused: u64,
}

/// The whole text.
pub(super) fn encode(scrape: Scrape) -> String {
    let labels = [("node".into(), scrape.node.clone().into())];
    let mut registry = Registry::with_labels(labels.into_iter());
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

type Labels = Vec<(&'static str, String)>;
/// Things that have the same series.
type Things<T> = Vec<(Labels, T)>;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn whole(count: impl Into<u64>) -> f64 {
    count.into() as f64
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn permille(permille: u32) -> f64 {
    f64::from(permille) / 1e3
}

/// Quantity of a series.
#[derive(Clone, Copy)]
enum Kind {
    /// How often, since the begin.
    Count,
    /// For how long since the begin, in nanoseconds.
    Time,
    /// How much now.
    Level,
    /// How much of all now, 0 to 1.
    Ratio,
}

/// A family of series with numbers.
type Family<T> = (&'static str, Kind, &'static str, fn(&T) -> Option<f64>);

fn family<T>(
    to: &mut DescriptorEncoder<'_>,
    prefix: &str,
    (what, kind, help, value): &Family<T>,
    things: &Things<impl Borrow<T>>,
) -> fmt::Result {
    let (unit, metric_type) = match kind {
        Kind::Count => (None, MetricType::Counter),
        Kind::Time => (Some(Unit::Seconds), MetricType::Counter),
        Kind::Level => (None, MetricType::Gauge),
        Kind::Ratio => (Some(Unit::Other("ratio".to_owned())), MetricType::Gauge),
    };
    let name = format!("xsched_{prefix}{what}");
    let mut family = to.encode_descriptor(&name, help, unit.as_ref(), metric_type)?;
    for (labels, thing) in things {
        let Some(value) = value(thing.borrow()) else { continue };
        let mut series = family.encode_family(labels)?;
        match kind {
            Kind::Count => series.encode_counter::<NoLabelSet, _, u64>(&(value as u64), None)?,
            Kind::Time => series.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
            Kind::Level | Kind::Ratio => series.encode_gauge(&value)?,
        }
    }
    Ok(())
}

fn histogram(series: &mut MetricEncoder<'_>, times: &Histogram) -> fmt::Result {
    let bounds = BOUNDS_NS.iter().map(|ns| seconds(*ns)).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(times.counts).collect();
    let count = times.counts.iter().fold(0, |sum: u64, more| sum.saturating_add(*more));
    series.encode_histogram::<NoLabelSet>(seconds(times.sum_ns), count, &buckets, None)
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        let mut info =
            to.encode_descriptor("xsched_daemon", "The daemon", None, MetricType::Info)?;
        let version = env!("CARGO_PKG_VERSION");
        info.encode_info(&[("version", version), ("policy", self.figures.policy)])?;
        let daemon = vec![(Labels::new(), self)];
        DAEMON.iter().try_for_each(|one| family(to, "", one, &daemon))?;
        let gpus = self.gpus();
        GPU.iter().try_for_each(|one| family(to, "gpu_", one, &gpus))?;
        self.encode_tenants(to)?;
        let processes = self.processes();
        PROCESS.iter().try_for_each(|one| family(to, "process_", one, &processes))?;
        let outsiders = self.unscheduled();
        UNSCHEDULED.iter().try_for_each(|one| family(to, "unscheduled_", one, &outsiders))
    }
}

impl Scrape {
    fn gpus(&self) -> Things<(GpuStatus, u64)> {
        let of = |gpu: &GpuStatus| {
            let labels = vec![("gpu", gpu.device.clone()), ("name", gpu.name.clone())];
            let outsiders = self.outsiders.iter().filter(|one| one.device == gpu.device);
            (labels, (gpu.clone(), outsiders.count() as u64))
        };
        self.figures.gpus.iter().map(of).collect()
    }

    /// All pairs of a GPU and a tenant.
    fn pairs(&self) -> BTreeSet<(String, String)> {
        let mut pairs: BTreeSet<_> = self.figures.totals.keys().cloned().collect();
        pairs.extend(self.figures.now.keys().cloned());
        for gpu in &self.figures.gpus {
            let here = self.tenants.iter().map(|tenant| (gpu.device.clone(), tenant.clone()));
            pairs.extend(here.take(PAIRS_MAX.saturating_sub(pairs.len())));
        }
        pairs
    }

    fn encode_tenants(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of = |pair: (String, String)| {
            let labels = vec![("gpu", pair.0.clone()), ("tenant", pair.1.clone())];
            let total = self.figures.totals.get(&pair).copied().unwrap_or_default();
            let present = self.figures.now.get(&pair).copied().unwrap_or_default();
            (labels, (total, present))
        };
        let tenants: Things<_> = self.pairs().into_iter().map(of).collect();
        TENANT.iter().try_for_each(|one| family(to, "tenant_", one, &tenants))?;
        for (what, help, times) in TENANT_TIMES {
            let (name, unit) = (format!("xsched_tenant_{what}"), Some(&Unit::Seconds));
            let mut family = to.encode_descriptor(&name, help, unit, MetricType::Histogram)?;
            for (labels, (total, _)) in &tenants {
                histogram(&mut family.encode_family(labels)?, times(total))?;
            }
        }
        Ok(())
    }

    fn processes(&self) -> Things<ClientStatus> {
        let of = |(connection, client): &(u64, ClientStatus)| {
            let user = self.users.get(&client.uid).cloned().unwrap_or_default();
            let labels = vec![
                ("gpu", client.device.clone()),
                ("tenant", client.tenant.clone()),
                ("user", user),
                ("pid", client.pid.to_string()),
                ("program", client.name.clone()),
                ("queue", connection.to_string()),
            ];
            (labels, client.clone())
        };
        self.figures.processes.iter().map(of).collect()
    }

    fn unscheduled(&self) -> Things<Outsider> {
        let of = |one: &Outsider| {
            let labels = vec![
                ("gpu", one.device.clone()),
                ("tenant", one.tenant.clone()),
                ("pid", one.pid.to_string()),
                ("program", one.name.clone()),
            ];
            (labels, one.clone())
        };
        self.outsiders.iter().map(of).collect()
    }
}

/// Of the daemon.
const DAEMON: [Family<Scrape>; 13] = [
    ("processes", Kind::Level, "Connected processes", |s| Some(whole(s.figures.clients))),
    ("processes_left_out", Kind::Level, "Processes on GPUs without series, beyond 512", |s| {
        Some(whole(s.figures.gpu_clients.saturating_sub(s.figures.processes.len() as u64)))
    }),
    ("connections", Kind::Level, "Connections, also of tools", |s| Some(whole(s.connections))),
    ("refused_connections", Kind::Count, "Connections refused beyond the limit", |s| {
        Some(whole(s.refused))
    }),
    ("decisions", Kind::Count, "Times the policy was asked", |s| Some(whole(s.figures.decisions))),
    ("orders", Kind::Count, "Orders to run or to hold", |s| Some(whole(s.figures.orders))),
    ("floor", Kind::Ratio, "Part of each second that lower priorities of a GPU keep", |s| {
        Some(permille(s.figures.floor_permille.into()))
    }),
    ("floor_slices", Kind::Count, "Times the highest priority was held for the floor", |s| {
        Some(whole(s.figures.slices))
    }),
    (
        "passed_over",
        Kind::Count,
        "Times a process was passed over, since no command of its GPU ended",
        |s| Some(whole(s.figures.passed_over)),
    ),
    ("wakeups", Kind::Count, "Times the scheduler's thread woke", |s| {
        Some(whole(s.figures.wakeups))
    }),
    (
        "unscheduled_processes",
        Kind::Level,
        "Processes that drivers list and the daemon does not schedule, at most 64",
        |s| Some(whole(s.outsiders.len() as u64)),
    ),
    (
        "understated_processes",
        Kind::Level,
        "Processes that use clearly more than they report, as drivers account it",
        |s| {
            let processes = s.figures.processes.iter();
            Some(whole(processes.filter(|(_, client)| client.is_understated).count() as u64))
        },
    ),
    (
        "unscheduled_unknown",
        Kind::Level,
        "Things not known of processes past the daemon, which `xsched ps` names",
        |s| Some(whole(s.outsiders_unknown)),
    ),
];

/// Of a GPU.
const GPU: [Family<(GpuStatus, u64)>; 4] = [
    ("processes", Kind::Level, "Processes that the daemon schedules", |(gpu, _)| {
        Some(whole(gpu.clients))
    }),
    ("running", Kind::Level, "Processes with work that are not held", |(gpu, _)| {
        Some(gpu.running.len() as f64 + whole(gpu.running_others))
    }),
    ("waiting", Kind::Level, "Processes with work that are held", |(gpu, _)| {
        Some(whole(gpu.waiting))
    }),
    (
        "unscheduled_processes",
        Kind::Level,
        "Processes that the driver lists and the daemon does not schedule",
        |(_, outsiders)| Some(whole(*outsiders)),
    ),
];

/// Of a tenant's processes on a GPU, also those that have left.
const TENANT: [Family<(Total, Present)>; 10] = [
    (
        "device",
        Kind::Time,
        "Device time that processes report, within what the daemon has seen",
        |(total, _)| Some(seconds(total.device_ns)),
    ),
    ("holds", Kind::Count, "Holds of processes with work", |(total, _)| Some(whole(total.holds))),
    ("waited", Kind::Time, "Time in which processes had work and were held", |(total, _)| {
        Some(seconds(total.waited_ns))
    }),
    ("retired_commands", Kind::Count, "Commands reported as retired", |(total, _)| {
        Some(whole(total.retired))
    }),
    (
        "past_launches",
        Kind::Count,
        "Launches reported as past the scheduler, on any GPU",
        |(total, _)| Some(whole(total.past)),
    ),
    ("lost_leases", Kind::Count, "Holds not renewed within the lease", |(total, _)| {
        Some(whole(total.leases_lost))
    }),
    ("processes", Kind::Level, "Processes", |(_, now)| Some(whole(now.processes))),
    ("running", Kind::Level, "Processes with work that are not held", |(_, now)| {
        Some(whole(now.running))
    }),
    ("held", Kind::Level, "Processes with work that are held", |(_, now)| Some(whole(now.held))),
    ("in_flight_queues", Kind::Level, "Queues reported to have work in flight", |(_, now)| {
        Some(whole(now.queues))
    }),
];

/// A family of histograms of a tenant on a GPU.
type TimesFamily = (&'static str, &'static str, fn(&Total) -> &Histogram);

const TENANT_TIMES: [TimesFamily; 3] = [
    (
        "hold_to_quiet",
        "Time from a hold until the daemon saw the last command retire that it came too late for; \
         of holds with such commands",
        |total| &total.quiet_times,
    ),
    (
        "hold_to_running",
        "Time from a hold of a process with work until it could run again",
        |total| &total.hold_times,
    ),
    ("wait", "Time from the begin of work until it could run", |total| &total.wait_times),
];

/// Of a process on a GPU.
const PROCESS: [Family<ClientStatus>; 19] = [
    (
        "device",
        Kind::Time,
        "Device time that the process reports, within what the daemon has seen",
        |c| Some(c.device_ms as f64 / 1e3),
    ),
    ("wanted_share", Kind::Ratio, "Its share, if it has one", |c| {
        c.share.map(|share| f64::from(share) / 100.0)
    }),
    ("got_share", Kind::Ratio, "The part of the last second that it got", |c| {
        Some(permille(c.got_permille))
    }),
    (
        "driver_share",
        Kind::Ratio,
        "The part of the last second that it used, if the driver accounts it",
        |c| c.driver_permille.map(permille),
    ),
    (
        "alone",
        Kind::Level,
        "Whether it is alone on its GPU, and so not scheduled or measured",
        |c| Some(flag(c.state == "alone")),
    ),
    ("priority", Kind::Level, "Its priority", |c| Some(f64::from(c.priority))),
    ("running", Kind::Level, "Whether it has work and is not held", |c| {
        Some(flag(c.state == "running"))
    }),
    ("held", Kind::Level, "Whether it has work and is held, or is held by hand", |c| {
        Some(flag(c.state == "held"))
    }),
    ("in_flight_queues", Kind::Level, "Queues reported to have work in flight", |c| {
        Some(whole(c.queues))
    }),
    ("holds", Kind::Count, "Holds while it had work", |c| Some(whole(c.holds))),
    ("held", Kind::Time, "Time in which it was held", |c| Some(c.held_ms as f64 / 1e3)),
    ("waits", Kind::Count, "Times it had work and was held", |c| Some(whole(c.waits))),
    ("waited", Kind::Time, "Time in which it had work and was held", |c| {
        Some(c.waited_ms as f64 / 1e3)
    }),
    ("retired_commands", Kind::Count, "Commands reported as retired", |c| Some(whole(c.retired))),
    ("past_launches", Kind::Count, "Launches reported as past the scheduler, on any GPU", |c| {
        c.past.map(whole)
    }),
    ("lost_leases", Kind::Count, "Holds not renewed within the lease", |c| {
        Some(whole(c.leases_lost))
    }),
    ("understated", Kind::Level, "Whether it uses clearly more than it reports", |c| {
        Some(flag(c.is_understated))
    }),
    ("host_bound", Kind::Level, "Whether the GPU mostly waits for its host", |c| {
        Some(flag(c.host_bound))
    }),
    ("lowered", Kind::Level, "Whether it has a lower class for that", |c| Some(flag(c.is_lowered))),
];

/// Of a process on a GPU that the daemon does not schedule.
const UNSCHEDULED: [Family<Outsider>; 2] = [
    ("process", Kind::Level, "A process that the daemon does not schedule", |_| Some(1.0)),
    (
        "process_driver_share",
        Kind::Ratio,
        "The part of the last second that it used, if the driver accounts it",
        |one| one.driver_permille.map(permille),
    ),
];

/// Metrics of a daemon with a GPU, two tenants, a process, and one that it does not schedule: every
/// series.
#[must_use]
pub fn example() -> String {
    let (gpu, tenant) = ("0000:1b:00".to_owned(), "default".to_owned());
    let client = ClientStatus {
        pid: 4_242,
        uid: 1_000,
        name: "serve \"a\".py".to_owned(),
        device: gpu.clone(),
        tenant: tenant.clone(),
        state: "running".to_owned(),
        share: Some(70),
        got_permille: 625,
        device_ms: 1_500,
        holds: 3,
        past: Some(2),
        driver_permille: Some(640),
        queues: 1,
        ..ClientStatus::default()
    };
    let mut total = Total { device_ns: 1_500_000_000, holds: 3, past: 2, ..Total::default() };
    total.hold_times.counts[6] = 3;
    total.hold_times.sum_ns = 2_500_000;
    let key = (gpu.clone(), tenant.clone());
    let present = Present { processes: 1, running: 1, queues: 1, ..Present::default() };
    let figures = Figures {
        policy: "wfq",
        gpus: vec![GpuStatus {
            device: gpu.clone(),
            name: "NVIDIA H200".to_owned(),
            running: vec![client.pid],
            clients: 1,
            ..GpuStatus::default()
        }],
        processes: vec![(7, client)],
        clients: 1,
        gpu_clients: 1,
        totals: [(key.clone(), total)].into(),
        now: [(key, present)].into(),
        ..Figures::default()
    };
    let outsider = Outsider {
        pid: 999,
        uid: Some(1_001),
        name: "past".to_owned(),
        device: gpu,
        tenant: tenant.clone(),
        driver_permille: Some(250),
    };
    encode(Scrape {
        node: "node1".to_owned(),
        figures,
        users: [(1_000, "ada".to_owned())].into(),
        tenants: vec![tenant, "pods".to_owned()],
        outsiders: vec![outsider],
        connections: 2,
        ..Scrape::default()
    })
}
