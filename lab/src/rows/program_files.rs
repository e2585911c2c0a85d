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

/// A program of the project, `xsched` or `xschedd`: beside this one, or in PATH.
pub(crate) fn program(name: &str) -> Result<PathBuf, String> {
    let beside = env::current_exe().ok().map(|program| program.with_file_name(name));
    let path = env::var_os("PATH").unwrap_or_default();
    let others: Vec<PathBuf> = env::split_paths(&path).map(|folder| folder.join(name)).collect();
    let found = beside.into_iter().chain(others).find(|place| place.is_file());
    found.ok_or_else(|| {
        format!(
            "{name} is neither beside this program nor in PATH; build it with `cargo build \
             --release -p xsched-cli -p xsched-daemon`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_found_where_this_was_built() {
        assert!(folders().iter().any(|folder| folder.ends_with("lab/programs")));
        assert!(find("there is no such program").is_none());
        let error = program("there is no such program").expect_err("it is not there");
        assert!(error.contains("cargo build"), "{error}");
    }
}
