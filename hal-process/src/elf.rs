//! The symbol tables of the files that the process has loaded, as the loader has mapped them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;

/// `DT_NULL`.
const END: i64 = 0;
/// `DT_STRTAB`.
const TEXTS: i64 = 5;
/// `DT_SYMTAB`.
const SYMBOLS: i64 = 6;
/// `DT_GNU_HASH`.
const HASHES: i64 = 0x6fff_fef5;
/// `DT_VERSYM`.
const VERSIONS: i64 = 0x6fff_fff0;
/// Bit of a version that is not the default one of its name.
const HIDDEN: u16 = 0x8000;
/// `STT_FUNC`.
const FUNCTION: u8 = 2;
/// `SHN_UNDEF`.
const UNDEFINED: u16 = 0;

/// `Elf64_Dyn`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A file that is loaded.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    base: usize,
    texts: *const c_char,
    symbols: *const libc::Elf64_Sym,
    hashes: *const u32,
    versions: *const u16,
}

/// A function to look for, and what was found.
#[derive(Debug)]
struct Search<'a> {
    /// Names of files, the best first.
    files: &'a [&'a str],
    name: &'a CStr,
    found: Vec<Option<*mut c_void>>,
}

/// The address of a function by the symbol table of the first of these files that is loaded and has
/// it. A file is known by its name without the folder.
///
/// No function is called that another library could have replaced but `dl_iterate_phdr`, which no
/// library has a reason to answer otherwise: unwinders depend on it.
pub(crate) fn function(files: &[&str], name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the loader calls it with what `dl_iterate_phdr` says.
    unsafe extern "C" fn look(
        about: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: it is the search below, which only this call has; the description is the loader's
        // and lives for this call.
        let (search, about) = unsafe { (&mut *search.cast::<Search<'_>>(), &*about) };
        if about.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: it is a text of the loader's.
        let path = unsafe { CStr::from_ptr(about.dlpi_name) }.to_bytes();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let at = search.files.iter().position(|file| file.as_bytes() == name);
        if let Some(place) = at.and_then(|at| search.found.get_mut(at)) {
            // SAFETY: the loader describes a file that it has loaded, and keeps it for this call.
            let loaded = unsafe { Loaded::of(about) };
            // SAFETY: as above.
            *place = place.or_else(|| unsafe { loaded?.function(search.name) });
        }
        0
    }
    let mut search = Search { files, name, found: vec![None; files.len()] };
    // SAFETY: the function takes what it is given.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found.into_iter().flatten().next()
}

impl Loaded {
    /// `None` if it lacks one of the tables.
    ///
    /// # Safety
    /// The file is loaded, and stays so.
    unsafe fn of(about: &libc::dl_phdr_info) -> Option<Self> {
        if about.dlpi_phdr.is_null() {
            return None;
        }
        // SAFETY: `dlpi_phnum` headers are there.
        let headers = unsafe { slice::from_raw_parts(about.dlpi_phdr, about.dlpi_phnum.into()) };
        let header = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let base = usize::try_from(about.dlpi_addr).ok()?;
        let start = base.wrapping_add(usize::try_from(header.p_vaddr).ok()?);
        let mut entry: *const Dynamic = std::ptr::with_exposed_provenance(start);
        let [mut texts, mut symbols, mut hashes, mut versions] = [0_usize; 4];
        loop {
            // SAFETY: the table ends with an entry that says so.
            let Dynamic { tag, value } = unsafe { entry.read() };
            match tag {
                END => break,
                TEXTS => texts = value,
                SYMBOLS => symbols = value,
                HASHES => hashes = value,
                VERSIONS => versions = value,
                _ => {}
            }
            // SAFETY: as above.
            entry = unsafe { entry.add(1) };
        }
        // glibc has relocated them, other loaders have not.
        let place = |value: usize| if value < base { base + value } else { value };
        (texts != 0 && symbols != 0 && hashes != 0).then(|| Self {
            base,
            texts: std::ptr::with_exposed_provenance(place(texts)),
            symbols: std::ptr::with_exposed_provenance(place(symbols)),
            hashes: std::ptr::with_exposed_provenance(place(hashes)),
            versions: match versions {
                0 => std::ptr::null(),
                there => std::ptr::with_exposed_provenance(place(there)),
            },
        })
    }

    /// The address of the default version of a function, or of another one if there is none.
    ///
    /// # Safety
    /// The file is loaded, and its tables are as the format says.
    unsafe fn function(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the table begins with these numbers.
        let [buckets, first, blooms, _] = unsafe { self.hashes.cast::<[u32; 4]>().read() };
        let hash = hash(name);
        // SAFETY: the filter has `blooms` words of 64 bits, and `buckets` buckets are behind it.
        let (bucket, chains) = unsafe {
            let table = self.hashes.add(4 + 2 * blooms as usize);
            let bucket = hash.checked_rem(buckets)?;
            (table.add(bucket as usize).read(), table.add(buckets as usize))
        };
        let (mut at, mut hidden) = (bucket, None);
        while at >= first {
            // SAFETY: a chain ends with an odd number, and each has a symbol.
            let (chain, symbol) = unsafe {
                (chains.add((at - first) as usize).read(), self.symbols.add(at as usize).read())
            };
            // SAFETY: the name is a text of the file's.
            let is_one = chain | 1 == hash | 1 && unsafe { self.name(&symbol) } == name;
            if is_one && symbol.st_shndx != UNDEFINED && symbol.st_info & 0xf == FUNCTION {
                let value = usize::try_from(symbol.st_value).ok()?;
                let address = std::ptr::with_exposed_provenance_mut(self.base.wrapping_add(value));
                // SAFETY: each symbol has a version, if any has.
                if unsafe { self.is_default(at) } {
                    return Some(address);
                }
                hidden = Some(address);
            }
            if chain & 1 == 1 {
                break;
            }
            at += 1;
        }
        hidden
    }

    /// # Safety
    /// The symbol is of the file's table.
    unsafe fn name(&self, symbol: &libc::Elf64_Sym) -> &CStr {
        // SAFETY: it is the place of a text.
        unsafe { CStr::from_ptr(self.texts.add(symbol.st_name as usize)) }
    }

    /// # Safety
    /// The file has a symbol of this number.
    unsafe fn is_default(&self, number: u32) -> bool {
        // SAFETY: as promised.
        self.versions.is_null()
            || unsafe { self.versions.add(number as usize).read() } & HIDDEN == 0
    }
}

/// The hash of a name, as GNU's linker has it.
fn hash(name: &CStr) -> u32 {
    name.to_bytes()
        .iter()
        .fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_where_the_loader_says() {
        for name in [c"dlsym", c"dlopen", c"malloc", c"write", c"pthread_create"] {
            let found = function(&["libc.so.6"], name);
            // SAFETY: the name ends with zero.
            let said = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert_eq!(found, Some(said), "{name:?}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        assert_eq!(function(&["libc.so.6"], c"no_such_function"), None);
        assert_eq!(function(&["libnone.so"], c"dlsym"), None);
        // Data is no function.
        assert_eq!(function(&["libc.so.6"], c"environ"), None);
        // The files are in the order of their names here.
        let first = function(&["libnone.so", "libc.so.6"], c"dlsym");
        assert_eq!(first, function(&["libc.so.6"], c"dlsym"));
    }
}
