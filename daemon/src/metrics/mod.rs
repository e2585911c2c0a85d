//! Figures of the daemon in the OpenMetrics text format, as Prometheus scrapes them.

mod http;
mod place;
mod series;
mod users;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::liveness::join;
use crate::scheduler::Op;
use crate::scheduler_client::SchedulerClient;
use crate::waker::new_eventfd;
use crate::watch::Watched;
use http::Server;
pub use place::{MetricsError, Place};
pub use series::example;
use series::{Scrape, encode};
use users::Users;

/// Figures are taken at most this often; in between, the last ones are told again.
const FRESH: Duration = Duration::from_millis(100);

/// The thread that answers scrapes. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Metrics {
    stop: Arc<OwnedFd>,
    scheduler: SchedulerClient,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Starts to answer.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub(crate) fn start(
        place: &Place,
        scheduler: SchedulerClient,
        watched: Watched,
    ) -> Result<Self, MetricsError> {
        let listener = place.listen()?;
        let stop = Arc::new(new_eventfd()?);
        let stopped = Arc::clone(&stop);
        let mut source =
            Texts { scheduler: scheduler.clone(), watched, users: Users::default(), last: None };
        let run = move || Server::new(listener, stopped, move || source.text()).run();
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(run)?;
        scheduler.send(Op::Measure(true));
        Ok(Self { stop, scheduler, thread: Some(thread) })
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.scheduler.send(Op::Measure(false));
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        self.thread.take().into_iter().for_each(join);
    }
}

/// GPUs with series of their own that no driver lists, as many as the largest nodes have. Processes
/// name GPUs as they like, and each name has some seventy series for each tenant.
const GPUS_UNLISTED_MAX: usize = 16;

/// Makes the text, at most once in an interval.
struct Texts {
    scheduler: SchedulerClient,
    watched: Watched,
    users: Users,
    last: Option<(Instant, Arc<str>)>,
}

impl Texts {
    /// `None` if the scheduler's thread does not answer.
    fn text(&mut self) -> Option<Arc<str>> {
        if let Some((made, text)) = &self.last
            && made.elapsed() < FRESH
        {
            return Some(Arc::clone(text));
        }
        let mut figures = *self.scheduler.figures()?;
        figures.merge_gpus(GPUS_UNLISTED_MAX, |gpu| self.watched.has_gpu(gpu));
        let processes = figures.processes.iter_mut();
        processes.for_each(|(_, client)| self.watched.tell_client(client));
        self.watched.tell_gpus(&mut figures.gpus);
        let (outsiders, unknown) = self.watched.outsiders(|_| true);
        let uids = figures.processes.iter().map(|(_, client)| client.uid);
        let scrape = Scrape {
            node: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            users: uids.map(|uid| (uid, self.users.name(uid))).collect(),
            tenants: self.watched.tenants().iter().map(|tenant| tenant.name.clone()).collect(),
            outsiders,
            outsiders_unknown: unknown.len() as u64,
            connections: self.scheduler.counts.connections(),
            refused: self.scheduler.counts.refused(),
            figures,
        };
        let text: Arc<str> = encode(scrape).into();
        self.last = Some((Instant::now(), Arc::clone(&text)));
        Some(text)
    }
}
