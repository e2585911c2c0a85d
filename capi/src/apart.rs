//! Whether anything tells the streams of the process apart, or the process from others.
//!
//! While nothing does, no scheduler has a reason to hold one stream and not another, so an
//! interposer makes launches at once. Once streams are told apart, it stays: the environment tells
//! at the start ([`Env::tells_apart`](crate::env::Env::tells_apart)), and later a stream with
//! another priority than the first one's, a scheduler that the program chooses, or an XQueue that
//! the program makes or asks for, since hints, suspensions and commands of its own need the
//! XQueue's handle. The scheduler of the node says from moment to moment whether the process has to
//! be told from others: a process that is alone on its GPU has not.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use xsched_node::{SharedPage, shared};

/// 0, or 1 for ever.
static APART: AtomicU32 = AtomicU32::new(0);
/// What stands for the node's word before there is one.
static NOT_YET: AtomicU32 = AtomicU32::new(0);
/// The word in which the scheduler of the node says it; null without one.
static NODE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// From now on streams are scheduled one by one. A launch that an interposer is about to make on
/// another thread may still be made at once.
pub(crate) fn tell() {
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
    let (before, word) = ((&raw const NOT_YET).cast_mut(), shared(kept));
    let word = std::ptr::from_ref(word).cast_mut();
    if NODE.compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire).is_err() {
        tell();
    }
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
