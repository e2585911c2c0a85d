//! The proof that the core and the policies need neither std nor an allocator.
//!
//! `proof/` is a bare binary that schedules two queues once. Here it is built and run, and its
//! symbols are searched for what must not be there.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::{File, Object, ObjectSection, ObjectSymbol, SectionKind};

use crate::command::{cargo, run as run_command};
use crate::{root, target_dir};

/// Functions of the C library that allocate.
const ALLOCATORS: [&str; 7] =
    ["malloc", "calloc", "realloc", "aligned_alloc", "memalign", "posix_memalign", "valloc"];
/// Rust's entry points to an allocator, inside mangled names too.
const RUST_ALLOCATORS: [&str; 4] = ["__rust_alloc", "__rust_realloc", "__rdl_alloc", "__rg_alloc"];
/// Crates that must not be linked, and crates that must be for the proof to say anything.
const FORBIDDEN_CRATES: [&str; 2] = ["std", "alloc"];
const REQUIRED_CRATES: [&str; 2] = ["xsched_core", "xsched_policies"];

/// Builds the binary, runs it, and looks for symbols that must not be there.
///
/// # Errors
/// If it cannot be built, an expectation in it fails, or it links what it must not.
pub fn run() -> Result<()> {
    let target = target_dir().join("proof");
    let manifest = root().join("proof/Cargo.toml");
    let mut build = cargo("build --release --locked");
    run_command(build.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target))?;
    let binary = target.join("release/xsched-proof");
    let status = Command::new(&binary).status();
    let status = status.with_context(|| format!("cannot start {}", binary.display()))?;
    if !status.success() {
        bail!("the proof ended with {status}; proof/src/main.rs lists what the numbers mean");
    }
    let bytes = fs::read(&binary).with_context(|| format!("cannot read {}", binary.display()))?;
    let found = inspect(&bytes)?;
    if let Some(complaint) = found.complaint() {
        bail!("{}: {complaint}", binary.display());
    }
    println!(
        "proof: {} bytes of code and data in a file of {}; {} symbols, none of std or an allocator",
        found.loaded_bytes,
        bytes.len(),
        found.symbols
    );
    Ok(())
}

/// Contents of a binary.
#[derive(Debug, Default)]
struct Contents {
    symbols: usize,
    /// Size of what is loaded to run it: code, constants and variables.
    loaded_bytes: u64,
    /// Symbols that must not be there.
    forbidden: Vec<String>,
    /// Crates of which nothing is there.
    absent: Vec<&'static str>,
}

impl Contents {
    fn complaint(&self) -> Option<String> {
        let mut text = String::new();
        if !self.forbidden.is_empty() {
            let first: Vec<_> = self.forbidden.iter().take(5).map(String::as_str).collect();
            let _ = write!(text, "{} forbidden symbols, ", self.forbidden.len());
            let _ = write!(text, "among them {}; ", first.join(", "));
        }
        if !self.absent.is_empty() {
            let _ =
                write!(text, "no symbols of {}, so this proves nothing; ", self.absent.join(", "));
        }
        text.strip_suffix("; ").map(str::to_owned)
    }
}

fn inspect(binary: &[u8]) -> Result<Contents> {
    let file = File::parse(binary).context("not a binary that can be inspected")?;
    let mut contents = Contents { absent: REQUIRED_CRATES.to_vec(), ..Contents::default() };
    for section in file.sections() {
        let loaded = matches!(
            section.kind(),
            SectionKind::Text
                | SectionKind::ReadOnlyData
                | SectionKind::ReadOnlyString
                | SectionKind::Data
                | SectionKind::UninitializedData
        );
        if loaded {
            contents.loaded_bytes += section.size();
        }
    }
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let name = symbol.name().unwrap_or_default();
        contents.symbols += 1;
        contents.absent.retain(|krate| !mentions_crate(name, krate));
        if is_forbidden(name) {
            contents.forbidden.push(name.to_owned());
        }
    }
    Ok(contents)
}

fn is_forbidden(name: &str) -> bool {
    // Symbols of shared libraries carry a version: malloc@GLIBC_2.2.5.
    let plain = name.split('@').next().unwrap_or_default();
    ALLOCATORS.contains(&plain)
        || RUST_ALLOCATORS.iter().any(|part| name.contains(part))
        || FORBIDDEN_CRATES.iter().any(|krate| mentions_crate(name, krate))
}

/// True if a mangled name has a path into this crate, in the old form (`_ZN3std2io…`,
/// `_ZN4core…$LT$std..io…`) or the new one (`_RNvNtCs1234_3std2io…`).
fn mentions_crate(name: &str, krate: &str) -> bool {
    let counted = format!("{}{krate}", krate.len());
    if let Some(path) = name.strip_prefix("_ZN") {
        let inside =
            [format!("$LT${krate}.."), format!("$u20${krate}.."), format!("$RF${krate}..")];
        return path.starts_with(&counted) || inside.iter().any(|part| name.contains(part));
    }
    // A crate's root is `C`, a disambiguator that ends with `_`, and the counted name.
    name.starts_with("_R")
        && name.match_indices(&format!("_{counted}")).any(|(at, _)| {
            let hash = name[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric());
            name[hash.len()..at].contains("Cs")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check must fail on a binary that does use std: this one.
    #[test]
    fn a_binary_with_std_does_not_pass() {
        let this = std::env::current_exe().expect("tests are programs");
        let contents = inspect(&fs::read(this).expect("it can be read")).expect("it is one");
        let has = |part: &str| contents.forbidden.iter().any(|name| name.contains(part));
        assert!(has("3std"), "std was not noticed");
        assert!(has("malloc"), "the C library's allocator was not noticed");
        assert!(has("__rust_alloc"), "Rust's allocator was not noticed");
        assert_eq!(contents.absent, REQUIRED_CRATES);
        let complaint = contents.complaint().expect("it is not fine");
        assert!(complaint.contains("forbidden") && complaint.contains("proves nothing"));
    }

    #[test]
    fn an_empty_binary_proves_nothing() {
        assert!(inspect(b"").is_err());
        let empty = Contents { absent: REQUIRED_CRATES.to_vec(), ..Contents::default() };
        assert!(empty.complaint().is_some_and(|text| text.contains("proves nothing")));
        assert_eq!(Contents::default().complaint(), None);
    }

    #[test]
    fn symbols_are_told_apart() {
        for forbidden in [
            "malloc",
            "malloc@GLIBC_2.2.5",
            "__rust_alloc",
            "_RNvCs1234_7___rustc12___rust_alloc",
            "_ZN3std2io5stdio6_print17h0123456789abcdefE",
            "_RNvNtNtCsj4CZ6flxxfE_3std2io5stdio6__print",
            "_ZN5alloc7raw_vec11finish_grow17h0123456789abcdefE",
            "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
        ] {
            assert!(is_forbidden(forbidden), "{forbidden}");
        }
        for fine in [
            "main",
            "__libc_start_main@GLIBC_2.34",
            "my_malloc_statistics",
            "_ZN11xsched_core5queue3std17h0123456789abcdefE",
            "_RNvNtCsj4CZ6flxxfE_11xsched_core3std3run",
        ] {
            assert!(!is_forbidden(fine), "{fine}");
        }
        assert!(mentions_crate("_ZN11xsched_core5queue3run17hE", "xsched_core"));
        assert!(mentions_crate("_RNvNtCs1234_11xsched_core5queue3run", "xsched_core"));
        assert!(mentions_crate("_ZN57_$LT$xsched_core..queue..Queue$LT$R$GT$$GT$E", "xsched_core"));
    }
}
