//! The phases of a cell: each role alone, and all beside each other.

use std::collections::BTreeMap;

use super::super::document::{Progress, Role};
use super::super::measure::Phase;
use super::super::plan::{CellPlan, InTurns, RolePlan, Way};
use super::super::protocol::Load;
use super::super::session::Session;
use super::super::timing::{few, least, wanted_s};
use super::turns::CoRun;
use super::{Fault, Run, nothing};
use crate::stats::P99_SAMPLES;

/// The loads of roles by their names.
pub(super) type Loads = BTreeMap<String, Load>;

/// Number of times that a phase with too few samples goes on, each by `TIME_MARGIN` longer than
/// seems to be needed.
pub(super) const RETRIES: u32 = 3;
pub(super) const TIME_MARGIN: f64 = 1.05;
/// Factor by which a phase is longer that is run once more.
const LONGER: f64 = 5.0;

impl<'a> Run<'_, 'a> {
    /// Measures roles alone, if that is not known, and all beside each other.
    pub(super) fn phases(
        &mut self,
        number: usize,
        cell: &CellPlan,
        session: &mut Session<'a>,
    ) -> Result<Vec<Role>, Fault> {
        let mut own = BTreeMap::new();
        for name in &cell.alone {
            let key = (cell.group.clone(), name.clone());
            if cell.has_beside && self.alone.contains_key(&key) {
                continue;
            }
            let Some(role) = cell.roles().find(|role| role.spec.name == *name) else { continue };
            let profile = session.ready.roles.get(name).cloned().unwrap_or_default();
            let load = role.load_alone.as_ref().unwrap_or(&role.load).of(&profile);
            let decides = *name == cell.measured;
            let samples = if decides { cell.samples } else { few(cell.samples) };
            let wanted = wanted_s(&load, &profile, samples, false);
            let loads = [(name.clone(), load)].into();
            let asked = (wanted, decides.then_some(name));
            let reference = if cell.has_beside { None } else { self.reference.take() };
            let progress = match reference {
                Some(mut running) => {
                    let taken = self.turns(number, (&mut running.session, session), asked, &loads);
                    self.reference = Some(running);
                    taken?
                }
                None => {
                    let samples = if decides { cell.samples } else { 0 };
                    let asked = (asked, samples);
                    alone(&self.enough(number, session, asked, (&loads, 0), None)?, name)
                }
            };
            let Some(progress) = progress else {
                // A role that comes seldom may have none in a short phase.
                if decides { return Err(nothing(name).into()) } else { continue }
            };
            self.alone.entry(key).or_insert_with(|| progress.clone());
            own.insert(name.clone(), progress);
        }
        if !cell.has_beside {
            let of = |role: &RolePlan| Role {
                alone: own.get(&role.spec.name).cloned(),
                ..self.role(cell, role, None)
            };
            return Ok(cell.roles().map(of).collect());
        }
        self.beside(number, cell, session)
    }

    fn beside(
        &mut self,
        number: usize,
        cell: &CellPlan,
        session: &mut Session<'a>,
    ) -> Result<Vec<Role>, Fault> {
        let profile = |name: &str| session.ready.roles.get(name).cloned().unwrap_or_default();
        // Loads that depend on the length of requests are the same in all ways.
        let group = self.ready.get(&cell.group);
        let of_group = |name: &str| group.and_then(|ready| ready.roles.get(name)).cloned();
        let load = |role: &RolePlan| {
            let name = &role.spec.name;
            (name.clone(), role.load.of(&of_group(name).unwrap_or_else(|| profile(name))))
        };
        let loads: Loads = cell.roles().map(load).collect();
        let wanted = loads.iter().map(|(name, load)| {
            let decides = *name == cell.measured;
            let samples = if decides { cell.samples } else { least(cell.samples) };
            wanted_s(load, &profile(name), samples, true)
        });
        let wanted = wanted.fold(0.0, f64::max);
        let CoRun { phase, alone, turns } =
            self.beside_in_turns(number, cell, session, (wanted, &loads))?;
        let mut roles: Vec<Role> =
            cell.roles().map(|role| self.role(cell, role, Some(&phase))).collect();
        if let Some(role) = roles.iter_mut().find(|role| role.name == cell.measured) {
            role.alone = alone.or(role.alone.take());
            role.beside.iter_mut().for_each(|beside| beside.samples.turns.clone_from(&turns));
        }
        let is_idle = |role: &Role| role.beside.as_ref().is_none_or(|b| b.latency.samples == 0);
        if roles.first().is_some_and(is_idle) {
            return Err(nothing(&cell.measured).into());
        }
        Ok(self.with_windows(roles, &phase))
    }

    /// A phase behind others, and more of it until the role that decides has enough samples for a
    /// P99, if the plan wants that number and the time is not too short for them.
    pub(super) fn enough(
        &self,
        number: usize,
        session: &mut Session<'_>,
        (asked, samples): ((f64, Option<&String>), u32),
        (loads, part): (&Loads, u32),
        before: Option<Phase>,
    ) -> Result<Phase, Fault> {
        let mut parts = part * (1 + RETRIES)..;
        let mut part = || parts.next().unwrap_or_default();
        let mut phase = self.phase(number, session, asked, (loads, part()))?;
        if let Some(mut before) = before {
            before.append(phase);
            phase = before;
        }
        let (wanted_s, Some(role)) = asked else { return Ok(phase) };
        let wanted = P99_SAMPLES.min(samples as usize);
        for _ in 0..RETRIES {
            let has = phase.progress(role).map_or(0, |progress| progress.latency.samples);
            if has == 0 || has >= wanted || self.clock.shortens() {
                break;
            }
            let missing = (wanted - has) as f64 / has as f64 * phase.seconds() * TIME_MARGIN;
            let missing = (missing.min(wanted_s * 4.0), None);
            let more = self.phase(number, session, missing, (loads, part()))?;
            phase.append(more);
        }
        Ok(phase)
    }

    /// Runs a phase for as long as the wanted samples take, or as there is time.
    fn phase(
        &self,
        number: usize,
        session: &mut Session<'_>,
        (wanted_s, decides): (f64, Option<&String>),
        loads: (&Loads, u32),
    ) -> Result<Phase, Fault> {
        let seconds = self.seconds(number, wanted_s)?;
        Self::part(session, (seconds, self.clock.settle_s(), decides), loads)
    }

    /// Has programs work for `seconds`; once more and longer if the role that decides had no
    /// request.
    pub(super) fn part(
        session: &mut Session<'_>,
        (seconds, settle_s, decides): (f64, f64, Option<&String>),
        (loads, part): (&Loads, u32),
    ) -> Result<Phase, Fault> {
        let phase = session.phase((seconds, settle_s, part), loads)?;
        if decides.is_none_or(|role| phase.progress(role).is_some()) {
            return Ok(phase);
        }
        Ok(session.phase((seconds * LONGER, settle_s, part), loads)?)
    }

    /// How long a phase is that wants `wanted_s` seconds.
    pub(super) fn seconds(&self, number: usize, wanted_s: f64) -> Result<f64, Fault> {
        let behind = self.experiment.plan.cells.get(number + 1..).unwrap_or_default();
        let to_do = behind.iter().filter(|cell| cell.unavailable.is_none());
        let beside = |cell: &CellPlan| match cell.in_turns {
            InTurns::Nothing => 1,
            InTurns::Alone => 2,
            InTurns::All => 2 * self.long_turns(),
        };
        let (mut phases, mut starts) = (1, 0);
        phases += self.experiment.plan.cells.get(number).map_or(1, beside);
        for cell in to_do {
            phases += if cell.has_beside { beside(cell) } else { 0 };
            let is_new = cell.way == Way::Native || !cell.has_beside;
            let turns = if cell.has_beside || cell.way == Way::Native { 1 } else { 2 };
            phases += if is_new { turns * cell.alone.len() } else { 0 };
            starts += 1;
        }
        let seconds = self.clock.phase_s(wanted_s, phases, starts);
        if !self.clock.has_s(seconds) {
            return Err(Fault::Time(seconds));
        }
        Ok(seconds)
    }
}

/// Returns what a role did alone, with the processors that were in use.
pub(super) fn alone(phase: &Phase, name: &str) -> Option<Progress> {
    let mut progress = phase.progress(name)?;
    progress.samples.cores.clone_from(&phase.cores);
    Some(progress)
}
