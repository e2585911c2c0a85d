//! Cost of a decision: for one changed queue of 100 and of 10,000, and for all of 10,000.

use std::error::Error;
use std::process::ExitCode;

use xsched_benches::decide::{Rig, Times, clock_ns, median};
use xsched_benches::mode::{Mode, judge};
use xsched_policies::{Any, UnknownPolicy};

/// Numbers of queues, and what a decision for one changed queue may cost.
const SIZES: [(usize, f64); 2] = [(100, 200.0), (10_000, 1_000.0)];
/// Goal of a full decision, with the most queues and the fewest of them ready.
const FULL_NS: f64 = 25_000.0;
/// The policies that the goals are for. The others are printed.
const JUDGED: [&str; 3] = ["hpf", "wfq", "edf"];
/// One of this many queues is ready.
const FEW: usize = 100;
const READY_OF: [usize; 3] = [FEW, 10, 1];

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
    println!(
        "changed queue of so many; and for all 10,000, by a policy that knows them and by one"
    );
    println!("that was just put in charge. By how many queues are ready.\n");
    println!(
        "{:<12} {:>15} {:>15} {:>26} {:>26}",
        "", "one of 100", "one of 10,000", "all", "all, new"
    );
    print!("{:<12}", "policy");
    ["1 %", "all", "1 %", "all"].iter().for_each(|ready| print!(" {ready:>7}"));
    ["1 %", "10 %", "all"].iter().cycle().take(6).for_each(|ready| print!(" {ready:>8}"));
    println!();
    let mut reached = true;
    for name in Any::NAMES {
        let policy: Any = name.parse().map_err(|error: UnknownPolicy| error.to_string())?;
        let good = line(name, &policy, mode)?;
        reached &= good || !JUDGED.contains(name);
    }
    println!();
    let goal = "hpf, wfq and edf: one of 100 within 200 ns, one of 10,000 within 1 us, and all of \
                10,000, one in 100 ready, within 25 us";
    Ok(mode.smoke() || judge(goal, reached))
}

/// Prints the figures of a policy; whether they are as good as they should be.
fn line(name: &str, policy: &Any, mode: Mode) -> Result<bool, Box<dyn Error>> {
    print!("{name:<12}");
    let mut good = true;
    let (mut all, mut new) = (Vec::new(), Vec::new());
    for (queues, one_ns) in SIZES {
        for ready_of in READY_OF {
            if queues == SIZES[0].0 && ready_of != FEW && ready_of != 1 {
                continue;
            }
            let mut times = costs(policy.clone(), queues, ready_of, mode)?;
            let one = median(&mut times.one);
            good &= one <= one_ns;
            if ready_of == FEW || ready_of == 1 {
                print!(" {one:>7.0}");
            }
            if queues == SIZES[1].0 {
                all.push(median(&mut times.all));
                new.push(median(&mut times.new));
                good &= ready_of != FEW || all[0].max(new[0]) <= FULL_NS;
            }
        }
    }
    for ns in all.into_iter().chain(new) {
        print!(" {ns:>8.0}");
    }
    println!();
    Ok(good)
}

fn costs(policy: Any, queues: usize, ready_of: usize, mode: Mode) -> Result<Times, Box<dyn Error>> {
    let (one, all) = if mode.smoke() { (20, 2) } else { (20_000, 101) };
    let mut rig = Rig::new(policy, queues, ready_of).map_err(|error| error.to_string())?;
    Ok(rig.measure(one, all).map_err(|error| error.to_string())?)
}
