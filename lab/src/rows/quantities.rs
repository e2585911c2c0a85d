//! The figures of a row: what its cells come to, by the quantities that [`super::plan`] lists.

use super::document::{Cell, Figure, Progress, Role, Status};
use super::plan::{RowPlan, Way};
use crate::stats::median;
use xsched_sim::sample::generator;

/// The role of figures that are of all roles.
pub(crate) const ALL: &str = "all";
/// Quantity of scripts and of their figures: 1 with equal results both ways, else 0.
pub(crate) const SAME: &str = "same";
/// Rate beside others over the rate alone.
pub(crate) const KEPT: &str = "kept";
/// End of the names of times beside others over those alone.
pub(crate) const OVER_ALONE: &str = "_over_alone";
pub(crate) const OVER_NATIVE: &str = "over_native";
pub(crate) const P99_OVER_NATIVE: &str = "p99_over_native";
/// Cores in use more than in the reference, in percent of one.
pub(crate) const MORE_CORES: &str = "cores_over_native_percent";
/// Number of times that the samples of a cell are drawn anew for intervals, of which the ends are
/// the tenth values from either side.
const REDRAWS: u64 = 400;
/// Seed of these random choices.
const SEED: u64 = 1;

/// All figures of the cells that were measured.
pub(crate) fn figures(plan: &RowPlan, cells: &[Cell]) -> Vec<Figure> {
    let measured = cells.iter().filter(|cell| cell.status == Status::Measured);
    measured.flat_map(|cell| of_cell(cell, reference(plan, cells, cell))).collect()
}

/// The figures of a cell as often as its samples, and those of its reference, are drawn anew.
pub(crate) fn redrawn(plan: &RowPlan, cells: &[Cell], name: &str) -> Vec<Vec<Figure>> {
    let cell = cells.iter().find(|cell| cell.name == name && cell.status == Status::Measured);
    let Some(cell) = cell else { return Vec::new() };
    let native = reference(plan, cells, cell);
    let draw = |number: u64| {
        let mut random = generator(SEED, number);
        let mut anew = |cell: &Cell| {
            let mut cell = cell.clone();
            for role in &mut cell.roles {
                for one in [&mut role.alone, &mut role.beside].into_iter().flatten() {
                    *one = Progress::from(one.samples.drawn(&mut random));
                }
            }
            cell
        };
        let native = native.map(&mut anew);
        of_cell(&anew(cell), native.as_ref())
    };
    (0..REDRAWS).map(draw).collect()
}

/// The 95 % interval of a figure of a cell that was drawn anew.
pub(crate) fn interval(
    redrawn: &[Vec<Figure>],
    (cell, role, quantity): (&str, &str, &str),
) -> Option<(f64, f64)> {
    let values = redrawn.iter().filter_map(|figures| find(figures, cell, role, quantity));
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let tail = values.len() / 40;
    let least = *values.get(tail.saturating_sub(1))?;
    let most = *values.get(values.len() - tail.max(1))?;
    Some((least, most))
}

/// The value of a figure.
pub(crate) fn find(figures: &[Figure], cell: &str, role: &str, quantity: &str) -> Option<f64> {
    let key = |figure: &&Figure| {
        let key = &figure.key;
        key.cell == cell && key.role == role && key.quantity == quantity
    };
    figures.iter().find(key).map(|figure| figure.value)
}

/// The cell of the same group without XSched.
fn reference<'a>(plan: &RowPlan, cells: &'a [Cell], cell: &Cell) -> Option<&'a Cell> {
    let group = &plan.cells.iter().find(|one| one.name == cell.name)?.group;
    let native = plan.cells.iter().find(|one| one.group == *group && one.way == Way::Native)?;
    cells.iter().find(|one| one.name == native.name && one.status == Status::Measured)
}

/// Collects figures of a cell.
struct Sheet<'a> {
    cell: &'a str,
    figures: Vec<Figure>,
}

impl Sheet<'_> {
    fn put(&mut self, role: &str, quantity: &str, value: impl Into<Option<f64>>) {
        self.figures.extend(Figure::of(self.cell, role, quantity, value));
    }
}

fn of_cell(cell: &Cell, reference: Option<&Cell>) -> Vec<Figure> {
    let mut sheet = Sheet { cell: &cell.name, figures: Vec::new() };
    let is_reference = reference.is_some_and(|one| one.name == cell.name);
    let first_mean = cell.roles.first().and_then(|role| role.beside.as_ref()).map(mean_ms);
    for role in &cell.roles {
        let native = reference.and_then(|one| one.roles.iter().find(|of| of.name == role.name));
        let is_own = is_reference || role.beside.is_none();
        if let Some(alone) = role.alone.as_ref().filter(|_| is_own) {
            of_alone(&mut sheet, &role.name, alone);
        }
        if let (Some(alone), None, false) = (&role.alone, &role.beside, is_reference) {
            // What was measured in turns says more.
            let before = native.and_then(|native| native.alone.as_ref());
            let over = || p50_over(alone, before?);
            sheet.put(&role.name, OVER_NATIVE, over_in_turns(alone).or_else(over));
        }
        let same = native.filter(|_| !is_reference).and_then(|native| same(role, native));
        sheet.put(&role.name, SAME, same);
        let Some(beside) = &role.beside else { continue };
        of_beside(&mut sheet, role, beside);
        let over_first = first_mean.filter(|&first| first > 0.0);
        let over_first = over_first.filter(|_| beside.latency.samples > 0);
        sheet.put(&role.name, "mean_over_first", over_first.map(|first| mean_ms(beside) / first));
        let p99 = || beside.latency.p99_over(&native.and_then(|one| one.beside.as_ref())?.latency);
        let p99 = over_in_turns(beside).or_else(p99).filter(|_| !is_reference);
        sheet.put(&role.name, P99_OVER_NATIVE, p99);
    }
    of_all(&mut sheet, cell, reference.filter(|_| !is_reference));
    sheet.figures
}

/// 1 if a role computed what it computes alone without XSched, 0 if not.
fn same(role: &Role, native: &Role) -> Option<f64> {
    let of = |progress: &Option<Progress>| progress.as_ref()?.samples.digest.clone();
    let here = of(&role.beside).or_else(|| of(&role.alone))?;
    Some(f64::from(u8::from(here == of(&native.alone).or_else(|| of(&native.beside))?)))
}

fn mean_ms(progress: &Progress) -> f64 {
    progress.latency.mean_us / 1e3
}

fn p50_over(one: &Progress, before: &Progress) -> Option<f64> {
    (before.latency.p50_us > 0.0).then(|| one.latency.p50_us / before.latency.p50_us)
}

/// The median of the ratios, turn by turn.
fn over_in_turns(progress: &Progress) -> Option<f64> {
    median(progress.samples.turns.iter().map(|(native, here)| here / native).collect())
}

fn of_alone(sheet: &mut Sheet<'_>, role: &str, alone: &Progress) {
    let latency = &alone.latency;
    if latency.samples == 0 {
        return;
    }
    sheet.put(role, "alone_mean_ms", latency.mean_us / 1e3);
    sheet.put(role, "alone_p50_ms", latency.p50_us / 1e3);
    sheet.put(role, "alone_p99_ms", latency.p99_us.map(|us| us / 1e3));
    sheet.put(role, "alone_rate_per_s", alone.rate_per_s);
    sheet.put(role, SAME, alone.samples.more.get(SAME).copied());
}

fn of_beside(sheet: &mut Sheet<'_>, role: &Role, beside: &Progress) {
    let (name, latency) = (role.name.as_str(), &beside.latency);
    sheet.put(name, "rate_per_s", beside.rate_per_s);
    // One that was kept from having requests has no latencies.
    let us = |us: f64| (latency.samples > 0).then_some(us / 1e3);
    sheet.put(name, "mean_ms", us(latency.mean_us));
    sheet.put(name, "p50_ms", us(latency.p50_us));
    sheet.put(name, "p95_ms", us(latency.p95_us));
    sheet.put(name, "p99_ms", latency.p99_us.map(|us| us / 1e3));
    sheet.put(name, "max_ms", us(latency.max_us));
    let mut windows = beside.samples.windows_percent.clone();
    windows.sort_by(f64::total_cmp);
    let rank = |part: f64| {
        let at = ((windows.len() as f64 * part).ceil() as usize).max(1) - 1;
        windows.get(at).copied()
    };
    sheet.put(name, "window_p5_percent", rank(0.05));
    sheet.put(name, "window_p95_percent", rank(0.95));
    let Some(alone) = &role.alone else { return };
    let before = &alone.latency;
    let over = |one: f64, before: f64| (before > 0.0 && one > 0.0).then(|| one / before);
    sheet.put(name, "mean_over_alone", over(latency.mean_us, before.mean_us));
    sheet.put(name, "p50_over_alone", over(latency.p50_us, before.p50_us));
    sheet.put(name, "p99_over_alone", latency.p99_over(before));
    sheet.put(name, KEPT, kept(role));
    let middle = |times: &[u64]| median(times.iter().map(|&us| us as f64).collect());
    let (here, alone) = (&beside.samples, &alone.samples);
    for (name_of, here, alone) in [
        ("first_token_p50_over_alone", &here.first_token_us, &alone.first_token_us),
        ("per_token_p50_over_alone", &here.per_token_us, &alone.per_token_us),
    ] {
        let both = middle(here).zip(middle(alone));
        sheet.put(name, name_of, both.and_then(|(here, alone)| over(here, alone)));
    }
}

/// Returns the part of its rate alone that a role keeps.
fn kept(role: &Role) -> Option<f64> {
    let alone = role.alone.as_ref().map(|alone| alone.rate_per_s).filter(|&rate| rate > 0.0)?;
    Some(role.beside.as_ref()?.rate_per_s / alone)
}

/// Requests of all roles that end each second beside each other.
fn rate(cell: &Cell) -> Option<f64> {
    let each: Option<Vec<f64>> =
        cell.roles.iter().map(|role| Some(role.beside.as_ref()?.rate_per_s)).collect();
    each.filter(|each| !each.is_empty()).map(|each| each.iter().sum())
}

/// Processors in use, by the parts of a phase.
fn cores(cell: &Cell) -> Option<f64> {
    let first = cell.roles.first()?;
    mean(&first.beside.as_ref().or(first.alone.as_ref())?.samples.cores)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn of_all(sheet: &mut Sheet<'_>, cell: &Cell, native: Option<&Cell>) {
    let total = rate(cell);
    sheet.put(ALL, "rate_per_s", total);
    let over = |one: Option<f64>, before: Option<f64>| {
        let (one, before) = one.zip(before.filter(|&before| before > 0.0))?;
        Some(one / before)
    };
    sheet.put(ALL, "rate_over_native", over(total, native.and_then(rate)));
    sheet.put(ALL, "cores", cores(cell));
    let first = cell.roles.first();
    let in_turns = first.and_then(|role| role.beside.as_ref().or(role.alone.as_ref()));
    let in_turns = in_turns.and_then(|progress| mean(&progress.samples.native_cores));
    let more = cores(cell).zip(in_turns.or(native.and_then(cores)));
    let more = more.map(|(here, native)| 100.0 * (here - native));
    sheet.put(ALL, MORE_CORES, more);
    let parts: Option<Vec<f64>> = cell.roles.iter().map(kept).collect();
    let Some(parts) = parts.filter(|parts| parts.len() > 1) else { return };
    let sum: f64 = parts.iter().sum();
    sheet.put(ALL, KEPT, sum);
    for (role, part) in cell.roles.iter().zip(parts).filter(|_| sum > 0.0) {
        sheet.put(&role.name, "share_percent", 100.0 * part / sum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::CellPlan;
    use super::*;
    use crate::rows::document::Samples;

    /// Progress of requests that all take `ms`, at `rate_per_s`.
    fn progress(ms: f64, rate_per_s: f64, samples: usize) -> Progress {
        let times_us = vec![(ms * 1e3) as u64; samples];
        Progress::from(Samples {
            times_us,
            rates_per_s: vec![rate_per_s; 20],
            ..Samples::default()
        })
    }

    /// A cell of two roles, each with what it does alone and beside the other.
    fn cell(name: &str, way: &str, roles: [(&str, Progress, Progress); 2]) -> Cell {
        let role = |(name, alone, beside): (&str, Progress, Progress)| Role {
            name: name.to_owned(),
            work: "work".to_owned(),
            load: "endless".to_owned(),
            alone: Some(alone),
            beside: Some(beside),
        };
        Cell {
            name: name.to_owned(),
            way: way.to_owned(),
            status: Status::Measured,
            counts: None,
            roles: roles.into_iter().map(role).collect(),
            seconds: 1.0,
        }
    }

    fn plan() -> RowPlan {
        let cell = |way: Way| CellPlan {
            name: format!("g, {}", way.name()),
            group: "g".to_owned(),
            way,
            ..CellPlan::default()
        };
        RowPlan { id: "1", name: "one", cells: vec![cell(Way::Native), cell(Way::Xsched)] }
    }

    #[test]
    fn values_are_set_beside_those_alone_and_those_of_the_reference() {
        let alone = || progress(5.0, 100.0, 1_000);
        let roles = |first: f64, rate: f64| {
            let beside = progress(first, rate, 1_000);
            [("a", alone(), beside), ("b", alone(), progress(20.0, 25.0, 1_000))]
        };
        let native = cell("g, native", "native", roles(10.0, 50.0));
        let xsched = cell("g, xsched", "xsched", roles(5.5, 75.0));
        let all = figures(&plan(), &[native, xsched]);
        let is = |cell: &str, role: &str, quantity: &str, wanted: f64| {
            let value = find(&all, cell, role, quantity).unwrap_or(f64::NAN);
            assert!((value / wanted - 1.0).abs() < 1e-3, "{cell} {role} {quantity}: {value}");
        };
        is("g, native", "a", "alone_p99_ms", 5.0);
        is("g, native", "a", "p99_over_alone", 2.0);
        is("g, xsched", "a", "p99_over_alone", 1.1);
        is("g, xsched", "a", "p99_over_native", 0.55);
        is("g, xsched", "b", "mean_over_first", 20.0 / 5.5);
        is("g, xsched", "a", "kept", 0.75);
        is("g, xsched", "a", "share_percent", 75.0);
        is("g, xsched", "all", "kept", 1.0);
        is("g, xsched", "all", "rate_over_native", 100.0 / 75.0);
        assert_eq!(find(&all, "g, xsched", "a", "alone_p50_ms"), None, "it is the reference's");
        assert_eq!(find(&all, "g, native", "a", "p99_over_native"), None);
    }

    #[test]
    fn turns_beside_others_say_more_than_another_time() {
        let role = |ms: f64| ("a", progress(1.0, 1.0, 1_000), progress(ms, 1.0, 1_000));
        let native = cell("g, native", "native", [role(10.0), role(10.0)]);
        let mut xsched = cell("g, xsched", "xsched", [role(12.0), role(12.0)]);
        let turns = vec![(10.0, 10.1), (10.0, 9.0), (20.0, 22.0)];
        xsched.roles[0].beside.as_mut().unwrap().samples.turns = turns;
        let all = figures(&plan(), &[native, xsched]);
        let is = |quantity| find(&all, "g, xsched", "a", quantity);
        assert_eq!(is(P99_OVER_NATIVE), Some(1.01), "1.2 if each is measured at its own time");
        assert_eq!(is(OVER_NATIVE), None, "that is of what is alone");
    }

    #[test]
    fn what_is_only_alone_is_set_beside_the_reference() {
        let one = |name: &str, way: &str, ms: f64, cores: f64| {
            let mut cell = cell(
                name,
                way,
                [0, 1].map(|_| ("a", progress(ms, 1.0, 10), progress(1.0, 1.0, 1))),
            );
            cell.roles.truncate(1);
            cell.roles[0].beside = None;
            cell.roles[0].alone.as_mut().unwrap().samples.cores = vec![cores];
            cell
        };
        let cells = [one("g, native", "native", 10.0, 0.5), one("g, xsched", "xsched", 10.2, 0.53)];
        let all = figures(&plan(), &cells);
        let over = find(&all, "g, xsched", "a", OVER_NATIVE).unwrap();
        assert!((over - 1.02).abs() < 1e-3, "{over}");
        let more = find(&all, "g, xsched", "all", "cores_over_native_percent").unwrap();
        assert!((more - 3.0).abs() < 1e-9, "{more}");
        assert_eq!(find(&all, "g, xsched", "a", "p99_over_alone"), None);
    }

    #[test]
    fn few_samples_have_no_p99_and_failed_cells_no_figures() {
        let roles =
            || [0, 1].map(|n| (["a", "b"][n], progress(1.0, 1.0, 999), progress(1.0, 1.0, 999)));
        let mut failed = cell("g, xsched", "xsched", roles());
        failed.status = Status::Failed("it hung".to_owned());
        let all = figures(&plan(), &[cell("g, native", "native", roles()), failed]);
        assert_eq!(find(&all, "g, native", "a", "p99_ms"), None);
        assert!(find(&all, "g, native", "a", "p50_ms").is_some());
        assert!(all.iter().all(|figure| figure.key.cell == "g, native"));
    }
}
