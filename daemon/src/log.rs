//! The daemon's log: a thread of its own writes the lines, so that no other waits for their reader.

use std::io::{self, Write};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines that wait to be written; further ones are dropped and counted.
const LINES_MAX: usize = 1_024;
/// Time that the last lines have.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// All lines before it were written.
    Flush(Sender<()>),
}

/// A log that never blocks. Each write is a line.
#[derive(Clone, Debug)]
pub struct Log {
    to: SyncSender<Message>,
    /// Lines that were dropped and not told of.
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// A log whose thread writes to this. Lines that cannot be written are dropped, and how many
    /// these were stands in front of the next one that can be.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, messages) = sync_channel(LINES_MAX);
        let log = Self { to: sender, dropped: Arc::default() };
        let dropped = Arc::clone(&log.dropped);
        let run = move || write_all(to, &messages, &dropped);
        thread::Builder::new().name("log".to_owned()).spawn(run)?;
        Ok(log)
    }

    /// Waits until all lines are written, at most for half a second.
    pub fn flush_all(&self) {
        let (written, flushed) = channel();
        let begin = Instant::now();
        while self.to.try_send(Message::Flush(written.clone())).is_err() {
            if begin.elapsed() > FLUSH_TIMEOUT {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = flushed.recv_timeout(FLUSH_TIMEOUT.saturating_sub(begin.elapsed()));
    }

    /// Has a panic of any thread end this process, once the log says so. A daemon without one of
    /// its threads would hold processes, or look as if it did.
    pub fn end_on_panic(&self) {
        let log = self.clone();
        std::panic::set_hook(Box::new(move |panic| {
            let trace = std::backtrace::Backtrace::capture();
            let _ = writeln!(&log, "{panic}; xschedd ends\n{trace}");
            log.flush_all();
            process::abort();
        }));
    }
}

impl Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.to.try_send(Message::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(mut to: impl Write, messages: &Receiver<Message>, dropped: &AtomicU64) {
    for message in messages {
        let line = match message {
            Message::Line(line) => line,
            Message::Flush(written) => {
                let _ = written.send(());
                continue;
            }
        };
        let count = dropped.swap(0, Ordering::Relaxed);
        let told = match count {
            0 => Ok(()),
            count => writeln!(to, "{count} lines of the log were dropped"),
        };
        if told.and_then(|()| to.write_all(&line)).is_err() {
            dropped.fetch_add(count.saturating_add(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Takes bytes once it may.
    #[derive(Clone, Debug, Default)]
    struct Reader(Arc<Mutex<(bool, Vec<u8>)>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !reader.0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            reader.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let reader = Reader::default();
        let log = Log::start(reader.clone()).expect("a thread");
        (0..3).for_each(|_| (&log).write_all(b"lost\n").expect("it never fails"));
        log.flush_all();
        reader.0.lock().expect("no panic").0 = true;
        (&log).write_all(b"kept\n").expect("it never fails");
        log.flush_all();
        let text = String::from_utf8(reader.0.lock().expect("no panic").1.clone());
        assert_eq!(text.as_deref(), Ok("3 lines of the log were dropped\nkept\n"));
    }

    #[test]
    fn a_log_without_a_reader_blocks_no_thread() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let log = Log::start(writer).expect("a thread");
        let line = vec![b'x'; 1_024];
        for _ in 0..2 * LINES_MAX {
            (&log).write_all(&line).expect("it never fails");
        }
        assert!(log.dropped.load(Ordering::Relaxed) > 0);
        drop(reader);
    }
}
