//! Turns with the reference: the speed of a GPU and of its host changes by itself, which then
//! happens to what is compared alike.

use super::super::document::Progress;
use super::super::measure::Phase;
use super::super::plan::{CellPlan, InTurns};
use super::super::session::Session;
use super::super::timing::{LONG_TURNS, wanted_s};
use super::phases::{Loads, RETRIES, TIME_MARGIN, alone};
use super::{Fault, Run, nothing};
use crate::stats::{P99_SAMPLES, PAIRS_MIN};

/// Least and greatest number of turns of the reference and another way, if a turn has
/// `TURN_SAMPLES` requests and `SETTLES` times what it takes to settle. Of what phases take to
/// settle, a turn takes a tenth.
const TURNS: (f64, f64) = (PAIRS_MIN as f64, 40.0);
const TURN_SAMPLES: u32 = 10;
const SETTLES: f64 = 10.0;

/// Two sessions that take turns: the reference, and that of the cell.
type Pair<'r, 's> = (&'r mut Session<'s>, &'r mut Session<'s>);

/// Progress of all roles of a cell beside each other.
pub(super) struct CoRun {
    pub(super) phase: Phase,
    /// Progress of the role that decides, alone, meanwhile.
    pub(super) alone: Option<Progress>,
    /// P99s of that role, in the reference and here.
    pub(super) turns: Vec<(f64, f64)>,
}

impl<'a> Run<'_, 'a> {
    /// Measures what a role does alone, in turns with what it does in the reference.
    pub(super) fn turns(
        &self,
        number: usize,
        (reference, session): Pair<'_, 'a>,
        (seconds, decides): (f64, Option<&String>),
        loads: &Loads,
    ) -> Result<Option<Progress>, Fault> {
        let Some((name, load)) = loads.first_key_value() else { return Ok(None) };
        let settle_s = self.clock.settle_s() / SETTLES;
        let least_s = session.ready.roles.get(name).map_or(0.0, |profile| {
            wanted_s(load, profile, TURN_SAMPLES, false).max(settle_s * SETTLES)
        });
        let (few, many) = TURNS;
        let part_s = self.seconds(number, seconds / few)?;
        // A limit has room for short turns, and no more of them than are needed.
        let all_s = if self.clock.shortens() { part_s.max(few * least_s) } else { few * part_s };
        self.has_time(2.0 * all_s)?;
        let many = if self.clock.shortens() { few } else { many };
        let count = (all_s / least_s).clamp(few, many).floor();
        let asked = (all_s / count, settle_s, decides);
        let (mut native, mut here) = (None, None);
        let mut turns = Vec::new();
        let p50_us = |phase: &Phase| phase.work(name).map_or(0.0, |did| did.latency.p50_us);
        for turn in 0..count as u32 {
            let part = |session: &mut Session<'_>| Self::part(session, asked, (loads, turn));
            let (one, other) = in_turn(turn, (reference, session), part)?;
            turns.push((p50_us(&one), p50_us(&other)));
            join(&mut native, one);
            join(&mut here, other);
        }
        Ok(native.zip(here).and_then(|(native, here)| {
            let (native, mut here) = (alone(&native, name)?, alone(&here, name)?);
            let samples = &mut here.samples;
            samples.native_cores = native.samples.cores;
            turns.into_iter().for_each(|(native, here)| samples.push_turn(native, here));
            Some(here)
        }))
    }

    /// Measures what all roles do beside each other, in turns with the reference if the plan has it
    /// and the reference is there.
    pub(super) fn beside_in_turns(
        &mut self,
        number: usize,
        cell: &CellPlan,
        session: &mut Session<'a>,
        (seconds, loads): (f64, &Loads),
    ) -> Result<CoRun, Fault> {
        let asked = ((seconds, Some(&cell.measured)), cell.samples);
        let is_in_turns = cell.in_turns != InTurns::Nothing;
        let Some(mut running) = self.reference.take_if(|_| is_in_turns) else {
            let phase = self.in_parts(number, cell, session, seconds, loads)?;
            return Ok(CoRun { phase, alone: None, turns: Vec::new() });
        };
        let both = (&mut running.session, session);
        let taken = match cell.in_turns {
            InTurns::All => self.all_in_turns(number, both, asked, loads),
            _ => self.alone_in_turns(number, cell, both, (seconds, loads)),
        };
        self.reference = Some(running);
        taken
    }

    /// All roles beside each other, in as many parts as there are turns elsewhere, so that what is
    /// said once for each part, as processor time, has an interval.
    fn in_parts(
        &self,
        number: usize,
        cell: &CellPlan,
        session: &mut Session<'a>,
        seconds: f64,
        loads: &Loads,
    ) -> Result<Phase, Fault> {
        let (count, decides) = (self.long_turns() as u32, Some(&cell.measured));
        let mut all = None;
        for part in 1..count {
            let each_s = self.seconds(number, seconds / f64::from(count))?;
            let asked = (each_s, self.clock.settle_s(), decides);
            join(&mut all, Self::part(session, asked, (loads, part))?);
        }
        let asked = ((seconds / f64::from(count), decides), cell.samples);
        self.enough(number, session, asked, (loads, 0), all)
    }

    /// Returns the number of turns that all roles take.
    pub(super) const fn long_turns(&self) -> usize {
        if self.clock.shortens() { 1 } else { LONG_TURNS }
    }

    /// All roles beside each other in both sessions. Each turn has enough samples for a P99.
    fn all_in_turns(
        &self,
        number: usize,
        (reference, session): Pair<'_, 'a>,
        asked: ((f64, Option<&String>), u32),
        loads: &Loads,
    ) -> Result<CoRun, Fault> {
        let ((seconds, decides), _) = asked;
        let count = self.long_turns();
        self.has_time(2.0 * count as f64 * self.seconds(number, seconds)?)?;
        let p99_us = |phase: &Phase| phase.progress(decides?)?.latency.p99_us;
        let (mut all, mut turns) = (None, Vec::new());
        for turn in 0..count as u32 {
            let phase = |session: &mut Session<'_>| {
                self.enough(number, session, asked, (loads, turn), None)
            };
            let (native, here) = in_turn(turn, (reference, session), phase)?;
            if let Some((native, here)) = p99_us(&native).zip(p99_us(&here)) {
                turns.push((native, here));
            }
            join(&mut all, here);
        }
        let phase = all.ok_or_else(|| nothing("turns"))?;
        Ok(CoRun { phase, alone: None, turns })
    }

    /// The role that decides alone in the reference, and all roles beside each other. All turns
    /// together have enough samples for a P99.
    fn alone_in_turns(
        &self,
        number: usize,
        cell: &CellPlan,
        (reference, session): Pair<'_, 'a>,
        (beside_s, loads): (f64, &Loads),
    ) -> Result<CoRun, Fault> {
        let (alone_s, lone) = self.lone(cell);
        let count = self.long_turns() as u32;
        let each = |all_s: f64| self.seconds(number, all_s * TIME_MARGIN / f64::from(count));
        let (alone_s, beside_s) = (each(alone_s)?, each(beside_s)?);
        self.has_time(f64::from(count) * (alone_s + beside_s))?;
        let (name, settle_s) = (&cell.measured, self.clock.settle_s());
        let wanted = P99_SAMPLES.min(cell.samples as usize);
        let is_enough = |phase: &Option<Phase>| {
            let did = phase.as_ref().and_then(|phase| phase.progress(name));
            did.is_none_or(|did| did.latency.samples >= wanted)
        };
        let (mut own, mut all) = (None, None);
        for turn in 0..count + RETRIES {
            let is_over = self.clock.shortens() || is_enough(&own) && is_enough(&all);
            if turn >= count && is_over {
                break;
            }
            // The one that was second is the first in the next turn.
            for is_alone in [turn.is_multiple_of(2), !turn.is_multiple_of(2)] {
                let (session, seconds, loads, phase) = match is_alone {
                    true => (&mut *reference, alone_s, &lone, &mut own),
                    false => (&mut *session, beside_s, loads, &mut all),
                };
                let asked = (seconds, settle_s, Some(name));
                join(phase, Self::part(session, asked, (loads, turn))?);
            }
        }
        let phase = all.ok_or_else(|| nothing(name))?;
        let alone = own.and_then(|own| alone(&own, name));
        Ok(CoRun { phase, alone, turns: Vec::new() })
    }

    /// The load of the role that decides, alone, and how long its samples take.
    fn lone(&self, cell: &CellPlan) -> (f64, Loads) {
        let ready = self.ready.get(&cell.group);
        let role = cell.roles().find(|role| role.spec.name == cell.measured);
        let of = role.map(|role| {
            let profile = ready.and_then(|ready| ready.roles.get(&role.spec.name));
            let profile = profile.cloned().unwrap_or_default();
            let load = role.load_alone.as_ref().unwrap_or(&role.load).of(&profile);
            (wanted_s(&load, &profile, cell.samples, false), load)
        });
        of.map_or_else(Default::default, |(seconds, load)| {
            (seconds, [(cell.measured.clone(), load)].into())
        })
    }

    fn has_time(&self, seconds: f64) -> Result<(), Fault> {
        if self.clock.has_s(seconds) { Ok(()) } else { Err(Fault::Time(seconds)) }
    }
}

/// Results of two sessions in a turn, of which the one that was second is the first in the next
/// turn, so that neither is always the later one.
fn in_turn(
    turn: u32,
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

fn join(all: &mut Option<Phase>, more: Phase) {
    match all {
        Some(all) => all.append(more),
        None => *all = Some(more),
    }
}
