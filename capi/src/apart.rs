//! Whether anything tells the streams of the process apart, or the process from others.
//!
//! While nothing does, no scheduler has a reason to hold one stream and not another, so an
//! interposer makes launches at once. Once streams are told apart, it stays: the environment tells
//! at the start ([`Env::tells_apart`](crate::env::Env::tells_apart)), and later a stream with
//! another priority than the first one's, a scheduler that the program chooses, or an XQueue that
//! the program makes or asks for, since hints, suspensions and commands of its own need the
//! XQueue's handle. The scheduler of the node says from moment to moment whether the process has to
//! be told from others: a process that is alone on its GPU has not. It says as well whether the
//! process may be held for others; one that may not has few gates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use xsched_node::{Others, SharedPage, count_waited, others};

/// 0, or 1 for ever.
static APART: AtomicU32 = AtomicU32::new(0);
/// Streams are told apart by more than the priorities that they were made with.
static BY_CHOICE: AtomicBool = AtomicBool::new(false);
/// The policy of the environment tells streams apart.
static BY_POLICY: AtomicBool = AtomicBool::new(false);
/// What stands for the node's word before there is one.
static NOT_YET: AtomicU32 = AtomicU32::new(0);
/// The word in which the scheduler of the node says it; null without one.
static NODE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// The page that the word is in; null before there is one.
static FIRST: AtomicPtr<SharedPage> = AtomicPtr::new(std::ptr::null_mut());

/// From now on streams are scheduled one by one. A launch that an interposer is about to make on
/// another thread may still be made at once.
pub(crate) fn tell() {
    BY_CHOICE.store(true, Ordering::Release);
    tell_by_priority();
}

/// The same where nothing but a policy tells them apart.
pub(crate) fn tell_by_policy() {
    BY_POLICY.store(true, Ordering::Release);
    tell_by_priority();
}

/// The same where nothing but the streams' own priorities tells them apart.
pub(crate) fn tell_by_priority() {
    // The line stays shared by the threads that launch.
    if !is_told() {
        APART.store(1, Ordering::Release);
    }
}

/// There is, or will be, a scheduler of the node.
pub(crate) fn join() {
    NODE.store((&raw const NOT_YET).cast_mut(), Ordering::Release);
}

/// The first page of the process on a GPU, where the scheduler of the node says it. With a second
/// GPU, streams are told apart for ever.
pub(crate) fn follow(page: &Arc<SharedPage>) {
    let kept: &'static Arc<SharedPage> = Box::leak(Box::new(Arc::clone(page)));
    let (before, word) = ((&raw const NOT_YET).cast_mut(), others(kept));
    let word = std::ptr::from_ref(word).cast_mut();
    if NODE.compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return tell();
    }
    FIRST.store(Arc::as_ptr(kept).cast_mut(), Ordering::Release);
}

/// The program has waited for the device for so long, in nanoseconds, or asked and heard that it is
/// done. That is counted on the first GPU of the process.
pub(crate) fn waited(waited_ns: u64) {
    // SAFETY: it is null, or a page that stays for ever.
    if let Some(page) = unsafe { FIRST.load(Ordering::Acquire).as_ref() } {
        count_waited(page, waited_ns);
    }
}

/// Whether the scheduler of the node, if there is one, may hold the process or a stream of it for
/// another process.
pub(crate) fn may_node_hold() -> bool {
    BY_CHOICE.load(Ordering::Acquire) || told() != Some(Others::Behind)
}

/// Whether the scheduler of the node holds the process for one of a higher priority.
pub(crate) fn is_below_others() -> bool {
    told() == Some(Others::Above)
}

/// What the scheduler of the node, if there is one, says of other processes.
fn told() -> Option<Others> {
    // SAFETY: it is null, or a word that stays for ever.
    let word = unsafe { NODE.load(Ordering::Acquire).as_ref() };
    word.map(|word| Others::of(word.load(Ordering::Acquire)))
}

/// Whether something may hold a stream for another one, or for another process. `is_first`: no
/// stream of the process was made with a higher priority. `policy_holds`: the policy of the process
/// may hold one that is first, or is not.
pub(crate) fn may_hold(
    is_first: impl FnOnce() -> bool,
    policy_holds: impl FnOnce(bool) -> bool,
) -> bool {
    if !BY_CHOICE.load(Ordering::Acquire) && told().is_none() {
        return policy_holds(is_first());
    }
    BY_POLICY.load(Ordering::Acquire) || may_node_hold() || is_told() && !is_first()
}

/// Whether every launch from now on is scheduled.
pub(crate) fn is_told() -> bool {
    APART.load(Ordering::Acquire) != 0
}

/// Whether launches are scheduled, or may be without another call of the program.
pub(crate) fn may_be_told() -> bool {
    is_told() || !NODE.load(Ordering::Acquire).is_null()
}

/// Where interposers read what stays for ever.
pub(crate) const fn address() -> *const u32 {
    APART.as_ptr()
}

/// Where interposers read where the scheduler of the node says it.
pub(crate) const fn node_address() -> *const *mut AtomicU32 {
    NODE.as_ptr()
}
