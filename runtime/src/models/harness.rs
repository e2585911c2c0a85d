//! Running models. `hal-host` includes this file as well.

use std::cell::Cell;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Instant;

/// Starts a thread of the model.
pub(crate) fn start(body: impl FnOnce() + Send + 'static) -> loom::thread::JoinHandle<()> {
    // In words. The default is small for unoptimised code.
    let builder = loom::thread::Builder::new().stack_size(0x4000);
    builder.spawn(body).expect("models can start threads")
}

pub(crate) fn join(thread: loom::thread::JoinHandle<()>) {
    thread.join().expect("a thread of the model ended well");
}

/// True if there is time for more than CI has.
pub(crate) fn long() -> bool {
    std::env::var_os("XSCHED_LOOM_LONG").is_some()
}

/// Runs the model in every order with at most this number of times that a thread is interrupted by
/// another one (one more if there is time). Where a thread waits, all others are tried always.
pub(crate) fn explore(
    name: &'static str,
    preemptions: usize,
    model: impl Fn() + Send + Sync + 'static,
) {
    stop_at_the_first_panic();
    EXPLORING.set(true);
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS says otherwise.
    let preemptions = preemptions + usize::from(long());
    let bound = *builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 20_000;
    let orders = Arc::new(AtomicU64::new(0));
    let (counted, start) = (Arc::clone(&orders), Instant::now());
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {} orders in {:.1} s, up to {bound} preemptions",
        orders.load(Ordering::Relaxed),
        start.elapsed().as_secs_f64()
    );
    EXPLORING.set(false);
}

std::thread_local!(static EXPLORING: Cell<bool> = const { Cell::new(false) });

/// Where loom finds something it panics in the midst of its own work. Nothing that unwinds through
/// a model from there is worth a look, and some of it would not end.
fn stop_at_the_first_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let otherwise = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if EXPLORING.get() {
                let _ = writeln!(std::io::stderr(), "{panic}");
                std::process::exit(101);
            }
            otherwise(panic);
        }));
    });
}
