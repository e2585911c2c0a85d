//! As much of HTTP as a scrape needs, for clients that may be slow or hostile.
//!
//! One thread serves all connections, each of which asks once. It reads and writes as far as that
//! does not block. A connection has [`LASTS`] and [`REQUEST_MAX`]; of more than
//! [`CONNECTIONS_MAX`], the one goes that has been there for the longest without a request.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use super::place::Listener;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// The longest request with its headers, in bytes.
const REQUEST_MAX: usize = 8_192;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// For how long a connection lasts at most, from its begin to the end of the answer.
const LASTS: Duration = Duration::from_secs(5);
/// For how long nothing is accepted after the system refused a connection.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers scrapes.
pub(super) struct Server<F> {
    listener: Listener,
    stop: Arc<OwnedFd>,
    text: F,
    connections: Vec<Connection>,
    /// Nothing is accepted before that.
    paused: Option<Instant>,
}

struct Connection {
    socket: OwnedFd,
    ends: Instant,
    request: Vec<u8>,
    /// Answer, once the request was read, and the number of its bytes that were written.
    answer: Option<(Vec<u8>, usize)>,
}

impl<F: FnMut() -> Option<Arc<str>>> Server<F> {
    /// `text` makes the answer; `None` if there is none now.
    pub(super) const fn new(listener: Listener, stop: Arc<OwnedFd>, text: F) -> Self {
        Self { listener, stop, text, connections: Vec::new(), paused: None }
    }

    /// Answers until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            let ready = self.wait();
            if ready.stop {
                return;
            }
            for at in ready.connections.into_iter().rev() {
                let connection = &mut self.connections[at];
                if connection.go_on(self.listener.is_tcp, &mut self.text).is_none() {
                    self.connections.swap_remove(at);
                }
            }
            let now = Instant::now();
            self.connections.retain(|connection| connection.ends > now);
            if ready.listener {
                self.accept(now);
            }
        }
    }

    fn wait(&mut self) -> Ready {
        let now = Instant::now();
        self.paused = self.paused.filter(|until| *until > now);
        let accepts = if self.paused.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.socket.as_fd(), accepts),
        ];
        fds.extend(self.connections.iter().map(|connection| {
            let is_read = connection.answer.is_none();
            let flags = if is_read { PollFlags::IN } else { PollFlags::OUT };
            PollFd::from_borrowed_fd(connection.socket.as_fd(), flags)
        }));
        let due = self.connections.iter().map(|connection| connection.ends).chain(self.paused);
        let left = due.min().map(|due| due.saturating_duration_since(now));
        // A millisecond more, so that it is due then.
        let left = left.map(|left| left + Duration::from_millis(1));
        let time = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        if poll(&mut fds, time.as_ref()).is_err() {
            return Ready::default();
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ready = fds[2..].iter().enumerate().filter(|(_, fd)| is_ready(fd));
        Ready {
            stop: is_ready(&fds[0]),
            listener: fds[1].revents().contains(PollFlags::IN),
            connections: ready.map(|(at, _)| at).collect(),
        }
    }

    fn accept(&mut self, now: Instant) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.listener.socket, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return,
            // No file descriptor is left, for example.
            Err(_) => {
                self.paused = Some(now + PAUSE);
                return;
            }
        };
        if self.connections.len() >= CONNECTIONS_MAX {
            let all = self.connections.iter().enumerate();
            let oldest = all.min_by_key(|(_, one)| (one.answer.is_some(), one.ends));
            if let Some((at, _)) = oldest {
                self.connections.swap_remove(at);
            }
        }
        let (request, answer) = (Vec::new(), None);
        self.connections.push(Connection { socket, ends: now + LASTS, request, answer });
    }
}

/// Descriptors that are ready.
#[derive(Debug, Default)]
struct Ready {
    stop: bool,
    listener: bool,
    /// The places of connections, from the first on.
    connections: Vec<usize>,
}

impl Connection {
    /// Reads or writes. `None` once it is over.
    fn go_on(&mut self, is_tcp: bool, text: &mut impl FnMut() -> Option<Arc<str>>) -> Option<()> {
        if self.answer.is_none() {
            let mut bytes = [0; 2_048];
            match recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
                Ok((0, _)) => return None,
                Ok((count, _)) => self.request.extend_from_slice(&bytes[..count]),
                Err(Errno::AGAIN | Errno::INTR) => return Some(()),
                Err(_) => return None,
            }
            match parse(&self.request, is_tcp) {
                Asked::Unfinished => return Some(()),
                asked => self.answer = Some((answer(&asked, text), 0)),
            }
        }
        let (answer, written) = self.answer.as_mut()?;
        match send(&self.socket, &answer[*written..], SendFlags::NOSIGNAL) {
            Ok(count) => *written += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return None,
        }
        (*written < answer.len()).then_some(())
    }
}

/// Content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metrics,
    /// More is to come.
    Unfinished,
    /// Something else, which is answered with this status.
    Other(&'static str),
}

fn parse(bytes: &[u8], is_tcp: bool) -> Asked {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_MAX => return Asked::Unfinished,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Asked::Other("431 Request Header Fields Too Large");
        }
        Err(_) => return Asked::Other("400 Bad Request"),
    }
    let path = request.path.map(|path| path.split('?').next().unwrap_or_default());
    let host = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("host"));
    let is_named = host.is_some_and(|host| !is_this_machine(host.value));
    match (request.method, path) {
        // A page in a browser could have its own name lead to this machine.
        _ if is_tcp && is_named => Asked::Other("421 Misdirected Request"),
        (Some("GET"), Some("/metrics")) => Asked::Metrics,
        (Some("GET"), _) => Asked::Other("404 Not Found"),
        _ => Asked::Other("405 Method Not Allowed"),
    }
}

/// Returns whether a `Host` is an address or `localhost`, with a port or without.
fn is_this_machine(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

/// The whole answer. Requests that are not for the metrics are not told much.
fn answer(asked: &Asked, text: &mut impl FnMut() -> Option<Arc<str>>) -> Vec<u8> {
    let (status, kind, body) = match asked {
        Asked::Metrics => match text() {
            Some(text) => ("200 OK", TEXT, text),
            None => ("503 Service Unavailable", "text/plain", "the scheduler is silent\n".into()),
        },
        Asked::Other(status) => (*status, "text/plain", "only GET /metrics\n".into()),
        Asked::Unfinished => ("400 Bad Request", "text/plain", "".into()),
    };
    let allow = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         {allow}Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_of_the_metrics_is_answered_with_them() {
        let asked = |text: &str| parse(text.as_bytes(), true);
        assert_eq!(asked("GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\n\r\n"), Asked::Metrics);
        assert_eq!(asked("GET /metrics?a=b HTTP/1.0\r\n\r\n"), Asked::Metrics);
        assert_eq!(asked("GET /metrics HTTP/1.1\r\nHost: [::1]:1\r\n\r\n"), Asked::Metrics);
        assert_eq!(asked("GET /metrics HTTP/1.1\r\n"), Asked::Unfinished);
        for (text, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\0\0\0", "400"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
            (&format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65)), "431"),
            (&format!("GET /{}", "m".repeat(REQUEST_MAX)), "431"),
        ] {
            match asked(text) {
                Asked::Other(other) => assert!(other.starts_with(status), "{text}: {other}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let named = b"GET /metrics HTTP/1.1\r\nHost: xsched\r\n\r\n";
        assert_eq!(parse(named, false), Asked::Metrics, "a Unix socket has no name");
    }
}
