//! What crates promise and what they depend on.

use toml::{Table, Value};

use super::Finding;
use super::source::Source;
use super::tree::Tree;

/// Crates that are `no_std` and free of `unsafe`, and the only dependencies they may have.
const LEAN: [(&str, &[&str]); 2] =
    [("core", &["heapless", "spin", "hashbrown"]), ("policies", &["xsched-core"])];

/// The folder of each crate, and the folders of the workspace's crates that it may depend on, for
/// tests too.
const ARROWS: [(&str, Arrows); 30] = [
    ("core", Arrows::To(&[])),
    ("policies", Arrows::To(&["core"])),
    // The host device is for its tests and examples.
    ("runtime", Arrows::To(&["core", "policies", "hal-host"])),
    ("testkit/conformance", Arrows::To(&["core"])),
    ("hal-host", Arrows::To(&["core", "testkit/conformance"])),
    ("hal-stream", Arrows::To(&["core", "testkit/conformance"])),
    // The runtime is for its tests of faults.
    ("hal-cuda", Arrows::To(&["core", "hal-stream", "testkit/conformance", "runtime"])),
    (
        "hal-hip",
        Arrows::To(&[
            "core",
            "hal-stream",
            "testkit/conformance",
            "testkit/hip-emulated",
            "testkit/hip-over-cuda",
        ]),
    ),
    ("testkit/hip-emulated", Arrows::To(&[])),
    ("testkit/hip-over-cuda", Arrows::To(&[])),
    ("testkit/hip-abi-check", Arrows::To(&["hal-hip"])),
    ("hal-kfd", Arrows::To(&["core"])),
    ("testkit/device-tests", Arrows::Anywhere),
    ("testkit/kfd-emulated", Arrows::To(&["hal-kfd", "testkit/hip-emulated"])),
    ("hal-kfd/watch", Arrows::To(&["hal-kfd"])),
    ("sim", Arrows::To(&["core", "policies"])),
    ("python", Arrows::To(&["core", "sim"])),
    ("xtask", Arrows::To(&[])),
    (
        "capi",
        Arrows::To(&[
            "runtime",
            "core",
            "policies",
            "hal-cuda",
            "hal-hip",
            "hal-host",
            "hal-stream",
            "testkit/hip-emulated",
        ]),
    ),
    // They are linked with the library of `capi`, and need nothing of it in Rust.
    ("capi/halcuda", Arrows::To(&[])),
    ("capi/halhip", Arrows::To(&[])),
    ("capi/halhost", Arrows::To(&[])),
    ("shim", Arrows::To(&[])),
    ("shim/hip", Arrows::To(&["shim"])),
    ("shim/host", Arrows::To(&["shim"])),
    ("lab", Arrows::Anywhere),
    ("cli", Arrows::Anywhere),
    ("benches", Arrows::Anywhere),
    ("proof", Arrows::To(&["core", "policies"])),
    ("fuzz", Arrows::Anywhere),
];

#[derive(Clone, Copy, Debug)]
enum Arrows {
    To(&'static [&'static str]),
    Anywhere,
}

pub(super) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let manifests = manifests(tree, &mut findings);
    for (folder, allowed) in LEAN {
        if let Some(source) = sources.iter().find(|s| s.path == format!("{folder}/src/lib.rs")) {
            findings.extend(missing_attributes(source));
        }
        if let Some(manifest) = manifests.iter().find(|m| m.folder == folder) {
            findings.extend(heavy_dependencies(manifest, allowed));
        }
    }
    for manifest in &manifests {
        findings.extend(wrong_arrows(manifest, &manifests));
    }
    findings
}

/// The manifest of a crate.
#[derive(Debug)]
struct Manifest<'a> {
    folder: &'a str,
    path: String,
    text: &'a str,
    table: Table,
}

/// A dependency: the name in the manifest, the name of the package.
#[derive(Debug)]
struct Dependency {
    key: String,
    package: String,
}

impl Manifest<'_> {
    fn package(&self) -> Option<&str> {
        self.table.get("package")?.get("name")?.as_str()
    }

    /// Dependencies from all tables of these names, at the top or below a target.
    fn dependencies(&self, kinds: &[&str]) -> Vec<Dependency> {
        let targets = self.table.get("target").and_then(Value::as_table);
        let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
        let mut found = Vec::new();
        for table in targets.chain([&self.table]) {
            for kind in kinds {
                let entries = table.get(*kind).and_then(Value::as_table);
                for (key, value) in entries.into_iter().flatten() {
                    let package = value.get("package").and_then(Value::as_str).unwrap_or(key);
                    found.push(Dependency { key: key.clone(), package: package.to_owned() });
                }
            }
        }
        found
    }

    fn line_of(&self, key: &str) -> usize {
        let starts = |line: &str| line.trim_start().trim_start_matches('"').starts_with(key);
        self.text.lines().position(starts).map_or(1, |index| index + 1)
    }

    fn finding(&self, key: &str, rule: &'static str, message: String) -> Finding {
        Finding::new(&self.path, self.line_of(key), rule, message)
    }
}

fn manifests<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> Vec<Manifest<'a>> {
    let mut manifests = Vec::new();
    for folder in tree.crates() {
        let path = format!("{folder}/Cargo.toml");
        let text = tree.text(&path).unwrap_or_default();
        match text.parse() {
            Ok(table) => manifests.push(Manifest { folder, path, text, table }),
            Err(error) => findings.push(Finding::new(&path, 1, "parse", error.message())),
        }
    }
    manifests
}

fn missing_attributes(source: &Source<'_>) -> Vec<Finding> {
    let paths = |wanted: &str| source.ast.attrs.iter().any(|attr| attr.path().is_ident(wanted));
    let forbids_unsafe = source.ast.attrs.iter().any(|attr| {
        let list = attr.meta.require_list();
        attr.path().is_ident("forbid")
            && list.is_ok_and(|list| list.tokens.to_string().contains("unsafe_code"))
    });
    let mut findings = Vec::new();
    if !paths("no_std") {
        findings.push(Finding::new(source.path, 1, "no-std", "`#![no_std]` is missing"));
    }
    if !forbids_unsafe {
        let message = "`#![forbid(unsafe_code)]` is missing";
        findings.push(Finding::new(source.path, 1, "forbid-unsafe", message));
    }
    findings
}

fn heavy_dependencies(manifest: &Manifest<'_>, allowed: &[&str]) -> Vec<Finding> {
    let all = manifest.dependencies(&["dependencies", "build-dependencies"]);
    let heavy = all.into_iter().filter(|dep| !allowed.contains(&dep.package.as_str()));
    heavy
        .map(|Dependency { key, package }| {
            let message = format!("`{package}` is none of: {}", allowed.join(", "));
            manifest.finding(&key, "dependency", message)
        })
        .collect()
}

fn wrong_arrows(manifest: &Manifest<'_>, manifests: &[Manifest<'_>]) -> Vec<Finding> {
    let Some((_, arrows)) = ARROWS.iter().find(|(folder, _)| *folder == manifest.folder) else {
        let message = "this crate is not in the table of arrows in xtask/src/tidy/manifests.rs";
        return vec![Finding::new(&manifest.path, 1, "arrow", message)];
    };
    let Arrows::To(allowed) = arrows else { return Vec::new() };
    let mut findings = Vec::new();
    for dep in manifest.dependencies(&["dependencies", "build-dependencies", "dev-dependencies"]) {
        let known = manifests.iter().find(|other| other.package() == Some(&dep.package));
        if let Some(other) = known.filter(|other| !allowed.contains(&other.folder)) {
            let message = format!("`{}` must not depend on `{}`", manifest.folder, other.folder);
            findings.push(manifest.finding(&dep.key, "arrow", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::read_all;
    use super::*;

    const LIB: &str = "#![no_std]\n#![forbid(unsafe_code)]\n";
    const CORE: &str = "[package]\nname = \"xsched-core\"\n";
    const POLICIES: &str = "[package]\nname = \"xsched-policies\"\n";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let (sources, _) = read_all(&tree);
        let findings = check(&tree, &sources);
        findings.iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.rule)).collect()
    }

    fn core(dependencies: &str) -> Vec<String> {
        let manifest = format!("{CORE}{dependencies}");
        let policies = format!("{POLICIES}[dependencies]\nxsched-core.workspace = true\n");
        findings(&[
            ("core/Cargo.toml", &manifest),
            ("core/src/lib.rs", LIB),
            ("policies/Cargo.toml", &policies),
            ("policies/src/lib.rs", LIB),
        ])
    }

    #[test]
    fn lean_crates_promise_it() {
        let lib = |text| findings(&[("core/Cargo.toml", CORE), ("core/src/lib.rs", text)]);
        assert_eq!(lib(LIB), [""; 0]);
        assert_eq!(lib("#![forbid(unsafe_code)]\n"), ["core/src/lib.rs:1: no-std"]);
        assert_eq!(lib("#![no_std]\n"), ["core/src/lib.rs:1: forbid-unsafe"]);
        let conditional = "#![cfg_attr(not(test), no_std)]\n#![deny(unsafe_code)]\n";
        let both = ["core/src/lib.rs:1: no-std", "core/src/lib.rs:1: forbid-unsafe"];
        assert_eq!(lib(conditional), both);
    }

    #[test]
    fn a_heavy_dependency_is_found() {
        assert_eq!(core("[dependencies]\nheapless.workspace = true\n"), [""; 0]);
        assert_eq!(core("[dev-dependencies]\nproptest.workspace = true\n"), [""; 0]);
        let found = ["core/Cargo.toml:4: dependency"];
        assert_eq!(core("[dependencies]\nserde.workspace = true\n"), found);
        assert_eq!(core("[build-dependencies]\ncc = \"1\"\n"), found);
        assert_eq!(core("[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n"), found);
        let renamed = "[dependencies]\nspin = { package = \"libc\", version = \"1\" }\n";
        assert_eq!(core(renamed), found);
    }

    #[test]
    fn an_arrow_that_points_the_wrong_way_is_found() {
        let found = ["core/Cargo.toml:4: arrow"];
        assert_eq!(core("[dev-dependencies]\nxsched-policies.workspace = true\n"), found);
        let both = ["core/Cargo.toml:4: dependency", "core/Cargo.toml:4: arrow"];
        assert_eq!(core("[dependencies]\nxsched-policies.workspace = true\n"), both);
    }

    #[test]
    fn a_crate_without_arrows_is_found() {
        let found = findings(&[("hal-new/Cargo.toml", "[package]\nname = \"xsched-hal-new\"\n")]);
        assert_eq!(found, ["hal-new/Cargo.toml:1: arrow"]);
    }

    #[test]
    fn a_manifest_that_is_not_toml_is_found() {
        assert_eq!(findings(&[("sim/Cargo.toml", "[package")]), ["sim/Cargo.toml:1: parse"]);
    }
}
