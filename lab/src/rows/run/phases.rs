//! The phases of a cell: each role alone, and all beside each other.

use std::collections::BTreeMap;

use super::super::document::{Progress, Role, Turns};
use super::super::measure::Phase;
use super::super::plan::{CellPlan, RolePlan, Way};
use super::super::protocol::Load;
use super::super::quantities::CORES;
use super::super::session::Session;
use super::super::timing::{LONG_TURNS, few, least, wanted_s};
use super::{Fault, Run, nothing};
use crate::stats::P99_SAMPLES;

/// So often a phase goes on that had too few samples, by so much longer than seems to be needed.
const MORE: usize = 3;
const SPARE: f64 = 1.05;
/// So often the reference and another way take turns, if a turn has so many requests, and ten times
/// what it takes to settle. Of what phases take to settle, a turn takes a tenth.
const TURNS: (f64, f64) = (5.0, 40.0);
const TURN_SAMPLES: u32 = 10;
const SETTLES: f64 = 10.0;
/// By so much a phase is longer that is run once more.
const LONGER: f64 = 5.0;

impl Run<'_, '_> {
    /// Measures roles alone, if that is not known, and all beside each other.
    pub(super) fn phases(
        &mut self,
        number: usize,
        cell: &CellPlan,
        session: &mut Session<'_>,
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
                Some(mut open) => {
                    let taken = self.turns(number, (&mut open.session, session), asked, &loads);
                    self.reference = Some(open);
                    taken?
                }
                None => {
                    let samples = if decides { cell.samples } else { 0 };
                    alone(&self.enough(number, session, (asked, samples), &loads)?, name)
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
        session: &mut Session<'_>,
    ) -> Result<Vec<Role>, Fault> {
        let profile = |name: &str| session.ready.roles.get(name).cloned().unwrap_or_default();
        // Loads that depend on the length of requests are the same in all ways.
        let group = self.ready.get(&cell.group);
        let of_group = |name: &str| group.and_then(|ready| ready.roles.get(name)).cloned();
        let load = |role: &RolePlan| {
            let name = &role.spec.name;
            (name.clone(), role.load.of(&of_group(name).unwrap_or_else(|| profile(name))))
        };
        let loads: BTreeMap<String, Load> = cell.roles().map(load).collect();
        let wanted = loads.iter().map(|(name, load)| {
            let decides = *name == cell.measured;
            let samples = if decides { cell.samples } else { least(cell.samples) };
            wanted_s(load, &profile(name), samples, true)
        });
        let wanted = wanted.fold(0.0, f64::max);
        let asked = ((wanted, Some(&cell.measured)), cell.samples);
        let reference = if cell.in_turns { self.reference.take() } else { None };
        let (phase, turns) = match reference {
            Some(mut open) => {
                let both = (&mut open.session, session);
                let taken = self.long_turns(number, both, asked, &loads);
                self.reference = Some(open);
                taken?
            }
            None => (self.enough(number, session, asked, &loads)?, Turns::default()),
        };
        let mut roles: Vec<Role> =
            cell.roles().map(|role| self.role(cell, role, Some(&phase))).collect();
        let measured = roles.iter_mut().find(|role| role.name == cell.measured);
        if let Some(beside) = measured.and_then(|role| role.beside.as_mut()) {
            beside.more.extend(turns.more());
        }
        let is_idle = |role: &Role| role.beside.as_ref().is_none_or(|b| b.latency.samples == 0);
        if roles.first().is_some_and(is_idle) {
            return Err(nothing(&cell.measured).into());
        }
        Ok(self.with_windows(roles, &phase))
    }

    /// A phase, and more of it until the role that decides has enough samples for a P99, if it is
    /// to have so many and the time is not too short for them.
    fn enough(
        &self,
        number: usize,
        session: &mut Session<'_>,
        (asked, samples): ((f64, Option<&String>), u32),
        loads: &BTreeMap<String, Load>,
    ) -> Result<Phase, Fault> {
        let mut phase = self.phase(number, session, asked, loads)?;
        let (wanted_s, Some(role)) = asked else { return Ok(phase) };
        let wanted = P99_SAMPLES.min(samples as usize);
        for _ in 0..MORE {
            let has = phase.progress(role).map_or(0, |progress| progress.latency.samples);
            if has == 0 || has >= wanted || self.clock.shortens() {
                break;
            }
            let missing = (wanted - has) as f64 / has as f64 * phase.seconds() * SPARE;
            let more = self.phase(number, session, (missing.min(wanted_s * 4.0), None), loads)?;
            phase.append(more);
        }
        Ok(phase)
    }

    /// What a role does alone, in turns with what it does in the reference.
    fn turns(
        &self,
        number: usize,
        (reference, session): (&mut Session<'_>, &mut Session<'_>),
        (seconds, decides): (f64, Option<&String>),
        loads: &BTreeMap<String, Load>,
    ) -> Result<Option<Progress>, Fault> {
        let Some((name, load)) = loads.first_key_value() else { return Ok(None) };
        let settle_s = self.clock.settle_s() / SETTLES;
        let least_s = session.ready.roles.get(name).map_or(0.0, |profile| {
            wanted_s(load, profile, TURN_SAMPLES, false).max(settle_s * SETTLES)
        });
        let (few, many) = TURNS;
        let all_s = few * self.seconds(number, seconds / few)?;
        if !self.clock.has_s(2.0 * all_s) {
            return Err(Fault::Time(2.0 * all_s));
        }
        let count = (all_s / least_s).clamp(few, many).floor();
        let asked = (all_s / count, settle_s, decides);
        let mut both: Option<(Phase, Phase)> = None;
        let mut turns = Turns::default();
        for turn in 0..count as usize {
            let part = |session: &mut Session<'_>| Self::part(session, asked, loads);
            let (native, here) = in_turn(turn, (reference, session), part)?;
            let p50_us = |phase: &Phase| phase.work(name).map_or(0.0, |did| did.latency.p50_us);
            turns.push(p50_us(&native), p50_us(&here));
            match &mut both {
                Some((before, so_far)) => {
                    before.append(native);
                    so_far.append(here);
                }
                None => both = Some((native, here)),
            }
        }
        Ok(both.and_then(|(native, here)| {
            let (native, mut here) = (alone(&native, name)?, alone(&here, name)?);
            here.set_beside(&native, &turns);
            Some(here)
        }))
    }

    /// What all do beside each other, in turns with the reference, each of which has enough samples
    /// for a P99 of the role that decides; and those P99s.
    fn long_turns(
        &self,
        number: usize,
        (reference, session): (&mut Session<'_>, &mut Session<'_>),
        asked: ((f64, Option<&String>), u32),
        loads: &BTreeMap<String, Load>,
    ) -> Result<(Phase, Turns), Fault> {
        let ((seconds, decides), _) = asked;
        let all_s = 2.0 * LONG_TURNS as f64 * self.seconds(number, seconds)?;
        if !self.clock.has_s(all_s) {
            return Err(Fault::Time(all_s));
        }
        let p99_us = |phase: &Phase| phase.progress(decides?)?.latency.p99_us;
        let mut all: Option<Phase> = None;
        let mut turns = Turns::default();
        for turn in 0..LONG_TURNS {
            let phase = |session: &mut Session<'_>| self.enough(number, session, asked, loads);
            let (native, here) = in_turn(turn, (reference, session), phase)?;
            if let Some((native, here)) = p99_us(&native).zip(p99_us(&here)) {
                turns.push(native, here);
            }
            match &mut all {
                Some(so_far) => so_far.append(here),
                None => all = Some(here),
            }
        }
        all.map(|phase| (phase, turns)).ok_or_else(|| nothing("turns").into())
    }

    /// Runs a phase for as long as the wanted samples take, or as there is time.
    fn phase(
        &self,
        number: usize,
        session: &mut Session<'_>,
        (wanted_s, decides): (f64, Option<&String>),
        loads: &BTreeMap<String, Load>,
    ) -> Result<Phase, Fault> {
        let seconds = self.seconds(number, wanted_s)?;
        Self::part(session, (seconds, self.clock.settle_s(), decides), loads)
    }

    /// Has programs work for so many seconds; once more and longer if the role that decides had no
    /// request.
    fn part(
        session: &mut Session<'_>,
        (seconds, settle_s, decides): (f64, f64, Option<&String>),
        loads: &BTreeMap<String, Load>,
    ) -> Result<Phase, Fault> {
        let phase = session.phase(seconds, settle_s, loads)?;
        if decides.is_none_or(|role| phase.progress(role).is_some()) {
            return Ok(phase);
        }
        Ok(session.phase(seconds * LONGER, settle_s, loads)?)
    }

    /// How long a phase is that wants so many seconds.
    fn seconds(&self, number: usize, wanted_s: f64) -> Result<f64, Fault> {
        let behind = self.of.plan.cells.get(number + 1..).unwrap_or_default();
        let to_do = behind.iter().filter(|cell| cell.unavailable.is_none());
        let beside = |cell: &CellPlan| if cell.in_turns { 2 * LONG_TURNS } else { 1 };
        let (mut phases, mut starts) = (1, 0);
        phases += self.of.plan.cells.get(number).map_or(1, beside);
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

/// What two sessions did in a turn, of which the one that was second is the first in the next turn,
/// so that neither is always the later one.
fn in_turn(
    turn: usize,
    (reference, session): (&mut Session<'_>, &mut Session<'_>),
    phase: impl Fn(&mut Session<'_>) -> Result<Phase, Fault>,
) -> Result<(Phase, Phase), Fault> {
    if turn.is_multiple_of(2) {
        let native = phase(reference)?;
        return Ok((native, phase(session)?));
    }
    let here = phase(session)?;
    Ok((phase(reference)?, here))
}

/// What a role did alone, with the processors that were in use.
fn alone(phase: &Phase, name: &str) -> Option<Progress> {
    let mut progress = phase.progress(name)?;
    progress.more.insert(CORES.to_owned(), phase.cores.iter().sum());
    Some(progress)
}
