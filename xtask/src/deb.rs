//! `cargo xtask deb`: the package for Debian and what is made of it.
//!
//! What is in it stands in `daemon/Cargo.toml`. What has to be built for it is put below
//! `target/release/deb` first, and cargo-deb packs it, which is built once from its sources into
//! `target/tools`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use walkdir::WalkDir;

use crate::capi::install;
use crate::command::{run as run_command, tool};
use crate::{apt, root, target_dir};

/// The version of cargo-deb that packs it.
const CARGO_DEB: &str = "3.8.0";
/// Folders of what is built for it, below `target/release`, which is what cargo-deb calls the
/// folder of a release even if that is elsewhere.
const STAGE: &str = "deb";
/// Scripts with which shells complete the command.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "completions/xsched"),
    ("zsh", "completions/_xsched"),
    ("fish", "completions/xsched.fish"),
];
/// The change log that Debian wants.
const CHANGES: &str = "changelog.Debian.gz";
/// The daemon's configuration, in which nothing is said yet.
const CONFIG: &str = "xschedd.toml";
/// Sections that no program reads.
const UNREAD: [&str; 2] = [".comment", ".note"];

/// Does it, and tries the package out.
///
/// # Errors
/// If something cannot be built or packed, or the command does not work from the package.
pub fn run() -> Result<()> {
    ensure!(apt::is_here(), "packages are made on Debian and Ubuntu, and there is no apt-get here");
    apt::program("dpkg-shlibdeps", &["dpkg-dev"])?;
    let stage = target_dir().join("release").join(STAGE);
    clear(&stage)?;
    install::libraries(1, &stage.join("lib"))?;
    install::interposers(&stage.join("lib"))?;
    install::programs(&stage.join("bin"))?;
    documents(&stage)?;
    for folder in ["bin", "lib"] {
        strip(&stage.join(folder))?;
    }
    let packages = target_dir().join("debian");
    clear(&packages)?;
    let mut pack = Command::new(tool("cargo-deb", CARGO_DEB, &[])?);
    pack.args(["--no-build", "--no-strip", "--locked", "--package", "xsched-daemon", "--output"]);
    run_command(pack.arg(&packages).current_dir(root()))?;
    for package in files(&packages)? {
        try_out(&package)?;
        println!("deb: {}", package.display());
    }
    Ok(())
}

/// Makes an empty folder.
fn clear(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = WalkDir::new(folder).min_depth(1).sort_by_file_name().into_iter();
    entries.map(|entry| Ok(entry.context("cannot list a folder")?.into_path())).collect()
}

/// Writes what the programs say of themselves, and the change log.
fn documents(stage: &Path) -> Result<()> {
    let (command, daemon) = (stage.join("bin/xsched"), stage.join("bin/xschedd"));
    let man = stage.join("man");
    run_command(Command::new(&command).args(["--quiet", "man", "--out"]).arg(&man))?;
    write(&man.join("xschedd.8"), &said(Command::new(&daemon).arg("--man"))?)?;
    compress(&files(&man)?)?;
    for (shell, file) in COMPLETIONS {
        let script = said(Command::new(&command).args(["completions", shell]))?;
        write(&stage.join(file), &script)?;
    }
    let example = root().join("daemon/xschedd.example.toml");
    let example = fs::read_to_string(&example).with_context(|| format!("{}", example.display()))?;
    write(&stage.join(CONFIG), silenced(&example).as_bytes())?;
    let date = said(Command::new("date").arg("--rfc-email"))?;
    let version = env!("CARGO_PKG_VERSION");
    let text = format!(
        "xsched ({version}-1) unstable; urgency=medium\n\n  * The changes stand in CHANGELOG.md.\n\n \
         -- {}  {}",
        maintainer()?,
        String::from_utf8_lossy(&date)
    );
    let plain = stage.join(CHANGES).with_extension("");
    write(&plain, text.as_bytes())?;
    compress(&[plain])
}

/// The example of a configuration with every line a comment, so that the defaults count.
fn silenced(example: &str) -> String {
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let comment = |line| if is_said(&line) { format!("# {line}\n") } else { format!("{line}\n") };
    example.lines().map(comment).collect()
}

fn compress(files: &[PathBuf]) -> Result<()> {
    run_command(Command::new("gzip").args(["--best", "--no-name"]).args(files))
}

/// Output of a program.
fn said(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start `{program}`"))?;
    ensure!(output.status.success(), "`{program}` ended with {}", output.status);
    Ok(output.stdout)
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Leaves what the loader needs, as Debian has it.
fn strip(folder: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("--strip-unneeded").args(UNREAD.map(|name| format!("--remove-section={name}")));
    run_command(strip.args(files(folder)?))
}

/// Unpacks a package, and runs a program with the interposers in it.
fn try_out(package: &Path) -> Result<()> {
    let place = target_dir().join("deb-tried");
    clear(&place)?;
    run_command(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&place))?;
    let command = place.join("usr/bin/xsched");
    install::check_stack(&command)?;
    let mut program = Command::new(&command);
    program.args(["run", "--class", "batch", "--", "env"]);
    for name in ["LD_PRELOAD", "XSCHED_SCHEDULER", "XSCHED_POLICY"] {
        program.env_remove(name);
    }
    let said = String::from_utf8(said(&mut program)?)?;
    let preload = said.lines().find_map(|line| line.strip_prefix("LD_PRELOAD="));
    let preload = preload.context("`xsched run` of the package preloads nothing")?;
    let folder = place.join("usr/lib/xsched");
    for file in preload.split(':') {
        ensure!(Path::new(file).starts_with(&folder), "the package is tried with {file}");
    }
    ensure!(said.contains("XSCHED_AUTO_XQUEUE_PRIORITY=-100\n"), "the class has no effect");
    run_command(Command::new(place.join("usr/bin/xschedd")).arg("--version"))?;
    clear(&place)
}

/// Metadata for cargo-deb.
fn metadata() -> Result<toml::Table> {
    let path = root().join("daemon/Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let manifest: toml::Table = text.parse().with_context(|| format!("{}", path.display()))?;
    let found = manifest.get("package").and_then(|package| package.get("metadata")?.get("deb"));
    found.and_then(toml::Value::as_table).cloned().context("no [package.metadata.deb]")
}

fn maintainer() -> Result<String> {
    let metadata = metadata()?;
    let name = metadata.get("maintainer").and_then(toml::Value::as_str);
    name.map(str::to_owned).context("the package has no maintainer")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::capi::install::NAMES_OF_HIP;

    /// Files that [`run`] makes below the stage.
    fn made() -> BTreeSet<String> {
        let lib = ["libpreempt.so", "libshimcuda.so", "libcuda.so", "libshimhip.so"];
        let lib = lib.iter().chain(&NAMES_OF_HIP).map(|name| format!("lib/{name}"));
        let fixed =
            ["bin/xsched", "bin/xschedd", "man/*.1.gz", "man/xschedd.8.gz", CHANGES, CONFIG];
        let completions = COMPLETIONS.iter().map(|(_, file)| (*file).to_owned());
        lib.chain(fixed.map(str::to_owned)).chain(completions).collect()
    }

    /// Files that the package says it has: sources, and where they go.
    fn assets() -> Vec<(String, String)> {
        let metadata = metadata().expect("metadata");
        let text = |value: &toml::Value| value.as_str().expect("text").to_owned();
        let asset = |asset: &toml::Value| (text(&asset[0]), text(&asset[1]));
        metadata["assets"].as_array().expect("a list").iter().map(asset).collect()
    }

    #[test]
    fn every_file_of_the_package_is_there_or_made() {
        let stage = format!("target/release/{STAGE}/");
        let mut packed = BTreeSet::new();
        for (source, _) in assets() {
            match source.strip_prefix(&stage) {
                Some(file) => assert!(packed.insert(file.to_owned()), "{file} is there twice"),
                None => {
                    let path = root().join("daemon").join(&source);
                    assert!(path.is_file(), "there is no {}", path.display());
                }
            }
        }
        assert_eq!(packed, made());
    }

    #[test]
    fn the_installed_configuration_says_nothing() {
        let example = fs::read_to_string(root().join("daemon/xschedd.example.toml"));
        let example = example.expect("the example");
        let text = silenced(&example);
        assert!(text.parse::<toml::Table>().expect("TOML").is_empty(), "{text}");
        assert_eq!(text.lines().count(), example.lines().count());
        assert!(text.contains("\n# [policy]\n# name = "), "{text}");
    }

    #[test]
    fn units_name_files_of_the_package() {
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let files: Vec<_> =
            assets().iter().map(|(from, to)| format!("/{to}{}", name(from))).collect();
        for unit in ["xschedd.service", "user/xschedd.service"] {
            let text = fs::read_to_string(root().join("daemon/systemd").join(unit)).expect(unit);
            let starts = text.lines().filter(|line| line.starts_with("Exec"));
            let named: Vec<_> = starts
                .flat_map(|line| line.split([' ', '=']))
                .filter(|word| word.starts_with("/usr/") || word.starts_with("/etc/"))
                .collect();
            assert!(named.len() >= 2, "{unit}");
            for file in named {
                assert!(files.iter().any(|packed| packed == file), "{unit} names {file}");
            }
        }
    }
}
