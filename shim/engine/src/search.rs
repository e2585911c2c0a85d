//! Where the vendor's library may be.
//!
//! A vendor's library that comes with programs is looked for as the loader would for the files of
//! the process: by the names that they need, in the folders that they name (`DT_RPATH`,
//! `DT_RUNPATH`), in those of `LD_LIBRARY_PATH`, in the loader's cache and in the system's folders.
//! For another one, what the files say does not count.

use std::ffi::{CStr, OsStr, OsString, c_int, c_void};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader};
use once_cell::race::OnceBox;
use xsched_hal_process::environment::variable;

use crate::cache;
use crate::vendor::Library;

/// The first name with a version by which the program has opened the library, if it has.
static ASKED: OnceBox<OsString> = OnceBox::new();

/// The program opens the library by this name, which has a version.
pub(crate) fn asked_for(name: &OsStr) {
    // Another thread may have been first.
    let _ = ASKED.set(Box::new(name.to_owned()));
}

/// The copies of the library that the process has loaded, if it comes with programs.
pub(crate) fn loaded(library: &Library) -> Vec<PathBuf> {
    let mut files = if library.comes_with_programs { files() } else { Vec::new() };
    files.retain(|path| path.file_name().is_some_and(|name| is_name_of(library, name)));
    files
}

/// Where the library may be that the process has not loaded, in the order in which to try.
pub(crate) fn candidates(library: &Library) -> Vec<PathBuf> {
    let files = if library.comes_with_programs { files() } else { Vec::new() };
    let files: Vec<_> = files.iter().filter_map(|path| Needs::read(path)).collect();
    let mut paths = Vec::new();
    for file in &files {
        // What the program says counts for files that say nothing newer.
        let program = files.first().filter(|_| file.last.is_empty());
        let program = program.map_or(&[][..], |program| &program.first);
        let first: Vec<_> = file.first.iter().chain(program).cloned().collect();
        let names = file.names.iter().filter(|name| is_name_of(library, name));
        paths.extend(names.flat_map(|name| places(library, name, &first, &file.last)));
    }
    // A program that opens the library does not say from which of its files.
    let all = folders_of(&files);
    for name in ASKED
        .get()
        .into_iter()
        .map(OsString::as_os_str)
        .chain(library.sonames.iter().map(OsStr::new))
    {
        paths.extend(places(library, name, &all, &[]));
    }
    paths
}

/// Returns whether the loader would find a library of this name for some file of the process.
pub(crate) fn is_there(library: &Library, name: &OsStr) -> bool {
    let files: Vec<_> = files().iter().filter_map(|path| Needs::read(path)).collect();
    places(library, name, &folders_of(&files), &[]).iter().any(|path| path.exists())
}

/// The folders that files name.
fn folders_of(files: &[Needs]) -> Vec<PathBuf> {
    files.iter().flat_map(|file| file.first.iter().chain(&file.last)).cloned().collect()
}

/// Returns whether a name is the library's, of whatever version.
pub(crate) fn is_name_of(library: &Library, name: &OsStr) -> bool {
    let soname = library.sonames.first().map_or("", |soname| soname);
    let stem = soname.find(".so").map_or(soname, |at| &soname[..at + 3]);
    let rest = name.as_bytes().strip_prefix(stem.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

/// Where the loader would look for this name, with folders before and after the variable's.
fn places(library: &Library, name: &OsStr, first: &[PathBuf], last: &[PathBuf]) -> Vec<PathBuf> {
    let variable = variable("LD_LIBRARY_PATH").unwrap_or_default();
    let named = variable.as_bytes().split(|byte| b":;".contains(byte));
    let named = named.filter(|folder| !folder.is_empty()).map(OsStr::from_bytes).map(Path::new);
    let folders = first.iter().map(PathBuf::as_path).chain(named);
    let folders = folders.chain(last.iter().map(PathBuf::as_path));
    let from_loader = folders.map(|folder| folder.join(name)).chain(cache::find(name));
    from_loader.chain(library.folders.iter().map(|folder| Path::new(folder).join(name))).collect()
}

/// Libraries that a file needs, and the folders where it looks for them.
#[derive(Debug)]
struct Needs {
    names: Vec<OsString>,
    /// Folders before those of the environment, and after.
    first: Vec<PathBuf>,
    last: Vec<PathBuf>,
}

impl Needs {
    /// `None` if it is no file that says so.
    fn read(path: &Path) -> Option<Self> {
        let data = ReadCache::new(File::open(path).ok()?);
        let header = FileHeader64::<Endianness>::parse(&data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &data).ok()?;
        let (entries, texts) = sections.dynamic(endian, &data).ok()??;
        let texts = sections.strings(endian, &data, texts).ok()?;
        let (mut names, [mut first, mut last]) = (Vec::new(), [Vec::new(), Vec::new()]);
        for entry in entries {
            let at = u32::try_from(entry.d_val(endian)).unwrap_or(u32::MAX);
            let text = || texts.get(at).unwrap_or_default().to_vec();
            match entry.d_tag(endian) {
                DT_NEEDED => names.push(OsString::from_vec(text())),
                DT_RPATH => first = folders(&text(), path),
                DT_RUNPATH => last = folders(&text(), path),
                _ => {}
            }
        }
        // The loader takes no notice of the older one beside the newer.
        if !last.is_empty() {
            first.clear();
        }
        Some(Self { names, first, last })
    }
}

/// The folders that a file names.
fn folders(text: &[u8], file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
    let folder = |text: &[u8]| {
        let rest =
            [b"$ORIGIN".as_slice(), b"${ORIGIN}"].iter().find_map(|it| text.strip_prefix(*it));
        match rest {
            Some(rest) => [origin, rest].concat(),
            None => text.to_vec(),
        }
    };
    let folders = text.split(|byte| *byte == b':').filter(|folder| !folder.is_empty()).map(folder);
    folders.map(|folder| OsString::from_vec(folder).into()).collect()
}

/// The files that the process has loaded, in that order; the first is the program.
fn files() -> Vec<PathBuf> {
    // SAFETY: the loader calls it with what `dl_iterate_phdr` says.
    unsafe extern "C" fn note(
        about: *mut libc::dl_phdr_info,
        _: libc::size_t,
        files: *mut c_void,
    ) -> c_int {
        // SAFETY: it is the list below, which only this call has.
        let files = unsafe { &mut *files.cast::<Vec<PathBuf>>() };
        // SAFETY: the loader gives a description that lives for this call.
        let name = unsafe { (*about).dlpi_name };
        if !name.is_null() {
            // SAFETY: it is a text of the loader's.
            let name = unsafe { CStr::from_ptr(name) };
            files.push(OsStr::from_bytes(name.to_bytes()).into());
        }
        0
    }
    let mut files: Vec<PathBuf> = Vec::new();
    // SAFETY: the function takes what it is given.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut files).cast()) };
    // The program itself has no name.
    if let (Some(first), Ok(program)) = (files.first_mut(), fs::read_link("/proc/self/exe")) {
        *first = program;
    }
    files.retain(|path| path.is_absolute());
    files
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn this_test_needs_the_c_library() {
        let own = env::current_exe().expect("a test");
        let needs = Needs::read(&own).expect("a program");
        assert!(needs.names.iter().any(|name| name == "libc.so.6"), "{needs:?}");
        assert_eq!(files().first(), Some(&own));
        assert!(Needs::read(Path::new("/etc/passwd")).is_none());
    }

    #[test]
    fn folders_are_read_as_the_loader_does() {
        let read = folders(b"$ORIGIN/../lib:/opt:${ORIGIN}:", Path::new("/a/b/c.so"));
        assert_eq!(read, ["/a/b/../lib", "/opt", "/a/b"].map(PathBuf::from));
    }
}
