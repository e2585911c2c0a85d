//! The suite on the backend of the guide: a complete Lv1 backend in under 100 lines.
//!
//! `backend.rs` is the backend. This file tells the suite how to open a device and how to make
//! commands for it.

// The core has these modules by the same names; here the crate above it would be a circle.
extern crate xsched_core as xsched;

mod backend;

use std::sync::Arc;

use backend::{Job, Workers};
use xsched_conformance::{Claims, Subject, Work, checks};
use xsched_core::fault::Fault;
use xsched_core::level::Level;

struct Guide;

impl Subject for Guide {
    type Command = Job;
    type Backend = Workers;

    fn claims(&self) -> Claims {
        // Threads of different queues run at once, and a thread's time includes times when the
        // operating system runs another.
        Claims { units: 2, busy_alone: false, ..Claims::at(Level::Block) }
    }

    fn device(&self) -> Result<Workers, String> {
        Ok(Workers)
    }

    fn config(&self, _: &mut Workers) {}

    fn command(&self, work: Work) -> Option<Job> {
        Some(match work {
            Work::Empty => Arc::new(|| Ok(())),
            Work::Timed { ns, note } => Arc::new(move || {
                note.run_for(ns, || false);
                Ok(())
            }),
            Work::Failing => Arc::new(|| Err(Fault::Execution)),
        })
    }
}

fn main() {
    xsched_conformance::main([("minimal", checks(), Guide)]);
}
