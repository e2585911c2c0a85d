//! Closes descriptors that came from processes, whose close may take as long as their sender wants.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::net::sockopt;

/// Descriptors of a user that wait to be closed before it gets no more service: room for one
/// message with the most that Linux passes.
const PENDING_MAX: usize = 256;

/// Closes the descriptors of each user on a thread of that user, which there is while it has some.
/// An unread message in a socket has descriptors as well, so connections are closed here too.
#[derive(Debug, Default)]
pub(crate) struct Closer(HashMap<u32, Arc<Mutex<Pending>>>);

#[derive(Debug, Default)]
struct Pending {
    fds: Vec<OwnedFd>,
    /// Number of those that the thread has taken; 0 if there is none.
    taken: usize,
}

impl Pending {
    fn count(&self) -> usize {
        self.fds.len() + self.taken
    }
}

fn lock(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Closer {
    /// Closes descriptors that a user sent. Never blocks.
    pub(crate) fn close(&mut self, uid: u32, fds: impl IntoIterator<Item = OwnedFd>) {
        let mut fds = fds.into_iter().peekable();
        if fds.peek().is_none() {
            return;
        }
        // A user without any has no thread.
        self.0.retain(|user, pending| *user == uid || lock(pending).count() > 0);
        let pending = self.0.entry(uid).or_default();
        let mut added = lock(pending);
        added.fds.extend(fds);
        if added.taken == 0 {
            added.taken = 1;
            let of_user = Arc::clone(pending);
            let closer = thread::Builder::new().name("closer".to_owned());
            // Without a thread the next call tries again.
            if closer.spawn(move || close_all(&of_user)).is_err() {
                added.taken = 0;
            }
        }
    }

    /// Returns whether a user has the most descriptors waiting that may, so that it gets no
    /// service.
    pub(crate) fn is_behind(&self, uid: u32) -> bool {
        self.0.get(&uid).is_some_and(|pending| lock(pending).count() >= PENDING_MAX)
    }
}

/// Closes until nothing is left.
fn close_all(pending: &Mutex<Pending>) {
    loop {
        let mut left = lock(pending);
        let fds = std::mem::take(&mut left.fds);
        left.taken = fds.len();
        drop(left);
        if fds.is_empty() {
            return;
        }
        for fd in fds {
            // Refused by what is no socket. A close would wait for what was not sent.
            let _ = sockopt::set_socket_linger(&fd, None);
            drop(fd);
            let mut left = lock(pending);
            // The thread stays known as long as it runs.
            left.taken = left.taken.saturating_sub(1).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn all_are_closed_and_the_thread_ends() {
        let mut closer = Closer::default();
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let copies = (0..300).map(|_| writer.try_clone().expect("a descriptor").into());
        closer.close(1, copies.collect::<Vec<OwnedFd>>());
        drop(writer);
        assert_eq!(reader.read(&mut [0; 1]).expect("its end"), 0);
        while closer.0.get(&1).is_some_and(|pending| lock(pending).count() > 0) {
            thread::yield_now();
        }
        assert!(!closer.is_behind(1));
        closer.close(2, [reader.into()]);
        assert!(!closer.0.contains_key(&1));
    }
}
