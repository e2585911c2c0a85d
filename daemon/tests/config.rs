//! Configuration files, and what follows from them.

use std::path::Path;
use std::sync::Arc;

use xsched_core::hint::{PolicyHint, Priority};
use xsched_core::time::Duration;
use xsched_daemon::config::{Config, FirstHold, Source};
use xsched_daemon::tenant::{Asker, Party, Sees, Tenant, Who, tenant_of};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("x.toml")).map_err(|error| error.to_string())
}

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("xschedd.example.toml");
    std::fs::read_to_string(path).expect("the example")
}

#[test]
fn the_example_is_a_configuration() {
    let config = parse(&example()).expect("a configuration");
    assert_eq!(config.policy.name, "up");
    assert_eq!(config.policy.hints, [PolicyHint::Timeslice(Duration::from_us(20_000))]);
    let names: Vec<_> = config.tenants.iter().map(|tenant| &*tenant.name).collect();
    assert_eq!(names, ["pods", "services", "default"]);
    let pods = &config.tenants[0];
    assert_eq!((pods.share, pods.share_max, pods.sees), (Some(10), Some(60), Sees::Tenant));
    assert_eq!((pods.clients_max, pods.queues_max), (Some(256), Some(248)));
    assert_eq!(config.tenants[2].priority, Priority::new(-100).ok());
}

/// Checks that what is commented out can be said as it stands there.
#[test]
fn the_keys_that_the_example_leaves_out_are_known() {
    let mut tried = 0;
    for (number, line) in example().lines().enumerate() {
        let Some(key) = line.strip_prefix("# ").filter(|line| line.contains(" = ")) else {
            continue;
        };
        let name = match key.split(' ').next() {
            Some("k") => "kedf",
            Some(key) if key == "ageing_ms" || key == "turns" => "hpf",
            Some(key) if key.starts_with("fill_pauses") => "hpf",
            _ => "up",
        };
        let uncommented = |(at, line): (usize, &str)| match at {
            at if at == number => key.to_owned(),
            _ if line.starts_with("name = \"up\"") => format!("name = \"{name}\""),
            _ if name != "up" && line.starts_with("timeslice_us") => String::new(),
            _ => line.to_owned(),
        };
        let text: Vec<_> = example().lines().enumerate().map(uncommented).collect();
        // The group may not be there.
        let parsed = parse(&text.join("\n"));
        let is_known = parsed.is_ok() || parsed.is_err_and(|why| why.contains("there is no group"));
        assert!(is_known, "{key}");
        tried += 1;
    }
    assert_eq!(tried, 16);
    let daemon = parse("[scheduler]\ndirect_holds = false").expect("a configuration");
    assert_eq!(
        [Config::default().first_hold, daemon.first_hold],
        [FirstHold::Process, FirstHold::Daemon]
    );
}

#[test]
fn nothing_is_what_counts_without_a_file() {
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn a_policy_is_a_name_or_a_table() {
    let short = parse("policy = \"Strict-WFQ\"\n[socket]").expect("a configuration");
    assert_eq!(short, parse("[policy]\nname = \"strict_wfq\"").expect("a configuration"));
    assert!(parse("\npolicy = \"none\"").is_err_and(|why| why.contains(":2: policy: unknown")));
    assert!(parse("policy = 1").is_err_and(|why| why.contains(":1: policy: invalid type")));
    assert!(parse("policy = \"hpf\"").is_ok_and(|config| config == Config::default()));
}

#[test]
fn a_priority_is_a_number_or_the_name_of_a_class() {
    let named = "[[tenant]]\nname = \"a\"\npriority = \"batch\"\npriority_max = \"interactive\"";
    let number = "[[tenant]]\nname = \"a\"\npriority = -100\npriority_max = 100";
    assert_eq!(parse(named).expect("a configuration"), parse(number).expect("a configuration"));
    let normal = parse("[[tenant]]\nname = \"a\"\npriority_max = \"normal\"");
    assert_eq!(normal.map(|config| config.tenants[0].priority_max), Ok(Some(Priority::DEFAULT)));
}

#[test]
fn mistakes_are_named_with_their_line_and_what_to_do() {
    for (text, line, part) in [
        ("[policy]\nname = \"none\"", 2, "unknown policy; known are"),
        ("[policy]\nname = \"edf\"\ntimeslice_us = 500", 3, "`edf` has no timeslice_us; take"),
        ("[policy]\nname = \"up\"\nturns = false", 3, "`up` has no turns to do without; take"),
        ("[policy]\nname = \"up\"\nfill_pauses = true", 3, "`up` holds nothing in pauses; take"),
        ("[policy]\nfill_pauses_least = 0", 2, "must be 1 to 100, is 0"),
        (
            "[policy]\nfill_pauses = false\nfill_pauses_trial_ms = 9",
            3,
            "pauses, which are not filled; take",
        ),
        ("[policy]\nname = \"up\"\nfill_pauses_least = 50", 3, "pauses, which are not filled"),
        ("[scheduler]\ngang_claim_us = 1000001", 2, "gang_claim_us must be 0 to 1000000"),
        ("[policy]\nturns = false\ntimeslice_us = 500", 3, "there are none; take one of both"),
        ("[policy]\nname = \"up\"\ntimeslice_us = 99", 3, "must be 100 to 10000000, is 99"),
        ("[policy]\nname = \"kedf\"\nk = 0", 3, "k must be 1 to 65536, is 0"),
        ("[policy]\nnme = \"up\"", 2, "unknown field `nme`"),
        ("[metrics]\nlisten = \"0.0.0.0:9464\"", 2, "listen: 0.0.0.0:9464 can be reached from"),
        ("[metrics]\nlisten = \"9464\"", 2, "can be 127.0.0.1:9464 or unix:"),
        ("[[tenant]]\nname = \"a\"\nunreported = \"kill\"", 3, "unknown variant `kill`"),
        ("polcy = 1", 1, "unknown field `polcy`"),
        ("[policy\n", 1, "table"),
        ("[limits]\nclients = \"9\"", 2, "clients: invalid type: string \"9\", expected u32"),
        ("[limits]\n\nclients = 5000", 3, "clients must be 1 to 4096, is 5000"),
        ("[socket]\nmode = \"888\"", 2, "octal"),
        ("[socket]\npath = \"socket\"", 2, "absolute"),
        ("[admins]\nusers = [\n\"root\",\n\"absent-here\"]", 4, "no user `absent-here`"),
        ("[[tenant]]\nuid = 1", 1, "missing field `name`"),
        ("[[tenant]]\nname = \"a\"\nuser = \"absent-here\"", 3, "no user `absent-here`"),
        (
            "[[tenant]]\nname = \"a\"\nuser = \"root\"\nuid = 1",
            4,
            "user = \"root\" (line 3) and uid = 1 (line 4) are the same thing; take one",
        ),
        ("[[tenant]]\nname = \"a\"\nclass = \"x\"", 3, "unknown variant `x`"),
        (
            "[[tenant]]\nname = \"a\"\nclass = \"batch\"\npriority = 1",
            4,
            "class = \"batch\" (line 3) and priority = 1 (line 4) are the same thing",
        ),
        ("[[tenant]]\nname = \"a\"\npriority_max = -256", 3, "must be -255 to 255"),
        (
            "[[tenant]]\nname = \"a\"\npriority_max = \"urgent\"",
            3,
            "priority_max: invalid value: string \"urgent\", expected -255 to 255, or a class",
        ),
        (
            "[[tenant]]\nname = \"a\"\npriority = 5000000000",
            3,
            "integer `5000000000`, expected -255",
        ),
        ("[[tenant]]\nname = \"a\"\nshare_max = 101", 3, "share_max must be 0 to 100, is 101"),
        (
            "[[tenant]]\nname = \"a\"\nshare = 5\nshare_max = 4",
            3,
            "tenant `a`: its processes start with share = 5 (line 3), which is above share_max = 4 \
             (line 4); lower share, or raise share_max",
        ),
        (
            "[[tenant]]\nname = \"a\"\npriority_max = \"batch\"\n\nclass = \"normal\"",
            5,
            "class = \"normal\" (line 5), which is above priority_max = \"batch\" (line 3); lower class",
        ),
        (
            "[[tenant]]\nname = \"a\"\npriority = 1\npriority_max = 0",
            3,
            "start with priority = 1 (",
        ),
        ("[[tenant]]\nname = \"a\"\ncgroup = \"kubepods/**\"", 3, "begins with /"),
        ("[[tenant]]\nname = \"a\"\ncgroup = \"/a**\"", 3, "cgroup:"),
        ("[[tenant]]\nname = \"a\"\nclients_max = 0", 3, "clients_max must be 1 to"),
        (
            "[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"b\"\nuid = 1",
            4,
            "`a` before it fits all",
        ),
        ("[[tenant]]\nname = \"a\"\nuid = 1\n[[tenant]]\nname = \"a\"", 5, "two tenants"),
        ("[[tenant]]\nname = \"default\"\nuid = 1", 2, "tenant of the rest"),
    ] {
        let why = parse(text).expect_err(text);
        assert!(why.starts_with(&format!("x.toml:{line}: ")), "{text:?}: {why}");
        assert!(why.contains(part) && !why.contains('\n'), "{text:?}: {why}");
    }
}

#[test]
fn the_command_line_counts_before_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.toml");
    std::fs::write(&file, "[policy]\nname = \"up\"\ntimeslice_us = 500").expect("a file");
    let mut source = Source { file: Some(file.clone()), ..Source::default() };
    assert_eq!(source.read().expect("a configuration").policy.hints.len(), 1);
    (source.policy, source.socket) = (Some("wfq".to_owned()), Some("/x/socket".into()));
    let config = source.read().expect("a configuration");
    assert_eq!((&*config.policy.name, config.policy.hints.len()), ("wfq", 0));
    assert_eq!(config.socket.path.as_deref(), Some(Path::new("/x/socket")));
    std::fs::remove_file(&file).expect("the file");
    assert!(source.read().is_err_and(|error| error.to_string().contains("cannot read")));
    source.is_optional = true;
    assert_eq!(source.read().expect("a configuration").policy.name, "wfq");
}

const TENANTS: &str = r#"
[[tenant]]
name = "pod"
cgroup = "/kubepods*/**"
uid = 0

[[tenant]]
name = "job"
cgroup = "/slurm/uid_*/job_7"
sees = "tenant"

[[tenant]]
name = "one"
uid = 1000

[[tenant]]
name = "two"
uid = 1000

[[tenant]]
name = "rest"
sees = "all"
"#;

fn who(uid: u32, cgroups: &[&str]) -> Who {
    Who { uid, gids: vec![uid], cgroups: cgroups.iter().map(|&path| path.to_owned()).collect() }
}

#[test]
fn the_first_tenant_that_fits_in_all_is_the_one() {
    let config = parse(TENANTS).expect("a configuration");
    for (uid, cgroups, name) in [
        (0, &["/kubepods.slice/a"][..], "pod"),
        (0, &["/kubepods/a/b", "/"], "pod"),
        (1, &["/kubepods/a"], "rest"),
        (0, &["/kubepods"], "rest"),
        (0, &["/x/kubepods/a"], "rest"),
        (5, &["/slurm/uid_5/job_7"], "job"),
        (5, &["/slurm/uid_5/job_71"], "rest"),
        (5, &["/slurm/uid_5/x/job_7"], "rest"),
        (1000, &["/slurm/uid_5/job_7"], "job"),
        (1000, &[], "one"),
        (7, &[], "rest"),
    ] {
        assert_eq!(tenant_of(&config.tenants, &who(uid, cgroups)).name, name, "{uid} {cgroups:?}");
    }
}

#[test]
fn a_group_of_a_process_is_any_of_its_groups() {
    let tenant = Tenant { gid: Some(44), ..Tenant::default() };
    assert!(tenant.fits(&Who { gids: vec![5, 44], ..Who::default() }));
    assert!(!tenant.fits(&Who { gids: vec![5], ..Who::default() }));
}

#[test]
fn root_in_a_container_is_no_administrator() {
    let mut config = parse(TENANTS).expect("a configuration");
    config.admins.uids.push(7);
    config.admins.gids.push(8);
    let is_admin = |who: &Who| config.is_admin(who, &tenant_of(&config.tenants, who), 1000);
    assert!([0, 7, 8, 1000].into_iter().all(|uid| is_admin(&who(uid, &["/user.slice"]))));
    assert!(!is_admin(&who(9, &["/user.slice"])));
    assert!(!is_admin(&who(0, &["/kubepods/a"])));
    // Where it is cannot be seen, and it matters.
    assert!(!is_admin(&who(0, &[])));
    assert!(Config::default().is_admin(&who(0, &[]), &Tenant::default(), 1000));
}

#[test]
fn whose_processes_one_sees_and_changes() {
    let config = parse(TENANTS).expect("a configuration");
    let party = |uid, cgroup: &str| {
        let who = Arc::new(who(uid, &[cgroup]));
        Party { tenant: tenant_of(&config.tenants, &who), who }
    };
    let (pod, other_pod) = (party(0, "/kubepods/a"), party(0, "/kubepods/b"));
    let (job, other_job) = (party(5, "/slurm/uid_5/job_7"), party(6, "/slurm/uid_6/job_7"));
    let (one, same, rest) = (party(1000, "/a"), party(1000, "/b"), party(7, "/a"));
    let root = Asker { party: party(0, "/"), is_admin: true };
    for (asker, other, sees, changes) in [
        (&pod, &pod, true, true),
        (&pod, &other_pod, false, false),
        (&job, &other_job, true, false),
        (&job, &rest, false, false),
        (&one, &same, true, true),
        (&one, &rest, false, false),
        (&rest, &pod, true, false),
    ] {
        let what = format!("{asker:?} {other:?}");
        let asker = Asker { party: asker.clone(), is_admin: false };
        assert_eq!((asker.may_see(other), asker.may_change(other)), (sees, changes), "{what}");
        assert!(root.may_see(other) && root.may_change(other));
    }
}

#[test]
fn rounds_between_processes_are_long_unless_the_file_says_otherwise() {
    let hints = |text: &str, name: &str| {
        let policy = name.parse().expect("a policy");
        let mut hints = parse(text).expect("a configuration").policy.hints_of(&policy);
        assert_eq!(hints.pop(), Some(PolicyHint::Floor(50)), "{text}");
        assert_eq!(hints.pop(), Some(PolicyHint::Stall(Some(Duration::from_ms(50)))), "{text}");
        hints
    };
    let long = PolicyHint::Timeslice(Duration::from_ms(100));
    for name in ["up", "wfq", "cfs", "pup", "strict_up"] {
        assert_eq!(hints("", name), [long], "{name}");
    }
    assert!(hints("", "mlfq").is_empty());
    let turn = PolicyHint::Timeslice(Duration::from_ms(10));
    assert_eq!(hints("", "hpf"), [turn]);
    let stall = |text: &str| parse(text).expect("a configuration").policy.stall;
    assert_eq!(stall("[policy]\nstall_ms = 7"), Some(Duration::from_ms(7)));
    assert_eq!(stall("[policy]\nstall_ms = 0"), None);
    let floor = |text: &str| parse(text).expect("a configuration").policy.floor_permille;
    assert_eq!([floor("[policy]\nfloor = 0"), floor("[policy]\nfloor = 0.25")], [0, 250]);
    assert!(
        ["0.51", "-0.1", "nan", "5"]
            .iter()
            .all(|is| parse(&format!("[policy]\nfloor = {is}")).is_err())
    );
    assert!(hints("[policy]\nturns = false", "hpf").is_empty());
    let file = "[policy]\nname = \"up\"\ntimeslice_us = 500";
    assert_eq!(hints(file, "up"), [long, PolicyHint::Timeslice(Duration::from_us(500))]);
    assert_eq!(hints(file, "wfq"), [long], "it is for the policy that the file names");
}
