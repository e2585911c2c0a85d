//! The system to run instead of a policy, and `[comparators]`.

use super::raw::{RawComparators, RawScenario};
use super::source::{Result, Source, span_of};
use super::system::{Comparators, System};

impl Source<'_> {
    /// The system and the parameters of all systems.
    pub(super) fn comparators(&self, raw: &RawScenario) -> Result<Comparators> {
        let choices = System::ALL.map(|system| (system.name(), system));
        let system = self.choice(&raw.system, &choices)?;
        if system.is_some() {
            self.unused(span_of(&raw.policy), "without `system`, which runs instead of a policy")?;
        }
        let none = RawComparators::default();
        let raw = raw.comparators.as_ref().map_or(&none, |table| table.get_ref());
        let known = Comparators { system, ..Comparators::default() };
        self.rate_control(raw, known).and_then(|known| self.others(raw, known))
    }

    fn others(&self, raw: &RawComparators, known: Comparators) -> Result<Comparators> {
        let window_ns = self.positive_time(&raw.vcuda_window)?;
        let most = 1..=65_536;
        Ok(Comparators {
            slice_ns: self.positive_time(&raw.slice)?.unwrap_or(known.slice_ns),
            switch_ns: self.time(&raw.switch)?.unwrap_or(known.switch_ns),
            mps_percent: self.integer(&raw.mps_percent, 1..=100)?.unwrap_or(known.mps_percent),
            vcuda_window_ns: window_ns.unwrap_or(known.vcuda_window_ns),
            paella_in_flight: self
                .integer(&raw.paella_in_flight, most.clone())?
                .unwrap_or(known.paella_in_flight),
            paella_deficit_ns: self.time(&raw.paella_deficit)?.unwrap_or(known.paella_deficit_ns),
            triton_running: self
                .integer(&raw.triton_running, most)?
                .unwrap_or(known.triton_running),
            ..known
        })
    }

    fn rate_control(&self, raw: &RawComparators, known: Comparators) -> Result<Comparators> {
        let interval_ns = self.positive_time(&raw.tgs_interval)?;
        let window_ns = self.positive_time(&raw.tgs_window)?;
        let part = |field| self.number(field, 0.0..=1.0);
        Ok(Comparators {
            tgs_interval_ns: interval_ns.unwrap_or(known.tgs_interval_ns),
            tgs_window_ns: window_ns.unwrap_or(known.tgs_window_ns),
            tgs_tolerance: part(&raw.tgs_tolerance)?.unwrap_or(known.tgs_tolerance),
            tgs_increase: part(&raw.tgs_increase)?.unwrap_or(known.tgs_increase),
            tgs_decrease: part(&raw.tgs_decrease)?.unwrap_or(known.tgs_decrease),
            tgs_start: part(&raw.tgs_start)?.unwrap_or(known.tgs_start),
            ..known
        })
    }
}
