//! Each public header by itself and in all pairs, in the standards that programs are written in.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use walkdir::WalkDir;

use super::check::WARNINGS;
use crate::apt;
use crate::command::run as run_command;

/// Compilers, with their packages, the language, and its standards.
const COMPILERS: [(&str, &str, &str, &[&str]); 4] = [
    ("gcc", "gcc", "c", &["c99", "c11"]),
    ("clang-19", "clang-19", "c", &["c99", "c11"]),
    ("g++", "g++", "c++", &["c++11", "c++17"]),
    ("clang++-19", "clang-19", "c++", &["c++11", "c++17"]),
];
/// The vendors' headers that programs include as well, with what they declare that ours name.
const VENDORS: [(&str, &str); 2] = [
    ("hip/hip_runtime.h", "typedef struct ihipStream_t *hipStream_t;\n"),
    ("cuda.h", "typedef struct CUstream_st *CUstream;\n"),
];
/// Headers that only include others: what is true of those in a pair is true of these.
const FORWARDING: &str = "xsched/preempt/";

/// Compiles them, in a folder of its own.
///
/// # Errors
/// If a header does not compile in a place where it may stand.
pub(super) fn run(include: &Path, made: &Path) -> Result<()> {
    let made = made.join("headers");
    for (name, declares) in VENDORS {
        let guard = name.to_uppercase().replace(['/', '.'], "_");
        let path = made.join("vendors").join(name);
        fs::create_dir_all(path.parent().unwrap_or(&made))?;
        fs::write(path, format!("#ifndef {guard}\n#define {guard}\n{declares}#endif\n"))?;
    }
    let mut names = public(include)?;
    ensure!(names.len() == 16, "there are {} headers", names.len());
    names.extend(VENDORS.map(|(name, _)| name.to_owned()));
    let files = write_pairs(&names, &made)?;
    fs::write(made.join("pairs"), files.join("\n"))?;
    for (compiler, package, language, standards) in COMPILERS {
        if !apt::program(compiler, &[package])? {
            apt::left_out("the headers with another compiler", compiler);
            continue;
        }
        for standard in standards {
            let mut command = Command::new(compiler);
            command.current_dir(&made).args(["-fsyntax-only", "-pedantic-errors", "-x", language]);
            command.arg(format!("-std={standard}")).args(WARNINGS);
            command.arg("-I").arg(include).args(["-Ivendors", "@pairs"]);
            run_command(&mut command)?;
        }
    }
    println!("capi: {} headers compile, in {} pairs", names.len(), files.len());
    Ok(())
}

/// The headers below a folder, as programs include them.
fn public(include: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in WalkDir::new(include).sort_by_file_name() {
        let entry = entry.with_context(|| format!("cannot list {}", include.display()))?;
        if entry.file_type().is_file() {
            names.push(entry.path().strip_prefix(include)?.display().to_string());
        }
    }
    Ok(names)
}

/// Writes a file for each pair, in both orders, and for each header with itself; answers the files.
fn write_pairs(names: &[String], made: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for (at, first) in names.iter().enumerate() {
        for (beside, second) in names.iter().enumerate() {
            let forwarding = [first, second].iter().any(|name| name.starts_with(FORWARDING));
            if forwarding && at != beside {
                continue;
            }
            let file = format!("pair-{at}-{beside}.c");
            fs::write(made.join(&file), format!("#include <{first}>\n#include <{second}>\n"))?;
            files.push(file);
        }
    }
    Ok(files)
}
