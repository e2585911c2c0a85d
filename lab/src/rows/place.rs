//! Where the programs of the lab are.

use std::env;
use std::path::{Path, PathBuf};

/// Where the programs may be: beside this program, where packages put them, in the repository that
/// it was built in, and below the present folder.
pub(crate) fn folders() -> Vec<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("."));
    let places = ["programs", "../share/xsched/programs", "../../lab/programs"];
    let mut all: Vec<PathBuf> = places.map(|place| beside.join(place)).into();
    all.push(PathBuf::from("lab/programs"));
    all
}

/// A file of the lab's programs.
pub(crate) fn find(file: &str) -> Option<PathBuf> {
    let places = folders().into_iter().map(|folder| folder.join(file));
    places.into_iter().find(|place| place.is_file())
}

/// The daemon: beside this program, or where the system looks for programs.
pub(crate) fn daemon() -> Option<PathBuf> {
    const NAME: &str = "xschedd";
    let beside = env::current_exe().ok().map(|program| program.with_file_name(NAME));
    let path = env::var_os("PATH").unwrap_or_default();
    let others: Vec<PathBuf> = env::split_paths(&path).map(|folder| folder.join(NAME)).collect();
    beside.into_iter().chain(others).find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_found_where_this_was_built() {
        assert!(folders().iter().any(|folder| folder.ends_with("lab/programs")));
        assert!(find("there is no such program").is_none());
    }
}
