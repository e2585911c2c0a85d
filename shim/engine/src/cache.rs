//! The loader's cache, `/etc/ld.so.cache`: which file a SONAME stands for.
//!
//! The format is glibc's "1.1": a head, entries with a SONAME and a path each, and the texts. Older
//! files have another table before it.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

const FILE: &str = "/etc/ld.so.cache";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Where the head has the number of entries, and its length.
const COUNT_AT: usize = 20;
const HEAD: usize = 48;
/// An entry's length; it begins with its flags and the places of its two texts.
const ENTRY: usize = 24;
/// The flags of a library for x86_64.
const X86_64: u32 = 0x0303;

/// The paths for a SONAME, best first.
pub(crate) fn find(soname: &OsStr) -> Vec<PathBuf> {
    let found = || read(&fs::read(FILE).ok()?, soname.to_str()?);
    found().unwrap_or_default()
}

/// `None` if it is no cache.
fn read(bytes: &[u8], soname: &str) -> Option<Vec<PathBuf>> {
    let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let bytes = bytes.get(start..)?;
    let count = usize::try_from(word(bytes, COUNT_AT)?).ok()?;
    let entries = bytes.get(HEAD..)?.chunks_exact(ENTRY).take(count);
    let path = |entry: &[u8]| {
        let named = word(entry, 0)? == X86_64 && text(bytes, word(entry, 4)?)? == soname;
        named.then_some(PathBuf::from(text(bytes, word(entry, 8)?)?))
    };
    Some(entries.filter_map(path).collect())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    word.try_into().ok().map(u32::from_le_bytes)
}

fn text(bytes: &[u8], at: u32) -> Option<&str> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache of two libraries of this SONAME, one for another processor.
    fn cache() -> Vec<u8> {
        let texts = b"libcuda.so.1\0/a/libcuda.so.1\0/b/libcuda.so.1\0";
        let at = |offset: usize| u32::try_from(HEAD + 2 * ENTRY + offset).expect("small");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(2_u32.to_le_bytes());
        bytes.resize(HEAD, 0);
        for (flags, path) in [(0x0003, 13), (X86_64, 29)] {
            for word in [flags, at(0), at(path), 0, 0, 0] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes.extend(texts);
        bytes
    }

    #[test]
    fn the_path_for_this_processor_is_found() {
        let found = read(&cache(), "libcuda.so.1");
        assert_eq!(found, Some(vec![PathBuf::from("/b/libcuda.so.1")]));
        assert_eq!(read(&cache(), "libcuda.so"), Some(vec![]));
        // After a table of the older format.
        let both = [b"ld.so-1.7.0\0\x01\0\0\0".as_slice(), &cache()].concat();
        assert_eq!(read(&both, "libcuda.so.1"), found);
    }

    #[test]
    fn no_cache_and_half_a_cache_are_no_harm() {
        let whole = cache();
        for length in 0..whole.len() {
            read(&whole[..length], "libcuda.so.1");
        }
        assert_eq!(read(b"nothing", "libcuda.so.1"), None);
    }

    #[test]
    fn this_machine_s_cache_knows_the_c_library() {
        if PathBuf::from(FILE).exists() {
            assert!(!find(OsStr::new("libc.so.6")).is_empty());
        }
    }
}
