//! Measurements of a row by an earlier call, which this one does not repeat.

use std::collections::BTreeMap;
use std::fs;

use super::super::document::{Cell, Progress, Row, Status};
use super::super::files::{Folder, is_whole};
use super::super::plan::{CellPlan, Program};
use super::super::prestart::Planned;
use super::super::program::beside;
use super::super::protocol::Ready;
use super::super::session::{like_measured, merge};
use super::super::table::Definition;
use super::{programs, work};

/// Results of an earlier call that stay.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The cells, by their names.
    pub(super) cells: BTreeMap<String, Cell>,
    /// Needs of the programs alone in groups that go on, and where they were measured.
    pub(super) ready: BTreeMap<String, Ready>,
}

impl Kept {
    /// All groups that were measured whole, with the works that are planned. Of another one, where
    /// roles run beside each other, the cells that were, if what its programs said is still there.
    pub(super) fn of(of: &Definition, row: &Row, folder: &Folder) -> Self {
        let mut kept = Self::default();
        let cells = &of.plan.cells;
        let mut groups: Vec<&str> = cells.iter().map(|cell| cell.group.as_str()).collect();
        groups.dedup();
        for group in groups {
            let plans = || cells.iter().filter(|cell| cell.group == group);
            let found = plans().filter_map(|plan| find(plan, row)).collect::<Vec<_>>();
            if found.len() < plans().count() {
                let Some(ready) = goes_on(plans(), &found, |first| said(folder, row, first)) else {
                    continue;
                };
                kept.ready.insert(group.to_owned(), ready);
            }
            kept.cells.extend(found.into_iter().map(|cell| (cell.name.clone(), cell.clone())));
        }
        kept
    }

    /// Returns what roles do alone in groups that go on, by group and role.
    pub(super) fn alone(&self, of: &Definition) -> BTreeMap<(String, String), Progress> {
        let cells = of.plan.cells.iter().filter(|plan| self.ready.contains_key(&plan.group));
        let known = cells.filter_map(|plan| Some((&plan.group, self.cells.get(&plan.name)?)));
        let roles =
            known.flat_map(|(group, cell)| cell.roles.iter().map(move |role| (group, role)));
        let alone = roles.filter_map(|(group, role)| {
            Some(((group.clone(), role.name.clone()), role.alone.clone()?))
        });
        alone.collect()
    }

    /// Returns whether a cell is of a group of which something stays.
    pub(super) fn has_group_of(&self, of: &Definition, cell: &str) -> bool {
        let group = |name: &str| {
            let plan = of.plan.cells.iter().find(|plan| plan.name == name)?;
            Some(plan.group.as_str())
        };
        let wanted = group(cell);
        wanted.is_some() && self.cells.keys().any(|name| group(name) == wanted)
    }
}

/// Returns what was measured of a cell as it is planned.
fn find<'a>(plan: &CellPlan, row: &'a Row) -> Option<&'a Cell> {
    let cell = row.cells.iter().find(|cell| cell.name == plan.name)?;
    let works = cell.roles.iter().map(|role| (role.name.clone(), role.work.clone()));
    let is_as_planned = works.eq(plan.roles().map(|role| (role.spec.name.clone(), work(role))));
    (is_whole(&cell.status) && is_as_planned).then_some(cell)
}

/// Returns what the programs of a group said, of which these cells were measured, if it can go on
/// with the others.
fn goes_on<'a>(
    mut plans: impl Iterator<Item = &'a CellPlan> + Clone,
    found: &[&Cell],
    said: impl Fn(&CellPlan) -> Option<Ready>,
) -> Option<Ready> {
    // Where no role is beside another one, ways take turns with the first.
    if !plans.clone().all(|plan| plan.has_beside) {
        return None;
    }
    let first = plans.next()?;
    let is_first = |cell: &&Cell| cell.name == first.name && cell.status == Status::Measured;
    found.first().filter(|cell| is_first(cell))?;
    said(first)
}

/// Reads what the programs of a cell said once they were ready.
fn said(folder: &Folder, row: &Row, plan: &CellPlan) -> Option<Ready> {
    let raw = folder.raw(&row.id, &plan.name);
    let mut all = Ready { ready: true, ..Ready::default() };
    for (number, process) in plan.processes.iter().enumerate() {
        let place = beside(&beside(&raw, &number.to_string()), "jsonl");
        let text = fs::read_to_string(place).ok()?;
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Ready>(line).ok());
        merge(&mut all, lines.find(|said| said.ready)?, process).ok()?;
    }
    like_measured(&mut all, plan);
    Some(all)
}

/// The cells of a row that will come, if those are kept that were measured before.
pub(crate) fn coming(folder: &Folder, of: &Definition, before: Option<&Row>) -> Vec<Planned> {
    let kept = before.map(|row| Kept::of(of, row, folder)).unwrap_or_default();
    let (mut all, mut last) = (Vec::new(), CellPlan::default());
    for cell in &of.plan.cells {
        let is_script = cell.processes.iter().any(|one| one.program == Program::Script);
        let comes = cell.unavailable.is_none() && !kept.cells.contains_key(&cell.name);
        let is = programs(cell);
        if comes && !is_script && is != last {
            all.push((folder.raw(of.plan.id, &cell.name), cell.clone()));
            last = is;
        }
    }
    all
}
