//! Times in which a device should have run a command and did not.
//!
//! A device with one unit that has something to run is never idle, in the model. A real one is: the
//! thread that computes, or drives it, may have to wait for a processor. So the time between two
//! completions that were seen is given out to the commands that ran in it: first to the one that
//! completed, then, if its device time does not fit in there because it was interrupted, or is one
//! of several that completed together, to times before that no command has claimed, back to its
//! submit. What is left of the time before a completion is a stall of the command that completed.

use super::trace::Trace;

/// How many earlier times are looked at for one completion.
const LOOK_BACK: usize = 1_000;

/// Time between two completions on a device.
#[derive(Clone, Copy, Debug)]
struct Gap {
    end_ns: u64,
    /// Time that no command has claimed.
    free_ns: u64,
    /// The command that should have run: place of its queue among the traces, and its index.
    owner: Option<(usize, usize)>,
}

/// Commands that were seen to complete together.
#[derive(Clone, Copy, Debug)]
struct Batch {
    trace: usize,
    first: usize,
    seen_ns: u64,
    /// When the first of them could start at the earliest.
    from_ns: u64,
    /// When all of them could have ended had they had the device since `from_ns`, less that.
    work_ns: u64,
}

/// Stalls: place of the trace, index of the command, time. Of one device, with one unit.
pub(super) fn find(traces: &[&Trace]) -> Vec<(usize, usize, u64)> {
    let mut batches: Vec<Batch> = Vec::new();
    for (n, trace) in traces.iter().enumerate() {
        add_batches(n, trace, &mut batches);
    }
    batches.sort_by_key(|batch| (batch.seen_ns, batch.trace, batch.first));
    let mut gaps: Vec<Gap> = Vec::new();
    let mut before_ns = 0;
    for batch in &batches {
        claim(batch, before_ns, &mut gaps);
        before_ns = batch.seen_ns;
    }
    let stall = |gap: &Gap| gap.owner.map(|(trace, command)| (trace, command, gap.free_ns));
    gaps.iter().filter_map(stall).filter(|(.., ns)| *ns > 0).collect()
}

fn add_batches(n: usize, trace: &Trace, batches: &mut Vec<Batch>) {
    let mut before_ns = 0;
    let (mut first, commands) = (0, &trace.commands);
    while first < commands.len() {
        let seen_ns = commands[first].seen_ns;
        let same = commands[first..].iter().take_while(|c| c.seen_ns == seen_ns).count();
        if seen_ns > 0 {
            let from_ns = commands[first].submit_ns.max(before_ns);
            // A command that was submitted after the end of the one before it came later.
            let end = commands[first..first + same].iter().fold(from_ns, |end, command| {
                end.max(command.submit_ns).saturating_add(command.work_ns)
            });
            let work_ns = end.saturating_sub(from_ns);
            batches.push(Batch { trace: n, first, seen_ns, from_ns, work_ns });
            before_ns = seen_ns;
        }
        first += same;
    }
}

fn claim(batch: &Batch, before_ns: u64, gaps: &mut Vec<Gap>) {
    let start_ns = batch.from_ns.max(before_ns).min(batch.seen_ns);
    let idle_ns = start_ns.saturating_sub(before_ns);
    gaps.push(Gap { end_ns: start_ns, free_ns: idle_ns, owner: None });
    let own_ns = batch.seen_ns - start_ns;
    let owner = Some((batch.trace, batch.first));
    let mut rest_ns = batch.work_ns.saturating_sub(own_ns);
    let free_ns = own_ns.saturating_sub(batch.work_ns);
    // Times at which no queue had work go first.
    for take_stalls in [false, true] {
        for gap in gaps.iter_mut().rev().take(LOOK_BACK) {
            if rest_ns == 0 || gap.end_ns <= batch.from_ns {
                break;
            }
            if gap.owner.is_some() == take_stalls {
                let taken_ns = gap.free_ns.min(rest_ns).min(gap.end_ns - batch.from_ns);
                gap.free_ns -= taken_ns;
                rest_ns -= taken_ns;
            }
        }
    }
    gaps.push(Gap { end_ns: batch.seen_ns, free_ns, owner });
}
