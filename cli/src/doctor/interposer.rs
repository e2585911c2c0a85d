//! An interposer's files, and the functions that it stands in front of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use xsched_shim_table::{Class, List};

use super::elf::Elf;
use super::problem::Problem;

/// The lists of functions of this version.
const CUDA: &str = include_str!("../../../shim/cuda/functions.toml");
const HIP: &str = include_str!("../../../shim/hip/functions.toml");
/// The version script of `libpreempt.so`, which names what interposers of this version need.
const SCRIPT: &str = include_str!("../../../capi/install/libpreempt.map");
/// The beginning of the names of functions that interposers alone call.
const PRIVATE: &str = "xsched_private_";
/// Library that interposers launch through.
const LIBRARY: &str = "libpreempt.so";
const REBUILD: &str = "build or install all of it anew, from one version";

/// Meanings of the classes, in front of the lists.
const CLASSES: &str = "\
launch: work of a stream, in the stream's XQueue, on the calling thread and in program order
ordered: forwarded, in order with the stream's launches
waits: may wait for the device, so it is made with all gates open unless it waits for one stream or event
lifetime: begins, ends or changes a stream, context, event, executable graph or capture
forwarded: none of these

Launches are scheduled if XSCHED_AUTO_XQUEUE is ON, as under `xsched run`. Braces hold endings of names:
_ptds, _ptsz and _spt mean the per-thread default stream. A number in parentheses is the first version
that has a function. A listed function that the installed library lacks answers CUDA_ERROR_NOT_FOUND or
hipErrorNotSupported. A function that is not listed goes to the library unscheduled.
";

/// Text that says what happens to each function of the vendors' libraries.
pub(super) fn reference() -> String {
    let list = |functions: Functions| functions.list.markdown();
    let (cuda, hip) = (list(Functions::cuda()), list(Functions::hip()));
    format!("{CLASSES}\n# CUDA's driver\n\n{cuda}\n# HIP's runtime\n\n{hip}")
}

/// A vendor's list of functions, and how its functions are known among all that a library exports.
#[derive(Debug)]
pub(super) struct Functions {
    list: List,
    prefixes: &'static [&'static str],
}

impl Functions {
    pub(super) fn cuda() -> Self {
        Self::parse(CUDA, &["cu"])
    }

    pub(super) fn hip() -> Self {
        Self::parse(HIP, &["hip", "__hip"])
    }

    /// The lists are part of the program, and a test reads them; one that cannot be read is empty.
    fn parse(text: &str, prefixes: &'static [&'static str]) -> Self {
        let empty = || List { groups: vec![], functions: vec![], left_out: Default::default() };
        Self { list: List::parse(text).unwrap_or_else(|_| empty()), prefixes }
    }

    /// Returns whether a name is that of a vendor's function that the list lacks.
    fn is_not_listed(&self, name: &str) -> bool {
        let left_out = &self.list.left_out.prefixes;
        self.prefixes.iter().any(|prefix| name.starts_with(prefix))
            && self.list.index(name).is_none()
            && !left_out.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }
}

/// Functions of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    /// Functions of the list.
    pub(super) listed: usize,
    /// Functions of the list that the interposer stands in front of.
    pub(super) interposed: usize,
}

/// An interposer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Interposer {
    /// File of the interposer.
    pub(super) path: PathBuf,
    /// `xsched run` preloads it.
    pub(super) preloaded: bool,
    /// The library that it launches through.
    pub(super) library: Option<PathBuf>,
    /// Both are of this program's version.
    pub(super) same_version: bool,
    /// Functions that the interposer stands in front of, by class.
    pub(super) functions: BTreeMap<&'static str, Count>,
    /// Functions that launch, that the driver has and that the interposer does not stand in front
    /// of.
    pub(super) past: Vec<String>,
    /// Functions that the driver has and the list lacks.
    pub(super) not_listed: Vec<String>,
}

impl Interposer {
    /// Looks at an interposer's file. `driver` is the library whose place it takes.
    pub(super) fn look(
        path: &Path,
        preloaded: bool,
        functions: &Functions,
        driver: Option<&Path>,
    ) -> Option<(Self, Vec<Problem>)> {
        let own = Elf::read(path)?;
        let driver = driver.and_then(Elf::read).unwrap_or_default();
        let library = beside(path);
        let lacks = library.as_deref().and_then(lacks);
        let mut found = Self { path: path.to_owned(), preloaded, library, ..Self::default() };
        for known in &functions.list.functions {
            let count = found.functions.entry(known.class.name()).or_default();
            count.listed += 1;
            if own.exports(&known.name) {
                count.interposed += 1;
            } else if known.class == Class::Launch && driver.exports(&known.name) {
                found.past.push(known.name.clone());
            }
        }
        let not_listed = driver.functions.iter().filter(|name| functions.is_not_listed(name));
        found.not_listed = not_listed.cloned().collect();
        let unknown = own.functions.iter().find(|name| functions.is_not_listed(name));
        found.same_version = lacks.is_none() && unknown.is_none();
        let problems = found.problems(lacks, unknown);
        Some((found, problems))
    }

    fn problems(&self, lacks: Option<String>, unknown: Option<&String>) -> Vec<Problem> {
        let own = self.path.display();
        let mut problems = Vec::new();
        if self.library.is_none() {
            let what = format!("there is no {LIBRARY} beside {own}, so nothing is scheduled");
            problems.push(Problem::new(what, REBUILD));
        }
        if let Some(name) = lacks {
            let what = format!("{LIBRARY} beside {own} is of another version: it lacks {name}");
            problems.push(Problem::new(what, REBUILD));
        }
        if let Some(name) = unknown {
            let what = format!("{own} is of another version: this one has no {name}");
            problems.push(Problem::new(what, REBUILD));
        }
        problems
    }
}

/// The library that an interposer opens: beside it or in the folder above.
fn beside(interposer: &Path) -> Option<PathBuf> {
    let folders = interposer.ancestors().skip(1).take(2);
    folders.map(|folder| folder.join(LIBRARY)).find(|path| path.exists())
}

/// The first function that interposers of this version need and a library lacks.
fn lacks(library: &Path) -> Option<String> {
    let Some(elf) = Elf::read(library) else { return Some("an ELF header".to_owned()) };
    let names = SCRIPT.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let mut needed = names.filter(|name| name.starts_with(PRIVATE));
    needed.find(|name| !elf.exports(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where Cargo puts a library that the tests of this crate need.
    fn built(name: &str) -> PathBuf {
        std::env::current_exe().expect("a test").with_file_name(name)
    }

    #[test]
    fn the_lists_can_be_read() {
        for functions in [Functions::cuda(), Functions::hip()] {
            assert!(functions.list.functions.len() > 400);
        }
        let text = reference();
        for class in ["launch", "ordered", "waits", "lifetime", "forwarded"] {
            assert!(text.contains(&format!("\n## {class}\n")), "{class}");
        }
        // Else the table is no table.
        assert_eq!(text.matches("\n\n| class | functions |\n").count(), 2);
        assert!(text.contains("`cuLaunchKernel{") && text.contains("`hipLaunchKernel"));
    }

    #[test]
    fn the_interposer_of_this_build_fits() {
        let (path, driver) = (built("libshimcuda.so"), built("libxsched_cuda_emulated.so"));
        let looked = Interposer::look(&path, true, &Functions::cuda(), Some(&driver));
        let (found, problems) = looked.expect("an interposer");
        assert_eq!(problems, []);
        assert!(found.preloaded && found.same_version);
        assert_eq!(found.library, Some(built(LIBRARY)));
        assert!(found.functions.values().all(|count| count.listed == count.interposed));
        assert!(found.past.is_empty());
        assert!(found.not_listed.contains(&"cuEmulatedCalls".to_owned()), "{:?}", found.not_listed);
    }

    #[test]
    fn a_library_that_is_missing_or_another_is_a_problem() {
        let folder = tempfile::tempdir().expect("a folder");
        let alone = folder.path().join("x/libshimcuda.so");
        std::fs::create_dir(folder.path().join("x")).expect("a folder");
        std::fs::copy(built("libshimcuda.so"), &alone).expect("a copy");
        let look = || {
            let looked = Interposer::look(&alone, false, &Functions::cuda(), None);
            looked.expect("an interposer")
        };
        let (found, problems) = look();
        assert!(!found.preloaded && problems[0].what.contains("there is no libpreempt.so"));
        let other = built("libxsched_cuda_emulated.so");
        std::fs::copy(other, folder.path().join(LIBRARY)).expect("a copy");
        let (found, problems) = look();
        assert!(!found.same_version && problems[0].what.contains("it lacks xsched_private_"));
    }
}
