//! A process's connection with the daemon.

use super::machine::Message;
use super::plan::VERSION;
use super::process::Ask;
use super::{Event, MS, World};

/// For how long an answer of the daemon is waited for.
pub(super) const PATIENCE_NS: u64 = 2_000 * MS;
/// How long after the end of a connection, or a try, the next one is made.
pub(super) const AGAIN_NS: u64 = 100 * MS;
/// Time until the next try where the daemon has refused the process.
pub(super) const REFUSED_AGAIN_NS: u64 = 2_000 * MS;

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) process: usize,
    pub(super) daemon: usize,
    pub(super) is_open: bool,
    /// Answers that came when no thread waited for one any more.
    pub(super) unread: u32,
}

/// Thread that has the lock of the link's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Link,
    Queue(usize),
}

/// State of the thread of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Waits for the end of the connection.
    Up,
    /// Waits before it connects.
    Down,
    /// Has said hello, or handed over this many pages but one, and waits for the answer.
    Asking { connection: usize, pages: usize },
    /// The daemon has everything, but for the work that has begun or ended since.
    Replacing { connection: usize },
}

/// The link of a process.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) state: State,
    /// The connection, while the daemon is not known to have left.
    pub(super) wire: Option<usize>,
    /// The connection whose eventfd wakes the daemon, or the one before.
    pub(super) doorbell: Option<usize>,
    pub(super) token: u32,
    /// When the connection ended last, and since when there is none.
    pub(super) hangup_ns: Option<u64>,
    pub(super) down_since_ns: u64,
    lock: Option<Who>,
    waiting: Vec<Who>,
}

impl Link {
    pub(super) fn new(start_ns: u64) -> Self {
        Self {
            state: State::Down,
            wire: None,
            doorbell: None,
            token: 0,
            hangup_ns: None,
            down_since_ns: start_ns,
            lock: None,
            waiting: Vec::new(),
        }
    }

    /// True if one has the lock, now or already; otherwise it goes on once it has.
    pub(super) fn lock(&mut self, who: Who) -> bool {
        if self.lock.is_none() {
            self.lock = Some(who);
        }
        let has_it = self.lock == Some(who);
        if !has_it && !self.waiting.contains(&who) {
            self.waiting.push(who);
        }
        has_it
    }
}

impl World {
    pub(super) fn unlock(&mut self, process: usize) {
        let link = &mut self.processes[process].link;
        link.lock = (!link.waiting.is_empty()).then(|| link.waiting.remove(0));
        match link.lock {
            Some(Who::Link) => self.link_soon(process),
            Some(Who::Queue(queue)) => self.queue_soon(process, queue),
            None => {}
        }
    }

    fn link_soon(&mut self, process: usize) {
        let late_ns = self.late_ns();
        self.link_after(process, late_ns);
    }

    fn link_after(&mut self, process: usize, late_ns: u64) {
        let link = &mut self.processes[process].link;
        link.token += 1;
        let token = link.token;
        self.clock.after(late_ns, Event::Link { process, token });
    }

    pub(super) fn on_link(&mut self, process: usize, token: u32) {
        let link = &mut self.processes[process].link;
        if link.token != token {
            return;
        }
        match link.state {
            State::Up => {
                let is_over = link.wire.is_some_and(|wire| !self.connections[wire].is_open);
                if is_over && link.lock(Who::Link) {
                    self.let_go(process);
                }
            }
            State::Down => {
                if link.lock(Who::Link) {
                    self.connect(process);
                }
            }
            // There was no answer in time, or the connection has ended.
            State::Asking { connection, .. } => self.give_up(process, connection, AGAIN_NS),
            State::Replacing { connection } => self.replace_doorbells(process, connection),
        }
    }

    /// Ends the holds of a daemon that has left.
    fn let_go(&mut self, process: usize) {
        let now_ns = self.now_ns();
        let Self { processes, .. } = self;
        let link = &mut processes[process].link;
        (link.wire, link.down_since_ns) = (None, now_ns);
        let pages = processes[process].pages.clone();
        for page in pages {
            self.open_page(page);
            // The next daemon says it anew.
            self.pages[page].wanted = false;
        }
        self.try_later(process, AGAIN_NS);
    }

    fn try_later(&mut self, process: usize, pause_ns: u64) {
        self.processes[process].link.state = State::Down;
        self.unlock(process);
        self.link_after(process, pause_ns);
    }

    fn give_up(&mut self, process: usize, connection: usize, pause_ns: u64) {
        self.processes[process].link.state = State::Down;
        self.hang_up(connection);
        self.try_later(process, pause_ns);
    }

    fn connect(&mut self, process: usize) {
        let Some(daemon) = self.listener else { return self.try_later(process, AGAIN_NS) };
        let connection = self.connections.len();
        self.connections.push(Connection { process, daemon, is_open: true, unread: 0 });
        self.processes[process].link.state = State::Asking { connection, pages: 0 };
        let hints = self.processes[process].hints;
        self.tell(connection, Message::Hello { version: VERSION, process, hints });
        self.link_after(process, PATIENCE_NS);
    }

    /// An answer arrives: it is for the thread that waits on this connection.
    pub(super) fn on_answer(&mut self, connection: usize, ok: bool) {
        if !self.connections[connection].is_open {
            return;
        }
        let process = self.connections[connection].process;
        let Self { processes, connections, .. } = self;
        let state = processes[process].link.state;
        let asking = processes[process].queues.iter().position(|q| q.asks_on(connection));
        match (state, asking) {
            (State::Asking { connection: asked, pages }, _) if asked == connection => {
                self.on_link_answer(process, connection, pages, ok);
            }
            (_, Some(queue)) => self.queue_soon(process, queue),
            _ => connections[connection].unread += 1,
        }
    }

    /// The daemon knows the process, or another of its pages.
    fn on_link_answer(&mut self, process: usize, connection: usize, pages: usize, ok: bool) {
        if !ok {
            return self.give_up(process, connection, REFUSED_AGAIN_NS);
        }
        if let Some(page) = self.processes[process].pages.get(pages).copied() {
            let pages = pages + 1;
            self.processes[process].link.state = State::Asking { connection, pages };
            self.tell(connection, Message::Attach { page });
            return self.link_after(process, PATIENCE_NS);
        }
        let link = &mut self.processes[process].link;
        (link.wire, link.doorbell) = (Some(connection), Some(connection));
        link.state = State::Replacing { connection };
        self.unlock(process);
        self.link_soon(process);
    }

    /// Work wakes the new daemon from now on, and what began or ended meanwhile does now.
    fn replace_doorbells(&mut self, process: usize, connection: usize) {
        let mut rings = false;
        for unit in self.processes[process].units.iter_mut().filter(|unit| !unit.pages.is_empty()) {
            unit.doorbell = Some(connection);
            rings = true;
        }
        if rings {
            self.ring(connection);
        }
        let link = &mut self.processes[process].link;
        (link.state, link.hangup_ns) = (State::Up, None);
        if !self.connections[connection].is_open {
            self.hung_up(process);
        }
    }

    /// A connection ends, for both sides.
    pub(super) fn hang_up(&mut self, connection: usize) {
        if !std::mem::replace(&mut self.connections[connection].is_open, false) {
            return;
        }
        self.tell(connection, Message::Hangup);
        let process = self.connections[connection].process;
        match self.processes[process].link.state {
            State::Up if self.processes[process].link.wire == Some(connection) => {
                self.hung_up(process);
            }
            State::Asking { connection: asked, .. } if asked == connection => {
                self.link_soon(process);
            }
            _ => {}
        }
        let asking = self.processes[process].queues.iter().position(|q| q.asks_on(connection));
        if let Some(queue) = asking {
            self.queue_soon(process, queue);
        }
    }

    /// The process sees that its connection has ended.
    fn hung_up(&mut self, process: usize) {
        self.processes[process].link.hangup_ns = Some(self.now_ns());
        self.link_soon(process);
    }

    /// Asks for a page to be taken, with the lock. False if there is no daemon to be asked.
    pub(super) fn attach(&mut self, process: usize, queue: usize, page: usize) -> bool {
        let wire = self.processes[process].link.wire;
        let Some(connection) = wire.filter(|wire| self.connections[*wire].is_open) else {
            return false;
        };
        self.tell(connection, Message::Attach { page });
        self.processes[process].queues[queue].ask = Some(Ask { connection, page });
        let unread = &mut self.connections[connection].unread;
        if *unread > 0 {
            // It takes the answer to an earlier question for that to this one.
            *unread -= 1;
            self.queue_soon(process, queue);
        } else {
            self.queue_after(process, queue, PATIENCE_NS);
        }
        true
    }
}
