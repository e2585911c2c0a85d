//! Rights that root gives processes at run time, on the cgroups of this machine.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xsched_daemon::config::Config;
use xsched_node::{Answer, ClientStatus, Grant, Grantee, NodeError, Request, VERSION, Wire};

mod node;
use node::{Killed, Node, PATIENCE, child, daemon_process, join, refusal, role, started, wait};

const USER: u32 = 60_021;

/// Not a test by itself: what the children of the others do.
#[test]
fn as_a_child() {
    let Some((role, socket)) = role() else { return };
    let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
    let (name, share, gang) = ("program".to_owned(), None, None);
    let hello = Request::Hello { version: VERSION, name, priority: 200, share, gang };
    match &*role {
        "works" => drop(wire.ask(&hello, None).expect("a welcome")),
        "computes" => {
            // Until it is killed.
            std::mem::forget((wire, join(&socket, "0000:1b:00", None)));
            println!("\nready");
            std::thread::sleep(PATIENCE);
            return;
        }
        "raises itself" => {
            let (answer, _) = wire.ask(&hello, None).expect("a welcome");
            let tenant = "job 24".to_owned();
            let lowered = Answer::Lowered { tenant: tenant.clone(), priority: -100, share };
            assert_eq!(answer, lowered);
            let own = own_pid();
            for request in [
                Request::Grant(grant(&tenant, Grantee::Pid(own), 200)),
                Request::Grant(grant("mine", Grantee::Pid(own), 200)),
                Request::Revoke { name: tenant },
                Request::Policy { name: "fcfs".to_owned() },
                Request::Set { pid: own, priority: Some(200), share, active: None },
                Request::Reload,
            ] {
                refusal(wire.ask(&request, None));
            }
            let raised = wire.ask(&Request::Hints { priority: 200, share }, None);
            assert_eq!(raised.expect("an answer").0, lowered);
            let outer = fs::read_to_string(std::env::var("OUTER").expect("a cgroup"));
            drop(outer.expect("it can be read"));
        }
        "grants" => {
            let grant = Request::Grant(grant("own", Grantee::Pid(own_pid()), -100));
            let answer = wire.ask(&grant, None);
            match std::env::var("IS_FINE").as_deref() {
                Ok("yes") => drop(answer.expect("its own daemon's user may grant")),
                _ => assert!(refusal(answer).contains("only root"), "it is not root"),
            }
        }
        other => panic!("{other}"),
    }
    println!("\nready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn grant(name: &str, to: Grantee, priority: i32) -> Grant {
    Grant { name: name.to_owned(), to, priority, priority_max: priority, share: None, gang: None }
}

/// A cgroup of a test, below each of which there may be more.
struct Cgroup(PathBuf);

impl Cgroup {
    /// One of each kind of hierarchy that this machine has and that this process may write to.
    fn of_each_kind(name: &str) -> Vec<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let of = |kind: &str| {
            let is_it = |line: &&str| line.contains(&format!(" - {kind} "));
            let line = mounts.lines().filter(is_it).find(|line| {
                kind == "cgroup2" || line.ends_with(",freezer") || line.ends_with(",pids")
            })?;
            let folder = PathBuf::from(line.split(' ').nth(4)?)
                .join(format!("xsched-{name}-{}", std::process::id()));
            fs::create_dir(&folder).ok().map(|()| Self(folder))
        };
        let all: Vec<_> = ["cgroup", "cgroup2"].into_iter().filter_map(of).collect();
        if all.is_empty() {
            println!("skipped: this process may make no cgroup");
        }
        all
    }

    fn grantee(&self) -> Grantee {
        Grantee::Cgroup(self.0.to_str().expect("text").to_owned())
    }

    fn below(&self, name: &str) -> Self {
        let folder = self.0.join(name);
        fs::create_dir(&folder).expect("a cgroup");
        Self(folder)
    }

    /// A child of these tests in it.
    fn child(&self, role: &str, socket: &Path) -> Killed {
        let of_test = child(role, socket);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$OUTER\" && exec \"$0\" \"$@\""]);
        command.arg(of_test.get_program()).args(of_test.get_args());
        command.envs(of_test.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("OUTER", self.0.join("cgroup.procs"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        started(command)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let start = std::time::Instant::now();
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && start.elapsed() < PATIENCE {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

fn ask(socket: &Path, request: &Request) -> Result<Answer, String> {
    let wire = Wire::connect(socket, PATIENCE).expect("a connection");
    match wire.ask(request, None) {
        Ok((answer, _)) => Ok(answer),
        Err(NodeError::Refused(why)) => Err(why),
        Err(other) => panic!("{other}"),
    }
}

fn clients(socket: &Path) -> Vec<ClientStatus> {
    Wire::connect(socket, PATIENCE).expect("a connection").status().expect("a status").clients
}

/// The tenant and the priority of a child.
fn rights(socket: &Path, child: &Killed) -> (String, i32) {
    let is_it = |client: &ClientStatus| client.pid == child.0.id() as i32;
    let found = clients(socket).into_iter().find(is_it).expect("it is connected");
    (found.tenant, found.priority)
}

fn of(tenant: &str, priority: i32) -> (String, i32) {
    (tenant.to_owned(), priority)
}

#[test]
fn processes_of_a_granted_cgroup_have_its_class_and_cannot_raise_it() {
    for cgroup in Cgroup::of_each_kind("class") {
        let node = Node::of("hpf", true);
        let socket = &node.socket;
        let early = cgroup.child("works", socket);
        let outside = started(child("works", socket));
        assert_eq!(rights(socket, &early), of("default", 200));
        let gang = Some("ranks".to_owned());
        let job = Grant { gang: gang.clone(), ..grant("job 24", cgroup.grantee(), -100) };
        assert_eq!(ask(socket, &Request::Grant(job.clone())), Ok(Answer::Done));
        assert_eq!(rights(socket, &early), of("job 24", -100));
        // One in a step of the job.
        let step = cgroup.below("step");
        let hostile = step.child("raises itself", socket);
        assert_eq!(rights(socket, &hostile), of("job 24", -100));
        assert_eq!(rights(socket, &outside), of("default", 200));
        let in_gang = |client: &&ClientStatus| client.gang == gang;
        let pids: Vec<_> = clients(socket).iter().filter(in_gang).map(|of| of.pid).collect();
        assert_eq!(pids, [hostile.0.id() as i32], "the first connected before");
        assert_eq!(node.status().grants, std::slice::from_ref(&job));
        assert_eq!(node.status().policy, "hpf");
        // The innermost counts.
        let own = grant("step", step.grantee(), 5);
        assert_eq!(ask(socket, &Request::Grant(own)), Ok(Answer::Done));
        assert_eq!(rights(socket, &hostile), of("step", 5));
        let revoke = |name: &str| ask(socket, &Request::Revoke { name: name.to_owned() });
        assert_eq!(revoke("step"), Ok(Answer::Done));
        assert_eq!(rights(socket, &hostile), of("job 24", -100));
        // Another grant of the name replaces it for the same processes alone.
        let more = Grant { priority: 100, priority_max: 150, ..job.clone() };
        assert_eq!(ask(socket, &Request::Grant(more)), Ok(Answer::Done));
        assert_eq!(rights(socket, &early), of("job 24", 150));
        let other = Grant { to: step.grantee(), ..job.clone() };
        assert!(ask(socket, &Request::Grant(other)).is_err_and(|why| why.contains("other name")));
        assert_eq!(revoke("job 24"), Ok(Answer::Done));
        assert_eq!(rights(socket, &early), of("default", 200));
        assert!(revoke("job 24").is_err_and(|why| why.contains("no grant")));
        drop((early, hostile));
    }
}

#[test]
fn a_grant_outlives_the_daemon_and_ends_with_its_cgroup() {
    for cgroup in Cgroup::of_each_kind("kept") {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let daemon = daemon_process(&socket, 1_000);
        let job = grant("job 24", cgroup.grantee(), -100);
        let process = started(child("works", &socket));
        let own = grant("one", Grantee::Pid(process.0.id() as i32), -50);
        for grant in [&job, &own] {
            assert_eq!(ask(&socket, &Request::Grant(grant.clone())), Ok(Answer::Done));
        }
        assert_eq!(rights(&socket, &process), of("one", -50));
        // Killed and not stopped.
        drop(daemon);
        let daemon = daemon_process(&socket, 1_000);
        let grants = || Wire::connect(&socket, PATIENCE).expect("it").status().expect("a status");
        assert_eq!(grants().grants, [job.clone(), own.clone()]);
        drop(cgroup.child("raises itself", &socket));
        drop(process);
        wait("the grant of a process that ended", || grants().grants == [job.clone()]);
        // One that is made again by the name of another.
        wait("the cgroup stays", || fs::remove_dir(&cgroup.0).is_ok());
        fs::create_dir(&cgroup.0).expect("a cgroup");
        let late = cgroup.child("works", &socket);
        assert_eq!(rights(&socket, &late), of("default", 200));
        assert_eq!(grants().grants_in_all, 0);
        assert_eq!(ask(&socket, &Request::Grant(job.clone())), Ok(Answer::Done));
        assert_eq!(rights(&socket, &late), of("job 24", -100));
        drop((late, daemon));
        wait("the cgroup stays", || fs::remove_dir(&cgroup.0).is_ok());
        fs::create_dir(&cgroup.0).expect("a cgroup");
        let _daemon = daemon_process(&socket, 1_000);
        assert_eq!(grants().grants, []);
    }
}

#[test]
fn series_of_a_grant_end_soon_after_it_though_nothing_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("metrics");
    let text = format!("[metrics]\nlisten = \"unix:{}\"\n", place.display());
    let config = Config::parse(&text, Path::new("x.toml")).expect("a configuration");
    let node = Node::configured(config);
    let process = started(child("computes", &node.socket));
    let job = grant("job 24", Grantee::Pid(process.0.id() as i32), -100);
    assert_eq!(ask(&node.socket, &Request::Grant(job)), Ok(Answer::Done));
    let has_series = || {
        let mut socket = UnixStream::connect(&place).expect("a connection");
        socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an answer");
        text.contains("tenant=\"job 24\"")
    };
    assert!(has_series());
    drop(process);
    wait("series of a grant that has ended", || !has_series());
}

#[test]
fn wrong_grants_are_refused_and_the_daemon_goes_on() {
    let node = Node::of("hpf", true);
    let socket = &node.socket;
    let of_folder = |folder: &str| {
        ask(socket, &Request::Grant(grant("job", Grantee::Cgroup(folder.to_owned()), 0)))
    };
    for folder in ["", "job", "/etc", "/proc/self/../1", "/sys/fs/cgroup/../x", "/dev/stdin"] {
        assert!(of_folder(folder).is_err_and(|why| why.contains("is no folder")), "{folder}");
    }
    let mut gone = Command::new("true").spawn().expect("a process");
    gone.wait().expect("it ends");
    for pid in [0, -1, gone.id() as i32] {
        let why = ask(socket, &Request::Grant(grant("job", Grantee::Pid(pid), 0)));
        assert!(why.is_err_and(|why| why.contains("no process")), "{pid}");
    }
    assert_eq!(node.status().grants, []);
    node.greeted();
}

#[test]
fn root_alone_grants_or_the_only_user_of_a_daemon() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root starts processes of other users");
        return;
    }
    let node = Node::of("hpf", true);
    let of_user = |socket: &Path, is_fine: &str| {
        let mut command = child("grants", socket);
        command.env("IS_FINE", is_fine).uid(USER).gid(USER);
        drop(started(command));
    };
    of_user(&node.socket, "no");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(folder.path(), Some(USER), Some(USER)).expect("an owner");
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).expect("a mode");
    let socket = folder.path().join("xsched/socket");
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_xschedd"));
    daemon.arg("--user").env("XDG_RUNTIME_DIR", folder.path()).env_remove("XSCHED_SOCKET");
    let daemon = daemon.env("HOME", folder.path()).uid(USER).gid(USER).stderr(Stdio::null());
    let _daemon = Killed(daemon.spawn().expect("a daemon"));
    wait("it does not listen", || Wire::connect(&socket, PATIENCE).is_ok());
    of_user(&socket, "yes");
}

#[test]
fn a_file_of_grants_that_cannot_be_read_is_not_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, file) = (folder.path().join("socket"), folder.path().join("socket.grants"));
    let start = || {
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_xschedd"));
        let output = daemon.arg("--socket").arg(&socket).output().expect("it ends");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for text in ["", "{", "{\"version\":2,\"grants\":[]}", "\u{1b}[2J"] {
        fs::write(&file, text).expect("a file");
        let error = start();
        assert!(error.contains("socket.grants") && error.contains("remove it"), "{error}");
    }
    fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).expect("a mode");
    assert!(start().contains("no other may write"));
    fs::remove_file(&file).expect("a file");
    std::os::unix::fs::symlink("/etc/passwd", &file).expect("a link");
    assert!(start().contains("socket.grants"));
    fs::remove_file(&file).expect("a link");
    fs::File::create(&file)
        .expect("a file")
        .write_all(b"{\"version\":1,\"grants\":[]}")
        .expect("it");
    drop(daemon_process(&socket, 100));
}
