//! `xsched sim cluster` and `xsched sim gangs`.

use xsched_console::Ending;
use xsched_console::machine::default_threads;
use xsched_console::output::{Outputs, Places};
use xsched_console::table::table;
use xsched_sim::cluster::{Cell, ClusterStudy, GangStudy, Skew, gangs, study};
use xsched_sim::report::write_json;
use xsched_sim::scenario::{ClusterScenario, Weighted};

use crate::args::{ClusterArgs, GangsArgs};
use crate::check_seeds;
use crate::error::CliError;

/// Runs the days, writes the figures if wanted, and prints them.
pub(crate) fn cluster(args: &ClusterArgs) -> Result<Ending, CliError> {
    let mut scenario = ClusterScenario::load(&args.file)?;
    let seed = args.seed.unwrap_or(scenario.seed);
    let seeds = args.seeds.unwrap_or(scenario.seeds);
    check_seeds(seed, seeds)?;
    if let Some(percent) = args.duty_percent {
        let duty = Weighted { value: f64::from(percent) / 100.0, weight: 1.0 };
        scenario.classes.iter_mut().for_each(|class| class.duty = vec![duty]);
    }
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    let study = study(&scenario, seed, seeds, default_threads());
    if let Some(output) = &outputs.json {
        output.write(|out| write_json(out, &study))?;
    }
    outputs.tables().print(&days(&study))?;
    Ok(Ending::new(false))
}

fn days(study: &ClusterStudy) -> String {
    let header = [
        "<load",
        "<way",
        "<urgent wait P50 s",
        "<P99 s",
        "<stretch P50",
        "<P99",
        "<batch work GPU h",
        "<busy %",
        "<taken %",
    ];
    let row = |cell: &Cell| {
        let band = |name: &str, scale: f64, digits: usize| {
            let text = |value: f64| format!("{:.digits$}", value * scale);
            let band = cell.band(name);
            band.map_or_else(
                || "-".to_owned(),
                |band| format!("{} [{}..{}]", text(band.median), text(band.p5), text(band.p95)),
            )
        };
        vec![
            cell.load.to_string(),
            format!("{:?}", cell.way).to_lowercase(),
            band("interactive.wait_p50_s", 1.0, 1),
            band("interactive.wait_p99_s", 1.0, 0),
            band("interactive.stretch_p50", 1.0, 3),
            band("interactive.stretch_p99", 1.0, 3),
            band("batch.work_gpu_h", 1.0, 0),
            band("busy", 100.0, 1),
            band("taken", 100.0, 1),
        ]
    };
    let (first, last) = (study.seed, study.seed + (study.seeds - 1));
    let title = format!(
        "{}: {} nodes of {} GPUs, mean duty {:.1} %, seeds {first} to {last}, median [5th..95th \
         percentile]",
        study.name,
        study.nodes,
        study.gpus,
        study.duty * 100.0
    );
    table(&title, &header, study.cells.iter().map(row))
}

/// Runs the gangs, writes the figures if wanted, and prints them.
pub(crate) fn nodes_of_gangs(args: &GangsArgs) -> Result<Ending, CliError> {
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    let study = gangs(args.seed);
    if let Some(output) = &outputs.json {
        output.write(|out| write_json(out, &study))?;
    }
    outputs.tables().print(&kept(&study))?;
    Ok(Ending::new(false))
}

fn kept(study: &GangStudy) -> String {
    let header = ["<turn ms", "<step ms", "<skew", "nodes", "kept %", "5th..95th", "spun %"];
    let rows = study.cells.iter().map(|cell| {
        let percent = |part: f64| format!("{:.1}", part * 100.0);
        let skew = match cell.skew {
            Skew::Within(ns) => format!("{} µs", ns / 1_000),
            Skew::Independent => "independent".to_owned(),
            Skew::Requests => "urgent requests".to_owned(),
        };
        vec![
            cell.turn_ms.to_string(),
            cell.step_ms.to_string(),
            skew,
            cell.nodes.to_string(),
            percent(cell.kept.median),
            format!("{}..{}", percent(cell.kept.p5), percent(cell.kept.p95)),
            percent(cell.spun.median),
        ]
    });
    table(&format!("gangs over nodes, seed {}", study.seed), &header, rows)
}
