//! The figures of the test plan, redrawn from what was measured.

use xsched_sim::report::{Bar, Bars, Chart, Line, Plot};

use super::super::document::{Cell, Progress, Row, Status};
use super::super::plan::Way;
use super::summary::outcome;
use crate::draw::counted;

/// A figure, or why it is not there.
#[derive(Debug)]
pub(super) struct Figure {
    /// The number in the test plan.
    pub(super) number: &'static str,
    /// Title of the picture.
    pub(super) title: &'static str,
    /// Parts of the picture: a diagram, or why it cannot be drawn.
    pub(super) parts: Vec<Result<Chart, String>>,
}

/// More lines than this cannot be told apart.
const LINES_MAX: usize = 14;
/// The style of lines for goals: grey and dashed.
const GOAL: usize = 13;
/// The style of what runs alone: grey and dotted.
const ALONE: usize = 20;
/// Points of a distribution: as many as can be told apart in 1,000 pixels.
const POINTS: usize = 200;
/// Styles before the next pattern.
const COLORS: usize = 7;

/// The figures of these rows.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let figure = |number, title, parts| Figure { number, title, parts };
    vec![
        figure("9", "Fixed priority and bandwidth partition", fig9(rows)),
        figure("11", "Preemption latency and threshold", fig11(rows)),
        figure("12", "Overhead of the runtime and on the processor", fig12(rows)),
        figure("13", "Harvesting", fig13(rows)),
        figure("14", "Video conferencing", fig14(rows)),
        figure("15", "Inference serving", fig15(rows)),
    ]
}

/// The row, if it has something to draw.
fn row<'a>(rows: &'a [Row], id: &str) -> Result<&'a Row, String> {
    let row = rows.iter().find(|row| row.id == id);
    let row = row.ok_or_else(|| format!("row {id} is not in this folder"))?;
    match &row.status {
        Status::Measured => {}
        Status::NotRun(why) => return Err(format!("row {id} was not run: {why}")),
        Status::Failed(why) => return Err(format!("row {id} failed: {why}")),
    }
    if measured(row).next().is_some() {
        return Ok(row);
    }
    let first = row.cells.iter().find_map(|cell| match &cell.status {
        Status::NotRun(why) | Status::Failed(why) => Some(why.as_str()),
        Status::Measured => None,
    });
    Err(format!("no cell of row {id} was measured: {}", first.unwrap_or("it has none")))
}

fn measured(row: &Row) -> impl Iterator<Item = &Cell> {
    row.cells.iter().filter(|cell| cell.status == Status::Measured)
}

/// The value of a figure of the row.
fn value(row: &Row, cell: &str, role: &str, quantity: &str) -> Option<f64> {
    let found = row.figures.iter().find(|figure| {
        let key = &figure.key;
        key.cell == cell && key.role == role && key.quantity == quantity
    });
    found.map(|figure| figure.value)
}

/// Splits a cell's name into what its group has in common, and what tells it from the others.
fn split(cell: &Cell) -> (&str, &str) {
    let at = cell.name.find(&format!(", {}", cell.way));
    let at = at.or_else(|| cell.name.find(", level")).or_else(|| cell.name.find(", threshold"));
    let split = at.map(|at| cell.name.split_at(at));
    split.map_or(("", cell.name.as_str()), |(group, rest)| (group, rest.trim_start_matches(", ")))
}

/// The groups of a row's measured cells, in their order.
fn groups(row: &Row) -> Vec<&str> {
    let mut groups = Vec::new();
    for cell in measured(row) {
        let (group, _) = split(cell);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// A distribution in percent over milliseconds.
fn distribution(name: String, progress: &Progress) -> Line {
    let mut sorted = progress.samples.times_us.clone();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let points = sorted.len().min(POINTS);
    let point = |n: usize| {
        let rank = if points > 1 { n * last / (points - 1) } else { 0 };
        let ms = *sorted.get(rank)? as f64 / 1e3;
        Some((ms, 100.0 * (rank + 1) as f64 / sorted.len() as f64))
    };
    let from = sorted.first().map(|&us| (us as f64 / 1e3, 0.0));
    let line = Line::new(name, from.into_iter().chain((0..points).filter_map(point)).collect());
    line.of_samples(progress.latency.samples as u64)
}

/// The latencies of the first role of each cell of a group, and those alone.
fn latencies(row: &Row, group: &str, name: &'static str) -> Result<Chart, String> {
    let cells = || measured(row).filter(|cell| split(cell).0 == group);
    let mut lines = Vec::new();
    let alone = cells().find_map(|cell| cell.roles.first()?.alone.as_ref());
    lines.extend(alone.map(|alone| distribution("alone".to_owned(), alone).styled(ALONE)));
    let mut ways: Vec<&str> = Vec::new();
    for cell in cells() {
        let beside = cell.roles.first().and_then(|role| role.beside.as_ref());
        let Some(beside) = beside else { continue };
        let earlier = ways.iter().filter(|way| **way == cell.way).count();
        ways.push(&cell.way);
        let line = distribution(split(cell).1.to_owned(), beside);
        // A way has the same colour in all figures, and further cells of it other patterns.
        lines.push(match Way::place(&cell.way) {
            Some(place) => line.styled(place + COLORS * earlier),
            None => line,
        });
    }
    lines.retain(|line| !line.points.is_empty());
    lines.truncate(LINES_MAX);
    if lines.is_empty() {
        return Err(format!("row {}, {group}: no latencies were kept", row.id));
    }
    let role = cells().find_map(|cell| cell.roles.first());
    let role = role.map_or("the first role", |role| role.name.as_str());
    let title = titled(row, &format!("{group}: latencies of {role}"));
    let (x, y) = ("latency (ms)", "requests (%)");
    Ok(Chart { name, title, x, y, plot: Plot::Near(lines) })
}

/// The latencies of all groups of a row.
fn all_latencies(rows: &[Row], id: &str, name: &'static str) -> Vec<Result<Chart, String>> {
    match row(rows, id) {
        Ok(row) => groups(row).into_iter().map(|group| latencies(row, group, name)).collect(),
        Err(why) => vec![Err(why)],
    }
}

fn fig9(rows: &[Row]) -> Vec<Result<Chart, String>> {
    let mut parts = all_latencies(rows, "7.2.1", "fixed-priority");
    match row(rows, "7.2.2") {
        Ok(row) => parts.extend(groups(row).into_iter().map(|group| windows(row, group))),
        Err(why) => parts.push(Err(why)),
    }
    parts
}

/// Parts of the device in consecutive windows.
fn windows(row: &Row, group: &str) -> Result<Chart, String> {
    let mut lines = Vec::new();
    for cell in measured(row).filter(|cell| split(cell).0 == group) {
        for role in &cell.roles {
            let windows =
                role.beside.as_ref().map(|beside| beside.samples.windows_percent.as_slice());
            let windows = windows.unwrap_or_default().iter().enumerate();
            let points: Vec<_> = windows.map(|(n, part)| (n as f64, *part)).collect();
            let name = format!("{}: {}", split(cell).1, role.name);
            lines.push(Line::new(name, points));
        }
    }
    lines.retain(|line| !line.points.is_empty());
    lines.truncate(LINES_MAX - 2);
    let longest = lines.iter().map(|line| line.points.len()).max();
    let Some(longest) = longest else {
        return Err(format!("row {}, {group}: no parts in windows were kept", row.id));
    };
    let goal = |part| vec![(0.0, part), (longest.saturating_sub(1).max(1) as f64, part)];
    for part in [75.0, 25.0] {
        lines.push(Line::new(format!("{part} %"), goal(part)).styled(GOAL));
    }
    Ok(Chart {
        name: "partition",
        title: titled(row, &format!("{group}: parts of the device")),
        x: "window of 20 timeslices",
        y: "part (%)",
        plot: Plot::Lines(lines),
    })
}

fn fig11(rows: &[Row]) -> Vec<Result<Chart, String>> {
    let latency = "latencies over levels and lengths (7.3.1, 7.3.2) are of kernels that spin and not \
                   of programs: `xsched-lab bench all` measures them";
    vec![Err(latency.to_owned()), row(rows, "7.3.3").and_then(thresholds)]
}

/// Draws the cost of few commands in flight.
fn thresholds(row: &Row) -> Result<Chart, String> {
    let line = |group: &str| {
        let cells = measured(row).filter(|cell| split(cell).0 == group);
        let point = |cell: &Cell| {
            let threshold = cell.name.rsplit_once("threshold ")?.1.parse().ok()?;
            let role = cell.roles.first()?;
            Some((threshold, value(row, &cell.name, &role.name, "over_native")?))
        };
        let mut points: Vec<(f64, f64)> = cells.filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::new(group, points).dotted()
    };
    let mut lines: Vec<Line> = groups(row).into_iter().map(line).collect();
    lines.retain(|line| !line.points.is_empty());
    if lines.is_empty() {
        return Err(format!("row {} has no cost of a threshold", row.id));
    }
    let ends = lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let ends = ends.fold((f64::INFINITY, 1.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    lines.push(Line::new("3 %", vec![(ends.0, 1.03), (ends.1, 1.03)]).styled(GOAL));
    Ok(Chart {
        name: "threshold",
        title: titled(row, "what few commands in flight cost"),
        x: "commands in flight at most",
        y: "P50 / P50 without XSched",
        plot: Plot::Near(lines),
    })
}

fn fig12(rows: &[Row]) -> Vec<Result<Chart, String>> {
    let time = row(rows, "7.4.1").and_then(|row| {
        let cost = |cell: &Cell| {
            let role = cell.roles.first()?;
            let over = value(row, &cell.name, &role.name, "over_native")?;
            Some(100.0 * (over - 1.0))
        };
        let line = Some(("3.4 %".to_owned(), 3.4));
        by_setting(row, ("runtime", "time that a request takes longer (%)"), cost, line)
    });
    let processor = row(rows, "7.4.2").and_then(|row| {
        let cost = |cell: &Cell| value(row, &cell.name, "all", "cores_over_native_percent");
        let line = Some(("5 %".to_owned(), 5.0));
        by_setting(row, ("processor", "more of a core (%)"), cost, line)
    });
    vec![time, processor]
}

/// A bar for each setting of each group.
fn by_setting(
    row: &Row,
    (name, y): (&'static str, &'static str),
    of: impl Fn(&Cell) -> Option<f64>,
    line: Option<(String, f64)>,
) -> Result<Chart, String> {
    let groups = groups(row);
    let mut settings: Vec<&str> = Vec::new();
    for cell in measured(row).filter(|cell| of(cell).is_some()) {
        let (_, setting) = split(cell);
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    if settings.is_empty() {
        return Err(format!("row {} has nothing to compare: no cell beside its reference", row.id));
    }
    let bar = |setting: &&str| {
        let height = |group: &&str| {
            measured(row).find(|cell| split(cell) == (*group, *setting)).and_then(&of)
        };
        Bar::new(*setting, groups.iter().map(height).collect(), &[])
    };
    let names = groups.iter().map(|&group| short(group)).collect();
    let mut bars = Bars::new(names, settings.iter().map(bar).collect());
    bars.line = line;
    let title = titled(row, &(row.title() + &samples(row)));
    Ok(Chart { name, title, x: "", y, plot: Plot::Bars(bars) })
}

/// The title of a figure of a row: what came out stands behind.
fn titled(row: &Row, what: &str) -> String {
    format!("{}, {what}: {}", row.id, outcome(row).text)
}

/// The numbers of samples behind the bars of a row.
fn samples(row: &Row) -> String {
    let roles = measured(row).flat_map(|cell| &cell.roles);
    let phases = roles.filter_map(|role| role.beside.as_ref().or(role.alone.as_ref()));
    counted(phases.map(|progress| progress.latency.samples))
}

/// A name that has room below its bars.
fn short(name: &str) -> String {
    match name {
        "" => "all".to_owned(),
        name => name.to_owned(),
    }
}

/// Bars of one quantity of each role, a group for each way.
fn by_way(
    row: &Row,
    (name, y, quantity): (&'static str, &'static str, &str),
    line: Option<(String, f64)>,
) -> Result<Chart, String> {
    let cells: Vec<&Cell> = measured(row).collect();
    let mut roles: Vec<&str> = Vec::new();
    for role in cells.iter().flat_map(|cell| &cell.roles) {
        if !roles.contains(&role.name.as_str()) {
            roles.push(&role.name);
        }
    }
    let bar = |role: &&str| {
        let values = cells.iter().map(|cell| value(row, &cell.name, role, quantity)).collect();
        Bar::new(*role, values, &[])
    };
    let bars: Vec<Bar> = roles.iter().map(bar).collect();
    if bars.iter().all(|bar| bar.values.iter().all(Option::is_none)) {
        return Err(format!("row {} has no `{quantity}`", row.id));
    }
    let names = cells.iter().map(|cell| split(cell).1.to_owned()).collect();
    let mut bars = Bars::new(names, bars);
    bars.line = line;
    bars.log = true;
    let title = titled(row, &(row.title() + &samples(row)));
    Ok(Chart { name, title, x: "", y, plot: Plot::Bars(bars) })
}

fn fig13(rows: &[Row]) -> Vec<Result<Chart, String>> {
    let kept = "rate / rate alone";
    let goal = |name: &str, value| Some((name.to_owned(), value));
    vec![
        row(rows, "8.1.1")
            .and_then(|row| by_way(row, ("training", kept, "kept"), goal("0.95", 0.95))),
        row(rows, "8.1.2").and_then(|row| {
            let y = "mean latency / mean latency alone";
            by_way(row, ("mixed", y, "mean_over_alone"), goal("1.05", 1.05))
        }),
        row(rows, "8.1.2").and_then(|row| by_way(row, ("mixed-kept", kept, "kept"), None)),
    ]
}

fn fig14(rows: &[Row]) -> Vec<Result<Chart, String>> {
    let mut parts = all_latencies(rows, "8.2.1", "frames");
    if let Ok(row) = row(rows, "8.2.1") {
        let y = "longest request (ms)";
        let goal = Some(("3 s".to_owned(), 3_000.0)).filter(|_| row.hal != "host");
        parts.push(by_way(row, ("longest", y, "max_ms"), goal));
    }
    parts
}

fn fig15(rows: &[Row]) -> Vec<Result<Chart, String>> {
    let mut parts = all_latencies(rows, "8.3.1", "served");
    parts.push(row(rows, "8.3.2").and_then(arrivals));
    parts
}

/// The tail over the rate of arrivals. Without samples for a P99 it is the P95.
fn arrivals(row: &Row) -> Result<Chart, String> {
    let has_p99 = row.figures.iter().any(|figure| figure.key.quantity == "p99_ms");
    let (quantity, y) =
        if has_p99 { ("p99_ms", "P99 (ms)") } else { ("p95_ms", "P95, too few for a P99 (ms)") };
    let mut lines: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    for cell in measured(row) {
        let (group, way) = split(cell);
        let rate = group.split(' ').next().and_then(|rate| rate.parse::<f64>().ok());
        let role = cell.roles.first().map_or("", |role| role.name.as_str());
        let point = rate.zip(value(row, &cell.name, role, quantity));
        let Some(point) = point else { continue };
        match lines.iter_mut().find(|(name, _)| *name == way) {
            Some((_, points)) => points.push(point),
            None => lines.push((way, vec![point])),
        }
    }
    if lines.is_empty() {
        return Err(format!("row {} has no `{quantity}` over rates", row.id));
    }
    let line = |(way, mut points): (&str, Vec<(f64, f64)>)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::new(way, points).dotted()
    };
    let lines = lines.into_iter().map(line).collect();
    let first = row.cells.first().and_then(|cell| cell.roles.first());
    let first = first.map_or_else(|| "the first network".to_owned(), |role| row.named(&role.work));
    let title = titled(row, &format!("{first} over arrivals of all networks"));
    Ok(Chart { name: "arrivals", title, x: "arrivals per second", y, plot: Plot::Lines(lines) })
}
