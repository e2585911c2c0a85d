//! One file with everything that a report is made of, to be sent: written without what is private,
//! and read as a file that may come
//! from any program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tar::{Archive, Builder, EntryType, Header};

use super::private::Private;
use crate::console::output::Output;
use crate::error::{ArchiveError, CommandError};

/// The name of the file, in the folder of the report.
pub(super) const NAME: &str = "xsched-report.tar.gz";
/// Most that a file in an archive may have, unpacked.
const FILE_MAX: u64 = 64 << 20;
/// Most that all of them may have together.
const TOTAL_MAX: u64 = 256 << 20;
/// Most files.
const FILES_MAX: usize = 256;
/// Endings of the files that are sent: pictures and pages can be made again.
const SENT: [&str; 4] = [".json", ".jsonl", ".txt", ".toml"];
/// Endings of those that reports are made from.
const USED: [&str; 2] = [".json", ".txt"];

/// Limits for what is read.
#[derive(Clone, Copy, Debug)]
struct Limits {
    file: u64,
    total: u64,
    files: usize,
}

const LIMITS: Limits = Limits { file: FILE_MAX, total: TOTAL_MAX, files: FILES_MAX };

/// Whether a file is one of these.
fn ends(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

/// Writes these files of a folder, those that are there, into one file in it, without what is
/// private.
///
/// # Errors
/// If the archive cannot be written. What cannot be read is left out.
pub(super) fn write(
    folder: &Path,
    files: &[String],
    private: &Private,
) -> Result<PathBuf, CommandError> {
    let place = folder.join(NAME);
    Output::prepare(&place)?.write(|out| {
        let mut archive = Builder::new(GzEncoder::new(out, Compression::default()));
        let (mut total, mut count) = (0, 0);
        for name in files.iter().filter(|name| ends(name, &SENT)) {
            let Ok(text) = fs::read_to_string(folder.join(name)) else { continue };
            let text = private.clean_file(name, &text);
            let length = text.len() as u64;
            if length > FILE_MAX || total + length > TOTAL_MAX || count == FILES_MAX {
                continue;
            }
            (total, count) = (total + length, count + 1);
            let mut header = Header::new_gnu();
            header.set_size(length);
            header.set_mode(0o644);
            header.set_cksum();
            archive.append_data(&mut header, name, text.as_bytes())?;
        }
        archive.into_inner()?.finish().map(drop)
    })?;
    Ok(place)
}

/// The texts of an archive's files, by name, as far as reports are made of them. Nothing is written
/// to the disk.
///
/// # Errors
/// If it is no such archive, or larger than any.
pub(super) fn read(archive: impl Read) -> Result<BTreeMap<String, String>, ArchiveError> {
    read_within(archive, LIMITS)
}

fn read_within(
    archive: impl Read,
    limits: Limits,
) -> Result<BTreeMap<String, String>, ArchiveError> {
    let too_large = || ArchiveError::TooLarge { max: limits.total };
    // A byte more than is allowed, to tell what is too long from what ends there. Headers are
    // unpacked as well.
    let room = limits.total + 1_024 * (limits.files as u64 + 2);
    let unpacked = Counted { from: GzDecoder::new(archive), left: room };
    let mut archive = Archive::new(unpacked);
    let mut texts = BTreeMap::new();
    let mut total = 0;
    // Raw: long names and other extensions would be read into memory first.
    for entry in archive.entries().map_err(ArchiveError::NotOne)?.raw(true) {
        let entry = entry.map_err(ArchiveError::NotOne)?;
        let name = name_of(&entry.path_bytes())?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(ArchiveError::NotAFile(name));
        }
        if texts.contains_key(&name) {
            return Err(ArchiveError::Twice(name));
        }
        if texts.len() == limits.files {
            return Err(ArchiveError::TooMany { max: limits.files });
        }
        let length = entry.size();
        if length > limits.file {
            return Err(ArchiveError::FileTooLarge { name, max: limits.file });
        }
        total += length;
        if total > limits.total {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        if ends(&name, &USED) {
            entry.take(length).read_to_end(&mut bytes).map_err(ArchiveError::NotOne)?;
            if bytes.len() as u64 != length {
                return Err(ArchiveError::NotOne(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| ArchiveError::NotText(name.clone()))?;
        texts.insert(name, text);
    }
    Ok(texts)
}

/// The name of a file in an archive: at most a folder and a file, both plain.
fn name_of(bytes: &[u8]) -> Result<String, ArchiveError> {
    let shown = || String::from_utf8_lossy(bytes).into_owned();
    let name = std::str::from_utf8(bytes).map_err(|_| ArchiveError::Outside(shown()))?;
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let path = Path::new(name);
    let good = path.components().all(plain) && (1..=2).contains(&path.components().count());
    let printable = !name.chars().any(char::is_control) && !name.contains('\\');
    if good && printable { Ok(name.to_owned()) } else { Err(ArchiveError::Outside(shown())) }
}

/// A reader that ends with an error where too much comes.
struct Counted<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it unpacks to too much"));
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.from.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

/// The texts of these files of a folder, those that are there.
///
/// # Errors
/// If one of them is a link or no plain file, or larger than any of a report.
pub(super) fn read_folder(
    folder: &Path,
    names: &[String],
) -> Result<BTreeMap<String, String>, ArchiveError> {
    let mut texts = BTreeMap::new();
    for name in names.iter().filter(|name| ends(name, &USED)) {
        let path = folder.join(name_of(name.as_bytes())?);
        let parent = path.parent().and_then(|parent| fs::symlink_metadata(parent).ok());
        let is_link = parent.is_some_and(|found| found.is_symlink()) && name.contains('/');
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if is_link || !found.is_file() {
            return Err(ArchiveError::NotAFile(name.clone()));
        }
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(ArchiveError::NotOne)?;
        file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(ArchiveError::NotOne)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(ArchiveError::FileTooLarge { name: name.clone(), max: FILE_MAX });
        }
        let text = String::from_utf8(bytes).map_err(|_| ArchiveError::NotText(name.clone()))?;
        texts.insert(name.clone(), text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::private::tests::{TOLD, machine};
    use super::*;

    /// An archive with one entry of this type, name and text, written byte by byte where the
    /// library would refuse to.
    fn one(kind: EntryType, name: &str, text: &str) -> Vec<u8> {
        many([(kind, name, text)])
    }

    fn many<'a>(entries: impl IntoIterator<Item = (EntryType, &'a str, &'a str)>) -> Vec<u8> {
        let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (kind, name, text) in entries {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_size(text.len() as u64);
            if kind.is_symlink() || kind.is_hard_link() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            archive.append(&header, text.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn what_was_written_is_read_and_nothing_private_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let (private, secrets) = machine();
        fs::create_dir(folder.path().join("raw")).unwrap();
        let record = serde_json::json!({ "notes": TOLD, "deep": { "list": [TOLD] } }).to_string();
        let lines = format!("{record}\n{record}\n");
        let files =
            ["7.3.1.json", "raw/a.txt", "raw/a.jsonl", "raw/a.toml", "raw/a.svg", "no.json"];
        for (name, text) in files.iter().zip([&record, TOLD, &lines, TOLD, TOLD]) {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let files = files.map(str::to_owned);
        let place = write(folder.path(), &files, &private).unwrap();
        let packed = fs::read(&place).unwrap();
        let mut unpacked = Vec::new();
        GzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
        let unpacked = String::from_utf8(unpacked).unwrap();
        println!("looked for {secrets:?} in {} bytes of {files:?}", unpacked.len());
        for secret in secrets {
            assert!(!unpacked.contains(secret), "{secret}: {unpacked}");
        }
        let texts = read(&*packed).unwrap();
        let names: Vec<_> = texts.keys().map(String::as_str).collect();
        assert_eq!(names, ["7.3.1.json", "raw/a.jsonl", "raw/a.toml", "raw/a.txt"]);
        assert!(texts["raw/a.txt"].contains("[host]") && texts["raw/a.jsonl"].is_empty());
        assert!(texts["7.3.1.json"].starts_with('{'));
    }

    #[test]
    fn no_path_leaves_the_archive() {
        for name in ["../x.json", "/etc/x.json", "raw/../../x.json", "a/b/c.json", "a\\b.json", ""]
        {
            let error = read(&*one(FILE, name, "{}")).unwrap_err();
            assert!(matches!(error, ArchiveError::Outside(_)), "{name}: {error}");
        }
        assert_eq!(read(&*one(FILE, "raw/x.json", "{}")).unwrap()["raw/x.json"], "{}");
    }

    #[test]
    fn links_folders_devices_and_extensions_are_refused() {
        let kinds = [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Directory,
            EntryType::Char,
            EntryType::Fifo,
            EntryType::GNULongName,
            EntryType::XHeader,
        ];
        for kind in kinds {
            let error = read(&*one(kind, "a.json", "")).unwrap_err();
            assert!(matches!(error, ArchiveError::NotAFile(_)), "{kind:?}: {error}");
        }
    }

    #[test]
    fn what_is_too_large_or_too_much_is_refused_without_being_held() {
        let limits = Limits { file: 1_000, total: 1_500, files: 3 };
        let (small, large) = ("x".repeat(900), "x".repeat(1_001));
        let refused = |archive: &[u8]| read_within(archive, limits).unwrap_err();
        let error = refused(&one(FILE, "a.json", &large));
        assert!(matches!(error, ArchiveError::FileTooLarge { max: 1_000, .. }), "{error}");
        let error = refused(&many([(FILE, "a.json", &*small), (FILE, "b.json", &small)]));
        assert!(matches!(error, ArchiveError::TooLarge { max: 1_500 }), "{error}");
        let four = ["a", "b", "c", "d"].map(|name| (FILE, name, ""));
        let error = refused(&many(four));
        assert!(matches!(error, ArchiveError::TooMany { max: 3 }), "{error}");
        // A gigabyte of zeros in a megabyte: nothing but the sizes is looked at.
        let mut bomb = Header::new_gnu();
        bomb.as_old_mut().name[..1].copy_from_slice(b"a");
        bomb.set_size(8 << 30);
        bomb.set_cksum();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(bomb.as_bytes()).unwrap();
        packed.write_all(&vec![0; 4 << 20]).unwrap();
        let error = read(&*packed.finish().unwrap()).unwrap_err();
        assert!(matches!(error, ArchiveError::FileTooLarge { .. }), "{error}");
        // Blocks that are no entries count as well.
        let zeros = Counted { from: io::repeat(0), left: 10 };
        let error = io::read_to_string(zeros).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_occurs_twice_is_damaged_or_is_no_archive_is_refused() {
        let twice = many([(FILE, "a.json", "1"), (FILE, "a.json", "2")]);
        assert!(matches!(read(&*twice).unwrap_err(), ArchiveError::Twice(_)));
        let whole = one(FILE, "a.json", &"text ".repeat(1_000));
        for archive in [b"no archive".as_slice(), &[], &whole[..whole.len() / 2]] {
            let error = read(archive).unwrap_err();
            assert!(matches!(error, ArchiveError::NotOne(_)), "{error}");
        }
        let mut flipped = whole.clone();
        flipped[20] ^= 0xff;
        assert!(read(&*flipped).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_folder_are_refused_too() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("a.json")).unwrap();
        let error = read_folder(folder.path(), &["a.json".to_owned()]).unwrap_err();
        assert!(matches!(error, ArchiveError::NotAFile(_)), "{error}");
        std::os::unix::fs::symlink("/etc", folder.path().join("raw")).unwrap();
        let error = read_folder(folder.path(), &["raw/passwd.txt".to_owned()]);
        assert!(error.unwrap().is_empty(), "it is not there");
        let error = read_folder(folder.path(), &["../a.json".to_owned()]).unwrap_err();
        assert!(matches!(error, ArchiveError::Outside(_)), "{error}");
    }
}
