//! Gangs, as the thread that decides has them.

use std::collections::BTreeMap;

use xsched_core::time::Instant;

use super::super::Driver;
use super::super::unit::Unit;
use super::{Gang, Member, Name, Stance, place, settle};

impl Member {
    const fn of(unit: &Unit) -> Self {
        Self {
            key: unit.key(),
            device: unit.device,
            is_loaded: unit.is_loaded(),
            is_ordered: unit.is_ordered_to_run(),
            is_by_hand: unit.is_held_by_hand(),
            stance: unit.stance,
        }
    }
}

impl Driver {
    /// Forms the gangs anew if processes have changed.
    pub(in super::super) fn form_gangs(&mut self, now: Instant) {
        if !std::mem::take(&mut self.gangs.is_stale) {
            return;
        }
        let before: Vec<u32> = self.members().collect();
        let mut formed = self.formed();
        self.gangs.is_any = !formed.is_empty();
        let is_contended = |member: &Member| self.units.is_contended(member.key);
        formed.retain(|gang| gang.members.len() > 1 && gang.members.iter().any(is_contended));
        for gang in &mut formed {
            if let Some(known) = self.gangs.all.iter().find(|known| known.name == gang.name) {
                (gang.ran, gang.waiting) = (known.ran, known.waiting);
            }
        }
        self.gangs.all = formed;
        let members: Vec<u32> = self.members().collect();
        for key in before {
            if members.binary_search(&key).is_err() {
                self.set_in_gang(key, false, now);
            }
        }
        members.into_iter().for_each(|key| self.set_in_gang(key, true, now));
    }

    fn members(&self) -> impl Iterator<Item = u32> {
        let all = self.gangs.all.iter().flat_map(|gang| &gang.members);
        let mut keys: Vec<u32> = all.map(|member| member.key).collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    /// All gangs, whether there is something to decide or not.
    fn formed(&self) -> Vec<Gang> {
        let mut formed = BTreeMap::<Name, Gang>::new();
        for (id, client) in &self.clients {
            let Some(gang) = &client.gang else { continue };
            let name = (client.uid, client.rights.party.tenant.name.clone(), gang.clone());
            let new = |name: &Name| Gang::new(name.clone(), *id);
            let gang = formed.entry(name).or_insert_with_key(new);
            gang.number = gang.number.min(*id);
            gang.priority = gang.priority.max(client.hints.priority);
            let units = client.units.iter().filter_map(|key| self.units.get(*key));
            gang.members.extend(units.map(Member::of));
        }
        formed.into_values().collect()
    }

    /// Has a process be held with its gang from now on, or no longer.
    fn set_in_gang(&mut self, key: u32, is_in_gang: bool, now: Instant) {
        let Some(unit) = self.units.get(key).filter(|unit| unit.is_in_gang() != is_in_gang) else {
            return;
        };
        let was_away = unit.stance == Stance::Away;
        if self.units.change(key, |unit| unit.set_in_gang(is_in_gang, now)) == Some(true) {
            self.look_at(key, now);
        }
        self.note_late(key);
        if was_away {
            self.report(key, now);
        }
        self.update_shared(key, now);
    }

    /// Opens and closes members of gangs.
    pub(in super::super) fn settle_gangs(&mut self, now: Instant) {
        self.gangs.is_due = false;
        if self.gangs.all.is_empty() {
            return;
        }
        for member in self.gangs.all.iter_mut().flat_map(|gang| &mut gang.members) {
            if let Some(unit) = self.units.get(member.key) {
                *member = Member::of(unit);
            }
        }
        let others = self.units.loaded().filter(|unit| unit.runs() && !unit.is_in_gang());
        let busy = others.fold(0, |busy, unit| busy | place(unit.device));
        settle(&mut self.gangs.all, busy, now);
        let mut changed = Vec::new();
        for member in self.gangs.all.iter().flat_map(|gang| &gang.members) {
            let Member { key, stance, .. } = *member;
            let Some(before) = self.units.get(key).map(|unit| unit.stance) else { continue };
            if before != stance {
                self.units.change(key, |unit| unit.take_stance(stance, now));
                changed.push((key, (before == Stance::Away) != (stance == Stance::Away)));
            }
        }
        self.gangs.is_due = changed.iter().any(|(_, claims)| *claims);
        // After all gates, so that these are as close together as can be.
        for (key, claims) in changed {
            self.note_late(key);
            if claims {
                self.report(key, now);
            }
        }
    }
}
