//! The kernel's log: whether the driver has anything to say.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

/// Where the kernel writes its log.
const KMSG: &str = "/dev/kmsg";
/// Longer than any record of it (`CONSOLE_EXT_LOG_MAX` in the kernel).
const RECORD: usize = 8_192;
/// Words in lines of drivers that end everything, in lower case.
const DRIVER: [&str; 6] = ["amdgpu", "kfd", "amdkcl", "gpu reset", "nvrm", "xid"];

/// Something that is written line by line.
pub trait Lines: Debug {
    /// Lines that were written since the last call, or since this was opened.
    ///
    /// # Errors
    /// In words, if that cannot be said.
    fn new_lines(&mut self) -> Result<Vec<String>, String>;
}

/// The kernel's log, read at its end.
#[derive(Debug)]
struct Kmsg {
    file: File,
}

impl Kmsg {
    fn open(path: &Path) -> Result<Self, String> {
        let unread = |error| format!("{}: {error}", path.display());
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let mut file = opened.map_err(unread)?;
        file.seek(SeekFrom::End(0)).map_err(unread)?;
        Ok(Self { file })
    }
}

impl Lines for Kmsg {
    fn new_lines(&mut self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let mut record = vec![0; RECORD];
        loop {
            match self.file.read(&mut record) {
                Ok(0) => return Ok(lines),
                // Priority, number, time and flags; then the text, and lines of details.
                Ok(count) => {
                    let text = String::from_utf8_lossy(record.get(..count).unwrap_or_default());
                    let text = text.split_once(';').map_or(&*text, |(_, text)| text);
                    lines.extend(text.lines().next().map(str::to_owned));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(lines),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Records were overwritten before they were read; the next are there.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    lines.push("amdgpu? lines of the kernel's log were lost".to_owned());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

/// The same through `dmesg`.
#[derive(Debug)]
struct Dmesg {
    /// The last line seen.
    last: Option<String>,
}

impl Dmesg {
    fn open() -> Result<Self, String> {
        let last = Self::all()?.pop();
        Ok(Self { last })
    }

    fn all() -> Result<Vec<String>, String> {
        let output = Command::new("dmesg").output().map_err(|error| format!("dmesg: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(said.trim().to_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}

impl Lines for Dmesg {
    fn new_lines(&mut self) -> Result<Vec<String>, String> {
        let lines = Self::all()?;
        let seen = lines.iter().rposition(|line| Some(line) == self.last.as_ref());
        let new: Vec<String> = lines.into_iter().skip(seen.map_or(0, |at| at + 1)).collect();
        self.last = new.last().cloned().or(self.last.take());
        Ok(new)
    }
}

/// A guard over the kernel's log.
#[derive(Debug)]
pub struct Watch {
    lines: Option<Box<dyn Lines>>,
    /// Why there is nothing to watch.
    unread: Option<String>,
}

impl Watch {
    /// Watches the log from now on, if it can be read.
    #[must_use]
    pub fn new() -> Self {
        let kmsg = Kmsg::open(Path::new(KMSG)).map(|log| Box::new(log) as Box<dyn Lines>);
        let log = kmsg.or_else(|first| match Dmesg::open() {
            Ok(log) => Ok(Box::new(log) as Box<dyn Lines>),
            Err(second) => Err(format!("{first}; {second}")),
        });
        match log {
            Ok(log) => Self::over(log),
            Err(why) => Self { lines: None, unread: Some(why) },
        }
    }

    /// Watches something else.
    #[must_use]
    pub fn over(lines: Box<dyn Lines>) -> Self {
        Self { lines: Some(lines), unread: None }
    }

    /// Why nothing is watched, if so.
    #[must_use]
    pub fn unread(&self) -> Option<&str> {
        self.unread.as_deref()
    }

    /// Fails with the first line that a GPU's driver has written since the last look.
    ///
    /// # Errors
    /// If there is such a line.
    pub fn check(&mut self) -> Result<(), String> {
        let Some(lines) = &mut self.lines else { return Ok(()) };
        match lines.new_lines() {
            Ok(new) => match new.into_iter().find(|line| is_of_driver(line)) {
                Some(line) => Err(format!("the kernel's log has a new line: {line}")),
                None => Ok(()),
            },
            Err(why) => {
                (self.lines, self.unread) = (None, Some(why));
                Ok(())
            }
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

fn is_of_driver(line: &str) -> bool {
    let line = line.to_lowercase();
    DRIVER.iter().any(|word| line.contains(word))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A log that has these lines, some for each look.
    #[derive(Debug, Default)]
    pub(crate) struct Scripted(pub(crate) VecDeque<Result<Vec<String>, String>>);

    impl Scripted {
        /// Quiet for so many looks, then this line.
        pub(crate) fn after(quiet: usize, line: &str) -> Watch {
            let mut looks: VecDeque<_> = (0..quiet).map(|_| Ok(Vec::new())).collect();
            looks.push_back(Ok(vec![line.to_owned()]));
            Watch::over(Box::new(Self(looks)))
        }
    }

    impl Lines for Scripted {
        fn new_lines(&mut self) -> Result<Vec<String>, String> {
            self.0.pop_front().unwrap_or_else(|| Ok(Vec::new()))
        }
    }

    #[test]
    fn a_line_of_the_driver_is_found_and_others_are_not() {
        let mut watch = Scripted::after(1, "amdgpu 0000:01:00.0: ring gfx timeout");
        assert_eq!(watch.check(), Ok(()));
        assert!(watch.check().unwrap_err().contains("ring gfx timeout"));
        let mut watch = Scripted::after(0, "usb 1-1: new device");
        assert_eq!(watch.check(), Ok(()));
        assert!(is_of_driver("[drm] KFD: cp queue preemption time out"));
    }

    #[test]
    fn a_log_that_can_be_read_no_more_is_said_to_be() {
        let looks = VecDeque::from([Err("gone".to_owned()), Ok(vec!["kfd".to_owned()])]);
        let mut watch = Watch::over(Box::new(Scripted(looks)));
        assert_eq!(watch.check(), Ok(()));
        assert_eq!(watch.unread(), Some("gone"));
        assert_eq!(watch.check(), Ok(()), "nothing is watched");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Kmsg::open(Path::new("/nowhere/kmsg")).unwrap_err();
        assert!(error.contains("/nowhere/kmsg"), "{error}");
        let watch = Watch::new();
        assert_eq!(watch.lines.is_none(), watch.unread().is_some());
    }
}
