//! The machine's first file system: the driver's modules, and two programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection};
use walkdir::WalkDir;

/// The driver; amdkfd is linked into it.
const DRIVER: &str = "amdgpu";
/// Modes of a directory and a program in a file system.
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
/// The console, before the device file system is there.
const CONSOLE: (u32, u32, u32) = (0o020_600, 5, 1);

/// Writes it. `init` becomes the first process, `answers` the program that asks.
pub(super) fn write(modules: &Path, init: &Path, answers: &Path, to: &Path) -> Result<()> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "lib", "proc", "sys", "tmp"] {
        archive.add(folder, DIRECTORY, &[]);
    }
    archive.add_device("dev/console", CONSOLE);
    let mut order = String::new();
    for (name, bytes) in driver_with_dependencies(modules)? {
        archive.add(&format!("lib/{name}.ko"), PROGRAM, &bytes);
        order.push_str(&format!("/lib/{name}.ko\n"));
    }
    archive.add("modules", 0o100_644, order.as_bytes());
    for (path, name) in [(init, "init"), (answers, "bin/kfd-answers")] {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        archive.add(name, PROGRAM, &bytes);
    }
    fs::write(to, archive.finish()).with_context(|| format!("cannot write {}", to.display()))
}

/// Modules in the order in which they have to be loaded, the driver last.
fn driver_with_dependencies(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = BTreeMap::new();
    for entry in WalkDir::new(folder) {
        let path = entry?.into_path();
        if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    ensure!(files.contains_key(DRIVER), "there is no {DRIVER} below {}", folder.display());
    let mut loaded = Vec::new();
    add_module(DRIVER, &files, &mut loaded)?;
    Ok(loaded)
}

/// A module's name by its file's: without endings, and with underscores.
fn module_name(path: &Path) -> Option<String> {
    let (name, ending) = path.file_name()?.to_str()?.split_once('.')?;
    ending.starts_with("ko").then(|| name.replace('-', "_"))
}

/// Adds what a module needs, then the module. The depth is that of the modules' dependencies, which
/// have no circles.
fn add_module(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    loaded: &mut Vec<(String, Vec<u8>)>,
) -> Result<()> {
    if loaded.iter().any(|(other, _)| other == name) {
        return Ok(());
    }
    // What is not a file is linked into the kernel.
    let Some(path) = files.get(name) else { return Ok(()) };
    let bytes = read_module(path)?;
    for needed in depends(&bytes).with_context(|| format!("{}", path.display()))? {
        add_module(&needed, files, loaded)?;
    }
    loaded.push((name.to_owned(), bytes));
    Ok(())
}

fn read_module(path: &Path) -> Result<Vec<u8>> {
    let compression = path.extension().and_then(|extension| extension.to_str());
    let program = match compression {
        Some("ko") => return Ok(fs::read(path)?),
        Some("xz") => "xz",
        Some("zst") => "zstd",
        other => anyhow::bail!("{} is compressed with {other:?}", path.display()),
    };
    let output = Command::new(program).arg("-dc").arg(path).output();
    let output = output.with_context(|| format!("cannot run {program}; install it"))?;
    ensure!(output.status.success(), "{program} cannot unpack {}", path.display());
    Ok(output.stdout)
}

/// The modules that a module says it needs.
fn depends(module: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let section = file.section_by_name(".modinfo").context("no section .modinfo")?;
    let data = section.data()?;
    let entries = data.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let needed = entries.filter_map(|entry| entry.strip_prefix("depends="));
    let names = needed.flat_map(|names| names.split(',')).filter(|name| !name.is_empty());
    Ok(names.map(|name| name.replace('-', "_")).collect())
}

/// An archive of the form that the kernel unpacks at boot (`newc` of cpio).
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, mode, content, (0, 0));
    }

    fn add_device(&mut self, name: &str, (mode, major, minor): (u32, u32, u32)) {
        self.entry(name, mode, &[], (major, minor));
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        self.entries += 1;
        let (bytes, named) = (content.len() as u32, name.len() as u32 + 1);
        // Number, mode, user, group, links, time, bytes, the archive's device, the entry's, the
        // name's bytes, a sum that the kernel ignores.
        let fields = [self.entries, mode, 0, 0, 1, 0, bytes, 0, 0, device.0, device.1, named, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_come_from_their_files() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("/a/gpu-sched.ko.xz").as_deref(), Some("gpu_sched"));
        assert_eq!(name("/a/amdgpu.ko").as_deref(), Some("amdgpu"));
        assert_eq!(name("/a/modules.dep"), None);
    }

    #[test]
    fn archives_have_headers_of_110_bytes_and_are_aligned() {
        let mut archive = Archive::default();
        archive.add("ab", PROGRAM, b"12345");
        assert_eq!(archive.bytes.len(), (110_usize + 3).next_multiple_of(4) + 8);
        assert_eq!(&archive.bytes[..14], b"07070100000001");
        let bytes = archive.finish();
        assert!(bytes.len().is_multiple_of(4));
        let trailer = b"TRAILER!!!\0";
        assert!(bytes.windows(trailer.len()).any(|window| window == trailer));
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(depends(b"no module").is_err());
    }
}
