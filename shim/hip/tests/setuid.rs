//! Programs that run with more rights than their user: what the user's environment says has no
//! effect in them. The loader takes nothing from `LD_PRELOAD` for such a program, and here it is
//! linked with the interposer instead; `/etc/ld.so.preload` would load that as well.

mod common;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use common::{beside, compile, interposer, says};

/// A user that owns no file.
const NO_RIGHTS: u32 = 65_534;
const ROOT: u32 = 0;

/// The programs, with and without more rights, and what they load.
struct Built {
    folder: TempDir,
}

impl Built {
    /// `None`, with the reason printed, where no program gets more rights than its user.
    fn new() -> Option<Self> {
        let built = Self { folder: tempfile::tempdir().expect("a folder") };
        if fs::metadata(built.path("")).expect("a folder").uid() != ROOT {
            println!("skipped: only root gives programs more rights than their user has");
            return None;
        }
        built.allow("", 0o755);
        fs::create_dir(built.path("written")).expect("a folder");
        built.allow("written", 0o777);
        // A user without rights may not read them where cargo has them.
        for library in [interposer(), beside("libpreempt.so")] {
            built.copy(&library, library.file_name().expect("a file"));
        }
        built.copy(&beside("libxsched_hip_emulated.so"), "libamdhip64.so.6".as_ref());
        compile("chosen.c", &built.path("chosen.so"), &["-shared", "-fPIC"]);
        built.allow("chosen.so", 0o755);
        let found = format!("-Wl,--disable-new-dtags,-rpath,{}", built.path("").display());
        let libraries = ["libshimhip.so", "libamdhip64.so.6"].map(|name| built.path(name));
        let [shim, runtime] = libraries.map(|path| path.into_os_string().into_string());
        let [shim, runtime] = [shim, runtime].map(|path| path.expect("text"));
        let linked = ["-DLINKED", "-Wl,--no-as-needed", &shim, &runtime, "-ldl", &found];
        built.program("linked", &linked);
        built.program("queues", &["-ldl"]);
        let output = built.run("queues-setuid", &[], &[]);
        let has_more = String::from_utf8_lossy(&output.stdout).contains("ended as 0");
        if !has_more {
            let why = "the file system has nosuid, or this process no_new_privs";
            println!("skipped: a program of root's gets no rights of root: {why}");
        }
        has_more.then_some(built)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn allow(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).expect("rights");
    }

    fn copy(&self, from: &Path, to: &OsStr) {
        let to = self.folder.path().join(to);
        fs::copy(from, &to).expect("a copy");
        fs::set_permissions(to, Permissions::from_mode(0o755)).expect("rights");
    }

    /// Compiles a program, and makes the one beside it that runs as root.
    fn program(&self, name: &str, arguments: &[&str]) {
        compile("setuid.c", &self.path(name), arguments);
        self.allow(name, 0o755);
        let more = format!("{name}-setuid");
        fs::copy(self.path(name), self.path(&more)).expect("a copy");
        chown(self.path(&more), Some(ROOT), Some(ROOT)).expect("an owner");
        self.allow(&more, 0o4755);
    }

    /// Runs a program as a user without rights, with nothing in its environment but these.
    fn run(&self, name: &str, arguments: &[&str], environment: &[(&str, &Path)]) -> Output {
        let mut command = Command::new(self.path(name));
        command.args(arguments).env_clear().envs(environment.iter().copied());
        says(command.uid(NO_RIGHTS).gid(NO_RIGHTS).current_dir("/"))
    }

    /// Checks the effect of variables on a program, which it has not if that has more rights.
    fn check(&self, program: &str, variables: &[(&str, &Path)], has_effect: impl Fn(&str) -> bool) {
        for (name, user) in [(program.to_owned(), NO_RIGHTS), (format!("{program}-setuid"), ROOT)] {
            let preempt = self.path("libpreempt.so").into_os_string().into_string().expect("text");
            let output = self.run(&name, &[&preempt], variables);
            let text = String::from_utf8_lossy(&output.stdout);
            let shown = format!("{name} with {variables:?}: {output:?}");
            assert!(text.ends_with(&format!("ended as {user}\n")), "{shown}");
            assert_eq!(has_effect(&text), user == NO_RIGHTS, "{shown}");
        }
    }
}

#[test]
fn a_program_with_more_rights_than_its_user_has_none_of_its_variables() {
    let Some(built) = Built::new() else { return };
    let (chosen, counts, on) =
        (built.path("chosen.so"), built.path("written/counts"), "ON".as_ref());
    let is_chosen = |text: &str| text.contains("chosen, as ");
    for name in ["XSCHED_CUDA_LIB", "XSCHED_HIP_LIB"] {
        built.check("queues", &[(name, &chosen)], is_chosen);
    }
    built.check("linked", &[("XSCHED_HIP_RUNTIME", &chosen)], is_chosen);
    // What follows is about a program whose runtime works.
    let works = |text: &str| assert!(text.contains("launched: yes"), "{text}");
    built.check("linked", &[("XSCHED_AUTO_XQUEUE", on)], |text| {
        works(text);
        text.contains("scheduled: yes")
    });
    built.check("linked", &[("XSCHED_SHIM_COUNTS", &counts)], |text| {
        works(text);
        let is_written = counts.exists();
        drop(fs::remove_file(&counts));
        is_written
    });
}
