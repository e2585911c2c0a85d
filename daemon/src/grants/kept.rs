//! The file of grants, which outlives the daemon and not the machine's run.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};

use super::{GRANTS_MAX, GrantError, Held};

/// Bytes of the file at most: two paths of 4 KiB and names for each grant.
const BYTES_MAX: u64 = (GRANTS_MAX * 16 * 1_024) as u64;

/// The layout of the file. It changes when a field goes or means something else.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Kept {
    version: u32,
    grants: Vec<Held>,
}

#[derive(Serialize)]
struct Keeping<'a> {
    version: u32,
    grants: Vec<&'a Held>,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> GrantError {
    let path = path.to_owned();
    move |source| GrantError::File { path: path.clone(), source }
}

/// The grants in a file; none if it is not there.
///
/// # Errors
/// [`GrantError::File`]: a daemon that left grants out would lift limits.
pub(super) fn read(path: &Path) -> Result<Vec<Held>, GrantError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
        opened => File::from(opened.map_err(|errno| failed(path)(errno.into()))?),
    };
    parsed(file).map_err(failed(path))
}

fn parsed(file: File) -> io::Result<Vec<Held>> {
    let about = file.metadata()?;
    let own_uid = rustix::process::geteuid().as_raw();
    if !about.is_file() || ![0, own_uid].contains(&about.uid()) || about.mode() & 0o022 != 0 {
        return Err(io::Error::other(
            "it has to be a file of root or of this user that no other may write; remove it, and \
             grant again",
        ));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let wrong = |why: String| io::Error::other(format!("{why}; remove it, and grant again"));
    let kept: Kept = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if kept.version != VERSION {
        return Err(wrong(format!("it has version {}, and this daemon {VERSION}", kept.version)));
    }
    Ok(kept.grants)
}

/// Replaces the file by one with these grants.
///
/// # Errors
/// [`GrantError::File`]; the file is as it was then.
pub(super) fn write<'a>(
    path: &Path,
    grants: impl Iterator<Item = &'a Held>,
) -> Result<(), GrantError> {
    let text = serde_json::to_vec(&Keeping { version: VERSION, grants: grants.collect() });
    let write = || {
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = open(&new, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(&text?)?;
        fs::rename(&new, path)
    };
    write().map_err(failed(path))
}
