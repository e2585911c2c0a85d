//! Captures: what is launched becomes a graph.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use crate::code::{Answer, INVALID_VALUE, ensure};
use crate::graph::Graph;

/// The mode in which a capture forbids something to all threads.
const GLOBAL: u32 = 0;
/// The mode in which it forbids nothing, and any thread may end it.
pub(crate) const RELAXED: u32 = 2;

thread_local! {
    /// Capture mode of this thread.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// Gives this thread another capture mode, and returns the one that it had.
///
/// # Errors
/// If there is no such mode.
pub fn exchange_mode(mode: u32) -> Answer<u32> {
    ensure(mode <= RELAXED, INVALID_VALUE)?;
    Ok(MODE.replace(mode))
}

/// One capture, which may go through several streams.
#[derive(Debug)]
pub struct Capture {
    /// Number. None is used twice.
    pub id: u64,
    /// 0 if all threads must not do what a capture forbids, 1 this one, 2 none.
    pub mode: u32,
    /// Where it began.
    pub thread: ThreadId,
    graph: Mutex<Graph>,
    is_spoiled: AtomicBool,
    is_over: AtomicBool,
}

impl Capture {
    pub(crate) fn new(mode: u32) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            mode,
            thread: thread::current().id(),
            graph: Mutex::default(),
            is_spoiled: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// True if it forbids this thread what is not safe while it is under way.
    pub(crate) fn forbids_this_thread(&self) -> bool {
        match (MODE.get(), self.mode) {
            (RELAXED, _) | (_, RELAXED) => false,
            (GLOBAL, GLOBAL) => true,
            _ => self.thread == thread::current().id(),
        }
    }

    /// Does something with the graph as it is so far.
    pub fn with_graph<R>(&self, body: impl FnOnce(&mut Graph) -> R) -> R {
        body(&mut self.graph.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if it was spoiled by what cannot be captured.
    pub fn is_spoiled(&self) -> bool {
        self.is_spoiled.load(Ordering::Acquire)
    }

    /// Spoils it.
    pub fn spoil(&self) {
        self.is_spoiled.store(true, Ordering::Release);
    }

    /// Returns true once it has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) -> Graph {
        self.is_over.store(true, Ordering::Release);
        self.with_graph(std::mem::take)
    }
}
