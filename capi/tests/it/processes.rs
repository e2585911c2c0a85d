//! Forks, exits, and closing the library: defined, as `docs/src/guides/c.md` says.

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use crate::common::*;
use crate::scheduler::{Busy, count};

/// Runs in a child after a fork; its exit status is the answer.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does what is tried here: it uses the library. It ends without running what
    // is the parent's.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(99);
            // SAFETY: always allowed.
            unsafe { libc::_exit(code) }
        }
        child => {
            assert!(child > 0, "a fork");
            let mut status = 0;
            // SAFETY: the number may be written to.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
            libc::WEXITSTATUS(status)
        }
    }
}

alone!(a_child_after_a_fork_starts_clean, [("XSCHED_POLICY", "HPF")], {
    // W-C13: threads and channels were the parent's.
    static BUSY: AtomicU64 = AtomicU64::new(0);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let (hwq, suspended) = (host_hwq(), host_queue(3));
    let xq = create(hwq, 3, 0).expect("an XQueue");
    let unused = counting(&CALLS);
    ok(XQueueSuspend(suspended, 0));
    ok(XQueueSubmit(suspended, counting(&CALLS)));
    let busy = Busy::start(xq, &BUSY);
    for _ in 0..10 {
        let code = in_child(|| {
            let theirs = [XQueueWaitAll(xq), XQueueDestroy(suspended), HwQueueDestroy(hwq)];
            if theirs.iter().any(|result| *result != kXSchedErrorNotFound) {
                return 1;
            }
            if HwCommandDestroy(unused) != kXSchedErrorNotFound {
                return 2;
            }
            let mine = host_queue(3);
            ok(XQueueSubmit(mine, counting(&CALLS)));
            ok(XQueueSubmit(mine, timed(100)));
            ok(XQueueWaitAll(mine));
            ok(XQueueDestroy(mine));
            if count(&CALLS) == 1 { 0 } else { 3 }
        });
        assert_eq!(code, 0);
    }
    drop(busy);
    // The parent has all it had.
    ok(XQueueResume(suspended, 0));
    ok(XQueueWaitAll(suspended));
    ok(HwCommandDestroy(unused));
    assert_eq!(count(&CALLS), 1);
});

// SAFETY: it only uses the C API.
unsafe extern "C" fn forks(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    in_child(|| {
        let mine = host_queue(1);
        ok(XQueueSubmit(mine, counting(&CALLS)));
        ok(XQueueWaitAll(mine));
        ok(XQueueDestroy(mine));
        // A callback of the child's own cannot wait.
        let command = callback(waits, std::ptr::without_provenance_mut(host_queue(1) as usize));
        assert_eq!(HwQueueLaunch(host_hwq(), command), kXSchedErrorNotAllowed);
        if count(&CALLS) == 1 { 0 } else { 3 }
    })
}

// SAFETY: it only uses the C API.
unsafe extern "C" fn waits(_: HwQueueHandle, xq: *mut c_void) -> XResultValue {
    XQueueWaitAll(xq.addr() as u64) as XResultValue
}

alone!(a_launch_in_hand_is_the_parent_s_after_a_fork, {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let xq = host_queue(1);
    let token = begin_launch(xq).expect("its turn");
    let code = in_child(|| {
        let theirs = (xsched_private_end_launch(token, 0), begin_launch(xq));
        if theirs != (kXSchedSuccess, Err(kXSchedErrorNotFound)) {
            return 1;
        }
        let mine = host_queue(1);
        ok(launch_counted(mine, &CALLS));
        ok(XQueueWaitAll(mine));
        if count(&CALLS) == 1 { 0 } else { 2 }
    });
    assert_eq!(code, 0);
    ok(xsched_private_end_launch(token, 0));
    ok(launch_counted(xq, &CALLS));
    ok(XQueueWaitAll(xq));
});

alone!(the_child_of_a_fork_within_a_callback_can_wait, {
    let xq = host_queue(1);
    ok(XQueueSubmit(xq, callback(forks, std::ptr::null_mut())));
    ok(XQueueWaitAll(xq));
});

alone!(a_process_exits_with_queues_that_are_held, [("XSCHED_POLICY", "HPF")], {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    for level in 1..=3 {
        let code = in_child(|| {
            let (xq, never) = (host_queue(level), host_queue(level));
            ok(XHintPriority(never, PRIORITY_NO_EXECUTE));
            for _ in 0..50 {
                ok(XQueueSubmit(xq, timed(1_000)));
                ok(XQueueSubmit(never, counting(&CALLS)));
            }
            ok(XQueueSuspend(xq, SYNC));
            std::process::exit(7)
        });
        assert_eq!(code, 7);
    }
    // Also a thread that waits does not keep it.
    let code = in_child(|| {
        let xq = host_queue(1);
        ok(XQueueSuspend(xq, 0));
        ok(XQueueSubmit(xq, timed(1)));
        std::thread::spawn(move || XQueueWaitAll(xq));
        pause();
        std::process::exit(8)
    });
    assert_eq!(code, 8);
});

/// The shared library as cargo has built it for these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("tests are programs");
    test.parent().expect("programs are in folders").join("libpreempt.so")
}

alone!(closing_the_library_leaves_it_loaded, {
    type Create = unsafe extern "C" fn(*mut u64) -> i32;
    type CreateXQueue = unsafe extern "C" fn(*mut u64, u64, i64, i64) -> i32;
    type Timed = unsafe extern "C" fn(*mut u64, i64) -> i32;
    type Two = unsafe extern "C" fn(u64, u64) -> i32;
    let (mut hwq, mut xq, mut command) = (0, 0, 0);
    // SAFETY: the library is the one that is tested, and its functions have these types.
    let wait = unsafe {
        let library = libloading::Library::new(library()).expect("the library");
        let create: Create = *library.get("xsched_private_host_queue_create\0").expect("there");
        let create_xqueue: CreateXQueue = *library.get("XQueueCreate\0").expect("there");
        let timed: Timed =
            *library.get("xsched_private_host_command_create_timed\0").expect("there");
        let submit: Two = *library.get("XQueueSubmit\0").expect("there");
        let wait: Two = *library.get("XQueueWait\0").expect("there");
        assert_eq!(create(&raw mut hwq), 0);
        assert_eq!(create_xqueue(&raw mut xq, hwq, 3, 0), 0);
        assert_eq!(timed(&raw mut command, 20_000), 0);
        assert_eq!(submit(xq, command), 0);
        drop(library);
        wait
    };
    pause();
    // SAFETY: this is what is tried: its code is there still.
    assert_eq!(unsafe { wait(xq, command) }, 0);
});
