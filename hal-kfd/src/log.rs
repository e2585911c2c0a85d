//! The kernel's log: whether the driver has anything to say.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Where the kernel writes its log.
pub const KMSG_PATH: &str = "/dev/kmsg";
/// Longer than any record of it (`CONSOLE_EXT_LOG_MAX` in the kernel).
const RECORD: usize = 8_192;
/// Words in lines of drivers of GPUs, in lower case.
const DRIVER: [&str; 6] = ["amdgpu", "kfd", "amdkcl", "gpu reset", "nvrm", "xid"];

/// Something that is written line by line.
pub trait Lines: Debug + Send {
    /// Lines that were written since the last call, or since this was opened.
    ///
    /// # Errors
    /// In words, if that cannot be said.
    fn new_lines(&mut self) -> Result<Vec<String>, String>;
}

/// The kernel's log, read at its end.
#[derive(Debug)]
pub struct Kmsg {
    file: File,
}

impl Kmsg {
    /// Opens it at a path ([`KMSG_PATH`]), from its end on.
    ///
    /// # Errors
    /// In words, if this user may not read it, as with `kernel.dmesg_restrict=1` without
    /// `CAP_SYSLOG`.
    pub fn open(path: &Path) -> Result<Self, String> {
        let unread = |error| format!("{}: {error}", path.display());
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let mut file = opened.map_err(unread)?;
        file.seek(SeekFrom::End(0)).map_err(unread)?;
        Ok(Self { file })
    }
}

/// The texts of records, each of which is a line and lines of details that start with a space.
fn texts(records: &str) -> impl Iterator<Item = String> + '_ {
    let lines = records.lines().filter(|line| !line.starts_with(' '));
    // Priority, number, time and flags; then the text.
    lines.map(|line| line.split_once(';').map_or(line, |(_, text)| text).to_owned())
}

impl Lines for Kmsg {
    fn new_lines(&mut self) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let mut record = [0; RECORD];
        loop {
            match self.file.read(&mut record) {
                Ok(0) => return Ok(lines),
                Ok(count) => {
                    let text = String::from_utf8_lossy(record.get(..count).unwrap_or_default());
                    lines.extend(texts(&text));
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

/// A watch over the kernel's log.
#[derive(Debug)]
pub struct Watch {
    lines: Option<Box<dyn Lines>>,
    /// Why there is nothing to watch.
    unread: Option<String>,
    /// The PCI address whose GPU alone is of interest.
    pci: Option<String>,
}

impl Watch {
    /// Watches a log from now on, or nothing, with the reason why it cannot be read.
    #[must_use]
    pub fn of(log: Result<Box<dyn Lines>, String>) -> Self {
        let (lines, unread) = match log {
            Ok(lines) => (Some(lines), None),
            Err(why) => (None, Some(why)),
        };
        Self { lines, unread, pci: None }
    }

    /// Watches the kernel's log at this path from now on, if it can be read.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self::of(Kmsg::open(path).map(|log| Box::new(log) as Box<dyn Lines>))
    }

    /// Leaves out lines that name other GPUs only. `pci` is an address such as `0000:3b:00`.
    #[must_use]
    pub fn only_for(mut self, pci: &str) -> Self {
        self.pci = Some(pci.to_ascii_lowercase());
        self
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
            Ok(new) => {
                let mut new = new.into_iter();
                match new.find(|line| is_about(line, self.pci.as_deref())) {
                    Some(line) => Err(format!("the kernel's log has a new line: {line}")),
                    None => Ok(()),
                }
            }
            Err(why) => {
                (self.lines, self.unread) = (None, Some(why));
                Ok(())
            }
        }
    }
}

/// True if a line is of a driver of GPUs, and not of other GPUs than this one.
fn is_about(line: &str, pci: Option<&str>) -> bool {
    let line = line.to_lowercase();
    let is_of_driver = DRIVER.iter().any(|word| line.contains(word));
    let is_other = |pci: &str| !line.contains(pci) && addresses(&line).next().is_some();
    is_of_driver && !pci.is_some_and(is_other)
}

/// PCI addresses in a line, such as `0000:3b:00.0`.
fn addresses(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.');
    words.filter(|word| {
        let parts: Vec<_> = word.trim_end_matches([':', '.']).split([':', '.']).collect();
        let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
        lengths == [4, 2, 2, 1] && parts.concat().chars().all(|c| c.is_ascii_hexdigit())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::VecDeque;
    use std::io::Write;

    use super::*;

    /// A log that has these lines, some for each look.
    #[derive(Debug, Default)]
    pub(crate) struct Scripted(pub(crate) VecDeque<Result<Vec<String>, String>>);

    impl Scripted {
        /// Quiet for this many looks, then this line.
        pub(crate) fn after(quiet: usize, line: &str) -> Watch {
            let mut looks: VecDeque<_> = (0..quiet).map(|_| Ok(Vec::new())).collect();
            looks.push_back(Ok(vec![line.to_owned()]));
            Watch::of(Ok(Box::new(Self(looks))))
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
        assert!(watch.check().expect_err("a line").contains("ring gfx timeout"));
        let mut watch = Scripted::after(0, "usb 1-1: new device");
        assert_eq!(watch.check(), Ok(()));
        assert!(is_about("[drm] KFD: cp queue preemption time out", None));
    }

    #[test]
    fn lines_about_other_gpus_are_left_out() {
        let line = "amdgpu 0000:01:00.0: amdgpu: GPU reset begin!";
        assert!(is_about(line, Some("0000:01:00")));
        assert!(!is_about(line, Some("0000:02:00")));
        assert!(is_about("kfd kfd: amdgpu: Failed to evict queue 1", Some("0000:02:00")));
        assert!(is_about("amdgpu: at 12:30:07.5 the clock", Some("0000:02:00")));
        assert!(is_about("amdgpu 0000:01:00.0: 0000:02:00.0 is beside", Some("0000:02:00")));
    }

    #[test]
    fn a_log_that_can_be_read_no_more_is_said_to_be() {
        let looks = VecDeque::from([Err("gone".to_owned()), Ok(vec!["kfd".to_owned()])]);
        let mut watch = Watch::of(Ok(Box::new(Scripted(looks))));
        assert_eq!(watch.check(), Ok(()));
        assert_eq!(watch.unread(), Some("gone"));
        assert_eq!(watch.check(), Ok(()), "nothing is watched");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let watch = Watch::at(Path::new("/nowhere/kmsg"));
        assert!(watch.unread().is_some_and(|why| why.contains("/nowhere/kmsg")), "{watch:?}");
    }

    #[test]
    fn records_are_read_from_the_end_on() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "6,1,1,-;amdgpu: from before").expect("written");
        let mut watch = Watch::at(file.path());
        assert_eq!(watch.check(), Ok(()));
        let records = "6,2,2,-;eth0: up\n SUBSYSTEM=amdgpu\n3,3,3,-;amdgpu: HIQ is stuck\n";
        file.write_all(records.as_bytes()).expect("written");
        let said = watch.check().expect_err("a line");
        assert_eq!(said, "the kernel's log has a new line: amdgpu: HIQ is stuck");
    }
}
