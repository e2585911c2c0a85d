//! Threads that wait for a command while a call has it in hand.

use std::sync::Arc;

use super::harness::{explore, join, start};
use crate::command::Command;
use crate::commands::Commands;
use crate::refusal::Answer;
use crate::types::XResult;

/// A queue's handle.
const QUEUE: u64 = 1 << 46;

/// Has a number of threads ask for the number of a command that a call has in hand until `settle`,
/// and gives what they learn.
fn ask(threads: usize, settle: impl FnOnce(&Commands, u64)) -> Vec<Answer<u64>> {
    let commands = Arc::new(Commands::new(5));
    commands.open_queue(QUEUE, 4);
    let raw = commands.create(Command::compute(1), |_| None).expect("there is room");
    commands.take(raw).expect("it is ready");
    let waiters: Vec<_> = (0..threads)
        .map(|_| {
            let (commands, answer) = (Arc::clone(&commands), Arc::default());
            let said: Arc<std::sync::Mutex<Option<Answer<u64>>>> = Arc::clone(&answer);
            let thread = start(move || {
                let number = commands.number(raw, QUEUE);
                *said.lock().expect("no thread panics") = Some(number);
            });
            (thread, answer)
        })
        .collect();
    settle(&commands, raw);
    let learn = |(thread, answer): (_, Arc<std::sync::Mutex<Option<Answer<u64>>>>)| {
        join(thread);
        answer.lock().expect("no thread panics").take().expect("it has ended")
    };
    waiters.into_iter().map(learn).collect()
}

/// Threads that wait for a command while a call submits it learn its number, all of them.
#[test]
fn a_command_that_is_submitted() {
    explore("commands::a_command_that_is_submitted", 4, || {
        let answers = ask(2, |commands, raw| commands.submitted(raw, QUEUE, 7));
        assert_eq!(answers, [Ok(7), Ok(7)]);
    });
}

/// A thread that waits for a command learns that the call has given it back.
#[test]
fn a_command_that_is_given_back() {
    explore("commands::a_command_that_is_given_back", 6, || {
        let answers = ask(1, Commands::put_back);
        let [Err(why)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(why.code, XResult::kXSchedErrorNotAllowed);
    });
}

/// A thread that waits for a command learns that it was launched past all queues.
#[test]
fn a_command_that_is_launched() {
    explore("commands::a_command_that_is_launched", 6, || {
        let answers = ask(1, Commands::launched);
        let [Err(why)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(why.code, XResult::kXSchedErrorNotFound);
    });
}
