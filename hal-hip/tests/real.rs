//! The real library, with a GPU or without. Ignored unless asked for, because few machines have it:
//! `cargo xtask ci` installs Debian's and runs this.
//!
//! The test of 1,000 streams needs a GPU too, or an emulated driver below the real runtime. It is
//! run with `cargo test -p xsched-hal-hip --test real -- --ignored --exact
//! a_thousand_streams_end_and_none_hangs`, with `XSCHED_HIP_LIB` naming the runtime if it is not
//! where the system looks. It prints how long it took. A stream that hangs ends it after 60 s, by
//! `abort`, because neither the thread nor the process's exit would come back.
#![allow(unsafe_code, reason = "drivers' handles")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_hip::raw::Table;
use xsched_hal_hip::{HipApi, HipConfig, HipError, HipLibrary};
use xsched_hal_stream::StreamApi;

#[test]
#[ignore = "needs libamdhip64"]
fn the_real_library_has_all_functions_and_says_what_it_finds() {
    let library = HipLibrary::find().expect("libamdhip64; on Debian install libamdhip64-5");
    let version = library.version().expect("the version needs no GPU");
    assert!(version >= 50_200_000, "{version} is older than what was checked");
    let table = library.table();
    println!(
        "{}: version {version}, all {} required functions; hipStreamGetDevice {}, \
         hipExtMallocWithFlags {}, hipStreamWaitValue32 {}",
        library.name(),
        Table::REQUIRED.len(),
        there(table.hipStreamGetDevice.is_some()),
        there(table.hipExtMallocWithFlags.is_some()),
        there(table.hipStreamWaitValue32.is_some()),
    );
    assert!(table.hipStreamWaitValue32.is_some() && table.hipExtMallocWithFlags.is_some());
    // From 5.6 or 5.7 on; 5.2.3 is known to lack it.
    assert!(table.hipStreamGetDevice.is_some() || version < 50_700_000);
    match HipApi::open(HipConfig::default()) {
        Ok(api) => println!("{:?}", api.about()),
        Err(error) => says_that_there_is_no_device(&error, library.name()),
    }
}

/// Streams that are made, used and ended.
const STREAMS: usize = 1_000;
/// So many of them are alive at the same time, which is more than are kept for later.
const TOGETHER: usize = 20;
/// Commands in each.
const LAUNCHES: usize = 20;
/// Without progress for so long, a call hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Streams that ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Ends the process if no stream ends for a long time.
fn abort_if_it_hangs() {
    let mut last = (u64::MAX, Instant::now());
    loop {
        thread::sleep(Duration::from_millis(100));
        let ended = ENDED.load(Ordering::Relaxed);
        if ended != last.0 {
            last = (ended, Instant::now());
        } else if last.1.elapsed() > PATIENCE {
            eprintln!("hung after {ended} of {STREAMS} streams");
            std::process::abort();
        }
    }
}

/// HIP 7.2.3 may wait for ever for a stream with a mask of compute units that is destroyed right
/// after a synchronisation.
#[test]
#[ignore = "needs libamdhip64 and a GPU, or an emulated driver"]
fn a_thousand_streams_end_and_none_hangs() {
    let start = Instant::now();
    thread::spawn(abort_if_it_hangs);
    let api = HipApi::open(HipConfig::default()).expect("a GPU, or an emulated driver");
    let _entered = api.enter().expect("the device becomes current");
    for _ in 0..STREAMS / TOGETHER {
        let streams: Vec<_> =
            (0..TOGETHER).map(|_| api.create_stream(None).expect("a stream")).collect();
        for stream in &streams {
            for _ in 0..LAUNCHES {
                // SAFETY: the stream is alive.
                unsafe { api.launch_nothing(*stream) }.expect("launched");
            }
        }
        for stream in streams {
            // SAFETY: it is alive, and nothing uses it afterwards.
            unsafe {
                api.synchronize(stream).expect("done");
                api.destroy_stream(stream).expect("its end");
            }
            ENDED.fetch_add(1, Ordering::Relaxed);
        }
    }
    println!("{STREAMS} streams of {LAUNCHES} commands ended in {:?}", start.elapsed());
}

fn says_that_there_is_no_device(error: &HipError, library: &str) {
    assert!(matches!(error, HipError::NoDevice { code: 100 | 101, .. }), "{error:?}");
    assert_eq!(error.kind(), Fault::DeviceLost);
    let text = error.to_string();
    println!("{text}");
    let whole = text.contains(library) && text.contains("/dev/kfd");
    assert!(whole && !text.contains('\n'), "{text}");
}

const fn there(is: bool) -> &'static str {
    if is { "there" } else { "missing" }
}
