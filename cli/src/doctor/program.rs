//! Check of a program's file: if a library can be preloaded into it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::process::{getgid, getuid};
use serde::Serialize;
use xsched_launch::{MUSL, NotRunnable, ProgramFile, is_of_musl};

use super::elf::Elf;
use super::problem::Problem;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
/// Programs that have others run in a container or on another machine.
const ELSEWHERE: [&str; 8] =
    ["docker", "podman", "nerdctl", "kubectl", "apptainer", "singularity", "ssh", "srun"];

/// A program's file, as far as it matters to what is preloaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Program {
    /// The file that is run; `None` if there is none.
    pub(super) file: Option<PathBuf>,
    /// The interpreters, if it is a script: the last one is what is run.
    pub(super) interpreters: Vec<PathBuf>,
    /// Libraries, CUDA's driver or HIP's runtime, that the program is linked with and does not only
    /// open.
    pub(super) linked: Vec<String>,
    /// The loader will preload the interposer.
    pub(super) preloadable: bool,
    /// Problems of the program.
    pub(super) problems: Vec<Problem>,
}

impl Program {
    /// Looks at what this name runs.
    pub(super) fn look(name: &OsStr) -> Self {
        let found = ProgramFile::find(name);
        let mut program = Self::default();
        match (&found.problem, found.last()) {
            (Some(NotRunnable { what, action }), _) => {
                program.problems.push(Problem::new(what, *action));
            }
            (None, Some(file)) => {
                program.problems = reasons(file, &mut program.linked);
                program.preloadable = program.problems.is_empty();
            }
            (None, None) => {}
        }
        (program.file, program.interpreters) = (found.file, found.interpreters);
        program.problems.extend(elsewhere(name));
        program
    }
}

/// Why the loader does not preload the interposer into a program.
fn reasons(file: &Path, linked: &mut Vec<String>) -> Vec<Problem> {
    let shown = file.display();
    let Some(elf) = Elf::read(file) else {
        let what = format!("{shown} is neither an ELF program nor a script");
        return vec![Problem::new(what, "name the program that it runs, with its loader")];
    };
    let vendors = elf.needed.iter().filter(|name| {
        ["libcuda.so", "libamdhip64.so"].iter().any(|vendor| name.starts_with(vendor))
    });
    linked.extend(vendors.cloned());
    let mut problems = Vec::new();
    let mut add = |what: &str, action: &str| {
        problems.push(Problem::new(format!("{shown} {what}"), action));
    };
    if !elf.x86_64 {
        add("is for another processor than x86-64", "use a program for x86-64");
    }
    match &elf.interpreter {
        None => add(
            "is linked statically, and loads nothing that is preloaded",
            "link it dynamically with libc (Go: `CGO_ENABLED=1`, and no `-static`)",
        ),
        Some(loader) if is_of_musl(loader) => add(MUSL.what, MUSL.action),
        Some(_) => {}
    }
    if elf.needed.iter().any(|name| name == "libcuda.so") {
        add(
            "is linked with a library named libcuda.so, and not with libcuda.so.1",
            "link it with CUDA's driver or its stub of CUDA 12 or newer, which is libcuda.so.1",
        );
    }
    if let Some(rights) = more_rights(file) {
        add(
            &format!("{rights}, so the loader takes nothing from LD_PRELOAD"),
            "run a copy without these rights",
        );
    }
    problems
}

/// Returns the property that gives a program more rights than its user.
fn more_rights(file: &Path) -> Option<&'static str> {
    let about = fs::metadata(file).ok()?;
    if about.mode() & SETUID != 0 && about.uid() != getuid().as_raw() {
        return Some("runs as its owner (setuid)");
    }
    if about.mode() & SETGID != 0 && about.gid() != getgid().as_raw() {
        return Some("runs as its group (setgid)");
    }
    let mut capabilities = [0_u8; 64];
    // Root has them all the same, and the loader does not care.
    let has = !getuid().is_root()
        && getxattr(file, c"security.capability", &mut capabilities[..]).is_ok();
    has.then_some("has capabilities of its own")
}

fn elsewhere(name: &OsStr) -> Option<Problem> {
    let program = Path::new(name).file_name()?.to_string_lossy().into_owned();
    ELSEWHERE.contains(&program.as_str()).then(|| {
        Problem::new(
            format!("{program} runs programs that do not get this environment"),
            "run `xsched run` (or `xsched doctor`) there, in front of the program itself",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("rights");
        path
    }

    fn look(path: &Path) -> Program {
        Program::look(path.as_os_str())
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let shell = Program::look(OsStr::new("sh"));
        assert!(shell.preloadable && shell.problems.is_empty(), "{shell:?}");
        assert!(shell.file.is_some_and(|file| file.ends_with("sh")));
        let none = Program::look(OsStr::new("there-is-no-such-program"));
        assert!(!none.preloadable && none.problems[0].what.contains("PATH"), "{none:?}");
        assert!(look(Path::new("/nowhere/p")).problems[0].what.contains("no file"));
        let docker = Program::look(OsStr::new("docker"));
        assert!(docker.problems.iter().any(|problem| problem.what.contains("environment")));
    }

    #[test]
    fn scripts_are_what_their_interpreters_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = script(folder.path(), "plain", "#!/bin/sh -e\necho\n");
        assert_eq!(look(&plain).interpreters, [PathBuf::from("/bin/sh")]);
        let by_env = script(folder.path(), "by-env", "#!/usr/bin/env -S A=1 sh -e\n");
        let found = look(&by_env);
        assert!(found.preloadable, "{found:?}");
        assert_eq!(found.interpreters.len(), 2);
        let of_script = script(folder.path(), "of-script", &format!("#!{}\n", plain.display()));
        assert_eq!(look(&of_script).interpreters.len(), 2);
        let itself = folder.path().join("itself");
        let itself = script(folder.path(), "itself", &format!("#!{}\n", itself.display()));
        assert!(look(&itself).problems[0].what.contains("script of a script"));
        let gone = script(folder.path(), "gone", "#!/nowhere/sh\n");
        assert!(look(&gone).problems[0].what.contains("/nowhere/sh"));
        let text = script(folder.path(), "text", "echo\n");
        assert!(look(&text).problems[0].what.contains("neither"));
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).expect("rights");
        if !getuid().is_root() {
            assert!(look(&plain).problems[0].action.contains("chmod"));
        }
    }

    #[test]
    fn static_programs_and_those_of_other_processors_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("p.c");
        fs::write(&source, "void _start(void) { for (;;); }").expect("a file");
        let program = folder.path().join("static");
        let mut compile = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compile.args(["-static", "-nostdlib", "-o"]).arg(&program).arg(&source);
        assert!(compile.status().expect("a C compiler").success());
        let found = look(&program);
        assert!(!found.preloadable && found.problems[0].what.contains("statically"), "{found:?}");
        let mut bytes = fs::read(&program).expect("a program");
        // `e_machine`, of which 183 is AArch64.
        bytes[18] = 183;
        fs::write(&program, bytes).expect("a program");
        assert!(look(&program).problems[0].what.contains("another processor"));
    }

    #[test]
    fn programs_with_more_rights_than_their_user_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("copy");
        fs::copy("/bin/sh", &copy).expect("a copy");
        let own = fs::Permissions::from_mode(0o6755);
        fs::set_permissions(&copy, own).expect("rights");
        // It is the user's own, so it gets no more rights.
        let about = fs::metadata(&copy).expect("a file");
        if about.gid() == getgid().as_raw() {
            assert!(look(&copy).preloadable);
        }
        if getuid().is_root() {
            std::os::unix::fs::chown(&copy, Some(12_345), None).expect("an owner");
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("rights");
            let found = look(&copy);
            assert!(!found.preloadable && found.problems[0].what.contains("setuid"), "{found:?}");
        }
    }
}
