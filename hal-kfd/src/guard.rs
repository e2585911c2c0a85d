//! Events that end all suspensions on a GPU: a switch of the user's or the administrator's, and the
//! driver's own words in the kernel's log.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::log::Watch;

/// The environment variable that switches Lv3 off. What is neither empty nor `on` does.
pub const SWITCH_VARIABLE: &str = "XSCHED_KFD";
/// The file that switches Lv3 off for all programs, also for those that run already, for as long as
/// it is there. Its first line is shown as the reason. No environment variable names another.
pub const OFF_PATH: &str = "/etc/xsched/kfd-off";
/// The file is looked for at most this often.
const FILE_PERIOD: Duration = Duration::from_millis(50);
/// Characters of its first line that are shown.
const REASON_MAX: usize = 200;

/// Why the file switches Lv3 off; `None` if there is none. One that cannot be looked for counts as
/// there.
pub(crate) fn switched_off_by(file: &Path) -> Option<String> {
    let at = file.display();
    match fs::read_to_string(file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            None
        }
        Err(error) => Some(format!("Lv3 is switched off: {at} is there, or may be: {error}")),
        Ok(text) => {
            let reason: String = text.lines().next().unwrap_or_default().trim().into();
            let reason: String = reason.chars().take(REASON_MAX).collect();
            let why = if reason.is_empty() { "it gives no reason" } else { &reason };
            Some(format!("Lv3 is switched off: {at} is there: {why}"))
        }
    }
}

/// Why the value of [`SWITCH_VARIABLE`] switches Lv3 off; `None` if it does not.
pub(crate) fn switched_off_with(value: Option<&str>) -> Option<String> {
    let value = value.map(str::trim).filter(|value| !value.is_empty())?;
    if value.eq_ignore_ascii_case("on") {
        return None;
    }
    // What is misspelt was probably meant to switch it off.
    let hint = if value.eq_ignore_ascii_case("off") { "" } else { ", which can be on or off" };
    Some(format!("Lv3 is switched off: {SWITCH_VARIABLE} is `{value}`{hint}"))
}

/// Says when nothing may be suspended on a GPU any more.
#[derive(Debug)]
pub struct Guard {
    log: Watch,
    off: PathBuf,
    looked: Option<Instant>,
}

impl Guard {
    /// A guard over a log, and over the file that switches Lv3 off ([`OFF_PATH`]).
    #[must_use]
    pub const fn new(log: Watch, off: PathBuf) -> Self {
        Self { log, off, looked: None }
    }

    /// Why nothing may be suspended from now on, if so. Reads what is new in the log; asks the file
    /// system at most every 50 ms.
    pub fn why_stop(&mut self) -> Option<String> {
        if let Err(line) = self.log.check() {
            return Some(line);
        }
        let now = Instant::now();
        if self.looked.is_some_and(|at| now.duration_since(at) < FILE_PERIOD) {
            return None;
        }
        self.looked = Some(now);
        switched_off_by(&self.off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::Scripted;

    #[test]
    fn the_variable_switches_off_unless_it_says_on() {
        for on in [None, Some(""), Some(" "), Some("on"), Some("ON ")] {
            assert_eq!(switched_off_with(on), None, "{on:?}");
        }
        let off = switched_off_with(Some("off")).expect("off");
        assert_eq!(off, "Lv3 is switched off: XSCHED_KFD is `off`");
        let odd = switched_off_with(Some("of")).expect("off as well");
        assert!(odd.contains("on or off"), "{odd}");
    }

    #[test]
    fn the_file_switches_off_and_gives_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kfd-off");
        assert_eq!(switched_off_by(&file), None);
        fs::write(&file, "").expect("written");
        assert!(switched_off_by(&file).expect("off").ends_with("it gives no reason"));
        fs::write(&file, "firmware 5.1 hangs\nmore\n").expect("written");
        assert!(switched_off_by(&file).expect("off").ends_with("is there: firmware 5.1 hangs"));
        // A folder cannot be read, and is there.
        assert!(switched_off_by(folder.path()).is_some());
    }

    #[test]
    fn a_line_or_the_file_stops_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kfd-off");
        let mut guard = Guard::new(Scripted::after(1, "amdgpu: stuck"), file.clone());
        assert_eq!(guard.why_stop(), None);
        assert!(guard.why_stop().expect("a line").contains("stuck"));
        let mut guard = Guard::new(Scripted::after(9, ""), file.clone());
        fs::write(&file, "maintenance").expect("written");
        assert!(guard.why_stop().expect("the file").contains("maintenance"));
    }
}
