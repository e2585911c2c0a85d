//! Hints to the scheduler: the functions of `xsched/hint.h`.
//!
//! Hints stay, whichever scheduler and policy are in charge, and count as soon as one is that wants
//! them. Values out of range come to what the policies of the C++ XSched make of them, as far as
//! they can here; under `XSCHED_STRICT` they are answered with `kXSchedErrorInvalidValue`.

use xsched_core::hint::{Hints, Laxity as CoreLaxity, OutOfRange, PolicyHint, Priority as Rank};
use xsched_core::time::Duration;

use crate::contention::{self, Cause};
use crate::lenient::{About, Leniency, Range};
use crate::process::process;
use crate::refusal::{Answer, Refusal, answer};
use crate::types::{
    Deadline, Laxity, NO_DEADLINE, NO_LAXITY, PRIORITY_MAX, PRIORITY_MIN, PRIORITY_NO_EXECUTE,
    Priority, TIMESLICE_MAX, TIMESLICE_MIN, TIMESLICE_UNLIMITED, Timeslice, UTILIZATION_MAX,
    UTILIZATION_MIN, Utilization, XPolicyTypeValue, XQueueHandle, XResult, XSchedulerType,
    XSchedulerTypeValue,
};

const DAY_US: i64 = 86_400_000_000;
/// Queues that run at once, at most.
const K_MAX: i64 = 65_536;

const PRIORITY: Range = Range {
    about: About::Priority,
    name: "priority",
    min: PRIORITY_NO_EXECUTE as i64,
    max: PRIORITY_MAX as i64,
};
const LAXITY_PRIORITY: Range =
    Range { about: About::LaxityPriority, name: "priority of a laxity", ..PRIORITY };
const UTILIZATION: Range = Range {
    about: About::Utilization,
    name: "share in percent",
    min: UTILIZATION_MIN as i64,
    max: UTILIZATION_MAX as i64,
};
const TIMESLICE: Range = Range {
    about: About::Timeslice,
    name: "timeslice in µs",
    min: TIMESLICE_MIN,
    max: TIMESLICE_MAX,
};
const LAXITY: Range = Range { about: About::Laxity, name: "laxity in µs", min: 1, max: DAY_US };
const DEADLINE: Range = Range { about: About::Deadline, name: "deadline in µs", ..LAXITY };
const K: Range = Range { about: About::K, name: "k", min: 1, max: K_MAX };
/// Fate of a hint that the C++ XSched ignores.
const IGNORED: &str = "what was set before stays";

impl From<OutOfRange> for Refusal {
    fn from(error: OutOfRange) -> Self {
        Self::invalid(error.to_string())
    }
}

/// A time that is in range.
const fn span(us: i64) -> Duration {
    Duration::from_us(us.unsigned_abs())
}

/// The scheduler with this number.
const fn scheduler_of(number: i32) -> XSchedulerType {
    match number {
        1 => XSchedulerType::kSchedulerAppManaged,
        2 => XSchedulerType::kSchedulerLocal,
        3 => XSchedulerType::kSchedulerGlobal,
        _ => XSchedulerType::kSchedulerUnknown,
    }
}

/// Puts a scheduler and its policy in charge, and returns when its first decisions are carried out.
/// `kSchedulerAppManaged` takes no policy. As with the C++ XSched, `kSchedulerGlobal` with a policy
/// is `kSchedulerLocal` with it; under `XSCHED_STRICT` it is `kXSchedErrorNotSupported`. With
/// `kPolicyUnknown` this process joins the daemon `xschedd`, whose policy decides. That is
/// `kXSchedErrorNotSupported` without a daemon, and `kXSchedErrorNotAllowed` once there are XQueues
/// on a GPU. After `XSCHED_SCHEDULER=GLB` it changes nothing. As with the C++ XSched,
/// `kSchedulerLocal` without a policy is `kSchedulerAppManaged`, unless a local scheduler is in
/// charge: then it is `kXSchedErrorInvalidValue`.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintSetScheduler(
    scheduler: XSchedulerTypeValue,
    policy: XPolicyTypeValue,
) -> XResult {
    answer(|| {
        let process = process();
        contention::require_scheduling(Cause::Choice);
        process.set_scheduler(scheduler_of(scheduler), policy)
    })
}

/// Sets a priority, -256 (`PRIORITY_NO_EXECUTE`) to 255. Below that -255 counts, above it 255.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintPriority(xq: XQueueHandle, prio: Priority) -> XResult {
    hint(xq, |hints, leniency| {
        let nearest = prio.clamp(PRIORITY_MIN, PRIORITY_MAX);
        hints.priority = rank(&PRIORITY, leniency, prio, nearest)?;
        Ok(())
    })
}

/// Sets a share of the device, 0 to 100 percent. Others change nothing.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintUtilization(xq: XQueueHandle, util: Utilization) -> XResult {
    hint(xq, |hints, leniency| {
        if UTILIZATION.has(leniency, util.into(), IGNORED)? {
            hints.set_utilization(util as u8)?;
        }
        Ok(())
    })
}

/// Sets a share of the device as a ratio, 0 to 1: `XHintUtilization` with the nearest percent.
/// Documents about XSched use this name. The C++ XSched does not have this function.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintSetBandwidthRatio(xq: XQueueHandle, ratio: f64) -> XResult {
    hint(xq, |hints, _| {
        if !(0.0..=1.0).contains(&ratio) {
            let why = format!("a ratio must be 0 to 1, is {ratio}; XHintUtilization has percent");
            return Err(Refusal::invalid(why));
        }
        Ok(hints.set_utilization((ratio * 100.0).round() as u8)?)
    })
}

/// Sets how long a turn is under policies that take turns, 100 to 10,000,000 microseconds. Outside
/// the nearest of these counts, and for `TIMESLICE_UNLIMITED` the longest.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintTimeslice(ts_us: Timeslice) -> XResult {
    answer(|| {
        let process = process();
        let unlimited = ts_us == TIMESLICE_UNLIMITED as Timeslice;
        let nearest = ts_us.clamp(TIMESLICE_MIN, TIMESLICE_MAX);
        let nearest = if unlimited { TIMESLICE_MAX } else { nearest };
        let ts_us = TIMESLICE.or(&process.leniency, ts_us, nearest)?;
        process.hint_policy(PolicyHint::timeslice(span(ts_us))?)
    })
}

/// Sets after which time a queue that is ready has `crit_prio`, in microseconds up to a day, and
/// `lax_prio` until then. `NO_LAXITY`, as any other negative number, takes it back. For 0 the
/// shortest time counts, above a day a day, and for priorities out of range the nearest.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintLaxity(
    xq: XQueueHandle,
    lax_us: Laxity,
    lax_prio: Priority,
    crit_prio: Priority,
) -> XResult {
    hint(xq, |hints, leniency| {
        let none = "it is as NO_LAXITY";
        if lax_us == NO_LAXITY || (lax_us < 0 && !LAXITY.has(leniency, lax_us, none)?) {
            hints.laxity = None;
            return Ok(());
        }
        let rank = |priority: Priority| {
            // The C++ XSched holds what is below all others.
            let nearest = priority.clamp(PRIORITY_NO_EXECUTE, PRIORITY_MAX);
            rank(&LAXITY_PRIORITY, leniency, priority, nearest)
        };
        let (lax_priority, critical_priority) = (rank(lax_prio)?, rank(crit_prio)?);
        let lax = span(LAXITY.or(leniency, lax_us, lax_us.clamp(1, DAY_US))?);
        Ok(hints.set_laxity(CoreLaxity { lax, lax_priority, critical_priority })?)
    })
}

/// Sets the deadline after becoming ready, in microseconds up to a day. `NO_DEADLINE` takes it
/// back. For 0 and other negative numbers the shortest counts, above a day a day.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintDeadline(xq: XQueueHandle, ddl_us: Deadline) -> XResult {
    hint(xq, |hints, leniency| {
        if ddl_us == NO_DEADLINE {
            hints.deadline = None;
            return Ok(());
        }
        let ddl_us = DEADLINE.or(leniency, ddl_us, ddl_us.clamp(1, DAY_US))?;
        Ok(hints.set_deadline(span(ddl_us))?)
    })
}

/// Sets how many queues run at once under `kPolicyKEarliestDeadlineFirst`, 1 to 65,536. 0 changes
/// nothing, and above that 65,536 counts.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintKDeadline(k: usize) -> XResult {
    answer(|| {
        let process = process();
        if k == 0 && !K.has(&process.leniency, 0, IGNORED)? {
            return Ok(());
        }
        let k = i64::try_from(k).unwrap_or(i64::MAX);
        let k = K.or(&process.leniency, k, K_MAX)?;
        process.hint_policy(PolicyHint::k(k as u32)?)
    })
}

/// Sets which part of the device's time the queues below the highest priority keep together under
/// policies by priority, as a ratio, 0 to 0.5; 0 is none, as at first. The C++ XSched does not have
/// this function. Under the daemon its file says it.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintFloor(ratio: f64) -> XResult {
    answer(|| {
        if !(0.0..=0.5).contains(&ratio) {
            return Err(Refusal::invalid(format!("a floor must be 0 to 0.5, is {ratio}")));
        }
        process().hint_policy(PolicyHint::floor((ratio * 1_000.0).round() as u16)?)
    })
}

fn rank(range: &Range, leniency: &Leniency, priority: Priority, nearest: Priority) -> Answer<Rank> {
    let priority = range.or(leniency, priority.into(), nearest.into())?;
    Ok(Rank::new(priority as i32)?)
}

fn hint(xq: XQueueHandle, change: impl FnOnce(&mut Hints, &Leniency) -> Answer) -> XResult {
    answer(|| {
        let process = process();
        process.queue(xq)?.hint(|hints| change(hints, &process.leniency))?;
        process.tell_node();
        Ok(())
    })
}
