//! The file that a program's name runs, and whether its loader takes what is preloaded.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::elf::{FileHeader32, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind};
use rustix::fs::{Access, access};

/// Scripts that may be each other's interpreters, as in Linux.
const SCRIPTS_MAX: usize = 5;
/// Bytes of a script that Linux reads to find its interpreter.
const FIRST_LINE_MAX: u64 = 256;

/// Reason why a program cannot be run, or not with libraries preloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRunnable<T = String> {
    /// Description of the reason.
    pub what: T,
    /// Action to take.
    pub action: &'static str,
}

/// Reason why programs for musl cannot be run, behind the name of the file.
pub const MUSL: NotRunnable<&str> = NotRunnable {
    what: "has musl's loader, and the interposer needs glibc",
    action: "use a program for glibc",
};

impl NotRunnable {
    fn new(what: impl Into<String>, action: &'static str) -> Self {
        Self { what: what.into(), action }
    }
}

impl fmt::Display for NotRunnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.action)
    }
}

/// Files that a program's name runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramFile {
    /// File of this name; `None` if there is none.
    pub file: Option<PathBuf>,
    /// Interpreters, if it is a script: the last one is what is run.
    pub interpreters: Vec<PathBuf>,
    /// Why it cannot be run.
    pub problem: Option<NotRunnable>,
}

impl ProgramFile {
    /// Looks for it as a shell does.
    #[must_use]
    pub fn find(name: &OsStr) -> Self {
        let mut found = Self::default();
        found.problem = found.follow(name).err();
        found
    }

    /// The file that is run in the end: the program, or the interpreter of the script.
    #[must_use]
    pub fn last(&self) -> Option<&Path> {
        self.interpreters.last().or(self.file.as_ref()).map(PathBuf::as_path)
    }

    fn follow(&mut self, name: &OsStr) -> Result<(), NotRunnable> {
        let mut file = resolve(name)?;
        self.file = Some(file.clone());
        for _ in 0..SCRIPTS_MAX {
            let Some(interpreters) = interpreters(&file) else { return Ok(()) };
            for interpreter in interpreters {
                file = resolve(interpreter.as_ref())?;
                self.interpreters.push(file.clone());
            }
        }
        let what = format!("{} is a script of a script of a script", name.to_string_lossy());
        Err(NotRunnable::new(what, "name the program that is meant"))
    }
}

/// Why the loader of a program would not start it with the interposers preloaded; `None` if it
/// would, or the program is not found.
pub(crate) fn refusing_loader(name: &OsStr) -> Option<String> {
    let found = ProgramFile::find(name);
    let file = found.last().filter(|_| found.problem.is_none())?;
    let loader = loader_of(file).filter(|loader| is_of_musl(loader))?;
    Some(format!("{} {} ({loader}); {}", file.display(), MUSL.what, MUSL.action))
}

/// Returns whether a loader is musl's.
#[must_use]
pub fn is_of_musl(loader: &str) -> bool {
    loader.contains("musl")
}

/// The loader that a file asks for, without a look at the rest of it; `None` if it asks for none.
#[must_use]
pub fn loader_of(path: &Path) -> Option<String> {
    let file = ReadCache::new(File::open(path).ok()?);
    match FileKind::parse(&file).ok()? {
        FileKind::Elf64 => loader_in::<FileHeader64<Endianness>>(&file),
        FileKind::Elf32 => loader_in::<FileHeader32<Endianness>>(&file),
        _ => None,
    }
}

fn loader_in<H: FileHeader<Endian = Endianness>>(file: &ReadCache<File>) -> Option<String> {
    let header = H::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, file).ok()?.iter();
    let name = segments.find_map(|segment| segment.interpreter(endian, file).ok().flatten())?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The file of a name: as it is if it has a slash, else in the folders of `PATH`.
fn resolve(name: &OsStr) -> Result<PathBuf, NotRunnable> {
    let shown = name.to_string_lossy();
    let there = |path: &PathBuf| path.is_file();
    if shown.contains('/') {
        let path = PathBuf::from(name);
        let found = there(&path).then_some(path).ok_or_else(|| {
            NotRunnable::new(format!("there is no file {shown}"), "correct the program's name")
        })?;
        return may_run(found);
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&folders).map(|folder| folder.join(name)).filter(there);
    let found = candidates.next().ok_or_else(|| {
        let what = format!("there is no {shown} in the folders of PATH");
        NotRunnable::new(what, "name it by its path, or install it")
    })?;
    may_run(found)
}

fn may_run(path: PathBuf) -> Result<PathBuf, NotRunnable> {
    match access(&path, Access::EXEC_OK) {
        Ok(()) => Ok(path),
        Err(error) => Err(NotRunnable::new(
            format!("{} may not be run: {error}", path.display()),
            "`chmod +x` it, or run it with its interpreter",
        )),
    }
}

/// The interpreter that a script names in its first line, and behind `env` the one that it finds;
/// `None` if it is no script.
fn interpreters(path: &Path) -> Option<Vec<String>> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE_MAX).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?.to_owned();
    let is_env = Path::new(&first).ends_with("env");
    let behind = words.find(|word| is_env && !word.starts_with('-') && !word.contains('='));
    Some([Some(first), behind.map(str::to_owned)].into_iter().flatten().collect())
}
