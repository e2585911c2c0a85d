//! Facts that must not leave a machine: who uses it, what it is called, where it is and which one
//! of its kind it is.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde_json::Value;

/// Names that many machines and accounts have, and words that reports consist of.
const COMMON: [&str; 23] = [
    "root",
    "user",
    "admin",
    "ubuntu",
    "debian",
    "fedora",
    "rocky",
    "localhost",
    "host",
    "node",
    "gpu",
    "amd",
    "nvidia",
    "rocm",
    "hip",
    "kfd",
    "cuda",
    "xsched",
    "bench",
    "raw",
    "test",
    "linux",
    "kernel",
];
/// Names that are shorter would be found in the middle of other things.
const SHORTEST: usize = 3;
/// Numbers of people's accounts.
const ACCOUNTS: std::ops::Range<u32> = 1_000..60_000;
/// Folders that are the same on all machines.
const SYSTEM: [&str; 11] = [
    "/dev",
    "/sys",
    "/proc",
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc",
    "/boot",
    "/opt/rocm",
];
/// A path that is taken out leaves the name of its file if that ends like this.
const KEPT: [&str; 11] =
    [".so", ".hsaco", ".json", ".jsonl", ".svg", ".txt", ".toml", ".md", ".html", ".py", ".ptx"];
/// Files with numbers of this machine alone, below its root.
const NUMBERS: [&str; 6] = [
    "etc/machine-id",
    "var/lib/dbus/machine-id",
    "sys/class/dmi/id/product_uuid",
    "sys/class/dmi/id/product_serial",
    "sys/class/dmi/id/board_serial",
    "sys/class/dmi/id/chassis_serial",
];
/// Files of a graphics card with numbers of its own.
const CARD_NUMBERS: [&str; 2] = ["unique_id", "serial_number"];
/// Shorter numbers are not unique.
const NUMBER_MIN: usize = 6;
/// Characters at which a path in a text ends.
const PATH_END: &[char] =
    &['"', '\'', '`', ',', ';', ':', '(', ')', '[', ']', '{', '}', '<', '>', '|', '\\'];

/// Names and addresses that are known to be private on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Private {
    /// Names of the machine and of those who use it, in lower case, and what stands for them.
    names: Vec<(String, &'static str)>,
    /// Folders, the longest first.
    folders: Vec<String>,
    /// Numbers of which there is one in the world.
    numbers: Vec<String>,
}

impl Private {
    /// Collects what is private here, these folders among it.
    pub(super) fn here(folders: &[&Path]) -> Self {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut private = Self::of(Path::new("/"), |name| env::var(name).ok(), &[&node]);
        let absolute = folders.iter().filter_map(|folder| fs::canonicalize(folder).ok());
        let mut all: Vec<_> = absolute.chain(folders.iter().map(|&path| path.to_owned())).collect();
        all.extend(env::current_dir());
        all.extend(env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())));
        private.add_folders(all.iter().map(|path| path.display().to_string()));
        private
    }

    /// Collects it from files below a root folder, the environment and the names of the machine.
    fn of(root: &Path, variable: impl Fn(&str) -> Option<String>, nodes: &[&str]) -> Self {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let mut private = Self::default();
        let hosts = nodes.iter().map(|&node| node.to_owned());
        let hosts = hosts.chain([read(&root.join("etc/hostname"))]).chain(variable("HOSTNAME"));
        for host in hosts {
            private.add_name(host.split('.').next().unwrap_or_default(), "[host]");
            private.add_name(&host, "[host]");
        }
        for name in ["USER", "LOGNAME", "SUDO_USER"] {
            private.add_name(&variable(name).unwrap_or_default(), "[user]");
        }
        let mut homes: Vec<String> = variable("HOME").into_iter().collect();
        for line in read(&root.join("etc/passwd")).lines() {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, number, _, about, home, ..] = *fields else { continue };
            if number.parse().is_ok_and(|number: u32| ACCOUNTS.contains(&number)) {
                private.add_name(name, "[user]");
                private.add_name(about.split(',').next().unwrap_or_default(), "[user]");
                homes.push(home.to_owned());
            }
        }
        private.add_folders(homes);
        let mut files: Vec<_> = NUMBERS.map(|file| root.join(file)).into();
        let cards = fs::read_dir(root.join("sys/class/drm")).into_iter().flatten().flatten();
        for card in cards {
            files.extend(CARD_NUMBERS.map(|file| card.path().join("device").join(file)));
        }
        let mut numbers: BTreeSet<String> = files.iter().map(|file| read(file)).collect();
        let nodes = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes"));
        for node in nodes.into_iter().flatten().flatten() {
            let properties = read(&node.path().join("properties"));
            let pairs = properties.lines().filter_map(|line| line.split_once(' '));
            let own = pairs.filter(|(key, _)| *key == "unique_id").map(|(_, value)| value.trim());
            numbers.extend(own.map(str::to_owned));
        }
        private.numbers = numbers.into_iter().filter(|n| n.len() >= NUMBER_MIN).collect();
        private
    }

    fn add_name(&mut self, name: &str, stands: &'static str) {
        let name = name.trim().to_lowercase();
        let known = self.names.iter().any(|(known, _)| *known == name);
        if name.len() >= SHORTEST && !known && !COMMON.contains(&name.as_str()) {
            self.names.push((name, stands));
            // A name that is part of another one must not be taken out first.
            self.names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        }
    }

    fn add_folders(&mut self, folders: impl IntoIterator<Item = String>) {
        let system = |folder: &str| is_below(folder, &SYSTEM) || folder.len() < 2;
        let own = folders.into_iter().filter(|folder| folder.starts_with('/') && !system(folder));
        self.folders.extend(own.map(|folder| folder.trim_end_matches('/').to_owned()));
        self.folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
        self.folders.dedup();
    }

    /// Returns what is looked for by name, for people.
    pub(super) fn looked_for(&self) -> Vec<&str> {
        let names = self.names.iter().map(|(name, _)| name.as_str());
        names.chain(self.folders.iter().chain(&self.numbers).map(String::as_str)).collect()
    }

    /// The text of a file without what is private. JSON, and lines of JSON, stay what they are:
    /// only the texts in them change.
    pub(super) fn clean_file(&self, name: &str, text: &str) -> String {
        let clean = |line: &str| match serde_json::from_str(line) {
            Ok(mut value) => {
                self.clean_value(&mut value);
                value.to_string()
            }
            Err(_) => self.clean(line),
        };
        if name.ends_with(".jsonl") {
            return text.lines().map(|line| clean(line) + "\n").collect();
        }
        if name.ends_with(".json") { clean(text) } else { self.clean(text) }
    }

    fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.clean(text),
            Value::Array(all) => all.iter_mut().for_each(|value| self.clean_value(value)),
            Value::Object(all) => all.values_mut().for_each(|value| self.clean_value(value)),
            Value::Number(number) if self.numbers.contains(&number.to_string()) => {
                *value = Value::Null;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The text with what is private replaced by words in brackets.
    pub(super) fn clean(&self, text: &str) -> String {
        let numbers = self.numbers.iter();
        let text = numbers.fold(text.to_owned(), |text, number| text.replace(number, "[number]"));
        let folders = self.folders.iter();
        let text = folders.fold(text, |text, folder| text.replace(folder.as_str(), "[folder]"));
        let text = without_addresses(&without_paths(&text));
        self.names.iter().fold(text, |text, (name, stands)| without_name(&text, name, stands))
    }
}

/// Returns whether a path is one of these folders or below one. A path that begins like ROCm's,
/// with a version behind it, is ROCm's.
fn is_below(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| {
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with("-"))
    })
}

/// The text without absolute paths of other folders than the system's.
fn without_paths(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let begins = out
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || ("\"'`=:,;([{|").contains(c));
        let end = from.find(|c: char| c.is_whitespace() || PATH_END.contains(&c));
        let (path, after) = from.split_at(end.unwrap_or(from.len()));
        let is_url = path.starts_with("//");
        let is_path = path.len() > 1 && path.chars().any(char::is_alphanumeric);
        if begins && is_path && !is_url && !is_below(path, &SYSTEM) {
            out.push_str("[path]");
            let name = path.rsplit('/').next().unwrap_or_default();
            if KEPT.iter().any(|ending| name.ends_with(ending)) {
                out.push('/');
                out.push_str(name);
            }
        } else {
            out.push_str(path);
        }
        rest = after;
    }
    out + rest
}

/// The text without addresses of networks, and without numbers in the form of a UUID.
fn without_addresses(text: &str) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || ":.-%_".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(part) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (token, after) = from.split_at(from.find(|c| !part(c)).unwrap_or(from.len()));
        let word = token.trim_end_matches(['.', ':', '-']);
        match what_address(word) {
            Some(stands) => out.extend([stands, &token[word.len()..]]),
            None => out.push_str(&without_uuid(token)),
        }
        rest = after;
    }
    out + rest
}

/// Returns the placeholder for a word that is an address.
fn what_address(word: &str) -> Option<&'static str> {
    let plain = word.split('%').next().unwrap_or_default();
    let colons = plain.matches(':').count();
    let is_ip = match plain.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => true,
        Ok(IpAddr::V6(_)) => colons >= 2 && plain.bytes().any(|byte| byte.is_ascii_digit()),
        Err(_) => plain.parse::<SocketAddr>().is_ok(),
    };
    if is_ip {
        return Some("[address]");
    }
    let pairs: Vec<&str> = plain.split([':', '-']).collect();
    let is_pair = |pair: &&str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    (pairs.len() == 6 && pairs.iter().all(is_pair)).then_some("[address]")
}

/// The word without a UUID in it.
fn without_uuid(word: &str) -> String {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_uuid = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        let hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        parts.iter().map(|part| part.len()).eq(LENGTHS) && parts.iter().all(hex)
    };
    let length = LENGTHS.iter().sum::<usize>() + LENGTHS.len() - 1;
    let starts = 0..(word.len() + 1).saturating_sub(length);
    let found = starts.into_iter().find(|&at| word.get(at..at + length).is_some_and(is_uuid));
    match found {
        Some(at) => format!("{}[number]{}", &word[..at], without_uuid(&word[at + length..])),
        None => word.to_owned(),
    }
}

/// The text without a name, in whatever case, where it is a word of its own.
fn without_name(text: &str, name: &str, stands: &str) -> String {
    let lower = text.to_lowercase();
    // Where lower case has another length, positions are not the same.
    let (seen, whole) =
        if lower.len() == text.len() { (lower, text) } else { (text.to_owned(), text) };
    let mut out = String::with_capacity(whole.len());
    let mut done = 0;
    for (at, found) in seen.match_indices(name) {
        let end = at + found.len();
        let beside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let within = beside(seen[..at].chars().next_back()) || beside(seen[end..].chars().next());
        let (Some(before), false) = (whole.get(done..at), within) else { continue };
        out.extend([before, stands]);
        done = end;
    }
    out + whole.get(done..).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine with everything that is private, and the texts that must not be found.
    pub(in crate::commands::all) fn machine() -> (Private, Vec<&'static str>) {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("etc/hostname", "zebra17.example.net\n");
        let passwd = "root:x:0:0::/root:/bin/sh\n\
                      marlene:x:1000:1000:Marlene Dietrich,,,:/home/marlene:/bin/sh\n";
        put("etc/passwd", passwd);
        put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        put("sys/class/dmi/id/product_serial", "QX7-SERIAL-99\n");
        put("sys/class/drm/card0/device/unique_id", "b0a1c2d3e4f50617\n");
        let properties = "simd_count 320\nunique_id 12712345678901234567\n";
        put("sys/class/kfd/kfd/topology/nodes/1/properties", properties);
        let variables = |name: &str| match name {
            "HOME" => Some("/data/users/mdietrich".to_owned()),
            "USER" => Some("mdietrich".to_owned()),
            _ => None,
        };
        let private = Private::of(root.path(), variables, &["zebra17"]);
        let secrets = vec![
            "zebra17",
            "example.net",
            "marlene",
            "Marlene",
            "Dietrich",
            "/data/users",
            "/home/",
            "/scratch/",
            "0123456789abcdef0123456789abcdef",
            "QX7-SERIAL-99",
            "b0a1c2d3e4f50617",
            "12712345678901234567",
            "10.20.30.40",
            "fe80::1234:5678",
            "52:54:00:ab:cd:ef",
            "3f2b8a60-1c2d-4e5f-8a9b-0c1d2e3f4a5b",
        ];
        (private, secrets)
    }

    /// A text with all of that in it.
    pub(in crate::commands::all) const TOLD: &str = "mdietrich@zebra17.example.net (ZEBRA17) ran /data/users/mdietrich/My Files/run.json and \
         LD_PRELOAD=/home/marlene/lib/libxsched_kfd_watch.so:/scratch/secret/plan9 as Marlene \
         Dietrich, marlene_train.py on 10.20.30.40:8080, [fe80::1234:5678], 52:54:00:ab:cd:ef., \
         GPU-3f2b8a60-1c2d-4e5f-8a9b-0c1d2e3f4a5b, id 0123456789abcdef0123456789abcdef, serial \
         QX7-SERIAL-99, b0a1c2d3e4f50617 and 12712345678901234567";

    #[test]
    fn nothing_that_is_private_is_left_in_a_text() {
        let (private, secrets) = machine();
        let cleaned = private.clean(TOLD);
        for secret in secrets {
            assert!(TOLD.contains(secret), "{secret}");
            assert!(!cleaned.contains(secret), "{secret}: {cleaned}");
        }
        assert!(cleaned.contains("libxsched_kfd_watch.so"), "{cleaned}");
    }

    #[test]
    fn what_a_report_needs_stays_as_it_is() {
        let (private, _) = machine();
        for text in [
            "AMD Instinct MI308X, PCI 0000:01:00.0, HIP 7.2.53211, KFD 1.17, 6.12.12-2194681",
            "2026-11-25T13:16:43Z, 12:34:56, 8.3.1-graphs and 5.2-kernels",
            "raw/interrupt.jsonl, /dev/kfd, /sys/module/amdgpu/parameters/cwsr_enable is 1",
            "/opt/rocm-7.2/lib/libamdhip64.so.7 at /usr/lib: 12.5 requests/s, 3 / 4",
            "xsched::Error at lv3: 1.5 µs, </svg> http://www.w3.org/2000/svg",
            "a zebra171 and a submarlene are other words",
        ] {
            assert_eq!(private.clean(text), text);
        }
    }

    #[test]
    fn json_stays_json_and_its_keys_and_numbers_stay() {
        let (private, secrets) = machine();
        let document = serde_json::json!({
            "marlene": 12.5, "told": [TOLD], "id": 12_712_345_678_901_234_567_u64, "n": 123_456_789
        });
        let text = private.clean_file("a.json", &document.to_string());
        let cleaned: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&cleaned["n"], &cleaned["id"]), (&123_456_789.into(), &Value::Null));
        let told = cleaned["told"].to_string();
        assert!(secrets.iter().all(|secret| !told.contains(secret)), "{told}");
        let lines = private.clean_file("a.jsonl", &format!("{document}\n{document}\n"));
        assert!(lines.lines().count() == 2 && !lines.contains("zebra"), "{lines}");
    }

    #[test]
    fn common_names_are_no_secret() {
        let private = Private::of(Path::new("/nowhere"), |_| Some("root".into()), &["localhost"]);
        assert_eq!(private.looked_for(), Vec::<&str>::new());
        assert!(!Private::here(&[Path::new("/tmp")]).folders.is_empty(), "where this runs");
    }
}
