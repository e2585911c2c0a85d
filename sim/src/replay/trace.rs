//! Commands of one queue.

use xsched_core::id::{CmdId, QueueId};
use xsched_core::message::Claim;
use xsched_core::record::{Body, Name, QueueNote};
use xsched_core::scheduler::Attach;

/// A command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Command {
    pub(super) submit_ns: u64,
    /// When its completion was seen; 0 before that.
    pub(super) seen_ns: u64,
    pub(super) work_ns: u64,
    /// Host time until the next command was submitted, without what was spent waiting for room.
    pub(super) gap_ns: u64,
}

/// Commands that belong together: those after the last that was waited for, up to the next that
/// was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// The life of a queue.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) id: QueueId,
    pub(super) attach: Attach,
    pub(super) note: Option<QueueNote>,
    pub(super) program: Option<Name>,
    pub(super) commands: Vec<Command>,
    pub(super) groups: Vec<Group>,
    /// Entries that are missing.
    pub(super) lost: u64,
    /// Hints changed after its first command.
    pub(super) rehinted: bool,
    /// Commands that waited for other queues.
    pub(super) waits: u64,
    /// Reports by what the queue claimed in them.
    pub(super) claims: [u64; 3],
    /// Number of the command at index 0, of those since the last gap.
    base: Option<u64>,
    /// First command that belongs to no group yet.
    open: usize,
    /// First command whose completion was not seen.
    pending: usize,
    /// The submitter waits for room that this command makes.
    blocked_on: Option<usize>,
}

impl Trace {
    pub(super) fn new(id: QueueId, attach: Attach) -> Self {
        Self {
            id,
            attach,
            note: None,
            program: None,
            commands: Vec::new(),
            groups: Vec::new(),
            lost: 0,
            rehinted: false,
            waits: 0,
            claims: [0; 3],
            base: None,
            open: 0,
            pending: 0,
            blocked_on: None,
        }
    }

    /// The least that at least half of the reports claimed, or less.
    pub(super) fn claim(&self) -> Claim {
        let [whole, part, little] = self.claims;
        match () {
            () if little > whole + part => Claim::Little,
            () if little + part > whole => Claim::Part,
            () => Claim::Whole,
        }
    }

    pub(super) fn take(&mut self, at_ns: u64, body: &Body) {
        match *body {
            Body::Submit { cmd, wait } => {
                self.waits += u64::from(wait.is_some());
                self.submit(at_ns, cmd);
            }
            Body::Wait { cmd, room: true } => self.blocked_on = self.index(cmd),
            Body::Wait { cmd, room: false } => self.wait(cmd),
            Body::Retired { upto, busy } => self.retired(at_ns, upto, busy.as_ns()),
            Body::Queue(note) => self.note = Some(note),
            Body::Program(name) => self.program = Some(name),
            Body::Gap { lost, .. } => {
                self.lost = self.lost.saturating_add(lost);
                self.begin_anew();
            }
            Body::Hint(hints) if self.commands.is_empty() => self.attach.hints = hints,
            Body::Hint(_) => self.rehinted = true,
            Body::Level(choice) if self.commands.is_empty() => self.attach.level = choice,
            _ => {}
        }
    }

    /// The place of a command, if it is known.
    fn index(&self, cmd: CmdId) -> Option<usize> {
        let index = usize::try_from(cmd.0.checked_sub(self.base?)?).ok()?;
        (index < self.commands.len()).then_some(index)
    }

    /// Something is missing: what is not complete will not be.
    fn begin_anew(&mut self) {
        self.base = None;
        self.open = self.commands.len();
        self.pending = self.commands.len();
        self.blocked_on = None;
    }

    fn submit(&mut self, at_ns: u64, cmd: CmdId) {
        let length = self.commands.len() as u64;
        if self.base.is_some_and(|base| cmd.0 != base.wrapping_add(length)) {
            self.begin_anew();
        }
        // Numbers go on from wherever the recording began; a smaller one than there are commands
        // from before a gap is no number of a command.
        if self.base.is_none() {
            let Some(base) = cmd.0.checked_sub(length) else { return };
            self.base = Some(base);
        }
        let blocked_on = self.blocked_on.take().map(|index| self.commands[index].seen_ns);
        if let Some(before) = self.commands.last_mut() {
            let free_ns = before.submit_ns.max(blocked_on.unwrap_or(0));
            before.gap_ns = at_ns.saturating_sub(free_ns);
        }
        self.commands.push(Command { submit_ns: at_ns, ..Command::default() });
    }

    fn wait(&mut self, cmd: CmdId) {
        if let Some(last) = self.index(cmd).filter(|&last| last >= self.open) {
            self.groups.push(Group { first: self.open, last });
            self.open = last + 1;
        }
    }

    /// The device time is that of all commands since the last time; each gets an equal part.
    fn retired(&mut self, at_ns: u64, upto: CmdId, busy_ns: u64) {
        let Some(last) = self.index(upto).filter(|&last| last >= self.pending) else { return };
        let count = (last + 1 - self.pending) as u64;
        let (each, rest) = (busy_ns / count, busy_ns % count);
        for (n, command) in self.commands[self.pending..=last].iter_mut().enumerate() {
            command.work_ns = each + u64::from((n as u64) < rest);
            command.seen_ns = at_ns;
        }
        self.pending = last + 1;
    }

    /// The groups that are through. A queue without any wait is one group.
    pub(super) fn complete(&self) -> Vec<Group> {
        if self.groups.is_empty() && self.pending > self.open {
            return vec![Group { first: self.open, last: self.pending - 1 }];
        }
        let through = |group: &&Group| self.commands[group.last].seen_ns > 0;
        self.groups.iter().filter(through).copied().collect()
    }
}
