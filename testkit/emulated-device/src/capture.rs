//! Captures: what is launched becomes a graph.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use crate::graph::Graph;

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
