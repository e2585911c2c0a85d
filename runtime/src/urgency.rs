//! How urgent the operating system takes the calling thread to be.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;

/// Calls of [`of_this_thread`] that one reading of the priority answers: it may have been changed
/// from outside, and reading it takes microseconds.
const CALLS_PER_READING: u16 = 256;
/// Calls of [`is_below`] that one reading of the priority answers: it is called several times for a
/// command.
const CALLS_PER_RANK_READING: u16 = 1 << 14;

thread_local! {
    /// Priority that was read last, and the number of calls that it has answered.
    static KNOWN: Cell<(i16, u16)> = const { Cell::new((0, u16::MAX)) };
}

/// The priority of the calling thread as in `Hints::cpu_priority`, as of a moment ago.
pub(crate) fn of_this_thread() -> i16 {
    known(CALLS_PER_READING)
}

/// True if the calling thread is less urgent than one of this priority, as of a moment ago. The
/// first answer of a thread takes some microseconds.
pub(crate) fn is_below(priority: i16) -> bool {
    known(CALLS_PER_RANK_READING) < priority
}

fn known(questions: u16) -> i16 {
    // Threads of models are all alike.
    if cfg!(loom) {
        return 0;
    }
    let (mut priority, mut answered) = KNOWN.get();
    if answered >= questions {
        (priority, answered) = (read(), 0);
    }
    KNOWN.set((priority, answered + 1));
    priority
}

/// 0, that of an ordinary thread, where it cannot be told. Allocates nothing.
fn read() -> i16 {
    let mut stat = [0; 1_024];
    let file = File::open("/proc/thread-self/stat");
    let length = file.and_then(|mut file| file.read(&mut stat)).unwrap_or(0);
    // The name before the bracket may be no text.
    let from = stat.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    let text = stat.get(from..length).and_then(|stat| str::from_utf8(stat).ok());
    text.and_then(parse).unwrap_or(0)
}

/// From a line of `/proc/PID/task/TID/stat`, see proc(5): fields 19, 40 and 41 are the nice value,
/// the real-time priority and the scheduling class.
fn parse(stat: &str) -> Option<i16> {
    // The name before the bracket may have spaces and brackets in it.
    let (_, fields) = stat.rsplit_once(')')?;
    let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3)?.parse().ok();
    let (nice, realtime, class): (i16, i16, i16) = (field(19)?, field(40)?, field(41)?);
    let priority = match class {
        1 | 2 => 100 + realtime,
        5 => -20,
        6 => 200,
        _ => -nice,
    };
    (-20..=200).contains(&priority).then_some(priority)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(nice: i32, realtime: u32, class: u32) -> String {
        let until_18 = "R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
        let until_39 = "1 0 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39";
        format!("7 (a ) b) {until_18} {nice} {until_39} {realtime} {class} 42 43\n")
    }

    #[test]
    fn all_classes_are_on_one_scale() {
        assert_eq!(parse(&line(0, 0, 0)), Some(0));
        assert_eq!(parse(&line(-20, 0, 0)), Some(20));
        assert_eq!(parse(&line(19, 0, 3)), Some(-19));
        assert_eq!(parse(&line(0, 0, 5)), Some(-20));
        assert_eq!(parse(&line(0, 99, 1)), Some(199));
        assert_eq!(parse(&line(0, 1, 2)), Some(101));
        assert_eq!(parse(&line(0, 0, 6)), Some(200));
    }

    #[test]
    fn nonsense_is_not_taken() {
        for text in ["", "7 (a) R", "7 (a", &line(0, 30_000, 1), &line(-4_000, 0, 0)] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
