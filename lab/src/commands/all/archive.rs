//! One file with everything that a report is made of, to be sent: compressed lines of JSON, each
//! the name of a file and its text. It is written without what is private, and read as a file that
//! may come from any program.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::private::Private;
use crate::error::{ArchiveError, CommandError};
use xsched_console::output::Output;

/// The name of the file, in the folder of the report.
pub(super) const NAME: &str = "xsched-report.jsonl.gz";
/// Most bytes of all lines, unpacked.
const TOTAL_MAX: u64 = 256 << 20;
/// Most files.
const FILES_MAX: usize = 256;
/// Endings of the files that are sent: pictures and pages can be made again.
const SENT: [&str; 4] = [".json", ".jsonl", ".txt", ".toml"];
/// Endings of those that reports are made from.
const USED: [&str; 2] = [".json", ".txt"];

/// Returns whether a file's name has one of these endings.
fn ends(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

/// Writes these files of a folder, those that are there, into one file in it, without what is
/// private.
pub(super) fn write(
    folder: &Path,
    files: &[String],
    private: &Private,
) -> Result<PathBuf, CommandError> {
    let place = folder.join(NAME);
    Output::prepare(&place)?.write(|out| {
        let mut packed = GzEncoder::new(out, Compression::default());
        let mut total = 0;
        for name in files.iter().filter(|name| ends(name, &SENT)).take(FILES_MAX) {
            let Ok(text) = fs::read_to_string(folder.join(name)) else { continue };
            let line = serde_json::to_string(&(name, private.clean_file(name, &text)))?;
            let length = line.len() as u64 + 1;
            if total + length <= TOTAL_MAX {
                total += length;
                writeln!(packed, "{line}")?;
            }
        }
        packed.finish().map(drop)
    })?;
    Ok(place)
}

/// The texts of an archive's files, by name, as far as reports are made of them. Nothing is written
/// to the disk.
pub(super) fn read(archive: impl Read) -> Result<BTreeMap<String, String>, ArchiveError> {
    read_within(archive, TOTAL_MAX)
}

fn read_within(
    archive: impl Read,
    total_max: u64,
) -> Result<BTreeMap<String, String>, ArchiveError> {
    let unpacked = BufReader::new(GzDecoder::new(archive).take(total_max));
    let mut texts = BTreeMap::new();
    for (count, line) in unpacked.lines().enumerate() {
        if count == FILES_MAX {
            return Err(ArchiveError::TooMany { max: FILES_MAX });
        }
        let line = line.map_err(ArchiveError::NotOne)?;
        // A line that is cut short, because all are too long, is no JSON.
        let (name, text): (String, String) =
            serde_json::from_str(&line).map_err(|error| ArchiveError::NotOne(error.into()))?;
        if ends(&name, &USED) {
            texts.insert(name, text);
        }
    }
    if texts.is_empty() {
        return Err(ArchiveError::NotOne(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::super::private::tests::{TOLD, machine};
    use super::*;

    fn packed(lines: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(lines.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn what_is_sent_has_nothing_private_and_is_read_again() {
        let (private, secrets) = machine();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("raw")).unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let json = serde_json::json!({ "notes": TOLD, "raw": ["raw/a.txt"] }).to_string();
        put("7.3.1.json", &json);
        put("raw/a.jsonl", &format!("{json}\n{json}\n"));
        put("raw/a.txt", TOLD);
        put("raw/a.toml", &format!("text = \"{TOLD}\"\n"));
        put("raw/a.svg", TOLD);
        let files = ["7.3.1.json", "raw/a.jsonl", "raw/a.txt", "raw/a.toml", "raw/a.svg", "gone"];
        let place = write(folder.path(), &files.map(str::to_owned), &private).unwrap();
        let packed = fs::read(&place).unwrap();
        let unpacked = io::read_to_string(GzDecoder::new(&*packed)).unwrap();
        println!("looked for {secrets:?} in {} bytes of {files:?}", unpacked.len());
        for secret in secrets {
            assert!(!unpacked.contains(secret), "{secret}: {unpacked}");
        }
        let names = ["\"7.3.1.json\"", "raw/a.jsonl", "raw/a.txt", "raw/a.toml"];
        assert!(names.iter().all(|name| unpacked.contains(name)), "{unpacked}");
        assert!(!unpacked.contains("raw/a.svg"), "{unpacked}");
        let texts = read(&*packed).unwrap();
        assert!(texts.keys().map(String::as_str).eq(["7.3.1.json", "raw/a.txt"]));
        assert!(texts["raw/a.txt"].contains("[host]") && texts["7.3.1.json"].starts_with('{'));
    }

    #[test]
    fn what_is_too_large_too_much_or_no_archive_is_refused() {
        let line = |name: &str, text: &str| format!("{:?}\n", [name, text]);
        let whole = packed(&line("a.json", &"text ".repeat(1_000)));
        assert!(read_within(&*whole, 6_000).is_ok());
        let many = packed(&line("a.json", "").repeat(FILES_MAX + 1));
        assert!(matches!(read(&*many).unwrap_err(), ArchiveError::TooMany { max: FILES_MAX }));
        // A gigabyte of zeros in a megabyte is not unpacked.
        let bomb = packed(&"\0".repeat(8 << 20));
        for archive in [b"no archive".as_slice(), &[], &whole[..whole.len() / 2], &bomb] {
            let error = read_within(archive, 6_000).unwrap_err();
            assert!(matches!(error, ArchiveError::NotOne(_)), "{error}");
        }
        assert!(matches!(read_within(&*whole, 1_000).unwrap_err(), ArchiveError::NotOne(_)));
        let mut flipped = whole.clone();
        flipped[20] ^= 0xff;
        assert!(read(&*flipped).is_err());
    }
}
