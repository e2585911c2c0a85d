//! Functions of Python that the C library calls to launch a command.
//!
//! The library gets the address of [`launch`] and a number for each function; which function that
//! is, `xsched._callbacks` knows. A callback that `ctypes` makes would not do: while the
//! interpreter ends, it ends every thread that comes to it by unwinding, and the frames of the
//! library below let nothing unwind. So threads are counted here, and turned away from the moment
//! at which the program exits.
#![expect(unsafe_code, reason = "a thread takes the interpreter's lock where PyO3 would not")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `kXSchedErrorNotAllowed`: the program exits.
const NOT_ALLOWED: i32 = 4;
/// `kXSchedErrorUnknown`.
const UNKNOWN: i32 = 999;
/// How long an exit waits between looks for functions that still run.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Function that is called with the hardware queue and the number, and returns a result.
static LAUNCHER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// Calls of [`launch`] that have not returned, of all threads.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// No thread may call Python any more.
static CLOSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Calls of [`launch`] that have not returned, of this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A `LaunchCallback` of the C interface.
extern "C" fn launch(hwq: u64, number: usize) -> i32 {
    // First it counts itself in, then it looks. `close_launches` does it the other way round.
    INSIDE.fetch_add(1, Ordering::SeqCst);
    DEPTH.set(DEPTH.get() + 1);
    let result = if CLOSED.load(Ordering::SeqCst) { NOT_ALLOWED } else { ask(hwq, number) };
    DEPTH.set(DEPTH.get() - 1);
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    result
}

/// The interpreter's lock, held by this thread until this is dropped.
///
/// PyO3 does not take the lock where the thread came from Python: its count says that the thread
/// holds it. A thread that submits a command within a function came from Python by PyO3, and then
/// `ctypes` released the lock for the call, which PyO3 does not see.
struct Locked {
    state: ffi::PyGILState_STATE,
    /// Marker: the guard belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Locked {
    /// Waits for the lock. `None` if there is no interpreter (any more).
    fn take() -> Option<Self> {
        // SAFETY: it may be called at any time.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return None;
        }
        // SAFETY: the interpreter was initialized, since this module was. It has not begun to end:
        // that runs `close_launches` first, which waits for this thread to leave `launch`.
        let state = unsafe { ffi::PyGILState_Ensure() };
        Some(Self { state, _thread: PhantomData })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: the state is that of this thread's latest call of `PyGILState_Ensure` that was
        // not undone, since locks are dropped in the reverse order of being taken.
        unsafe { ffi::PyGILState_Release(self.state) }
    }
}

fn ask(hwq: u64, number: usize) -> i32 {
    let Some(_locked) = Locked::take() else { return NOT_ALLOWED };
    let answer = Python::try_attach(|py| {
        let Some(launcher) = LAUNCHER.get(py) else { return UNKNOWN };
        let answer = launcher.call1(py, (hwq, number)).and_then(|result| result.extract(py));
        answer.unwrap_or_else(|error| {
            error.write_unraisable(py, Some(launcher.bind(py)));
            UNKNOWN
        })
    });
    answer.unwrap_or(NOT_ALLOWED)
}

/// Says what to call, once, and answers the address for the C interface.
#[pyfunction]
pub(crate) fn launch_address(py: Python<'_>, launcher: Py<PyAny>) -> usize {
    LAUNCHER.get_or_init(py, || launcher);
    let function: extern "C" fn(u64, usize) -> i32 = launch;
    function as usize
}

/// Lets no thread in any more, and waits until none is inside, for `limit_ms` at most. Returns
/// whether none is.
#[pyfunction]
pub(crate) fn close_launches(py: Python<'_>, limit_ms: u64) -> bool {
    CLOSED.store(true, Ordering::SeqCst);
    py.detach(|| {
        let start = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 {
            if start.elapsed() >= Duration::from_millis(limit_ms) {
                return false;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        true
    })
}

/// Starts anew in the child of a fork, which has none of the threads that were inside but the one
/// that forked.
#[pyfunction]
pub(crate) fn reset_launches() {
    INSIDE.store(DEPTH.get(), Ordering::SeqCst);
}
