//! Numbers that threads have a stream write.

use std::convert::Infallible;
use std::sync::Arc;

use super::harness::{explore, join, start};
use super::{Flag, flag};
use crate::stops::Stops;
use crate::timeline::Last;
use loom::sync::Mutex;
use loom::sync::atomic::Ordering;

/// Has a stream that runs at once write the next number.
fn signal(last: &Last, stops: &Stops, word: &Flag) {
    let written = last.write(
        || stops.count(),
        |number| {
            assert!(word.swap(number, Ordering::SeqCst) < number, "a number behind a higher one");
            Ok::<_, Infallible>(())
        },
    );
    let Ok(number) = written;
    assert!(word.load(Ordering::SeqCst) >= number, "who waits for its number waits for ever");
}

/// Numbers of several threads get into the stream in their order, each once.
#[test]
fn several_threads_signal() {
    explore("timeline::several_threads_signal", 3, || {
        let (last, word) = (Arc::new(Last::new(0)), flag());
        let stops = Arc::new(Stops::default());
        stops.add();
        let other = {
            let (last, word, stops) = (Arc::clone(&last), Arc::clone(&word), Arc::clone(&stops));
            start(move || signal(&last, &stops, &word))
        };
        signal(&last, &stops, &word);
        join(other);
        assert_eq!(word.load(Ordering::SeqCst), 2, "a number was not written");
    });
}

/// Entry of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Stop,
    Number(u32),
}

/// Behind a stop that a thread has put into a stream, the next point is one behind it.
#[test]
fn a_point_is_behind_the_stops_before() {
    explore("timeline::a_point_is_behind_the_stops_before", 3, || {
        let last = Last::new(0);
        let stops = Arc::new(Stops::default());
        stops.add();
        let stream = Arc::new(Mutex::new(Vec::new()));
        let put = |stream: &Mutex<Vec<Entry>>, entry| {
            stream.lock().expect("no panic").push(entry);
        };
        let point = || {
            last.standing(stops.count()).unwrap_or_else(|| {
                let write = |number| {
                    put(&stream, Entry::Number(number));
                    Ok::<_, Infallible>(())
                };
                let Ok(number) = last.write(|| stops.count(), write);
                number
            })
        };
        let other = {
            let (stream, stops) = (Arc::clone(&stream), Arc::clone(&stops));
            start(move || {
                put(&stream, Entry::Stop);
                stops.add();
            })
        };
        point();
        join(other);
        let number = point();
        assert_eq!(point(), number, "a number was written for nothing");
        let stream = stream.lock().expect("no panic");
        let place = |entry| stream.iter().position(|other| *other == entry);
        assert!(place(Entry::Stop) < place(Entry::Number(number)), "the point is before a stop");
    });
}
