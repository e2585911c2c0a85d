//! Functions of Python that the C library calls to launch a command.
//!
//! The library gets the address of [`launch`] and a number for each function; which function that
//! is, `xsched._callbacks` knows. A callback that `ctypes` makes would not do: while the
//! interpreter ends, it ends every thread that comes to it by unwinding, and the frames of the
//! library below let nothing unwind. So threads are counted here, and turned away from the moment
//! at which the program exits.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `kXSchedErrorNotAllowed`: the program exits.
const NOT_ALLOWED: i32 = 4;
/// `kXSchedErrorUnknown`.
const UNKNOWN: i32 = 999;
/// How long an exit waits between looks for functions that still run.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What is called with the hardware queue and the number, and answers a result.
static LAUNCHER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// Threads that are in [`launch`].
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// No thread may call Python any more.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// A `LaunchCallback` of the C interface.
extern "C" fn launch(hwq: u64, number: usize) -> i32 {
    // First it counts itself in, then it looks. `close_launches` does it the other way round.
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let result = if CLOSED.load(Ordering::SeqCst) { NOT_ALLOWED } else { ask(hwq, number) };
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    result
}

fn ask(hwq: u64, number: usize) -> i32 {
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

/// Starts anew in the child of a fork, which has none of the threads that were inside.
#[pyfunction]
pub(crate) fn reset_launches() {
    INSIDE.store(0, Ordering::SeqCst);
}
