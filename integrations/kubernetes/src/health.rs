//! Health of GPUs: whether their drivers show them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::Stream;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;

use crate::gpu::{self, Gpu};

/// Time between looks. The kubelet takes health that is older than 30 s for unknown.
const INTERVAL: Duration = Duration::from_secs(10);

/// GPUs of a node, and a look at them.
#[derive(Debug)]
pub struct Health {
    root: PathBuf,
    gpus: Vec<Gpu>,
    last: watch::Sender<Looked>,
}

/// A look at GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// True for each GPU that is there, in their order.
    pub are_there: Vec<bool>,
    /// Time of the look, in seconds since 1970.
    pub at_s: i64,
}

impl Health {
    /// GPUs of the machine whose files are below `root`, as they are now.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let gpus = gpu::find(root);
        let (last, _) = watch::channel(look(root, &gpus));
        Self { root: root.to_owned(), gpus, last }
    }

    /// The GPUs that there were at first.
    #[must_use]
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Looks at the GPUs from time to time. Does not end.
    pub async fn keep(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.last.send_replace(look(&self.root, &self.gpus));
        }
    }

    /// The last look, and those that follow.
    pub fn looks(&self) -> impl Stream<Item = Looked> + Send + use<> {
        WatchStream::new(self.last.subscribe())
    }
}

fn look(root: &Path, gpus: &[Gpu]) -> Looked {
    let now = gpu::find(root);
    let is_there = |gpu: &Gpu| now.iter().any(|other| other.bus == gpu.bus);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at_s = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Looked { are_there: gpus.iter().map(is_there).collect(), at_s }
}
