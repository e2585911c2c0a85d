//! The files that are preloaded, and where they are.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::LaunchError;

/// The interposers, in the order in which they are preloaded, each with the libraries by which it
/// gets other names of what it stands for.
pub const INTERPOSERS: [&str; 7] = [
    "libshimcuda.so",
    "libcuda.so",
    "libshimhip.so",
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
];
/// Library that they launch through. They look for it beside them, and in the folder above.
pub const LIBRARY: &str = "libpreempt.so";
/// The variable that names what the loader is to load first.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// Interposers that can be preloaded: of one folder, with [`LIBRARY`] where they look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interposers {
    files: Vec<PathBuf>,
    /// Folder of the library: theirs, or the one above.
    folder: PathBuf,
}

/// The folders to look in for a program in the folder `own`: that one, where cargo builds
/// libraries, and where `cargo xtask install` puts them.
#[must_use]
pub fn folders_beside(own: &Path) -> Vec<PathBuf> {
    let above = own.parent().unwrap_or(own);
    let fixed = ["/usr/local/lib/xsched", "/usr/lib/xsched"].map(PathBuf::from);
    [own.to_path_buf(), own.join("deps"), above.join("lib/xsched")]
        .into_iter()
        .chain(fixed)
        .collect()
}

impl Interposers {
    /// Finds those of [`INTERPOSERS`] in the first folder that has any, and has the library for
    /// them.
    ///
    /// # Errors
    /// If no folder has.
    pub fn find(folders: &[PathBuf]) -> Result<Self, LaunchError> {
        folders.iter().find_map(|folder| Self::of_folder(folder)).ok_or_else(|| {
            let places = folders.iter().map(|folder| folder.display().to_string());
            LaunchError::NoInterposer { places: places.collect::<Vec<_>>().join(", ") }
        })
    }

    fn of_folder(folder: &Path) -> Option<Self> {
        let with_library = |place: &&Path| place.join(LIBRARY).exists();
        let library = folder.ancestors().take(2).find(with_library)?.to_owned();
        let files = INTERPOSERS.map(|name| folder.join(name));
        let files: Vec<_> = files.into_iter().filter(|file| file.exists()).collect();
        (!files.is_empty()).then_some(Self { files, folder: library })
    }

    /// Paths of the interposers, in the order in which they are preloaded.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The folder in which all of them and the library are, or below which they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The loader's variable, with these behind what it says: a library of the user's that stands
    /// in front of the driver as well, such as a profiler, calls the next one, which is this, and
    /// this calls the driver.
    ///
    /// # Errors
    /// [`LaunchError::Unpreloadable`].
    pub fn preload(&self, old: Option<OsString>) -> Result<(&'static str, OsString), LaunchError> {
        let is_splitting = |byte: &u8| b": ".contains(byte);
        let is_several = |file: &&PathBuf| file.as_os_str().as_bytes().iter().any(is_splitting);
        if let Some(place) = self.files.iter().find(is_several) {
            return Err(LaunchError::Unpreloadable { place: place.clone() });
        }
        let own = self.files.iter().map(|file| file.clone().into_os_string());
        let all: Vec<_> = old.into_iter().filter(|old| !old.is_empty()).chain(own).collect();
        Ok((PRELOAD, all.join(OsStr::new(":"))))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(file: &str) -> Interposers {
        Interposers { files: vec![file.into()], folder: PathBuf::new() }
    }

    #[test]
    fn what_is_preloaded_already_stays() {
        let alone = of("/a/libshimcuda.so");
        let preload = |old: Option<&str>| alone.preload(old.map(Into::into)).expect("a path").1;
        assert_eq!(preload(None), "/a/libshimcuda.so");
        assert_eq!(preload(Some("")), "/a/libshimcuda.so");
        assert_eq!(preload(Some("/b/c.so /d.so")), "/b/c.so /d.so:/a/libshimcuda.so");
        assert!(of("/a b/libshimcuda.so").preload(None).is_err());
    }

    #[test]
    fn an_interposer_without_its_library_is_not_taken() {
        let place = tempfile::tempdir().expect("a folder");
        let folders = [place.path().join("lib"), place.path().join("other")];
        for folder in &folders {
            fs::create_dir(folder).expect("a folder");
            fs::write(folder.join(INTERPOSERS[0]), "").expect("a file");
        }
        let error = Interposers::find(&folders).expect_err("there is no library");
        assert!(error.to_string().contains(&folders[1].display().to_string()), "{error}");
        fs::write(folders[1].join(LIBRARY), "").expect("a file");
        let found = Interposers::find(&folders).expect("the other");
        assert_eq!(found.files(), [folders[1].join(INTERPOSERS[0])]);
        fs::write(place.path().join(LIBRARY), "").expect("a file");
        let found = Interposers::find(&folders).expect("the first");
        assert_eq!(found.files(), [folders[0].join(INTERPOSERS[0])]);
    }
}
