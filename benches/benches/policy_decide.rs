//! What one decision costs: for one changed queue and for all, with 100 and 10,000 queues.

use std::error::Error;
use std::process::ExitCode;

use xsched_benches::decide::{Rig, clock_ns, median};
use xsched_benches::mode::{Mode, judge};
use xsched_policies::{Any, UnknownPolicy};

/// Numbers of queues, and what a decision for one changed queue may cost.
const SIZES: [(usize, f64); 2] = [(100, 200.0), (10_000, 1_000.0)];
/// What a decision for all may cost, with the most queues.
const FULL_NS: f64 = 25_000.0;
/// The policies that the goals are for. The others are printed.
const JUDGED: [&str; 3] = ["hpf", "wfq", "edf"];
/// One of so many queues is ready.
const READY_OF: [usize; 2] = [100, 1];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mode = Mode::from_args();
    let reached = !mode.figures() || figures(mode)?;
    Ok(mode.exit_code(reached))
}

fn figures(mode: Mode) -> Result<bool, Box<dyn Error>> {
    println!(
        "Nanoseconds of one call of `decide`, median, less the {} ns of taking the time: for one",
        clock_ns()
    );
    println!("changed queue, and for all; with one queue in 100 ready, and with all ready.\n");
    print!("{:<12}", "policy");
    for ready_of in READY_OF {
        for (queues, _) in SIZES {
            let what = if ready_of == 1 { "all" } else { "1 %" };
            print!(" {:>14} {:>9}", format!("{queues} ({what})"), "full");
        }
    }
    println!();
    let mut reached = true;
    for name in Any::NAMES {
        let policy: Any = name.parse().map_err(|error: UnknownPolicy| error.to_string())?;
        print!("{name:<12}");
        for ready_of in READY_OF {
            for (queues, one_ns) in SIZES {
                let (one, all) = costs(policy.clone(), queues, ready_of, mode)?;
                let full = queues < 10_000 || ready_of == 1 || all <= FULL_NS;
                reached &= !JUDGED.contains(name) || one <= one_ns && full;
                print!(" {one:>14.0} {all:>9.0}");
            }
        }
        println!();
    }
    println!();
    let goal = "hpf, wfq and edf: one of 100 within 200 ns, one of 10,000 within 1 us, and all of \
                10,000, one in 100 ready, within 25 us";
    Ok(mode.smoke() || judge(goal, reached))
}

/// The medians for one queue and for all.
fn costs(
    policy: Any,
    queues: usize,
    ready_of: usize,
    mode: Mode,
) -> Result<(f64, f64), Box<dyn Error>> {
    let (one, all) = if mode.smoke() { (20, 2) } else { (20_000, 101) };
    let mut rig = Rig::new(policy, queues, ready_of).map_err(|error| error.to_string())?;
    let mut times = rig.measure(one, all).map_err(|error| error.to_string())?;
    Ok((median(&mut times.one), median(&mut times.all)))
}
