//! Programs of the checks, built as the tests of CI are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{cargo, run as run_command};
use crate::{root, target_dir, test};

/// Tests that run on HIP's own runtime, and three with which the programs are built that are not of
/// their packages. Several packages have one of the second name.
const TESTS: [(&str, &str); 7] = [
    ("rocm_conformance", "testkit/device-tests/tests/rocm_conformance.rs"),
    ("schedule", "shim/hip/tests/schedule.rs"),
    ("runtime", "testkit/gpu-emulated/tests/runtime.rs"),
    ("network", "cli/tests/network.rs"),
    ("benches", "lab/tests/benches.rs"),
    ("config", "daemon/tests/config.rs"),
    ("model", "testkit/kfd-emulated/tests/model.rs"),
];
/// The libraries that the examples in C++ and Python need.
const LIBRARIES: [&str; 4] =
    ["xsched-capi", "xsched-halcuda-c", "xsched-halhip-c", "xsched-halhost-c"];
/// Library that `kfd-emulate --gpu` preloads from its own folder.
const GPU: &str = "libxsched_gpu_emulated.so";
/// The examples in C++ that take a device's name.
pub(super) const EXAMPLES: [&str; 3] = ["priorities", "manual", "callbacks"];

/// Where everything is.
#[derive(Debug)]
pub(super) struct Built {
    /// Tests, programs and shared libraries by their names.
    made: BTreeMap<String, PathBuf>,
    pub(super) xsched: PathBuf,
    pub(super) lab: PathBuf,
    pub(super) emulate: PathBuf,
    /// The library to preload that watches the driver's calls.
    pub(super) watch: PathBuf,
    /// Libraries of the C interface.
    pub(super) libraries: PathBuf,
    examples: PathBuf,
}

impl Built {
    /// Builds it all.
    ///
    /// # Errors
    /// If something cannot be built.
    pub(super) fn new(home: &Path) -> Result<Self> {
        let made = made()?;
        let packages = LIBRARIES.iter().flat_map(|name| ["--package", name]);
        run_command(cargo("build --locked").args(packages))?;
        // A test expects it beside the other one.
        found(&made, "xschedd")?;
        let emulate = beside(&home.join("emulator"), &made, ["kfd-emulate", GPU])?;
        let built = Self {
            xsched: found(&made, "xsched")?.into(),
            lab: found(&made, "xsched-lab")?.into(),
            emulate,
            watch: found(&made, "libxsched_kfd_watch.so")?.into(),
            libraries: target_dir().join("debug"),
            examples: home.join("examples"),
            made,
        };
        built.compile()?;
        Ok(built)
    }

    /// A test's program.
    ///
    /// # Errors
    /// If it was not built.
    pub(super) fn test(&self, name: &str) -> Result<&Path> {
        found(&self.made, name)
    }

    /// An example's program.
    pub(super) fn example(&self, name: &str) -> PathBuf {
        self.examples.join(name)
    }

    fn compile(&self) -> Result<()> {
        fs::create_dir_all(&self.examples)?;
        for name in EXAMPLES {
            let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
            command.args(["-std=c++17", "-O1", "-pthread", "-o"]).arg(self.example(name));
            command.arg(root().join(format!("capi/examples/{name}.cpp")));
            command.arg("-I").arg(root().join("capi/include")).arg("-L").arg(&self.libraries);
            command.args(["-lhalhost", "-lhalhip", "-lhalcuda", "-lpreempt", "-ldl"]);
            run_command(&mut command)?;
        }
        Ok(())
    }
}

/// Builds the tests with the programs and libraries that they need, and answers where all that is.
fn made() -> Result<BTreeMap<String, PathBuf>> {
    let mut command = test::rest("test");
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    command.args(TESTS.iter().flat_map(|(name, _)| ["--test", name]));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo cannot build the tests {TESTS:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.flat_map(|message| files(&message)).collect())
}

/// The files that a message of cargo's is about: a test by its name, or others by theirs.
fn files(message: &Value) -> Vec<(String, PathBuf)> {
    let source = message["target"]["src_path"].as_str().unwrap_or_default();
    let test = TESTS.iter().find(|(_, path)| Path::new(source).ends_with(path));
    let files = message["filenames"].as_array().into_iter().flatten();
    let files = files.filter_map(|file| Some(PathBuf::from(file.as_str()?)));
    let named = |file: PathBuf| {
        let name = test.map(|(name, _)| (*name).to_owned());
        Some((name.or_else(|| Some(file.file_name()?.to_str()?.to_owned()))?, file))
    };
    files.filter_map(named).collect()
}

fn found<'a>(made: &'a BTreeMap<String, PathBuf>, name: &str) -> Result<&'a Path> {
    let path = made.get(name).with_context(|| format!("cargo has not built {name}"))?;
    ensure!(path.exists(), "{} is not there", path.display());
    Ok(path)
}

/// Puts a program and a library that it expects beside it into a folder, and answers the program.
fn beside(folder: &Path, made: &BTreeMap<String, PathBuf>, names: [&str; 2]) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for name in names {
        let (from, to) = (found(made, name)?, folder.join(name));
        fs::copy(from, &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(folder.join(names[0]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cargo_has_built_is_found_by_its_name() {
        let message = |source: &str, file: &str| json!({ "target": { "src_path": source }, "filenames": [file] });
        let messages = [
            message("/r/shim/hip/tests/schedule.rs", "/t/deps/schedule-1"),
            message("/r/shim/cuda/tests/schedule.rs", "/t/deps/schedule-2"),
            message("/r/cli/src/main.rs", "/t/xsched"),
            json!({ "reason": "build-finished" }),
        ];
        let made: BTreeMap<_, _> = messages.iter().flat_map(files).collect();
        assert_eq!(made["schedule"], Path::new("/t/deps/schedule-1"));
        assert_eq!(made["xsched"], Path::new("/t/xsched"));
        let missing = found(&made, "xschedd").expect_err("it is not there").to_string();
        assert!(missing.contains("cargo has not built xschedd"), "{missing}");
    }
}
