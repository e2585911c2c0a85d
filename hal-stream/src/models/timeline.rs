//! Numbers that threads have a stream write.

use std::convert::Infallible;
use std::sync::Arc;

use super::harness::{explore, join, start};
use super::{Flag, flag};
use crate::timeline::Last;
use loom::sync::atomic::Ordering;

/// Has a stream that runs at once write the next number.
fn signal(last: &Last, word: &Flag) {
    let written = last.write(|number| {
        assert!(word.swap(number, Ordering::SeqCst) < number, "a number behind a higher one");
        Ok::<_, Infallible>(())
    });
    let Ok(number) = written;
    assert!(word.load(Ordering::SeqCst) >= number, "who waits for its number waits for ever");
}

/// Numbers of several threads get into the stream in their order, each once.
#[test]
fn several_threads_signal() {
    explore("timeline::several_threads_signal", 3, || {
        let (last, word) = (Arc::new(Last::new(0)), flag());
        let other = {
            let (last, word) = (Arc::clone(&last), Arc::clone(&word));
            start(move || signal(&last, &word))
        };
        signal(&last, &word);
        join(other);
        assert_eq!(word.load(Ordering::SeqCst), 2, "a number was not written");
    });
}
