//! Need for scheduling: something tells the streams of the process apart, or the process
//! from others.
//!
//! While it is not, no scheduler has a reason to hold one stream and not another, so an interposer
//! makes launches at once. A [`Cause`] within the process requires it for ever. The scheduler of
//! the node says from moment to moment whether the process has to be told from others: a process
//! that is alone on its GPU has not. It says as well whether the process may be held for others;
//! one that may not has few gates.
//!
//! Interposers read one word for both: that of the node's page, and a word that is 1 for ever once
//! there is a cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use xsched_node::{NodeRank, SharedPage};

/// Why scheduling is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An XQueue that the program makes or asks for, or a scheduler that it chooses: hints,
    /// suspensions and commands of its own need the XQueue's handle. Or the environment asks for
    /// it.
    Choice = 1,
    /// The policy that the environment names holds one stream for another.
    Policy = 2,
    /// The streams were made with different priorities.
    Priorities = 4,
}

/// The causes that there are.
static CAUSES: AtomicU32 = AtomicU32::new(0);
/// The word without a page of the node's.
static NO_PAGE: AtomicU32 = AtomicU32::new(0);
/// The word once there is a cause.
static HAS_CAUSE: AtomicU32 = AtomicU32::new(1);
/// The word in which interposers read it. It is not 0 if scheduling is required.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NO_PAGE).cast_mut());
/// The word in which interposers read whether a scheduler has a use for when work begins or ends:
/// not 0 if one has.
static ATTENDED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const HAS_CAUSE).cast_mut());
/// The word in which the scheduler of the node says what other processes there are; null without
/// one, and `NO_PAGE` before there is a page.
static NODE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
/// The page that the word is in; null before there is one.
static FIRST: AtomicPtr<SharedPage> = AtomicPtr::new(std::ptr::null_mut());

/// From now on streams are scheduled one by one. A launch that an interposer is about to make on
/// another thread may still be made at once.
pub(crate) fn require_scheduling(cause: Cause) {
    // The line stays shared by the threads that launch.
    if !has(cause) {
        // First: who sees the cause makes no launch that does not see the word.
        WORD.store((&raw const HAS_CAUSE).cast_mut(), Ordering::Release);
        CAUSES.fetch_or(cause as u32, Ordering::SeqCst);
        ATTENDED.store((&raw const HAS_CAUSE).cast_mut(), Ordering::SeqCst);
    }
}

/// After a fork, in the child: the page is the parent's, and nothing has told streams apart yet.
pub(crate) fn begin_anew() {
    NODE.store(std::ptr::null_mut(), Ordering::Release);
    FIRST.store(std::ptr::null_mut(), Ordering::Release);
    CAUSES.store(0, Ordering::Release);
    ATTENDED.store((&raw const HAS_CAUSE).cast_mut(), Ordering::Release);
    WORD.store((&raw const NO_PAGE).cast_mut(), Ordering::Release);
}

fn has(cause: Cause) -> bool {
    CAUSES.load(Ordering::Acquire) & cause as u32 != 0
}

/// A scheduler of the node exists, or will.
pub(crate) fn join() {
    NODE.store((&raw const NO_PAGE).cast_mut(), Ordering::Release);
}

/// The first page of the process on a GPU, where the scheduler of the node says it. With a second
/// GPU, streams are told apart for ever.
pub(crate) fn follow(page: &Arc<SharedPage>) {
    let kept: &'static Arc<SharedPage> = Box::leak(Box::new(Arc::clone(page)));
    let (before, word) = ((&raw const NO_PAGE).cast_mut(), &kept.header().rank);
    let word = std::ptr::from_ref(word).cast_mut();
    if NODE.compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return require_scheduling(Cause::Choice);
    }
    // Unless there is a cause.
    let attended = std::ptr::from_ref(&kept.header().daemon_wants_wakeups).cast_mut();
    if WORD.compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        ATTENDED.store(attended, Ordering::SeqCst);
        // A cause that came meanwhile counts.
        if CAUSES.load(Ordering::SeqCst) != 0 {
            ATTENDED.store((&raw const HAS_CAUSE).cast_mut(), Ordering::SeqCst);
        }
    }
    FIRST.store(Arc::as_ptr(kept).cast_mut(), Ordering::Release);
}

/// Counts that the program has waited for the device for `waited_ns` nanoseconds, or asked and
/// heard that it is done, on the first GPU of the process.
pub(crate) fn waited(waited_ns: u64) {
    // SAFETY: it is null, or a page that stays for ever.
    if let Some(page) = unsafe { FIRST.load(Ordering::Acquire).as_ref() } {
        page.header().count_waited(waited_ns);
    }
}

/// Returns whether the scheduler of the node, if there is one, may hold the process or a stream of
/// it for another process.
pub(crate) fn may_node_hold() -> bool {
    has(Cause::Choice) || node_rank() != Some(NodeRank::Highest)
}

/// Returns whether the scheduler of the node holds the process for one of a higher priority.
pub(crate) fn is_below_others() -> bool {
    node_rank() == Some(NodeRank::Outranked)
}

/// The rank of the process among others, as the scheduler of the node says it, if there is one.
fn node_rank() -> Option<NodeRank> {
    // SAFETY: it is null, or a word that stays for ever.
    let word = unsafe { NODE.load(Ordering::Acquire).as_ref() };
    word.map(|word| NodeRank::of(word.load(Ordering::Acquire)))
}

/// Returns whether something may hold a stream for another one, or for another process. `is_first`:
/// no stream of the process was made with a higher priority. `policy_holds`: the policy of the
/// process may hold one that is first, or is not.
pub(crate) fn may_hold(
    is_first: impl FnOnce() -> bool,
    policy_holds: impl FnOnce(bool) -> bool,
) -> bool {
    if !has(Cause::Choice) && node_rank().is_none() {
        return policy_holds(is_first());
    }
    has(Cause::Policy) || may_node_hold() || scheduling_required() && !is_first()
}

/// Returns whether every launch from now on is scheduled.
pub(crate) fn scheduling_required() -> bool {
    CAUSES.load(Ordering::Acquire) != 0
}

/// Returns whether launches are scheduled, or may be without another call of the program.
pub(crate) fn may_be_required() -> bool {
    scheduling_required() || !NODE.load(Ordering::Acquire).is_null()
}

/// Where interposers read in which word it says whether a scheduler has a use for when work begins
/// or ends.
pub(crate) const fn address_of_attended() -> *const *mut AtomicU32 {
    ATTENDED.as_ptr()
}

/// Where interposers read in which word it says whether scheduling is required.
pub(crate) const fn address() -> *const *mut AtomicU32 {
    WORD.as_ptr()
}
