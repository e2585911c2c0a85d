//! What the checks are made of, built as the tests of CI are, so that nothing is built twice there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{cargo, run as run_command};
use crate::{root, target_dir, test};

/// Tests that run on HIP's own runtime. Several packages have one of the second name.
const TESTS: [(&str, &str); 4] = [
    ("rocm_conformance", "testkit/device-tests/tests/rocm_conformance.rs"),
    ("schedule", "shim/hip/tests/schedule.rs"),
    ("runtime", "testkit/gpu-emulated/tests/runtime.rs"),
    ("network", "cli/tests/network.rs"),
];
const PROGRAMS: [&str; 3] = ["xsched", "xschedd", "kfd-emulate"];
/// The libraries that the examples in C++ and Python need.
const LIBRARIES: [&str; 4] =
    ["xsched-capi", "xsched-halcuda-c", "xsched-halhip-c", "xsched-halhost-c"];
/// What `kfd-emulate --gpu` preloads from its own folder.
const GPU: &str = "xsched-gpu-emulated";
/// The examples in C++ that take a device's name.
pub(super) const EXAMPLES: [&str; 3] = ["priorities", "manual", "callbacks"];

/// Where everything is.
#[derive(Debug)]
pub(super) struct Built {
    /// Tests by their names.
    tests: BTreeMap<String, PathBuf>,
    pub(super) xsched: PathBuf,
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
        let debug = target_dir().join("debug");
        let bins = PROGRAMS.iter().flat_map(|name| ["--bin", name]);
        run_command(test::rest("build").args(bins))?;
        let packages = LIBRARIES.iter().flat_map(|name| ["--package", name]);
        run_command(cargo("build --locked").args(packages))?;
        run_command(&mut cargo(&format!("build --locked --package {GPU}")))?;
        let tests = tests()?;
        let test = tests.values().next().and_then(|test| test.parent());
        let deps = test.context("there is no test")?;
        let built = Self {
            xsched: debug.join("xsched"),
            emulate: debug.join("kfd-emulate"),
            watch: deps.join("libxsched_kfd_watch.so"),
            libraries: debug,
            examples: home.join("examples"),
            tests,
        };
        built.compile()?;
        Ok(built)
    }

    /// A test's program.
    ///
    /// # Errors
    /// If it was not built.
    pub(super) fn test(&self, name: &str) -> Result<&Path> {
        self.tests.get(name).map(PathBuf::as_path).with_context(|| format!("no test {name}"))
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

/// Builds the tests, and answers where their programs are.
fn tests() -> Result<BTreeMap<String, PathBuf>> {
    let mut command = test::rest("test");
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    command.args(TESTS.iter().flat_map(|(name, _)| ["--test", name]));
    let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo cannot build the tests {TESTS:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tests = messages.filter_map(|message| {
        let source = PathBuf::from(message["target"]["src_path"].as_str()?);
        let (name, _) = TESTS.iter().find(|(_, path)| source.ends_with(path))?;
        Some(((*name).to_owned(), PathBuf::from(message["executable"].as_str()?)))
    });
    Ok(tests.collect())
}
