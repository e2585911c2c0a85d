//! Launching: what goes to the device next, and where fences go.

use super::{Action, CommandSlot, Queue};
use crate::fault::Fault;
use crate::id::{CmdId, EventRef};
use crate::scheduler::STALL;
use crate::store::Store;
use crate::time::Instant;
use crate::window::WindowConfig;

/// Device work after which a fence is due, however few commands that are: half of the
/// [stall time](crate::scheduler::STALL), so that a queue of long commands is seen to go on.
const WORK_PER_FENCE_NS: u64 = STALL.as_ns() / 2;

/// Why the next command of a queue may not be launched now; see [`Queue::can_launch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchBlock {
    /// The device is lost. The queue never launches again.
    Lost,
    /// The scheduler, the user or a scheduler above holds the queue, and the command may not be
    /// launched [behind the hold](Queue::launch_behind_hold).
    Held,
    /// No hold is wanted any more, but the device is not yet where it was before.
    Resuming,
    /// Everything that was submitted has been launched.
    Empty,
    /// As many commands as the window allows are in flight, or the device has no room for more.
    WindowFull,
    /// The next command waits for this event of another queue.
    Waiting(EventRef),
}

impl<R: Store<CommandSlot>> Queue<R> {
    /// Returns whether the next command may be launched now, and if not, why.
    ///
    /// This is the launch rule, and the only one: the machine itself and its drivers go by it. A
    /// command that may be launched and needs no device (a cancelled one, say) passes the launch
    /// point without an [`Action::Launch`].
    ///
    /// A wait for an event counts once [`Queue::poll_launch`] has come to it.
    ///
    /// # Errors
    /// The first reason that applies, in the order of [`LaunchBlock`].
    #[inline]
    pub fn can_launch(&self) -> Result<(), LaunchBlock> {
        if self.lost {
            return Err(LaunchBlock::Lost);
        }
        if !self.hold.is_absent() {
            match self.hold_target() {
                Some(target) if self.is_behind_hold(target) => {}
                Some(_) => return Err(LaunchBlock::Held),
                None if !self.hold.device_is_free() => return Err(LaunchBlock::Resuming),
                None => {}
            }
        }
        if self.cursor >= self.submitted {
            return Err(LaunchBlock::Empty);
        }
        if !self.has_room() {
            return Err(LaunchBlock::WindowFull);
        }
        self.waiting.map_or(Ok(()), |event| Err(LaunchBlock::Waiting(event)))
    }

    /// Returns whether the window and the device have room for another command.
    pub(super) fn has_room(&self) -> bool {
        let has_device_room = self.cursor < self.room || self.window.is_widened();
        self.in_flight() < u64::from(self.window.threshold()) && has_device_room
    }

    /// Sets the number of commands that the device has room for beyond those launched: see
    /// [`Submit::room`](crate::hal::Submit::room). At first it has for all that the window allows.
    pub const fn set_room(&mut self, commands: u32) {
        self.room = self.cursor.saturating_add(commands as u64);
    }

    /// Changes the in-flight window at once; nothing has to drain.
    pub fn set_window(&mut self, config: WindowConfig) {
        self.window.configure(config, &self.caps);
    }

    /// Doubles the window until something retires, whatever room the device has.
    ///
    /// For drivers in which a thread waits to launch, and which block a launch themselves when they
    /// can take no more. What is in flight may wait for what that thread does after its launch: for
    /// a value that it writes, or a lock that it has. So it waits no longer than
    /// [`Window::patience`](crate::window::Window::patience) without a completion.
    pub fn widen_window(&mut self) {
        self.window.widen();
    }

    /// Says that no scheduler waits for the queue to run out of work, or that one does. If none
    /// does, a command on an idle device has no fence of its own: one comes with the batch, or by
    /// [`Queue::poll_fence`], which a driver calls now and then.
    pub const fn leave_unattended(&mut self, is_unattended: bool) {
        self.is_unattended = is_unattended;
    }

    /// Returns whether no scheduler waits for the queue to run out of work.
    #[must_use]
    pub const fn is_unattended(&self) -> bool {
        self.is_unattended
    }

    /// Returns whether threads may launch behind the last command without commands for that: see
    /// [`Submit::is_in_burst`](crate::hal::Submit::is_in_burst).
    #[must_use]
    pub fn may_burst(&self) -> bool {
        self.is_unattended && !self.lost && self.hold.is_absent() && self.cursor == self.submitted
    }

    /// Says whether another scheduler holds what is in flight. That the window is widened does not
    /// count meanwhile.
    pub const fn hold_window(&mut self, is_held: bool) {
        self.window.hold(is_held);
    }

    /// The command that [`Queue::poll_launch`] would launch now.
    ///
    /// For drivers in which it matters which thread launches. Commands that are known to need no
    /// device are skipped; `None` if nothing can be launched, or a wait for an event comes first.
    #[must_use]
    pub fn peek_launch(&self) -> Option<CmdId> {
        self.can_launch().ok()?;
        let needs_it = |n: &u64| *n >= self.drop_until && !self.slot(*n).settled;
        let next = (self.cursor..self.submitted).find(needs_it)?;
        self.slot(next).awaited().is_none().then_some(CmdId(next))
    }

    pub(super) fn next_launch_action(&mut self, now: Instant) -> Option<Action> {
        while self.can_launch().is_ok() {
            if self.pass_without_device()? {
                continue;
            }
            return Some(self.launch_at_cursor(now));
        }
        None
    }

    /// Lets the next command pass if it needs no device. `Some(true)`: it passed; `Some(false)`: it
    /// needs the device; `None`: it has to wait for an event.
    fn pass_without_device(&mut self) -> Option<bool> {
        let dropped = self.cursor < self.drop_until;
        let slot = self.slot_mut(self.cursor);
        if dropped && !slot.settled {
            slot.settled = true;
            slot.fault = Some(Fault::Cancelled);
            self.failures += 1;
        } else if !slot.settled {
            let Some(event) = slot.awaited() else { return Some(false) };
            if self.waiting != Some(event) {
                self.waiting = Some(event);
                self.report_due = true;
            }
            return None;
        }
        self.stop_waiting();
        self.settled += 1;
        self.pass_launch_point();
        self.settle();
        Some(true)
    }

    /// The next command passes the launch point, and with it a request for its completion.
    fn pass_launch_point(&mut self) {
        let requested = self.slot(self.cursor).requested;
        self.cursor += 1;
        self.launched = self.launched.max(self.cursor);
        if requested {
            self.requested = self.requested.max(self.cursor);
        }
    }

    /// The next command does not wait for an event, or no longer.
    pub(super) fn stop_waiting(&mut self) {
        self.report_due |= self.waiting.take().is_some();
    }

    fn launch_at_cursor(&mut self, now: Instant) -> Action {
        let cmd = CmdId(self.cursor);
        if self.retired == self.cursor && !self.is_unattended && self.hold.is_absent() {
            self.lone = Some((cmd, now));
        }
        if !self.device_in_flight() {
            // Nothing was expected of the device before now.
            self.last_progress = now;
        }
        self.pass_launch_point();
        self.last_launch = self.last_launch.max(self.cursor);
        let unseen = self.cursor.saturating_sub(self.fenced);
        let work_ns = self.window.command_ns().saturating_mul(unseen);
        let fence = unseen >= u64::from(self.window.batch())
            || work_ns >= WORK_PER_FENCE_NS
            // Without a fence on its way no completion would be seen before one is asked for.
            || self.fenced <= self.device_retired && !self.is_unattended
            || self.requested == self.cursor
            || self.watch == self.cursor;
        if fence {
            self.fenced = self.cursor;
            self.fence_refused = false;
        }
        Action::Launch { cmd, fence }
    }

    /// Returns whether commands are on the device and none of their fences is still to come.
    ///
    /// Nothing will be seen of them then, until [`Queue::poll_launch`] has a fence put.
    #[must_use]
    pub fn lacks_fence(&self) -> bool {
        self.fenced <= self.device_retired && self.unfenced().is_some()
    }

    /// The last command on the device, if no fence covers it and one could be put.
    fn unfenced(&self) -> Option<u64> {
        let covered = self.fenced.max(self.device_retired);
        // What the device has forgotten will be launched again, and fenced then.
        let last = self.hold.forgotten.unwrap_or(u64::MAX).min(self.last_launch);
        (!self.lost && !self.fence_refused && last > covered).then_some(last)
    }

    /// A fence on demand: when the completion of a command was requested that no fence covers, or
    /// when commands are on the device and none of their fences is still to come.
    ///
    /// For drivers in which a thread puts fences and launches nothing; for others it comes with
    /// [`Self::poll_launch`].
    #[must_use]
    pub fn poll_fence(&mut self) -> Option<Action> {
        let covered = self.fenced.max(self.device_retired);
        let last = self.unfenced()?;
        // Only once the command itself is launched: marking every launch on the way to it would
        // undo the batching.
        let passed = covered + 1..=self.cursor;
        let waited_for = passed.contains(&self.requested) || passed.contains(&self.watch);
        (waited_for || self.lacks_fence()).then(|| {
            self.fenced = last;
            Action::Fence { upto: CmdId(last - 1) }
        })
    }

    /// The event that the command at the launch point waits for has been reached.
    pub(super) fn reach(&mut self, event: EventRef, ok: bool) {
        if self.waiting != Some(event) {
            return;
        }
        let slot = self.slot_mut(self.cursor);
        slot.settled = true;
        if !ok {
            slot.fault = Some(Fault::Abandoned);
            self.failures += 1;
        }
        self.stop_waiting();
    }

    pub(super) fn on_launch_failed(&mut self, cmd: CmdId, fault: Fault) {
        let known = cmd.0 < self.cursor && cmd.0 >= self.retired;
        if !known || self.slot(cmd.0).settled {
            self.anomalies.protocol += 1;
            return;
        }
        let slot = self.slot_mut(cmd.0);
        slot.settled = true;
        slot.fault = Some(fault);
        self.settled += 1;
        self.failures += 1;
        // Its fence, if it was to carry one, was not put either.
        self.fenced = self.fenced.min(self.device_retired);
        if self.last_launch == cmd.count() {
            self.last_launch = cmd.0;
        }
        self.lone = self.lone.filter(|(lone, _)| *lone != cmd);
        if fault.is_sticky() {
            self.lose();
        }
        self.settle();
    }
}
