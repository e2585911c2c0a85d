//! Users who are one person: the containers of a person run processes with user numbers from the
//! ranges that `/etc/subuid` gives that person. What a user may have of the daemon is for all of
//! them together. Rights go by the number itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Bytes of each file that are read: 20,000 persons or more.
const BYTES_MAX: u64 = 1 << 20;
const SUBORDINATES: &str = "/etc/subuid";
const USERS: &str = "/etc/passwd";

/// Ranges of user numbers, each with the user that it counts for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subordinates(Vec<Range>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    person: u32,
}

impl Subordinates {
    /// Ranges of this machine. Without the file there are none.
    pub(crate) fn of_machine() -> Self {
        let text = |path: &str| match read(Path::new(path)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                tracing::warn!(
                    "{path} cannot be read ({error}): users of one person are told apart"
                );
                String::new()
            }
        };
        Self::of(&text(SUBORDINATES), &text(USERS))
    }

    /// Ranges of `NAME:FIRST:COUNT` in each line. A range counts for the user whose name or number
    /// it has; if `users` lacks the name, all its ranges count for their first number.
    pub(crate) fn of(text: &str, users: &str) -> Self {
        let mut ranges: Vec<(&str, Range)> = Vec::new();
        for line in text.lines() {
            let Some((name, first, last)) = range(line) else { continue };
            let known = || ranges.iter().find(|(of, _)| *of == name).map(|(_, of)| of.person);
            let person = name.parse().ok().or_else(|| number_of(name, users)).or_else(known);
            ranges.push((name, Range { first, last, person: person.unwrap_or(first) }));
        }
        Self(ranges.into_iter().map(|(_, range)| range).collect())
    }

    /// User that processes of this user count for.
    pub(crate) fn person(&self, uid: u32) -> u32 {
        let range = self.0.iter().find(|range| (range.first..=range.last).contains(&uid));
        range.map_or(uid, |range| range.person)
    }
}

fn read(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn range(line: &str) -> Option<(&str, u32, u32)> {
    let mut fields = line.trim().split(':');
    let (name, first, count) = (fields.next()?, fields.next()?, fields.next()?);
    let (first, count) = (first.parse::<u32>().ok()?, count.parse::<u32>().ok()?);
    // A line that is wrong gives no number of root.
    let is_range = !name.is_empty() && first > 0 && count > 0;
    is_range.then(|| (name, first, first.saturating_add(count - 1)))
}

fn number_of(name: &str, users: &str) -> Option<u32> {
    let of_name = users.lines().find(|line| line.split(':').next() == Some(name))?;
    of_name.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_range_count_for_its_person() {
        let users = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        let text = "ada:100000:65536\n1001:165536:65536\n# a comment\nada:300000:1\nnonsense\n\
                    bob:400000:10\nbob:500000:10\nwrong:0:5\nwrong:9:x\nlast:4294967295:9\n";
        let of = Subordinates::of(text, users);
        let persons = [0, 5, 9, 1000, 99_999, 100_000, 165_535, 165_536, 231_071, 231_072, 300_000]
            .map(|uid| of.person(uid));
        let expected = [0, 5, 9, 1000, 99_999, 1000, 1000, 1001, 1001, 231_072, 1000];
        assert_eq!(persons, expected);
        assert_eq!([400_009, 500_009].map(|uid| of.person(uid)), [400_000; 2], "not in the file");
        assert_eq!(of.person(u32::MAX), u32::MAX);
        assert_eq!(Subordinates::default().person(100_000), 100_000);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(read(folder.path()).is_err());
        assert!(read(&folder.path().join("gone")).is_err());
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR).expect("a pipe");
        assert!(read(&pipe).is_err());
        let file = folder.path().join("file");
        std::fs::write(&file, "ada:1:2\n").expect("a file");
        assert_eq!(read(&file).expect("text"), "ada:1:2\n");
    }
}
