//! A raw stream on a device in memory, whose clock is set by the test.
#![expect(unsafe_code, reason = "drivers' handles")]

#[path = "../../hal-stream/tests/mocked/mock.rs"]
#[expect(dead_code, reason = "it has more than this test needs")]
mod mock;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mock::{Mock, Nature, Put};
use xsched_hal_stream::StreamCommand;
use xsched_lab::kernels::RawStream;

const US: u64 = 1_000;

/// A command that takes `ns` nanoseconds.
fn command(ns: u64) -> StreamCommand<Mock> {
    StreamCommand::native(ns)
}

#[test]
fn a_raw_stream_keeps_to_its_threshold_and_leaves_nothing() {
    let api = Arc::new(Mock::new(Nature::default()));
    let mut stream = RawStream::new(Arc::clone(&api), None).expect("a stream");
    for _ in 0..3 {
        stream.launch_within(&command(US), 3).expect("a launch");
    }
    // The fourth waits until the first has completed.
    let clock = Arc::clone(&api);
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(5));
        let puts = clock.puts().remove(0);
        clock.pass(US);
        puts.iter().filter(|put| matches!(put, Put::Run(_))).count()
    });
    stream.launch_within(&command(US), 3).expect("a launch");
    assert_eq!(later.join().expect("it ends"), 3);
    stream.wait().expect("all is well");
    api.fail_all(Some("record"));
    api.pass(10 * US);
    assert!(stream.launch_within(&command(US), 3).is_err());
    api.heal();
    drop(stream);
    assert_eq!(api.alive(), (0, 0, 0));
}
