//! The kernel's log: whether the driver has anything to say.

use std::path::Path;
use std::process::Command;

use xsched_hal_kfd::log::{KMSG_PATH, Kmsg, Lines, Watch};

/// The kernel's log, through `dmesg`.
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

/// Watches the log from now on, if it can be read.
pub(crate) fn watch() -> Watch {
    let kmsg = Kmsg::open(Path::new(KMSG_PATH)).map(|log| Box::new(log) as Box<dyn Lines>);
    Watch::of(kmsg.or_else(|first| match Dmesg::open() {
        Ok(log) => Ok(Box::new(log) as Box<dyn Lines>),
        Err(second) => Err(format!("{first}; {second}")),
    }))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A log that has these lines, some for each look.
    #[derive(Debug, Default)]
    pub(crate) struct Scripted(VecDeque<Vec<String>>);

    impl Scripted {
        /// Quiet for `quiet` looks, then this line.
        pub(crate) fn after(quiet: usize, line: &str) -> Watch {
            let mut looks = VecDeque::from(vec![Vec::new(); quiet]);
            looks.push_back(vec![line.to_owned()]);
            Watch::of(Ok(Box::new(Self(looks))))
        }
    }

    impl Lines for Scripted {
        fn new_lines(&mut self) -> Result<Vec<String>, String> {
            Ok(self.0.pop_front().unwrap_or_default())
        }
    }
}
