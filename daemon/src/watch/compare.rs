//! Compares what drivers say with what the daemon knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use xsched_node::Outsider;

use super::processes::{about, is_outside};
use super::{Findings, Process, Seen};
use crate::scheduler::Known;
use crate::tenant::{Party, Tenant, Unreported, tenant_of};

/// Processes past the daemon that are kept.
const OUTSIDERS_MAX: usize = 64;
/// By how much of a second a driver's figure has to be more than what the process reports.
const MORE_PERMILLE: u32 = 100;
/// For how many looks in a row.
const LOOKS: u32 = 3;

/// State that is kept from look to look.
#[derive(Debug)]
pub(super) struct Comparer {
    root: PathBuf,
    /// For how many looks in a row a client's figure has been more than what it reports.
    more: BTreeMap<(i32, String), u32>,
    /// Of which processes on which GPUs the log says something already.
    warned: BTreeSet<(i32, String)>,
}

impl Comparer {
    /// `root` has the folder of processes.
    pub(super) const fn new(root: PathBuf) -> Self {
        Self { root, more: BTreeMap::new(), warned: BTreeSet::new() }
    }

    /// Finds what runs past the daemon, which knows these processes and has these tenants.
    pub(super) fn compare(
        &mut self,
        seen: Seen,
        known: &[Known],
        tenants: &[Arc<Tenant>],
    ) -> Findings {
        let mut findings = Findings { names: seen.gpus, is_known: true, ..Findings::default() };
        findings.unknown = seen.unknown;
        if is_outside(&self.root) != Some(true) {
            findings.unknown.push(
                "processes past the daemon: it runs in a pid namespace of its own, and drivers \
                 number processes as the system does; run it outside containers"
                    .to_owned(),
            );
            self.more.clear();
            return findings;
        }
        let pids: BTreeSet<i32> = known.iter().map(|client| client.pid).collect();
        let mut listed = BTreeSet::new();
        for process in seen.processes {
            let pid = i32::try_from(process.pid).unwrap_or(0);
            if !listed.insert((pid, process.device.clone())) {
                continue;
            }
            if pids.contains(&pid) {
                if let Some(permille) = process.permille {
                    findings.clients.insert((pid, process.device), (permille.min(1_000), false));
                }
            } else if findings.outsiders.len() < OUTSIDERS_MAX {
                let outsider = self.outsider(process, tenants, &mut findings.warnings);
                findings.outsiders.push(outsider);
            }
        }
        self.judge(&mut findings, known);
        self.warned.retain(|key| listed.contains(key));
        findings
    }

    /// A process that the daemon does not know.
    fn outsider(
        &mut self,
        process: Process,
        tenants: &[Arc<Tenant>],
        warnings: &mut Vec<String>,
    ) -> (Outsider, Option<Party>) {
        let Process { pid, device, permille } = process;
        let (who, name) = about(&self.root, pid);
        let party = who.map(|who| Party { tenant: tenant_of(tenants, &who), who: Arc::new(who) });
        let tenant = party.as_ref().map(|party| Arc::clone(&party.tenant)).unwrap_or_default();
        let uid = party.as_ref().map(|party| party.who.uid);
        let key = (i32::try_from(pid).unwrap_or(0), device.clone());
        if tenant.unreported != Unreported::Nothing && self.warned.insert(key) {
            warnings.push(format!(
                "process {pid} ({name}) of tenant `{}` uses {device} and is not scheduled",
                tenant.name
            ));
        }
        let driver_permille = permille.map(|permille| permille.min(1_000));
        let tenant = tenant.name.clone();
        (Outsider { pid, uid, name, device, tenant, driver_permille }, party)
    }

    /// Marks clients that use clearly more than they report.
    fn judge(&mut self, findings: &mut Findings, known: &[Known]) {
        let mut got = BTreeMap::<_, (u32, &Arc<Tenant>)>::new();
        for client in known.iter().filter(|client| !client.is_alone) {
            // A process may have several connections.
            let key = (client.pid, client.device.clone());
            let sum = got.entry(key).or_insert((0, &client.tenant));
            sum.0 = sum.0.saturating_add(client.got_permille);
        }
        let mut more = BTreeMap::new();
        for (key, (got_permille, tenant)) in got {
            let Some((permille, is_more)) = findings.clients.get_mut(&key) else { continue };
            if *permille <= got_permille.saturating_add(MORE_PERMILLE) {
                continue;
            }
            let looks = self.more.get(&key).unwrap_or(&0) + 1;
            *is_more = looks >= LOOKS;
            if *is_more
                && tenant.unreported != Unreported::Nothing
                && self.warned.insert(key.clone())
            {
                findings.warnings.push(format!(
                    "process {} of tenant `{}` uses {} for {} % of the time by its driver, and \
                     reports {} %",
                    key.0,
                    tenant.name,
                    key.1,
                    *permille / 10,
                    got_permille / 10
                ));
            }
            more.insert(key, looks);
        }
        self.more = more;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use xsched_node::{ClientStatus, GpuStatus, Status};

    use super::super::Watched;
    use super::*;

    const GPU: &str = "0000:1b:00";

    fn root(space: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("proc/self/ns")).expect("a folder");
        symlink(space, root.path().join("proc/self/ns/pid")).expect("a link");
        let process = root.path().join("proc/9");
        fs::create_dir_all(&process).expect("a folder");
        fs::write(process.join("comm"), "past\u{1b}it\n").expect("a file");
        fs::write(process.join("cgroup"), "0::/kubepods/a\n").expect("a file");
        root
    }

    fn outside() -> tempfile::TempDir {
        root("pid:[4026531836]")
    }

    fn process(pid: u32, permille: u32) -> Process {
        Process { pid, device: GPU.to_owned(), permille: Some(permille) }
    }

    fn seen(permille: u32) -> Seen {
        let gpus = [(GPU.to_owned(), "H200".to_owned())].into();
        Seen { gpus, processes: vec![process(7, permille), process(9, 250)], unknown: vec![] }
    }

    /// A tenant by its cgroup, and what follows for it and for the rest.
    fn tenants(pods: Unreported, rest: Unreported) -> Vec<Arc<Tenant>> {
        let cgroup = Some(glob::Pattern::new("/kubepods/**").expect("a pattern"));
        let name = "pods".to_owned();
        let pods = Tenant { name, cgroup, unreported: pods, ..Tenant::default() };
        vec![pods.into(), Tenant { unreported: rest, ..Tenant::default() }.into()]
    }

    fn known(tenants: &[Arc<Tenant>]) -> Vec<Known> {
        let tenant = Arc::clone(tenants.last().expect("one"));
        vec![Known { pid: 7, device: GPU.to_owned(), got_permille: 300, is_alone: false, tenant }]
    }

    #[test]
    fn processes_that_the_daemon_does_not_know_are_told() {
        let root = outside();
        let tenants = tenants(Unreported::Nothing, Unreported::Nothing);
        let mut comparer = Comparer::new(root.path().to_owned());
        let watched = Watched::default();
        *watched.findings() = comparer.compare(seen(310), &known(&tenants), &tenants);
        let gpu = |device: &str| GpuStatus { device: device.to_owned(), ..GpuStatus::default() };
        let mut told = Status { gpus: vec![gpu("0000:ff:00")], ..Status::default() };
        watched.tell(&mut told, |_| true);
        let [outsider] = &told.outsiders[..] else { panic!("{told:?}") };
        assert_eq!((outsider.pid, outsider.name.as_str()), (9, "pastit"));
        assert_eq!((outsider.device.as_str(), outsider.driver_permille), (GPU, Some(250)));
        assert_eq!(outsider.uid, Some(rustix::process::geteuid().as_raw()));
        assert_eq!(outsider.tenant, "pods");
        assert_eq!((told.gpus[1].device.as_str(), told.gpus[1].name.as_str()), (GPU, "H200"));
        assert_eq!(told.outsiders_unknown.len(), 1, "no driver has the other GPU: {told:?}");
        let device = GPU.to_owned();
        let mut client = ClientStatus { pid: 7, device, ..ClientStatus::default() };
        watched.tell_client(&mut client);
        assert_eq!((client.driver_permille, client.is_understated), (Some(310), false));
        let is_pod = |party: Option<&Party>| party.is_some_and(|p| p.tenant.name != "pods");
        watched.tell(&mut told, is_pod);
        assert_eq!(told.outsiders, []);
    }

    #[test]
    fn one_that_uses_clearly_more_than_it_reports_is_marked_after_some_looks() {
        let (root, tenants) = (outside(), tenants(Unreported::Nothing, Unreported::Nothing));
        let mut comparer = Comparer::new(root.path().to_owned());
        let mut marked = |permille| {
            let findings = comparer.compare(seen(permille), &known(&tenants), &tenants);
            findings.clients[&(7, GPU.to_owned())].1
        };
        assert_eq!([500, 500, 390, 500, 500].map(&mut marked), [false; 5]);
        assert_eq!([500, 500, 400].map(&mut marked), [true, true, false]);
    }

    #[test]
    fn what_one_uses_that_is_alone_is_not_measured() {
        let (root, tenants) = (outside(), tenants(Unreported::Lower, Unreported::Lower));
        let mut comparer = Comparer::new(root.path().to_owned());
        let mut alone = known(&tenants);
        alone[0].is_alone = true;
        for _ in 0..5 {
            let findings = comparer.compare(seen(1_000), &alone, &tenants);
            assert_eq!(findings.clients[&(7, GPU.to_owned())], (1_000, false));
        }
    }

    #[test]
    fn what_several_connections_of_a_process_report_counts_together() {
        let (root, tenants) = (outside(), tenants(Unreported::Nothing, Unreported::Nothing));
        let mut comparer = Comparer::new(root.path().to_owned());
        let twice = [known(&tenants), known(&tenants)].concat();
        for _ in 0..5 {
            let findings = comparer.compare(seen(650), &twice, &tenants);
            assert!(!findings.clients[&(7, GPU.to_owned())].1);
        }
    }

    #[test]
    fn the_log_says_so_once_where_the_tenant_wants_that() {
        let (root, tenants) = (outside(), tenants(Unreported::Warning, Unreported::Lower));
        let mut comparer = Comparer::new(root.path().to_owned());
        let mut warnings = |seen| comparer.compare(seen, &known(&tenants), &tenants).warnings;
        let first = warnings(seen(900));
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(first[0].contains("process 9 (pastit) of tenant `pods`"), "{first:?}");
        assert_eq!(warnings(seen(900)), [""; 0]);
        let third = warnings(seen(900));
        assert!(third[0].contains("90 %") && third[0].contains("30 %"), "{third:?}");
        assert_eq!(warnings(seen(900)), [""; 0]);
        // Another process may have its number once it has gone.
        assert_eq!(warnings(Seen::default()), [""; 0]);
        assert_eq!(warnings(seen(900)).len(), 1);
    }

    #[test]
    fn in_a_container_nothing_is_claimed() {
        let (root, tenants) =
            (root("pid:[4026532000]"), tenants(Unreported::Lower, Unreported::Lower));
        let mut comparer = Comparer::new(root.path().to_owned());
        let findings = comparer.compare(seen(900), &known(&tenants), &tenants);
        assert_eq!((findings.outsiders.len(), findings.clients.len()), (0, 0));
        assert!(findings.unknown[0].contains("namespace"), "{findings:?}");
    }

    #[test]
    fn the_list_is_bounded() {
        let root = outside();
        let processes = (100..1_000).map(|pid| process(pid, 1)).collect();
        let findings = Comparer::new(root.path().to_owned()).compare(
            Seen { processes, ..Seen::default() },
            &[],
            &[],
        );
        assert_eq!(findings.outsiders.len(), OUTSIDERS_MAX);
    }
}
