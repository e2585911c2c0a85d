//! Prediction of a row by the simulator, before the row is measured.
//!
//! Input is what the device costs (a description) and what each role said when it was ready: the
//! kernels of a request, what a lone request takes, and how long the host launches. From these
//! follow the same programs, beside each other and in each way. Nothing of the predicted cell is
//! known.

mod device;
mod need;
mod said;
mod scenario;
mod sharing;

use std::collections::BTreeMap;

use xsched_sim::scenario::DeviceSpec;

use self::need::Need;
use self::said::Said;
use self::scenario::Model;
use super::document::{Cell, Prediction, Role, Status, VERSION};
use super::plan::{CellPlan, Hal, Program, RowPlan, Way};
use super::protocol::Ready;
use super::quantities::figures;

/// Device and cells to predict for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// How it is reached.
    pub(crate) hal: Hal,
    /// Name of the device.
    pub(crate) hardware: String,
    /// Description of the device, where one was given.
    pub(crate) device: Option<DeviceSpec>,
    /// When this is, in UTC, as in RFC 3339.
    pub(crate) date: String,
}

/// Needs of roles, by name.
type Needs = BTreeMap<String, Need>;

/// Predicts the cells of the row whose group's programs have said what they need, by the names of
/// the groups; the others are left out until it is asked again.
pub(crate) fn predict(
    row: &RowPlan,
    ready: &BTreeMap<String, Ready>,
    target: &Target,
) -> Prediction {
    let mut prediction = Prediction {
        version: VERSION,
        id: row.id.to_owned(),
        date: target.date.clone(),
        device: target.hardware.clone(),
        figures: Vec::new(),
        left_out: BTreeMap::new(),
    };
    let cells = || row.cells.iter().filter(|cell| ready.contains_key(&cell.group));
    let device = match device::of(target) {
        Ok((device, name)) => {
            prediction.device = name;
            device
        }
        Err(why) => {
            prediction.left_out = cells().map(|cell| (cell.name.clone(), why.clone())).collect();
            return prediction;
        }
    };
    let mut simulated = Vec::new();
    let mut groups: BTreeMap<&str, Result<Group, String>> = BTreeMap::new();
    for cell in cells().filter(|cell| cell.unavailable.is_none()) {
        let group = groups
            .entry(&cell.group)
            .or_insert_with(|| Group::of(row, cell, ready.get(&cell.group), (&device, target.hal)));
        let said = match group {
            Ok(group) => group.simulate(cell, &mut prediction.left_out),
            Err(why) => Err(why.clone()),
        };
        match said {
            Ok(cell) => simulated.push(cell),
            Err(why) => drop(prediction.left_out.insert(cell.name.clone(), why)),
        }
    }
    prediction.figures = figures(row, &simulated);
    prediction
}

/// Cells that differ in their way, with what they are compared with.
struct Group<'a> {
    device: &'a DeviceSpec,
    hal: Hal,
    needs: Needs,
    /// The cell without XSched.
    reference: Option<&'a CellPlan>,
    /// By role, what it does alone in the reference's way.
    alone: BTreeMap<String, Said>,
    /// By role, what it does beside the others there.
    native: BTreeMap<String, Said>,
}

impl<'a> Group<'a> {
    fn of(
        row: &'a RowPlan,
        cell: &CellPlan,
        ready: Option<&Ready>,
        (device, hal): (&'a DeviceSpec, Hal),
    ) -> Result<Self, String> {
        let in_group = |one: &&CellPlan| one.group == cell.group && one.way == Way::Native;
        let reference = row.cells.iter().find(in_group);
        let mut needs = Needs::new();
        for role in cell.roles() {
            let name = &role.spec.name;
            let profile = ready.and_then(|ready| ready.roles.get(name));
            let profile = profile.ok_or_else(|| format!("{name} did not say what it needs"))?;
            needs.insert(name.clone(), Need::of(&role.spec, profile, device)?);
        }
        let mut group =
            Self { device, hal, needs, reference, alone: BTreeMap::new(), native: BTreeMap::new() };
        if let Some(reference) = reference {
            group.alone = group.lone(reference)?;
            if reference.has_beside {
                group.native = group.model(reference).beside()?;
            }
        }
        Ok(group)
    }

    fn model<'m>(&'m self, cell: &'m CellPlan) -> Model<'m> {
        Model { device: self.device, hal: self.hal, cell, needs: &self.needs }
    }

    /// Returns what each role of the cell does alone: those that are measured so, and those that
    /// are the same but for their names.
    fn lone(&self, cell: &CellPlan) -> Result<BTreeMap<String, Said>, String> {
        let model = self.model(cell);
        let one = |role: &String| Ok((role.clone(), model.alone(role)?));
        let mut lone: BTreeMap<String, Said> =
            cell.alone.iter().map(one).collect::<Result<_, String>>()?;
        if !cell.has_beside {
            return Ok(lone);
        }
        for role in cell.roles().filter(|role| !cell.alone.contains(&role.spec.name)) {
            let mut others = cell.roles().filter(|other| other.is_same(role));
            let said = others.find_map(|other| lone.get(&other.spec.name).cloned());
            lone.extend(said.map(|said| (role.spec.name.clone(), said)));
        }
        Ok(lone)
    }

    /// The cell as if it had been measured. The parts that cannot be predicted are left out, with
    /// the reason.
    fn simulate(
        &self,
        cell: &CellPlan,
        left_out: &mut BTreeMap<String, String>,
    ) -> Result<Cell, String> {
        if cell.processes.iter().any(|process| process.program == Program::Script) {
            return Err("programs of their own have no kernels that were said".to_owned());
        }
        let is_reference = self.reference.is_some_and(|one| one.name == cell.name);
        let (alone, beside) = match (cell.has_beside, is_reference) {
            (false, true) => (self.alone.clone(), BTreeMap::new()),
            (false, false) => (self.lone(cell)?, BTreeMap::new()),
            (true, true) => (self.alone.clone(), self.native.clone()),
            (true, false) => (self.alone.clone(), self.model(cell).beside()?),
        };
        for (role, said) in &beside {
            let why = said.doubt.map(str::to_owned);
            left_out.extend(why.map(|why| (format!("{}: latencies of {role}", cell.name), why)));
        }
        let progress = |all: &BTreeMap<String, Said>, role: &str| {
            all.get(role).map(|said| said.progress.clone())
        };
        let role = |name: &str| Role {
            name: name.to_owned(),
            work: String::new(),
            load: String::new(),
            alone: progress(&alone, name),
            beside: progress(&beside, name),
        };
        Ok(Cell {
            name: cell.name.clone(),
            way: cell.way.name().to_owned(),
            status: Status::Measured,
            counts: None,
            roles: cell.roles().map(|of| role(&of.spec.name)).collect(),
            seconds: 0.0,
        })
    }
}

#[cfg(test)]
mod tests;
