//! State that is shown: all that the frame depends on but for its size and the time.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use xsched_node::{ClientStatus, Request, Status};

use super::source::Update;

/// Order of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Gpu,
    Pid,
    User,
    Program,
    State,
    Priority,
    Share,
    Time,
    Waited,
}

impl Sort {
    /// In the order of the key that chooses the next one.
    const ALL: [Self; 9] = [
        Self::Gpu,
        Self::Pid,
        Self::User,
        Self::Program,
        Self::State,
        Self::Priority,
        Self::Share,
        Self::Time,
        Self::Waited,
    ];

    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Pid => "pid",
            Self::User => "user",
            Self::Program => "program",
            Self::State => "state",
            Self::Priority => "priority",
            Self::Share => "share",
            Self::Time => "GPU time",
            Self::Waited => "waited",
        }
    }
}

/// Meaning of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Commands.
    Normal,
    /// The meanings of columns are shown.
    Help,
    /// The filter is typed.
    Filter,
    /// The priority of this process is typed.
    Priority { pid: i32, text: String },
    /// A request is asked for, with the words for it.
    Confirm { request: Request, words: String },
}

/// The daemon is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) since: SystemTime,
    pub(super) why: String,
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct State {
    pub(super) status: Option<Status>,
    pub(super) users: BTreeMap<u32, String>,
    pub(super) gap: Option<Gap>,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    pub(super) mode: Mode,
    /// The process and the GPU.
    pub(super) selected: Option<(i32, String)>,
    /// The first process that is shown, as a number of a row.
    pub(super) first: usize,
    /// Result of the last command, or a notice.
    pub(super) note: String,
    pub(super) has_colors: bool,
}

impl State {
    pub(super) const fn new(has_colors: bool) -> Self {
        Self {
            status: None,
            users: BTreeMap::new(),
            gap: None,
            sort: Sort::Gpu,
            is_reversed: false,
            filter: String::new(),
            mode: Mode::Normal,
            selected: None,
            first: 0,
            note: String::new(),
            has_colors,
        }
    }

    /// Takes what is known anew.
    pub(super) fn take(&mut self, update: Update, now: SystemTime) {
        match update {
            Update::Status(status, users) => {
                let before = self.status.as_ref().map_or(0, |status| status.up_ms);
                if let Some(gap) = self.gap.take() {
                    let (from, to) = (clock(gap.since), clock(now));
                    self.note = format!("there was no daemon from {from} to {to}");
                } else if status.up_ms < before {
                    self.note = format!("the daemon was started anew before {}", clock(now));
                }
                (self.status, self.users) = (Some(*status), users);
                self.end_dialog_of_ended();
            }
            Update::Gone(why) => {
                self.gap.get_or_insert(Gap { since: now, why: String::new() }).why = why;
            }
            Update::Done(request) => self.note = format!("done: {}", words(&request)),
            Update::Refused(why) => self.note = format!("refused: {why}"),
        }
    }

    /// Ends what is asked about a process that has ended.
    fn end_dialog_of_ended(&mut self) {
        let pid = match &self.mode {
            Mode::Priority { pid, .. } => Some(*pid),
            Mode::Confirm { request, .. } => pid_of(request),
            Mode::Normal | Mode::Help | Mode::Filter => None,
        };
        let clients = || self.status.iter().flat_map(|status| &status.clients);
        if let Some(pid) = pid.filter(|pid| clients().all(|client| client.pid != *pid)) {
            self.mode = Mode::Normal;
            self.note = format!("process {pid} has ended");
        }
    }

    pub(super) fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// The processes that are shown, in order.
    pub(super) fn rows(&self) -> Vec<&ClientStatus> {
        let clients = self.status.iter().flat_map(|status| &status.clients);
        let mut rows: Vec<_> = clients.filter(|client| self.passes(client)).collect();
        rows.sort_by(|a, b| {
            let order = self.compare(a, b);
            let order = if self.is_reversed { order.reverse() } else { order };
            order.then_with(|| (a.pid, &a.device).cmp(&(b.pid, &b.device)))
        });
        rows
    }

    /// Returns whether the filter lets a process through: by its number, user, program, GPU or
    /// state.
    fn passes(&self, client: &ClientStatus) -> bool {
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let named = [&client.name, &client.device, &client.state].into_iter().any(|t| has(t));
        named || has(&client.pid.to_string()) || has(&self.user(client.uid))
    }

    fn compare(&self, a: &ClientStatus, b: &ClientStatus) -> Ordering {
        // What is running comes first, then what waits.
        let state = |client: &ClientStatus| match client.state.as_str() {
            "alone" | "running" => 0,
            "held" => 1,
            _ => 2,
        };
        match self.sort {
            Sort::Gpu => (&a.device, state(a)).cmp(&(&b.device, state(b))),
            Sort::Pid => a.pid.cmp(&b.pid),
            Sort::User => self.user(a.uid).cmp(&self.user(b.uid)),
            Sort::Program => a.name.cmp(&b.name),
            Sort::State => state(a).cmp(&state(b)),
            Sort::Priority => Reverse(a.priority).cmp(&Reverse(b.priority)),
            Sort::Share => Reverse(a.got_permille).cmp(&Reverse(b.got_permille)),
            Sort::Time => Reverse(a.device_ms).cmp(&Reverse(b.device_ms)),
            Sort::Waited => Reverse(a.waited_ms).cmp(&Reverse(b.waited_ms)),
        }
    }

    /// The row that is selected: the first if the one that was has gone.
    pub(super) fn selected_row(&self) -> usize {
        let is_selected = |row: &&ClientStatus| {
            self.selected.as_ref().is_some_and(|(pid, gpu)| *pid == row.pid && *gpu == row.device)
        };
        self.rows().iter().position(is_selected).unwrap_or(0)
    }

    /// Selects the row that is `by` rows away, or the last on that side.
    pub(super) fn select(&mut self, by: isize) {
        let row = self.selected_row().saturating_add_signed(by);
        let rows = self.rows();
        let row = rows.get(row.min(rows.len().saturating_sub(1)));
        self.selected = row.map(|client| (client.pid, client.device.clone()));
    }

    /// The process that is selected.
    pub(super) fn process(&self) -> Option<&ClientStatus> {
        self.rows().get(self.selected_row()).copied()
    }

    /// Names who holds a process: the others that run on its GPU, or the user.
    pub(super) fn held_by(&self, client: &ClientStatus) -> String {
        if client.held_by_hand {
            return "hand".to_owned();
        }
        if client.state != "held" {
            return String::new();
        }
        let gpus = self.status.iter().flat_map(|status| &status.gpus);
        let Some(gpu) = gpus.into_iter().find(|gpu| gpu.device == client.device) else {
            return String::new();
        };
        let count = gpu.running.len() + gpu.running_others as usize;
        match (gpu.running.first(), count) {
            (Some(pid), 1) => pid.to_string(),
            (Some(pid), more) => format!("{pid} +{}", more - 1),
            (None, 0) => String::new(),
            (None, others) => format!("{others} of others"),
        }
    }
}

/// The process that a request is about.
const fn pid_of(request: &Request) -> Option<i32> {
    match request {
        Request::Hold { pid } | Request::Release { pid } | Request::Set { pid, .. } => Some(*pid),
        _ => None,
    }
}

/// A request in words.
pub(super) fn words(request: &Request) -> String {
    match request {
        Request::Hold { pid } => format!("hold {pid}"),
        Request::Release { pid } => format!("release {pid}"),
        Request::Set { pid, priority: Some(priority), .. } => {
            format!("give {pid} the priority {priority}")
        }
        _ => "change".to_owned(),
    }
}

/// The time of day.
pub(super) fn clock(at: SystemTime) -> String {
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// A time as people read it: `0.42 s`, `17 s`, `3 m 04 s`, `2 h 10 m`, `3 d 4 h`.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{}.{:02} s", seconds, time.subsec_millis() / 10),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {:02} m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
