//! The units of systemd, as systemd-analyze reads them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Folders of units: for all users, and for one.
const FOLDERS: [(&str, &[&str]); 2] = [("", &["--system"]), ("user", &["--user"])];
/// The exposure that the service for all users may have, in tenths of 10. It has 0.5.
const EXPOSURE_MAX: u8 = 10;

/// Returns whether systemd is installed; says so if not.
fn can_check() -> bool {
    let version = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).status();
    let is_here = version.is_ok_and(|status| status.success());
    if !is_here {
        eprintln!("NOT CHECKED: the units of systemd, for want of systemd-analyze");
    }
    is_here
}

/// Copies units to a folder. They start programs that there are.
fn copy(folder: &str, to: &Path, change: impl Fn(&str, String) -> String) {
    for name in ["xschedd.service", "xschedd.socket"] {
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(folder).join(name);
        let text = fs::read_to_string(unit).expect("a unit");
        let text = text.replace("/usr/bin/xschedd", env!("CARGO_BIN_EXE_xschedd"));
        let text = text.replace("/usr/bin/xsched ", "/bin/true ");
        fs::write(to.join(name), change(name, text)).expect("a file");
    }
}

fn analyze(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new("systemd-analyze");
    command.args(arguments).current_dir(folder).env("XDG_RUNTIME_DIR", folder);
    command.output().expect("systemd-analyze")
}

fn verify(scope: &[&str], folder: &Path) -> Output {
    let what = ["verify", "--man=no", "./xschedd.service", "./xschedd.socket"];
    analyze(&[scope, &what].concat(), folder)
}

#[test]
fn systemd_understands_the_units() {
    if !can_check() {
        return;
    }
    for (folder, scope) in FOLDERS {
        let place = tempfile::tempdir().expect("a folder");
        copy(folder, place.path(), |_, text| text);
        let output = verify(scope, place.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Of these units alone: those of the machine are not ours.
        assert!(!said.contains("xschedd"), "{folder}: {said}");
        copy(folder, place.path(), |_, text| text.replace("SocketMode", "SocketMod"));
        let output = verify(scope, place.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("xschedd.socket") && said.contains("SocketMod"), "{folder}: {said}");
    }
}

#[test]
fn the_service_is_shut_in() {
    if !can_check() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let most = format!("--threshold={EXPOSURE_MAX}");
    let security = || {
        let what = ["security", "--offline=yes", most.as_str(), "./xschedd.service"];
        analyze(&what, place.path())
    };
    copy("", place.path(), |_, text| text);
    let output = security();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    copy("", place.path(), |_, text| text.replace("SystemCallFilter=", "#"));
    assert!(!security().status.success());
}
