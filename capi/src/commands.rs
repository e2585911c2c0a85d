//! Commands by handle, from their creation until enough later ones have been submitted to the
//! same queue that the outcome is forgotten.
//!
//! A submitted command keeps its place, so that it can be waited for. A queue remembers the
//! outcomes of as many commands as it has room for; when command `n` is submitted to a queue with
//! room for `c`, command `n - c` has retired, and its place is free for another. So the table grows
//! no larger than all queues together, counted once for each thread that submits to them, and what
//! was created and never submitted. Where that is more than it can hold, outcomes are forgotten
//! sooner.

use std::sync::PoisonError;

use crate::command::Command;
use crate::handle::{Handle, Kind, place_of};
use crate::refusal::{Answer, Refusal};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::thread::this_thread;

/// No place.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Created. The words are the command's.
    Ready,
    /// A call is submitting or launching it.
    Busy,
    /// Submitted. The words are the number there, and the place of the queue's handle.
    Submitted,
}

/// A command's place in the table. It counts towards what a queued command takes, so it is small.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The generation of its handle, and the state in the upper bits.
    tag: u32,
    /// Words of a ready command, two in halves; of a submitted one its number in halves, and the
    /// place of the queue's handle. The last is otherwise the next place in a list: of
    /// those that are free, or of those of the same queue.
    words: [u32; 4],
}

/// Index of the word with the next place, and below it that with the queue's.
const NEXT: usize = 3;
const QUEUE: usize = 2;

const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

const fn whole(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const STATE_SHIFT: u32 = 30;

impl Place {
    const fn new() -> Self {
        Self { tag: 1, words: [NONE; 4] }
    }

    const fn state(&self) -> State {
        match self.tag >> STATE_SHIFT {
            0 => State::Free,
            1 => State::Ready,
            2 => State::Busy,
            _ => State::Submitted,
        }
    }

    const fn set_state(&mut self, state: State) {
        let number = match state {
            State::Free => 0,
            State::Ready => 1,
            State::Busy => 2,
            State::Submitted => 3,
        };
        self.tag = self.generation() | number << STATE_SHIFT;
    }

    const fn generation(&self) -> u32 {
        self.tag & ((1 << STATE_SHIFT) - 1)
    }

    const fn next(&self) -> u32 {
        self.words[NEXT]
    }

    /// The number of a command that is submitted.
    const fn number(&self) -> u64 {
        whole(self.words[0], self.words[1])
    }

    fn set_command(&mut self, command: Command) {
        let (function, data) = command.to_words();
        let ([a, b], [c, d]) = (halves(function as u64), halves(data as u64));
        self.words = [a, b, c, d];
        self.set_state(State::Ready);
    }

    /// The words of a command that is ready or busy.
    const fn command_words(&self) -> (usize, usize) {
        let [a, b, c, d] = self.words;
        (whole(a, b) as usize, whole(c, d) as usize)
    }

    const fn set_submitted(&mut self, queue: usize, number: u64) {
        let [low, high] = halves(number);
        self.words = [low, high, queue as u32, NONE];
        self.set_state(State::Submitted);
    }
}

/// The submitted commands of a queue, the oldest first.
#[derive(Clone, Copy, Debug)]
struct List {
    /// The queue's handle; 0 if there is no queue at this place.
    queue: u64,
    capacity: u64,
    /// The highest number so far.
    newest: u64,
    head: u32,
    tail: u32,
}

#[derive(Debug, Default)]
struct Inner {
    places: Vec<Place>,
    /// First of a list of free places, plus one; 0 if there is none.
    free: u32,
    queues: Vec<List>,
    /// Threads that wait until a call is through with a command.
    waiting: u32,
}

/// Parts of the table. A thread creates its commands in one of them, so that threads do not wait
/// for each other.
const PARTS: usize = if cfg!(loom) { 2 } else { 16 };
/// Places that a part has at most.
const PART_MAX: usize = Kind::Command.places_max() / PARTS;
/// Outcomes of a queue that are forgotten at a time where there is no room.
const FORGOTTEN: u32 = 64;

/// The commands of the process, by handle.
#[derive(Debug)]
pub(crate) struct Commands {
    process: u16,
    parts: [Part; PARTS],
}

/// A part of the table: those places whose index has the same remainder.
// On cache lines of its own: other parts belong to other threads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    inner: Mutex<Inner>,
    /// A command is in no call's hands any more.
    settled: Condvar,
}

impl Commands {
    pub(crate) fn new(process: u16) -> Self {
        Self { process, parts: std::array::from_fn(|_| Part::default()) }
    }

    /// Gives a command a handle. `retired` is how many commands of a queue have retired, if there
    /// is such a queue.
    pub(crate) fn create(
        &self,
        command: Command,
        retired: impl Fn(u64) -> Option<u64>,
    ) -> Answer<u64> {
        let own = this_thread() as usize % PARTS;
        let there = self.parts[own].create(command).or_else(|| {
            self.parts[own].forget(retired);
            self.parts[own].create(command)
        });
        let anywhere = || (0..PARTS).find_map(|at| Some((at, self.parts[at].create(command)?)));
        let made = there.map(|place| (own, place)).or_else(anywhere);
        let (at, (local, generation)) = made.ok_or_else(|| {
            let most = Kind::Command.places_max();
            Refusal::not_allowed(format!("there are {most} commands already; wait for some"))
        })?;
        let index = local * PARTS as u32 + at as u32;
        Ok(Handle { index, generation, kind: Kind::Command, process: self.process }.pack())
    }

    /// The part that a handle is of, and the handle's place there.
    fn part(&self, raw: u64) -> Answer<(&Part, Local)> {
        let handle = Handle::unpack(raw, Kind::Command, self.process).ok_or_else(unknown)?;
        let (index, at) = (handle.index / PARTS as u32, handle.index as usize % PARTS);
        Ok((&self.parts[at], Local { index, generation: handle.generation }))
    }

    /// Takes a command in hand to submit or launch it.
    pub(crate) fn take(&self, raw: u64) -> Answer<Command> {
        let (part, at) = self.part(raw)?;
        let mut inner = part.lock();
        let index = inner.index(at)?;
        let place = inner.place(index)?;
        if place.state() != State::Ready {
            return Err(Refusal::not_found(
                "the command was submitted or launched already; create another one",
            ));
        }
        place.set_state(State::Busy);
        let (function, data) = place.command_words();
        // SAFETY: a place in this state has what `create` put there.
        unsafe { Command::from_words(function, data) }.ok_or_else(unknown)
    }

    /// Gives a command back that was taken in hand.
    pub(crate) fn put_back(&self, raw: u64) {
        self.settle(raw, |inner, index| {
            if let Ok(place) = inner.place(index)
                && place.state() == State::Busy
            {
                place.set_state(State::Ready);
            }
        });
    }

    /// A command that was taken in hand has been submitted as this number of a queue.
    pub(crate) fn submitted(&self, raw: u64, queue: u64, number: u64) {
        self.settle(raw, |inner, index| inner.append(index, queue, number));
    }

    /// A command that was taken in hand has been launched past all queues.
    pub(crate) fn launched(&self, raw: u64) {
        self.settle(raw, Inner::release);
    }

    /// Ends a call's work on a command, and tells threads that wait for that.
    fn settle(&self, raw: u64, change: impl FnOnce(&mut Inner, u32)) {
        let Ok((part, at)) = self.part(raw) else { return };
        let mut inner = part.lock();
        if let Ok(index) = inner.index(at) {
            change(&mut inner, index);
        }
        if inner.waiting > 0 {
            part.settled.notify_all();
        }
    }

    /// Forgets a command that was never submitted.
    pub(crate) fn destroy(&self, raw: u64) -> Answer {
        let (part, at) = self.part(raw)?;
        let mut inner = part.lock();
        let index = inner.index(at)?;
        if inner.place(index)?.state() != State::Ready {
            return Err(Refusal::not_found(
                "the command was submitted or launched, and is its queue's since then",
            ));
        }
        inner.release(index);
        Ok(())
    }

    /// The number of a command that was submitted to this queue. While a call submits it, as it
    /// does when a thread learns from the command itself that it runs, this waits for that call.
    pub(crate) fn number(&self, raw: u64, queue: u64) -> Answer<u64> {
        let (part, at) = self.part(raw)?;
        let mut inner = part.lock();
        let place = loop {
            let index = inner.index(at)?;
            let place = *inner.place(index)?;
            if place.state() != State::Busy {
                break place;
            }
            inner.waiting += 1;
            inner = part.settled.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.waiting -= 1;
        };
        if place.state() != State::Submitted {
            return Err(Refusal::not_allowed(
                "the command was not submitted, so there is nothing to wait for",
            ));
        }
        let list = inner.queues.get(place.words[QUEUE] as usize);
        if list.is_none_or(|list| list.queue != queue) {
            return Err(Refusal::invalid("the command was submitted to another XQueue"));
        }
        Ok(place.number())
    }

    /// Opens a queue with room for `capacity` commands.
    pub(crate) fn open_queue(&self, queue: u64, capacity: u64) {
        self.parts.iter().for_each(|part| part.lock().open_queue(queue, capacity));
    }

    /// A queue is gone, and its commands with it.
    pub(crate) fn close_queue(&self, queue: u64) {
        self.parts.iter().for_each(|part| part.lock().close_queue(queue));
    }

    /// Places in use and free together.
    #[cfg(test)]
    fn places(&self) -> usize {
        self.parts.iter().map(|part| part.lock().places.len()).sum()
    }
}

/// A place of a part, as a handle has it.
#[derive(Clone, Copy, Debug)]
struct Local {
    index: u32,
    generation: u32,
}

impl Part {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a command a place. `None` if there is none.
    fn create(&self, command: Command) -> Option<(u32, u32)> {
        let mut inner = self.lock();
        let index = inner.take_free()?;
        let place = inner.places.get_mut(index as usize)?;
        place.set_command(command);
        Some((index, place.generation()))
    }
}

impl Part {
    /// Forgets commands that have retired, the oldest of each queue.
    fn forget(&self, retired: impl Fn(u64) -> Option<u64>) {
        let queues: Vec<u64> = self.lock().queues.iter().map(|list| list.queue).collect();
        for queue in queues {
            // Without the lock, since that asks the queue.
            let Some(retired) = retired(queue) else { continue };
            let mut inner = self.lock();
            for _ in 0..FORGOTTEN {
                inner.release_oldest(queue, |_, number| number < retired);
            }
        }
    }
}

impl Inner {
    fn open_queue(&mut self, queue: u64, capacity: u64) {
        let at = place_of_queue(queue);
        if self.queues.len() <= at {
            let none = List { queue: 0, capacity: 0, newest: 0, head: NONE, tail: NONE };
            self.queues.resize(at + 1, none);
        }
        if let Some(list) = self.queues.get_mut(at) {
            *list = List { queue, capacity, newest: 0, head: NONE, tail: NONE };
        }
    }

    fn close_queue(&mut self, queue: u64) {
        let at = place_of_queue(queue);
        let Some(list) = self.queues.get_mut(at).filter(|list| list.queue == queue) else {
            return;
        };
        list.queue = 0;
        let mut next = std::mem::replace(&mut list.head, NONE);
        list.tail = NONE;
        while next != NONE {
            let index = next;
            next = self.places.get(index as usize).map_or(NONE, Place::next);
            self.release(index);
        }
    }

    /// Checks that a handle is of what is at its place.
    fn index(&self, at: Local) -> Answer<u32> {
        let place = self.places.get(at.index as usize).ok_or_else(unknown)?;
        let known = place.generation() == at.generation && place.state() != State::Free;
        if known { Ok(at.index) } else { Err(unknown()) }
    }

    fn place(&mut self, index: u32) -> Answer<&mut Place> {
        self.places.get_mut(index as usize).ok_or_else(unknown)
    }

    fn take_free(&mut self) -> Option<u32> {
        if let Some(index) = self.free.checked_sub(1) {
            let next = self.places.get(index as usize)?.next();
            self.free = if next == NONE { 0 } else { next + 1 };
            return Some(index);
        }
        let index = u32::try_from(self.places.len()).ok()?;
        if self.places.len() >= PART_MAX {
            return None;
        }
        if self.places.len() == self.places.capacity() {
            // In smaller steps than by itself, since what is not used counts as well.
            self.places.reserve_exact((self.places.len() / 16).max(64));
        }
        self.places.push(Place::new());
        Some(index)
    }

    /// Makes a place free. Its handle is unknown from then on.
    fn release(&mut self, index: u32) {
        let next = self.free.checked_sub(1).unwrap_or(NONE);
        if let Some(place) = self.places.get_mut(index as usize) {
            *place =
                Place { tag: Kind::Command.next_generation(place.generation()), words: [NONE; 4] };
            place.words[NEXT] = next;
            self.free = index + 1;
        }
    }

    /// Puts a place behind the others of its queue, and releases those that are forgotten.
    fn append(&mut self, index: u32, queue: u64, number: u64) {
        let at = place_of_queue(queue);
        let Some(list) = self.queues.get_mut(at).filter(|list| list.queue == queue) else {
            // The queue was destroyed meanwhile.
            self.release(index);
            return;
        };
        let before = std::mem::replace(&mut list.tail, index);
        if list.head == NONE {
            list.head = index;
        }
        list.newest = list.newest.max(number);
        if let Some(place) = self.places.get_mut(index as usize) {
            place.set_submitted(at, number);
        }
        if before != NONE
            && let Some(place) = self.places.get_mut(before as usize)
        {
            place.words[NEXT] = index;
        }
        while self.release_oldest(queue, |list, number| number + list.capacity <= list.newest) {}
    }

    /// Releases the place of a queue's oldest command if that is so. False if there is none.
    fn release_oldest(&mut self, queue: u64, is_over: impl Fn(&List, u64) -> bool) -> bool {
        if let Some(list) = self.queues.get_mut(place_of_queue(queue))
            && list.queue == queue
            && let Some(place) = self.places.get(list.head as usize)
            && is_over(list, place.number())
        {
            let index = list.head;
            list.head = place.next();
            if list.head == NONE {
                list.tail = NONE;
            }
            self.release(index);
            return true;
        }
        false
    }
}

/// Where a queue's list is: at the place of its handle, of which two queues at a time never have
/// the same.
const fn place_of_queue(queue: u64) -> usize {
    place_of(queue, Kind::XQueue).0 as usize
}

fn unknown() -> Refusal {
    Refusal::not_found(
        "there is no such command: it was destroyed or launched, its outcome is forgotten, or the \
         handle is another process's",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::XResult;

    const XQ: u64 = 1 << 46;

    fn code<T: std::fmt::Debug>(answer: Answer<T>) -> XResult {
        answer.expect_err("a refusal").code
    }

    fn create(commands: &Commands) -> Answer<u64> {
        commands.create(Command::compute(1), |_| None)
    }

    /// One thread feeds more queues than its part of the table has room for.
    #[test]
    fn outcomes_are_forgotten_where_there_is_no_room() {
        const CAPACITY: u64 = 8_192;
        let commands = Commands::new(5);
        let queues: Vec<u64> = (0..80).map(|at| XQ | at).collect();
        queues.iter().for_each(|queue| commands.open_queue(*queue, CAPACITY));
        for number in 0..15_000u64 {
            for queue in &queues {
                let retired = |of| Some(number.saturating_sub(16)).filter(|_| of != queues[0]);
                let raw = commands.create(Command::compute(1), retired).expect("room");
                commands.take(raw).expect("ready");
                commands.submitted(raw, *queue, number);
                assert_eq!(commands.number(raw, *queue), Ok(number));
            }
        }
        assert_eq!(commands.places(), PART_MAX);
    }

    #[test]
    fn a_place_is_small() {
        assert_eq!(size_of::<Place>(), 20);
    }

    #[test]
    fn a_command_can_be_submitted_once_and_waited_for_until_it_is_forgotten() {
        let commands = Commands::new(5);
        commands.open_queue(XQ, 4);
        let first = create(&commands).expect("room");
        assert_eq!(code(commands.number(first, XQ)), XResult::kXSchedErrorNotAllowed);
        for number in 0..5 {
            let raw = if number == 0 { first } else { create(&commands).unwrap() };
            commands.take(raw).expect("ready");
            assert_eq!(code(commands.take(raw)), XResult::kXSchedErrorNotFound);
            if number == 4 {
                assert_eq!(commands.number(first, XQ), Ok(0));
                assert_eq!(code(commands.number(first, 7)), XResult::kXSchedErrorInvalidValue);
            }
            commands.submitted(raw, XQ, number);
            assert_eq!(commands.number(raw, XQ), Ok(number));
            assert_eq!(code(commands.destroy(raw)), XResult::kXSchedErrorNotFound);
        }
        assert_eq!(code(commands.number(first, XQ)), XResult::kXSchedErrorNotFound);
    }

    #[test]
    fn a_command_that_is_being_submitted_is_waited_for() {
        let commands = Commands::new(5);
        commands.open_queue(XQ, 4);
        let raw = create(&commands).expect("room");
        commands.take(raw).expect("ready");
        let number = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| commands.number(raw, XQ));
            while commands.parts.iter().all(|part| part.lock().waiting == 0)
                && !waiter.is_finished()
            {
                std::thread::yield_now();
            }
            commands.submitted(raw, XQ, 7);
            waiter.join().expect("a number")
        });
        assert_eq!(number, Ok(7));
    }

    #[test]
    fn the_table_grows_no_larger_than_its_queues() {
        let commands = Commands::new(5);
        commands.open_queue(XQ, 16);
        for number in 0..1_000 {
            let raw = create(&commands).expect("room");
            commands.take(raw).expect("ready");
            commands.submitted(raw, XQ, number);
        }
        assert_eq!(commands.places(), 17);
        commands.close_queue(XQ);
        for _ in 0..17 {
            create(&commands).expect("room");
        }
        assert_eq!(commands.places(), 17);
    }

    #[test]
    fn what_is_submitted_to_a_queue_that_is_gone_is_forgotten() {
        let commands = Commands::new(5);
        let raw = create(&commands).expect("room");
        commands.take(raw).expect("ready");
        commands.submitted(raw, XQ, 0);
        assert_eq!(code(commands.number(raw, XQ)), XResult::kXSchedErrorNotFound);
    }

    #[test]
    fn a_command_that_is_given_back_can_be_submitted_again() {
        let commands = Commands::new(5);
        let raw = create(&commands).expect("room");
        commands.take(raw).expect("ready");
        assert_eq!(code(commands.destroy(raw)), XResult::kXSchedErrorNotFound);
        commands.put_back(raw);
        commands.take(raw).expect("ready");
        commands.launched(raw);
        assert_eq!(code(commands.take(raw)), XResult::kXSchedErrorNotFound);
        assert_eq!(code(commands.destroy(0)), XResult::kXSchedErrorNotFound);
    }
}
