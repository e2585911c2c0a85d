//! Programs that are started before their turn, so that what they import is not waited for then.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::plan::CellPlan;
use super::session::{Prepared, Starter};

/// So many programs wait at most.
const MOST: usize = 12;

/// A cell whose turn will come.
#[derive(Debug)]
struct Coming<'a> {
    raw: PathBuf,
    cell: CellPlan,
    prepared: Option<Prepared<'a>>,
}

/// The cells whose turn will come, and the programs of the next ones.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    starter: &'a Starter<'a>,
    coming: VecDeque<Coming<'a>>,
}

impl<'a> Ahead<'a> {
    /// Nothing is to come.
    pub(crate) const fn new(starter: &'a Starter<'a>) -> Self {
        Self { starter, coming: VecDeque::new() }
    }

    /// Another cell will come, which says what it has to say in `raw`.
    pub(crate) fn expect(&mut self, raw: PathBuf, cell: CellPlan) {
        self.coming.push_back(Coming { raw, cell, prepared: None });
    }

    /// It is the turn of the cell with this place: its programs, if they are started. Cells before
    /// it do not come any more.
    pub(crate) fn take(&mut self, raw: &Path) -> Option<Prepared<'a>> {
        let at = self.coming.iter().position(|one| one.raw == raw)?;
        self.coming.drain(..=at).next_back()?.prepared
    }

    /// Starts the programs of the next cells, if none are started and they wait at steps. What goes
    /// wrong is said when their turn comes.
    pub(crate) fn fill(&mut self) {
        if !self.starter.steps || self.coming.iter().any(|one| one.prepared.is_some()) {
            return;
        }
        let mut programs = 0;
        for one in &mut self.coming {
            programs += one.cell.processes.len();
            if programs > MOST {
                return;
            }
            one.prepared = self.starter.prepare(&one.cell, &one.raw).ok();
        }
    }

    /// Waits until the programs that are started have imported what they need, so that they use no
    /// processor while others are measured.
    pub(crate) fn imported(&mut self) {
        for one in &mut self.coming {
            one.prepared.take_if(|prepared| prepared.imported().is_err());
        }
    }
}
