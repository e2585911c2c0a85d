//! Allowed dependencies between crates of the workspace.
//!
//! Dependencies of a crate's code point from the outer rooms to the inner ones, as [`ARROWS`] says.
//! Its tests may need more: see [`test_arrow`].

use super::Finding;
use super::manifests::{Dependency, Manifest};

/// All backends, with what they share.
const BACKENDS: [&str; 6] =
    ["hal-host", "hal-process", "hal-stream", "hal-cuda", "hal-hip", "hal-kfd"];

/// The folder of a crate, or with a `/` at its end of several, and the folders that their code may
/// depend on. The first that fits counts. `hal-*` stands for [`BACKENDS`].
const ARROWS: [(&str, &[&str]); 31] = [
    ("core", &[]),
    ("policies", &["core"]),
    ("hal-host", &["core"]),
    ("hal-process", &[]),
    ("hal-stream", &["core", "hal-process", "node"]),
    ("hal-cuda", &["core", "hal-process", "hal-stream"]),
    ("hal-hip", &["core", "hal-process", "hal-stream"]),
    ("hal-kfd", &["core", "hal-hip", "hal-process", "hal-stream"]),
    ("hal-kfd/watch", &["hal-kfd", "hal-process"]),
    ("runtime", &["core", "policies", "hal-*", "node"]),
    ("sim", &["core", "policies", "node"]),
    ("sim/paper", &["core", "sim", "cli/console"]),
    ("shim/engine", &["hal-process"]),
    ("shim/table", &[]),
    ("shim/", &["shim/engine", "shim/table", "hal-kfd/watch", "hal-process"]),
    ("node", &["core"]),
    ("daemon", &["core", "policies", "hal-kfd", "node"]),
    ("capi", &["core", "policies", "runtime", "hal-*", "node"]),
    // They are linked with the library of `capi`, and need nothing of it in Rust.
    ("capi/", &[]),
    ("launch", &["hal-process", "node"]),
    ("python", &["core", "policies", "sim", "launch"]),
    ("lab", &["core", "policies", "runtime", "sim", "hal-*", "launch", "cli/console"]),
    ("cli/console", &[]),
    // One command reads the lists of functions, and one checks the daemon's configuration. No
    // product needs the lab.
    (
        "cli",
        &[
            "core",
            "policies",
            "runtime",
            "shim/table",
            "sim",
            "sim/paper",
            "hal-*",
            "cli/console",
            "launch",
            "node",
            "daemon",
        ],
    ),
    ("testkit/", &["core", "policies", "runtime", "sim", "capi", "daemon", "hal-*", "testkit/*"]),
    ("benches", &["core", "policies", "runtime", "sim", "hal-*", "node", "daemon"]),
    ("fuzz", &["capi", "sim", "testkit/*"]),
    ("proof", &["core", "policies"]),
    ("integrations/kubernetes", &["launch", "node"]),
    ("xtask", &[]),
    // It writes the reference from what these say of themselves, and has the lab judge records.
    (
        "docs/generate",
        &["core", "policies", "runtime", "shim/table", "sim", "cli", "daemon", "lab"],
    ),
];

/// Crates whose code works without std, and the only dependencies that they may have.
const LEAN: [(&str, &[&str]); 2] = [("core", &["heapless"]), ("policies", &["xsched-core"])];

pub(super) fn check(manifests: &[Manifest<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in manifests {
        let Some(allowed) = arrows_of(manifest.folder) else {
            let message = "this crate is not in the table of arrows in xtask/src/tidy/arrows.rs";
            findings.push(Finding::new(&manifest.path, 1, "arrow", message));
            continue;
        };
        for dep in manifest.dependencies() {
            let mut found = |rule, message: String| {
                findings.push(manifest.finding(&dep.key, rule, message));
            };
            if let Some(message) = heavy(manifest, &dep) {
                found("dependency", message);
            }
            let to = manifests.iter().find(|other| other.package() == Some(&dep.package));
            let Some(to) = to else { continue };
            let (from, name) = (manifest.folder, to.folder);
            if dep.is_dev {
                if let Some(message) = test_arrow(manifest, &dep, to, manifests) {
                    found("test-arrow", message);
                }
            } else if !allowed.iter().any(|pattern| fits(pattern, name)) {
                found("arrow", format!("`{from}` must not depend on `{name}`"));
            }
        }
    }
    findings
}

fn arrows_of(folder: &str) -> Option<&'static [&'static str]> {
    let fits = |place: &str| place == folder || place.ends_with('/') && folder.starts_with(place);
    // `hal-kfd/watch` and such have an entry of their own.
    let exact = ARROWS.iter().find(|(place, _)| *place == folder);
    exact.or_else(|| ARROWS.iter().find(|(place, _)| fits(place))).map(|(_, allowed)| *allowed)
}

fn fits(pattern: &str, folder: &str) -> bool {
    match pattern {
        "hal-*" => BACKENDS.contains(&folder),
        "testkit/*" => folder.starts_with("testkit/"),
        exact => exact == folder,
    }
}

/// Problem if a lean crate's code depends on this.
fn heavy(manifest: &Manifest<'_>, dep: &Dependency) -> Option<String> {
    let (_, allowed) = LEAN.iter().find(|(folder, _)| *folder == manifest.folder)?;
    let is_heavy = !dep.is_dev && !allowed.contains(&dep.package.as_str());
    is_heavy.then(|| format!("`{}` is none of: {}", dep.package, allowed.join(", ")))
}

/// Problem if the tests of a published crate depend on a crate of the workspace.
///
/// Cargo packages crates one after the other, each after what it depends on. So what the tests of a
/// published crate need must not have a version, which makes cargo leave it out. And its code must
/// not depend on the crate: then there would be two of the crate, one of them without its tests.
fn test_arrow(
    from: &Manifest<'_>,
    dep: &Dependency,
    to: &Manifest<'_>,
    manifests: &[Manifest<'_>],
) -> Option<String> {
    if from.folder == to.folder || !from.is_published() {
        return None;
    }
    let (from_name, to_name) = (from.folder, to.folder);
    if needs(to, from, manifests) {
        return Some(format!(
            "a circle: `{to_name}` depends on `{from_name}`; move the tests to testkit/device-tests"
        ));
    }
    let message =
        || format!("write `{} = {{ path = \"…\" }}`, since `{from_name}` is published", dep.key);
    // Both have it: then its version is there to be had.
    let is_normal = from.dependencies().iter().any(|d| !d.is_dev && d.package == dep.package);
    (!dep.is_path_only && !is_normal).then(message)
}

/// True if the code of a crate depends on another one, by however many others. The depth is that of
/// the arrows, which have no circles.
fn needs(from: &Manifest<'_>, to: &Manifest<'_>, manifests: &[Manifest<'_>]) -> bool {
    let code = from.dependencies().into_iter().filter(|dep| !dep.is_dev);
    let mut next = code.filter_map(|dep| {
        manifests.iter().find(|manifest| manifest.package() == Some(&dep.package))
    });
    next.any(|manifest| manifest.folder == to.folder || needs(manifest, to, manifests))
}

#[cfg(test)]
mod tests {
    use super::super::{manifests, tree::Tree};
    use super::*;

    const CORE: &str = "[package]\nname = 'xsched-core'\npublish = true\n";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let mut none = Vec::new();
        let found = check(&manifests::read(&tree, &mut none));
        assert!(none.is_empty(), "{none:?}");
        found.iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.rule)).collect()
    }

    /// Findings in a workspace of the core with these dependencies, the policies, and two crates of
    /// the testkit, one of which needs the core.
    fn core(dependencies: &str) -> Vec<String> {
        let manifest = format!("{CORE}{dependencies}");
        let policies =
            "[package]\nname = 'xsched-policies'\n[dependencies]\nxsched-core.workspace = true\n";
        let suite = "[package]\nname = 'suite'\n[dependencies]\nxsched-policies.workspace = true\n";
        findings(&[
            ("core/Cargo.toml", &manifest),
            ("policies/Cargo.toml", policies),
            ("testkit/suite/Cargo.toml", suite),
            ("testkit/fixtures/Cargo.toml", "[package]\nname = 'fixtures'\n"),
        ])
    }

    #[test]
    fn a_heavy_dependency_of_a_lean_crate_is_found() {
        assert_eq!(core("[dependencies]\nheapless.workspace = true\n"), [""; 0]);
        assert_eq!(core("[dev-dependencies]\nproptest.workspace = true\n"), [""; 0]);
        let found = ["core/Cargo.toml:5: dependency"];
        assert_eq!(core("[dependencies]\nserde.workspace = true\n"), found);
        assert_eq!(core("[build-dependencies]\ncc = \"1\"\n"), found);
        assert_eq!(core("[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n"), found);
        let renamed = "[dependencies]\nspin = { package = \"libc\", version = \"1\" }\n";
        assert_eq!(core(renamed), found);
    }

    #[test]
    fn an_arrow_that_points_the_wrong_way_is_found() {
        let files = |dep: &str| {
            let hal = format!("[package]\nname = 'a'\n[dependencies]\n{dep}.workspace = true\n");
            findings(&[
                ("hal-cuda/Cargo.toml", &hal),
                ("core/Cargo.toml", CORE),
                ("runtime/Cargo.toml", "[package]\nname = 'xsched'\n"),
                ("testkit/b/Cargo.toml", "[package]\nname = 'b'\n"),
                ("lab/Cargo.toml", "[package]\nname = 'lab'\n"),
            ])
        };
        assert_eq!(files("xsched-core"), [""; 0]);
        for wrong in ["xsched", "b", "lab"] {
            assert_eq!(files(wrong), ["hal-cuda/Cargo.toml:4: arrow"], "{wrong}");
        }
    }

    #[test]
    fn no_product_needs_the_lab_or_the_testkit() {
        let outside = ["lab", "docs/generate", "testkit/", "fuzz"];
        for (place, allowed) in ARROWS.iter().filter(|(place, _)| !outside.contains(place)) {
            let outer = |to: &&&str| **to == "lab" || to.starts_with("testkit");
            assert_eq!(allowed.iter().find(outer), None, "{place}");
        }
    }

    #[test]
    fn tests_of_published_crates_need_paths_and_no_circles() {
        let found = ["core/Cargo.toml:5: test-arrow"];
        let dev = |line: &str| core(&format!("[dev-dependencies]\n{line}\n"));
        assert_eq!(dev("fixtures = { path = '../testkit/fixtures' }"), [""; 0]);
        assert_eq!(dev("fixtures.workspace = true"), found);
        assert_eq!(dev("fixtures = { path = '../testkit/fixtures', version = '1' }"), found);
        assert_eq!(dev("xsched-policies = { path = '../policies' }"), found);
        assert_eq!(dev("suite = { path = '../testkit/suite' }"), found);
    }

    #[test]
    fn a_crate_without_arrows_is_found() {
        let found = findings(&[("hal-new/Cargo.toml", "[package]\nname = \"xsched-hal-new\"\n")]);
        assert_eq!(found, ["hal-new/Cargo.toml:1: arrow"]);
    }

    #[test]
    fn the_table_names_folders_once() {
        for (at, (place, _)) in ARROWS.iter().enumerate() {
            assert!(ARROWS[..at].iter().all(|(other, _)| other != place), "{place}");
        }
    }
}
