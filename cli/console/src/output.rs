//! Where results go: files, which appear whole or not at all, and the two standard streams.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use super::{Ending, Verbosity, note};

/// Why a result cannot be written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// A place cannot be written to.
    #[error("cannot write {place}: {source}")]
    Write {
        /// The place.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// An output other than JSON was to go to standard output.
    #[error("--{option} -: only --json can write to standard output")]
    NotToStdout {
        /// The option.
        option: &'static str,
    },
    /// Two outputs have the same place.
    #[error("{place}: named for two outputs")]
    SamePlace {
        /// The place.
        place: String,
    },
}

/// A place to write a result to.
#[derive(Debug)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file that is written beside its place and then renamed.
    File(PathBuf),
    /// Something that exists and is not a regular file, such as a device: written directly, since
    /// a rename would replace it.
    Special(PathBuf),
}

/// The places for results, checked before any work is done.
#[derive(Debug, Default)]
pub struct Outputs {
    /// All figures.
    pub json: Option<Output>,
    /// A picture.
    pub svg: Option<Output>,
    /// A page.
    pub html: Option<Output>,
    /// A timeline.
    pub trace: Option<Output>,
    /// A record for `xsched replay`.
    pub record: Option<Output>,
}

/// The places named on the command line, as they were named.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places<'a> {
    /// All figures; `-` is standard output.
    pub json: Option<&'a Path>,
    /// A picture.
    pub svg: Option<&'a Path>,
    /// A page.
    pub html: Option<&'a Path>,
    /// A timeline.
    pub trace: Option<&'a Path>,
    /// A record for `xsched replay`.
    pub record: Option<&'a Path>,
}

impl Outputs {
    /// Checks that every place can be written to, so that a mistake shows before a long run.
    pub fn prepare(places: Places<'_>) -> Result<Self, OutputError> {
        let Places { json, svg, html, trace, record } = places;
        let named: Vec<&Path> = [json, svg, html, trace, record].into_iter().flatten().collect();
        for (index, path) in named.iter().enumerate() {
            if named.iter().take(index).any(|earlier| earlier == path) {
                return Err(OutputError::SamePlace { place: path.display().to_string() });
            }
        }
        let others = [("svg", svg), ("html", html), ("trace", trace), ("record", record)];
        for (option, path) in others {
            if path == Some(Path::new("-")) {
                return Err(OutputError::NotToStdout { option });
            }
        }
        let open = |path: Option<&Path>| path.map(Output::prepare).transpose();
        Ok(Self {
            json: open(json)?,
            svg: open(svg)?,
            html: open(html)?,
            trace: open(trace)?,
            record: open(record)?,
        })
    }

    /// Where the tables go: to standard error when standard output is taken.
    pub fn tables(&self) -> Stream {
        match self.json {
            Some(Output::Stdout) => Stream::Stderr,
            _ => Stream::Stdout,
        }
    }
}

impl Output {
    /// Checks that the place can be written to; `-` is standard output.
    pub fn prepare(path: &Path) -> Result<Self, OutputError> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        Self::probe(path).map_err(|error| cannot_write(path, error))
    }

    fn probe(path: &Path) -> io::Result<Self> {
        // What a link points to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => Ok(Self::Special(path)),
            _ => {
                let beside = Beside::create(&path)?;
                drop(beside);
                Ok(Self::File(path))
            }
        }
    }

    /// Writes the result.
    pub fn write(
        &self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        match self {
            Self::Stdout => Stream::Stdout.write(fill),
            Self::Special(path) => {
                let file = OpenOptions::new().write(true).open(path);
                file.and_then(|file| fill_file(&file, fill)).map_err(|e| cannot_write(path, e))
            }
            Self::File(path) => {
                let beside = Beside::create(path);
                beside.and_then(|beside| beside.finish(fill)).map_err(|e| cannot_write(path, e))
            }
        }?;
        if let Self::File(path) | Self::Special(path) = self {
            note(|| format!("wrote {}", path.display()));
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, source: io::Error) -> OutputError {
    OutputError::Write { place: path.display().to_string(), source }
}

fn fill_file(file: &File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    out.flush()
}

/// A file beside the one that it is going to replace; removed unless it did.
#[derive(Debug)]
struct Beside {
    file: File,
    /// Where it is, until it is renamed.
    temporary: PathBuf,
    target: PathBuf,
}

impl Beside {
    fn create(target: &Path) -> io::Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut beside = OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}.tmp", process::id()));
        let temporary = target.with_file_name(beside);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        Ok(Self { file, temporary, target: target.to_owned() })
    }

    fn finish(self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        fill_file(&self.file, fill)?;
        fs::rename(&self.temporary, &self.target)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // After the rename there is nothing left to remove.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// One of the two standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Text that a quiet process has not printed, and where it would have.
static HELD_BACK: Mutex<Vec<(Stream, String)>> = Mutex::new(Vec::new());

/// Prints what a quiet process has held back, if a check failed: the reader needs to know which.
pub fn finish(ending: Ending) -> Result<(), OutputError> {
    let mut held = HELD_BACK.lock().unwrap_or_else(PoisonError::into_inner);
    let held = std::mem::take(&mut *held);
    let wanted = if ending == Ending::Finding { held } else { Vec::new() };
    wanted.iter().try_for_each(|(stream, text)| stream.insist(text))
}

impl Stream {
    /// Prints results. A quiet process holds them back, see [`finish`].
    pub fn print(self, text: &str) -> Result<(), OutputError> {
        if Verbosity::get() == Verbosity::Quiet {
            let mut held = HELD_BACK.lock().unwrap_or_else(PoisonError::into_inner);
            held.push((self, text.to_owned()));
            return Ok(());
        }
        self.insist(text)
    }

    /// Prints a text that a quiet process prints as well.
    pub fn insist(self, text: &str) -> Result<(), OutputError> {
        self.write(|out| out.write_all(text.as_bytes()))
    }

    /// Writes to the stream. That the reader has gone away, as `head` does, is no failure.
    fn write(self, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), OutputError> {
        let (result, place) = match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                (fill(&mut out).and_then(|()| out.flush()), "standard output")
            }
            Self::Stderr => (fill(&mut io::stderr().lock()), "standard error"),
        };
        match result {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(OutputError::Write { place: place.to_owned(), source: error })
            }
            _ => Ok(()),
        }
    }
}

/// Prints to standard error as well as that goes.
pub fn complain(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
