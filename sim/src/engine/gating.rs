//! Keeping commands and requests back, where a comparator does.

use super::Engine;
use crate::clock::Event;
use crate::gate::Admit;

impl Engine<'_> {
    /// True if the next command of a queue may be launched, as far as the gate is concerned.
    pub(super) fn admits(&mut self, queue: usize) -> bool {
        let left = self.left_of_request(queue);
        let now_ns = self.now_ns();
        let q = &mut self.queues[queue];
        q.gated = false;
        // The machine launches nothing anyway, but may have a fence to put.
        if q.machine.can_launch().is_err() {
            return true;
        }
        let admit = self.gate.as_mut().map(|gate| gate.admit(now_ns, queue, left));
        let Some(Admit::At(_) | Admit::Later) = admit else { return true };
        q.gated = true;
        if let Some(Admit::At(at_ns)) = admit {
            let at_ns = at_ns.max(now_ns + 1);
            // One such event at a time: each asks again, so that many would never become fewer.
            if q.asks_at_ns <= now_ns || q.asks_at_ns > at_ns {
                q.asks_at_ns = at_ns;
                let event = Event::Pump { queue: queue as u32 };
                self.world.borrow_mut().clock.at(at_ns, event);
            }
        }
        false
    }

    /// How many commands of the request to which the next one belongs are not launched.
    fn left_of_request(&self, queue: usize) -> u64 {
        let (machine, thread) = (&self.queues[queue].machine, &self.threads[queue]);
        let next = machine.next_launch().0;
        let sent = thread.sent.iter().find(|sent| sent.last.0 >= next);
        let submitting = || machine.submitted().saturating_sub(next) + thread.to_submit();
        sent.map_or_else(submitting, |sent| sent.last.count() - next)
    }

    /// Has the queue driven whose turn has come. Only one: once it has been driven, the next is
    /// looked for.
    pub(super) fn wake_gated(&mut self) {
        if let Some(task) = self.gate.as_mut().and_then(|gate| gate.woken()) {
            self.todo.push_back(task as u32);
        }
    }

    /// True if a task may begin a request that arrived then.
    pub(super) fn admits_request(&mut self, task: usize, arrived_ns: u64) -> bool {
        self.gate.as_mut().is_none_or(|gate| gate.admit_request(task, arrived_ns))
    }

    /// A request is over. Who may begin another is asked once its own task has asked, too.
    pub(super) fn request_over(&mut self, task: usize) {
        if let Some(gate) = &mut self.gate {
            gate.request_over(task);
            self.world.borrow_mut().clock.after(0, Event::Begin);
        }
    }

    /// Lets requests begin for which there is room now.
    pub(super) fn on_begin(&mut self) {
        while let Some(task) = self.gate.as_mut().and_then(|gate| gate.next_request()) {
            self.take_next(task);
        }
    }
}
