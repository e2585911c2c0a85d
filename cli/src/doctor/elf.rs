//! Facts that the file of a program or a library tells.

use std::fs::File;
use std::path::Path;

use object::elf::{
    DT_NEEDED, DT_SONAME, EM_X86_64, FileHeader32, FileHeader64, PT_DYNAMIC, STT_FUNC,
};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionTable, Sym};
use object::{Endianness, FileKind, elf};

type Data<'a> = &'a ReadCache<File>;

/// Facts that are read of an ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Elf {
    /// True if the file is for x86-64.
    pub(super) x86_64: bool,
    /// True for a library that is linked at run time, or a program with parts that are.
    pub(super) dynamic: bool,
    /// The loader that it asks for, which only programs do.
    pub(super) interpreter: Option<String>,
    /// The name by which it is known to programs that are linked with it.
    pub(super) soname: Option<String>,
    /// The libraries that it is linked with.
    pub(super) needed: Vec<String>,
    /// The functions that it exports, without their versions, sorted.
    pub(super) functions: Vec<String>,
}

impl Elf {
    /// Reads a file; `None` if it is no ELF file, or cannot be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let file = ReadCache::new(File::open(path).ok()?);
        let read = match FileKind::parse(&file).ok()? {
            FileKind::Elf64 => Self::parse::<FileHeader64<Endianness>>(&file),
            FileKind::Elf32 => Self::parse::<FileHeader32<Endianness>>(&file),
            _ => None,
        };
        read.map(|read| Self { interpreter: xsched_launch::loader_of(path), ..read })
    }

    /// Returns whether the file exports a function.
    pub(super) fn exports(&self, name: &str) -> bool {
        self.functions.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
    }

    fn parse<H: FileHeader<Endian = Endianness>>(file: Data<'_>) -> Option<Self> {
        let header = H::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let mut read = Self {
            x86_64: header.e_machine(endian) == EM_X86_64 && header.is_type_64(),
            ..Self::default()
        };
        for segment in header.program_headers(endian, file).ok()? {
            read.dynamic |= segment.p_type(endian) == PT_DYNAMIC;
        }
        // A file may have none, and still run.
        let Ok(sections) = header.sections(endian, file) else { return Some(read) };
        let table = sections.dynamic_table(endian, file).unwrap_or_default();
        for entry in &table {
            match (entry.tag, table.string(entry)) {
                (DT_SONAME, Ok(name)) => read.soname = Some(text(name)),
                (DT_NEEDED, Ok(name)) => read.needed.push(text(name)),
                _ => {}
            }
        }
        read.functions = functions(&sections, endian, file).unwrap_or_default();
        Some(read)
    }
}

/// The functions that a file exports, sorted.
fn functions<'a, H: FileHeader<Endian = Endianness>>(
    sections: &SectionTable<'a, H, Data<'a>>,
    endian: Endianness,
    file: Data<'a>,
) -> Option<Vec<String>> {
    let table = sections.symbols(endian, file, elf::SHT_DYNSYM).ok()?;
    let exported = table.iter().filter(|symbol| {
        symbol.st_type() == STT_FUNC && symbol.is_definition(endian, table.strings())
    });
    let names = exported.filter_map(|symbol| symbol.name(endian, table.strings()).ok().map(text));
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    Some(names)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_linked_at_run_time() {
        let own = Elf::read(&std::env::current_exe().expect("a program")).expect("ELF");
        assert!(own.dynamic && own.interpreter.is_some_and(|loader| loader.contains("ld-linux")));
        assert!(own.needed.iter().any(|name| name == "libc.so.6"), "{:?}", own.needed);
        assert_eq!(own.x86_64, cfg!(target_arch = "x86_64"));
    }

    #[test]
    fn what_is_no_elf_file_is_none() {
        let text = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(Elf::read(text.path()), None);
        assert_eq!(Elf::read(Path::new("/nowhere")), None);
    }
}
