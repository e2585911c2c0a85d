//! Processes that share a device in other ways than their streams would: one at a time in slices,
//! or all together at rates of their own.
//!
//! The head of every stream counts as running from its turn on; how fast it advances, if at all,
//! is up to the split.

use super::line::{Finish, Line};

/// Rest of a command that counts as rounding, in nanoseconds.
const NOTHING: f64 = 1e-3;

/// How the device is split among processes.
#[derive(Clone, Debug)]
pub(crate) enum Split {
    /// One process at a time.
    Slices {
        /// How long, while other processes want the device.
        slice_ns: u64,
        /// Device time of a change.
        switch_ns: u64,
    },
    /// All at once, equally, each up to its limit.
    Shares {
        /// For each process the part of the device that it may use, 0 to 1.
        limits: Vec<f64>,
    },
}

/// A command that has begun.
#[derive(Clone, Copy, Debug)]
struct Running {
    stream: u32,
    client: usize,
    left_ns: f64,
    /// How fast it advances at present.
    rate: f64,
}

/// The device and what runs there.
#[derive(Debug)]
pub(crate) struct Clients {
    split: Split,
    /// For each stream its process.
    of: Vec<usize>,
    pub(super) line: Line,
    running: Vec<Running>,
    last_ns: u64,
    stalled: bool,
    token: u32,
    told: bool,
    /// The process that has the device, and until when.
    turn: Option<usize>,
    slice_ends_ns: u64,
    /// Nothing advances before, because the process is being changed.
    switched_at_ns: u64,
    pub(super) overhead_ns: u64,
}

impl Clients {
    pub(crate) fn new(split: Split, of: Vec<usize>) -> Self {
        Self {
            split,
            of,
            line: Line::default(),
            running: Vec::new(),
            last_ns: 0,
            stalled: false,
            token: 0,
            told: false,
            turn: None,
            slice_ends_ns: 0,
            switched_at_ns: 0,
            overhead_ns: 0,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty() && !self.stalled
    }

    pub(super) fn start(&mut self, now_ns: u64, stream: u32, work_ns: u64) -> Finish {
        self.advance(now_ns);
        let client = self.of.get(stream as usize).copied().unwrap_or(0);
        self.running.push(Running { stream, client, left_ns: work_ns as f64, rate: 0.0 });
        self.next_finish(now_ns)
    }

    /// The stream whose command is over at this time, if one is and the token is still good. If
    /// none is, a slice may have ended; either way the next finish is to be asked for.
    pub(super) fn finish(&mut self, now_ns: u64, token: u32) -> Option<u32> {
        if self.token != token {
            return None;
        }
        self.told = false;
        self.advance(now_ns);
        let over = |r: &Running| r.rate > 0.0 && r.left_ns <= NOTHING;
        let at = self.running.iter().position(over)?;
        Some(self.running.remove(at).stream)
    }

    pub(super) fn stop(&mut self, now_ns: u64, stream: u32) -> u64 {
        self.advance(now_ns);
        let at = self.running.iter().position(|r| r.stream == stream);
        at.map_or(0, |at| self.running.remove(at).left_ns.round() as u64)
    }

    pub(super) fn stall(&mut self, now_ns: u64, stalled: bool) {
        self.advance(now_ns);
        self.stalled = stalled;
    }

    pub(super) fn next_after_finish(&mut self, now_ns: u64) -> Finish {
        if self.told { None } else { self.next_finish(now_ns) }
    }

    fn advance(&mut self, now_ns: u64) {
        let from_ns = self.last_ns.max(self.switched_at_ns);
        let span_ns = now_ns.saturating_sub(from_ns) as f64;
        self.last_ns = now_ns;
        if self.stalled {
            return;
        }
        for running in &mut self.running {
            running.left_ns = span_ns.mul_add(-running.rate, running.left_ns).max(0.0);
        }
    }

    /// Decides who advances, and says when the first command or the slice is over.
    pub(super) fn next_finish(&mut self, now_ns: u64) -> Finish {
        self.token = self.token.wrapping_add(1);
        self.told = true;
        if self.running.is_empty() || self.stalled {
            return None;
        }
        let slice_ends_ns = match &self.split {
            &Split::Slices { slice_ns, switch_ns } => self.give_turn(now_ns, slice_ns, switch_ns),
            Split::Shares { limits } => {
                share_out(&mut self.running, limits);
                None
            }
        };
        let from_ns = now_ns.max(self.switched_at_ns);
        let moving = self.running.iter().filter(|r| r.rate > 0.0);
        let over = moving.map(|r| from_ns + (r.left_ns / r.rate).ceil() as u64).min();
        let at_ns = over.into_iter().chain(slice_ends_ns).min()?;
        Some((at_ns, self.token))
    }

    /// Lets the first command of the process whose turn it is advance, and no other. Returns the
    /// end of the slice, if that ends anything.
    fn give_turn(&mut self, now_ns: u64, slice_ns: u64, switch_ns: u64) -> Option<u64> {
        let wants = |client: usize| self.running.iter().any(|r| r.client == client);
        let others = self.turn.is_some_and(|turn| self.running.iter().any(|r| r.client != turn));
        if others && self.slice_ends_ns < now_ns {
            // It ran on alone, from slice to slice.
            let over = (now_ns - self.slice_ends_ns).div_ceil(slice_ns);
            self.slice_ends_ns += over * slice_ns;
        }
        let stays = |turn: &usize| wants(*turn) && !(others && self.slice_ends_ns == now_ns);
        let turn = self.turn.filter(stays).unwrap_or_else(|| self.next_turn());
        if self.turn != Some(turn) {
            let switch_ns = if self.turn.is_some() { switch_ns } else { 0 };
            self.turn = Some(turn);
            self.overhead_ns += switch_ns;
            self.switched_at_ns = now_ns + switch_ns;
            self.slice_ends_ns = self.switched_at_ns + slice_ns;
        }
        let first = self.running.iter().position(|r| r.client == turn);
        for (i, running) in self.running.iter_mut().enumerate() {
            running.rate = if Some(i) == first { 1.0 } else { 0.0 };
        }
        let contended = self.running.iter().any(|r| r.client != turn);
        contended.then_some(self.slice_ends_ns)
    }

    /// The next process after the present one that has work, in order of their numbers.
    fn next_turn(&self) -> usize {
        let after = self.turn.map_or(0, |turn| turn + 1);
        let clients = || self.running.iter().map(|r| r.client);
        let later = clients().filter(|&client| client >= after).min();
        later.or_else(|| clients().min()).unwrap_or(0)
    }
}

/// Divides the device among the processes that run something: equally, but none gets more than
/// its limit, and what one leaves goes to the rest. The commands of a process divide its part.
fn share_out(running: &mut [Running], limits: &[f64]) {
    let limit = |client: usize| limits.get(client).copied().unwrap_or(1.0);
    let mut clients: Vec<usize> = running.iter().map(|r| r.client).collect();
    clients.sort_by(|&a, &b| limit(a).total_cmp(&limit(b)).then(a.cmp(&b)));
    clients.dedup();
    let (mut free, mut others) = (1.0_f64, clients.len());
    for client in clients {
        let part = (free / others as f64).min(limit(client));
        free -= part;
        others -= 1;
        let commands = running.iter().filter(|r| r.client == client).count() as f64;
        for command in running.iter_mut().filter(|r| r.client == client) {
            command.rate = part / commands;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(slice_ns: u64, switch_ns: u64) -> Clients {
        Clients::new(Split::Slices { slice_ns, switch_ns }, vec![0, 1])
    }

    #[test]
    fn slices_alternate_and_cost_a_switch() {
        let mut device = slices(20, 5);
        assert_eq!(device.start(0, 0, 50).unwrap().0, 50, "alone it runs on");
        let (end, token) = device.start(10, 1, 30).unwrap();
        assert_eq!(end, 20, "until its slice is over");
        assert_eq!(device.finish(20, token), None);
        let (end, token) = device.next_after_finish(20).unwrap();
        assert_eq!(end, 45, "a switch and a slice");
        assert_eq!(device.finish(45, token), None);
        let (end, token) = device.next_after_finish(45).unwrap();
        assert_eq!(end, 70);
        assert_eq!(device.finish(70, token), None);
        let (end, token) = device.next_after_finish(70).unwrap();
        assert_eq!(end, 85, "10 were left of the second");
        assert_eq!(device.finish(85, token), Some(1));
        let (end, token) = device.next_after_finish(85).unwrap();
        assert_eq!(end, 100, "and 10 of the first");
        assert_eq!(device.finish(100, token), Some(0));
        assert_eq!(device.overhead_ns, 20);
        assert!(!device.is_running());
    }

    #[test]
    fn a_process_alone_keeps_the_device_to_the_end_of_a_slice() {
        let mut device = slices(20, 0);
        device.start(0, 0, 1_000);
        assert_eq!(device.start(47, 1, 10).unwrap().0, 60);
    }

    #[test]
    fn shares_are_equal_up_to_the_limits() {
        let mut device = Clients::new(Split::Shares { limits: vec![1.0, 0.2] }, vec![0, 1]);
        assert_eq!(device.start(0, 0, 80).unwrap().0, 80);
        let (end, token) = device.start(0, 1, 20).unwrap();
        assert_eq!(end, 100, "one has four fifths, the other its fifth");
        assert_eq!(device.finish(100, token), Some(0));
        let (end, token) = device.next_after_finish(100).unwrap();
        assert_eq!(end, 100);
        assert_eq!(device.finish(100, token), Some(1));
    }

    #[test]
    fn commands_of_one_process_divide_its_part() {
        let mut device = Clients::new(Split::Shares { limits: vec![0.5] }, vec![0, 0]);
        assert_eq!(device.start(0, 0, 100).unwrap().0, 200);
        assert_eq!(device.start(0, 1, 100).unwrap().0, 400);
        assert_eq!(device.stop(200, 0), 50);
        assert_eq!(device.next_finish(200).unwrap().0, 300);
    }
}
