//! Commits: a large one says why in a body.

use std::path::Path;
use std::process::Command;

use super::Finding;

/// The file whose first commit begins the history that is checked.
const SINCE: &str = "xtask/src/tidy/history.rs";
const LINES_WITHOUT_BODY_MAX: usize = 100;
/// Files that are not written by hand.
const LEFT_OUT: [&str; 2] = ["Cargo.lock", "benches/results/"];
/// How `git log` shows a commit: a mark, its name, when it was written, and its body.
const FORMAT: &str = "--format=%x01%h%x00%at%x00%b%x00";

/// Findings of the commits since the rule is there; none outside of a repository, or in one without
/// the history.
pub(super) fn check(root: &Path) -> Vec<Finding> {
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let first = git(&["log", "--diff-filter=A", "--format=%H %at", "--", SINCE]);
    let Some(first) = first.as_deref().and_then(|text| text.lines().last()) else {
        return Vec::new();
    };
    let (commit, written_s) = first.split_once(' ').unwrap_or((first, ""));
    let range = format!("{commit}..HEAD");
    let log = git(&["log", "--no-merges", "--numstat", FORMAT, &range]).unwrap_or_default();
    find(&log, written_s.parse().unwrap_or(0))
}

/// Large commits of a log without a body, of those written after `since_s`.
fn find(log: &str, since_s: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for commit in log.split('\u{1}').skip(1) {
        let [name, written_s, body, files] = fields(commit);
        let lines: usize = files.lines().map(changed).sum();
        let is_new = written_s.parse::<u64>().is_ok_and(|written_s| written_s > since_s);
        if is_new && body.trim().is_empty() && lines > LINES_WITHOUT_BODY_MAX {
            let message = format!(
                "commit {name} changes {lines} lines without a body that says why; \
                 `git commit --amend` or `git rebase` adds one"
            );
            findings.push(Finding::new(SINCE, 1, "commit-body", message));
        }
    }
    findings
}

/// The four fields of a commit; those that are missing are empty.
fn fields(commit: &str) -> [&str; 4] {
    let mut parts = commit.splitn(4, '\0');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// The lines that a line of `--numstat` counts: added and deleted.
fn changed(line: &str) -> usize {
    let mut parts = line.split('\t');
    let mut count = || parts.next().and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(0);
    let lines = count() + count();
    let path = parts.next().unwrap_or_default();
    if LEFT_OUT.iter().any(|out| path.starts_with(out)) { 0 } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(name: &str, written_s: u64, body: &str, files: &str) -> String {
        format!("\u{1}{name}\0{written_s}\0{body}\0\n\n{files}\n")
    }

    #[test]
    fn a_large_commit_without_a_body_is_found() {
        let files = "60\t41\tcore/src/lib.rs\n5000\t0\tCargo.lock";
        let log = [
            commit("a", 20, "", files),
            commit("b", 20, "Why.\n", files),
            commit("c", 20, "", "60\t40\tcore/src/lib.rs\n9\t9\tbenches/results/a.json"),
            commit("d", 10, "", files),
            commit("e", 20, "", "-\t-\tpicture.png"),
        ];
        let findings = find(&log.concat(), 10);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.starts_with("commit a changes 101 lines"), "{findings:?}");
    }

    #[test]
    fn outside_of_a_repository_nothing_is_found() {
        assert!(check(Path::new("/")).is_empty());
    }
}
