//! Runtimes of AMD.

use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The libraries that a runtime is made of. Others find theirs by these names and a number.
const LIBRARIES: [&str; 3] = ["libamdhip64", "libhsa-runtime64", "libamd_comgr"];
/// Where libraries are below a root.
const FOLDERS: [&str; 5] = ["", "lib", "lib64", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// Where ROCm is installed.
const INSTALLED: &str = "/opt/rocm";
/// The runtime that the user names.
const NAMED: &str = "the named runtime";

/// A runtime, with a folder in which its libraries have the names that programs ask for.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    /// Where it is from, for people.
    pub(super) from: String,
    /// HIP's library, by its name in [`Runtime::links`].
    pub(super) hip: PathBuf,
    /// The folder with links.
    pub(super) links: PathBuf,
    /// Where the libraries are that these need.
    pub(super) beside: PathBuf,
    /// The dynamic loader of another system, without which they cannot be loaded here.
    pub(super) loader: Option<Loader>,
}

/// Another system's dynamic loader, and where its libraries are.
#[derive(Clone, Debug)]
pub(super) struct Loader {
    pub(super) program: PathBuf,
    pub(super) libraries: PathBuf,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.from)
    }
}

impl Runtime {
    /// The runtime in a folder, or in one of those where a root has its libraries.
    ///
    /// # Errors
    /// If one of the libraries is not there.
    pub(super) fn below(root: &Path, from: &str, links: &Path) -> Result<Self> {
        let root = root.canonicalize().with_context(|| format!("no {}", root.display()))?;
        let beside = beside(&root).with_context(|| {
            format!("there is no {}.so.N in {} or its lib", LIBRARIES[0], root.display())
        })?;
        if links.exists() {
            fs::remove_dir_all(links)?;
        }
        fs::create_dir_all(links)?;
        let mut names = Vec::new();
        for name in LIBRARIES {
            let found = library(&beside, name);
            let (file, major) =
                found.with_context(|| format!("no {name}.so.N in {}", beside.display()))?;
            let soname = format!("{name}.so.{major}");
            symlink(file.canonicalize()?, links.join(&soname))?;
            names.push(soname);
        }
        symlink(&names[0], links.join(format!("{}.so", LIBRARIES[0])))?;
        let hip = links.join(&names[0]);
        let (from, links) = (from.to_owned(), links.to_path_buf());
        Ok(Self { from, hip, links, beside, loader: None })
    }
}

/// The folder of a root that has HIP's library.
fn beside(root: &Path) -> Option<PathBuf> {
    let folders = FOLDERS.iter().map(|folder| root.join(folder));
    folders.into_iter().find(|folder| library(folder, LIBRARIES[0]).is_some())
}

/// A library of this name with a number, and that number: the highest if there are several. Wheels
/// put a hash into the name.
fn library(folder: &Path, name: &str) -> Option<(PathBuf, u32)> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let numbered = files.filter_map(|path| {
        let major = major(path.file_name()?.to_str()?, name)?;
        Some((path, major))
    });
    numbered.max_by_key(|(path, major)| (*major, path.clone()))
}

fn major(file: &str, name: &str) -> Option<u32> {
    let (stem, version) = file.split_once(".so.")?;
    let is_it = stem == name || stem.strip_prefix(name)?.starts_with('-');
    is_it.then(|| version.split('.').next()?.parse().ok())?
}

/// The runtimes that there are, in order: the one that was named, an installed one, the pinned
/// wheel, Debian 13's; only the first unless `all`. Each other one comes with why it cannot be had.
pub(super) struct Found {
    pub(super) runtimes: Vec<Runtime>,
    pub(super) left_out: Vec<String>,
}

/// A way to have a runtime.
type Way<'a> = (&'static str, Box<dyn Fn() -> Result<Option<Runtime>> + 'a>);

/// Looks for runtimes, and downloads those that can be had.
///
/// # Errors
/// If the one that was named is none, or one that can be had is damaged.
pub(super) fn find(named: Option<&Path>, home: &Path, all: bool) -> Result<Found> {
    let links = |name: &str| home.join("links").join(name);
    let below = |root: &Path, name| Runtime::below(root, &root.display().to_string(), &links(name));
    let installed = Path::new(INSTALLED);
    let ways: [Way<'_>; 4] = [
        (NAMED, Box::new(|| named.map(|root| below(root, "named")).transpose())),
        (
            INSTALLED,
            Box::new(|| {
                let is_there = beside(installed).is_some();
                is_there.then(|| below(installed, "installed")).transpose()
            }),
        ),
        ("the pinned wheel", Box::new(|| super::wheel::get(home, &links("wheel")))),
        ("Debian 13's packages", Box::new(|| super::debian::get(home, &links("debian")))),
    ];
    let (mut runtimes, mut left_out) = (Vec::new(), Vec::new());
    for (name, way) in ways {
        match way().with_context(|| format!("{name} cannot be used"))? {
            Some(runtime) => runtimes.push(runtime),
            None if [NAMED, INSTALLED].contains(&name) => {}
            None => left_out.push(name.to_owned()),
        }
        if !all && !runtimes.is_empty() {
            break;
        }
    }
    Ok(Found { runtimes, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names_and_numbers() {
        assert_eq!(major("libamdhip64.so.7.2.70203", "libamdhip64"), Some(7));
        assert_eq!(major("libamdhip64-d01f4dc2.so.7.2.70203", "libamdhip64"), Some(7));
        assert_eq!(major("libamd_comgr.so.3", "libamd_comgr"), Some(3));
        assert_eq!(major("libamdhip64.so", "libamdhip64"), None);
        assert_eq!(major("libamdhip64_extra.so.7", "libamdhip64"), None);
        assert_eq!(major("libhsa-runtime64.so.1.18.70203", "libamdhip64"), None);
    }

    #[test]
    fn a_folder_without_a_library_is_no_runtime() {
        let folder = std::env::temp_dir().join(format!("xsched-rocm-{}", std::process::id()));
        let links = folder.join("links");
        fs::create_dir_all(folder.join("lib")).expect("a folder");
        fs::write(folder.join("lib/libamdhip64.so.7"), "").expect("a file");
        let why = Runtime::below(&folder, "a folder", &links).expect_err("half of a runtime");
        assert!(why.to_string().contains("libhsa-runtime64.so.N"), "{why}");
        for name in ["libhsa-runtime64.so.1", "libamd_comgr-0a.so.3.0.0"] {
            fs::write(folder.join("lib").join(name), "").expect("a file");
        }
        let runtime = Runtime::below(&folder, "a folder", &links).expect("a runtime");
        assert_eq!(runtime.hip, links.join("libamdhip64.so.7"));
        assert!(links.join("libamd_comgr.so.3").exists());
        fs::remove_dir_all(&folder).expect("it is there");
    }
}
