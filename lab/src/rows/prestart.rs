//! Programs that are started before their turn, so that what they import is not waited for then.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::plan::CellPlan;
use super::session::{Prepared, Starter};

/// Limit of the programs that wait.
const MOST: usize = 12;

/// A cell whose turn will come.
#[derive(Debug)]
struct Coming<'a> {
    raw: PathBuf,
    cell: CellPlan,
    prepared: Option<Prepared<'a>>,
}

/// A cell, and the place for what its programs say.
pub(crate) type Planned = (PathBuf, CellPlan);

/// The cells whose turn will come, and the programs of the next ones.
pub(crate) struct Prestart<'a> {
    starter: &'a Starter<'a>,
    coming: VecDeque<Coming<'a>>,
    more: Box<dyn FnMut() -> Vec<Planned> + 'a>,
}

impl<'a> Prestart<'a> {
    /// Nothing is to come, and then what `more` says: it is asked when the last of those that are
    /// to come are started.
    pub(crate) fn new(starter: &'a Starter<'a>, more: impl FnMut() -> Vec<Planned> + 'a) -> Self {
        Self { starter, coming: VecDeque::new(), more: Box::new(more) }
    }

    /// Further cells will come, in this order.
    pub(crate) fn expect(&mut self, cells: Vec<Planned>) {
        let coming = |(raw, cell)| Coming { raw, cell, prepared: None };
        self.coming.extend(cells.into_iter().map(coming));
    }

    /// Takes the programs of the cell with this place, whose turn it is, if they are started. Cells
    /// before it do not come any more.
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
        if self.coming.is_empty() {
            let more = (self.more)();
            self.expect(more);
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
