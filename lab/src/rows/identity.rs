//! Of which build rows are, and on which machine they were measured. Those of another one are not
//! set beside them.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::document::Row;
use xsched_console::machine::Machine;

/// Files beside this program that schedule: other files of its folder have no part in it.
const PARTS: [&str; 5] = ["xsched", "xschedd", "libpreempt.so", "libshimcuda.so", "libshimhip.so"];

/// A build and a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The commit, and a digest of the files of the build.
    pub(crate) build: String,
    /// The processor, how many there are, and the system's kernel.
    pub(crate) machine: String,
}

impl Identity {
    /// Returns the identity of this program, here.
    pub(crate) fn here() -> Self {
        static HERE: OnceLock<Identity> = OnceLock::new();
        let here = HERE.get_or_init(|| {
            let program = env::current_exe().unwrap_or_default();
            let Machine { cpu, cores, kernel, .. } = Machine::here();
            Self {
                build: format!("{} {:016x}", env!("BUILD_COMMIT"), digest(&program)),
                machine: format!("{cpu}, {cores} processors, kernel {kernel}"),
            }
        });
        here.clone()
    }

    /// For people, with the device.
    pub(crate) fn with(&self, hardware: &str) -> String {
        format!("build {}, {hardware}, {}", self.build, self.machine)
    }
}

/// A digest of a program and of what schedules beside it.
fn digest(program: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let parts = PARTS.map(|part| program.with_file_name(part));
    for part in [program.to_owned()].iter().chain(&parts) {
        // What is not there may be elsewhere, and then is not of this build.
        hasher.write(&fs::read(part).unwrap_or_default());
    }
    hasher.finish()
}

/// The builds and machines of rows, with their devices, each once.
pub(crate) fn all<'a>(rows: impl IntoIterator<Item = &'a Row>) -> BTreeSet<(Identity, String)> {
    let measured = rows.into_iter().filter(|row| !row.hardware.is_empty());
    measured.map(|row| (row.identity.clone(), row.hardware.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_told_from_another_by_its_files() {
        let here = Identity::here();
        assert!(!here.build.starts_with(' ') && here.build.len() > 17, "{here:?}");
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("xsched-lab");
        let digests = ["", "one", "another"].map(|text| {
            fs::write(&program, text).unwrap();
            digest(&program)
        });
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
        fs::write(folder.path().join("libpreempt.so"), "a library").unwrap();
        assert_ne!(digest(&program), digests[2]);
        fs::write(folder.path().join("note.txt"), "no part").unwrap();
        assert_ne!(digest(&program), digests[2]);
    }
}
