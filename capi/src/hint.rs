//! What the scheduler is told: the functions of `xsched/hint.h`.
//!
//! Hints stay, whichever scheduler and policy are in charge, and count as soon as one is that wants
//! them. Values out of range are answered with `kXSchedErrorInvalidValue`.

use xsched_core::hint::{Hints, Laxity as CoreLaxity, OutOfRange, PolicyHint, Priority as Rank};
use xsched_core::time::Duration;

use crate::process::process;
use crate::refusal::{Answer, Refusal, answer};
use crate::types::{
    Deadline, Laxity, NO_DEADLINE, NO_LAXITY, Priority, Timeslice, Utilization, XPolicyTypeValue,
    XQueueHandle, XResult, XSchedulerType, XSchedulerTypeValue,
};

impl From<OutOfRange> for Refusal {
    fn from(error: OutOfRange) -> Self {
        Self::invalid(error.to_string())
    }
}

fn span(us: i64) -> Answer<Duration> {
    let us = u64::try_from(us).map_err(|_| Refusal::invalid("a time is above 0, or -1"))?;
    let ns = us.checked_mul(1_000);
    ns.map(Duration::from_ns).ok_or_else(|| Refusal::invalid("a time is a day at most"))
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
/// The policy counts for `kSchedulerLocal` alone. `kSchedulerGlobal` is not supported yet.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintSetScheduler(
    scheduler: XSchedulerTypeValue,
    policy: XPolicyTypeValue,
) -> XResult {
    answer(|| process().set_scheduler(scheduler_of(scheduler), policy))
}

/// Sets a priority, -256 (`PRIORITY_NO_EXECUTE`) to 255.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintPriority(xq: XQueueHandle, prio: Priority) -> XResult {
    hint(xq, |hints| {
        hints.priority = Rank::new(prio)?;
        Ok(())
    })
}

/// Sets a share of the device, 0 to 100 percent.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintUtilization(xq: XQueueHandle, util: Utilization) -> XResult {
    hint(xq, |hints| {
        let percent = u8::try_from(util);
        let percent = percent.map_err(|_| Refusal::invalid("a share is 0 to 100 percent"))?;
        Ok(hints.set_utilization(percent)?)
    })
}

/// Sets how long a turn is under policies that take turns, 100 to 10,000,000 microseconds.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintTimeslice(ts_us: Timeslice) -> XResult {
    answer(|| process().hint_policy(PolicyHint::timeslice(span(ts_us)?)?))
}

/// Sets after which time a queue that is ready has `crit_prio`, in microseconds up to a day, and
/// `lax_prio` until then. `NO_LAXITY` takes it back.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintLaxity(
    xq: XQueueHandle,
    lax_us: Laxity,
    lax_prio: Priority,
    crit_prio: Priority,
) -> XResult {
    hint(xq, |hints| {
        if lax_us == NO_LAXITY {
            hints.laxity = None;
            return Ok(());
        }
        let (lax_priority, critical_priority) = (Rank::new(lax_prio)?, Rank::new(crit_prio)?);
        let lax = span(lax_us)?;
        Ok(hints.set_laxity(CoreLaxity { lax, lax_priority, critical_priority })?)
    })
}

/// Sets the deadline after becoming ready, in microseconds up to a day. `NO_DEADLINE` takes it
/// back.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintDeadline(xq: XQueueHandle, ddl_us: Deadline) -> XResult {
    hint(xq, |hints| {
        if ddl_us == NO_DEADLINE {
            hints.deadline = None;
            return Ok(());
        }
        Ok(hints.set_deadline(span(ddl_us)?)?)
    })
}

/// Sets how many queues run at once under `kPolicyKEarliestDeadlineFirst`, 1 to 65,536.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XHintKDeadline(k: usize) -> XResult {
    answer(|| {
        let k = u32::try_from(k).unwrap_or(u32::MAX);
        process().hint_policy(PolicyHint::k(k)?)
    })
}

fn hint(xq: XQueueHandle, change: impl FnOnce(&mut Hints) -> Answer) -> XResult {
    answer(|| process().queue(xq)?.hint(change))
}
