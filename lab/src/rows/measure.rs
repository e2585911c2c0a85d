//! Answers of programs, put together: times of several processes are joined, and counted in the
//! time in which all were at work.

use std::collections::BTreeMap;

use super::document::{Progress, Samples};
use super::protocol::{Answer, RoleAnswer};

/// Requests of a role whose times are kept at most: a role that decides is to have a few more than
/// a P99 needs, and those that are always busy have ten times as many.
const TIMES_MAX: usize = 1_100;
/// Equal parts of a phase whose rates are kept.
const PARTS: u64 = 20;
/// Timeslices of a window in which parts are measured.
pub(crate) const WINDOW_TIMESLICES: u64 = 20;
/// The timeslice of policies with shares.
const TIMESLICE_NS: u64 = 5_000_000;

/// A phase of all programs of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Phase {
    /// Time that counts: from when all had been at work for a while until the first stopped.
    pub(crate) window_ns: (u64, u64),
    /// Requests of each role, in order of the ends.
    pub(crate) roles: BTreeMap<String, RoleAnswer>,
    /// Processors in use by all programs, in each part of what was measured in several.
    pub(crate) cores: Vec<f64>,
}

impl Phase {
    /// Joins the answers of programs that were told to work for `seconds`, of which the beginning
    /// does not count.
    pub(crate) fn join(
        answers: &[Answer],
        seconds: f64,
        settle_seconds: f64,
    ) -> Result<Self, String> {
        let ns = |seconds: f64| (seconds.max(0.0) * 1e9) as u64;
        let begin = answers.iter().map(|answer| answer.begin_ns).max().unwrap_or(0);
        let stop = |answer: &Answer| answer.begin_ns.saturating_add(ns(seconds));
        let end = answers.iter().map(stop).min().unwrap_or(0);
        // One that the device was kept from until the others had stopped did nothing beside them.
        let first = answers.iter().map(|answer| answer.begin_ns).min().unwrap_or(0);
        let begin = if begin < end { begin } else { first };
        let start = begin.saturating_add(ns(settle_seconds));
        if start >= end {
            return Err("the phase was over before all had settled".to_owned());
        }
        let mut roles = BTreeMap::new();
        for (name, role) in answers.iter().flat_map(|answer| &answer.roles) {
            let role = sorted(role).map_err(|why| format!("role {name}: {why}"))?;
            if roles.insert(name.clone(), role).is_some() {
                return Err(format!("two programs have a role {name}"));
            }
        }
        let cores = answers.iter().map(|answer| {
            let wall = answer.end_ns.saturating_sub(answer.begin_ns).max(1);
            answer.cpu_ns as f64 / wall as f64
        });
        Ok(Self { window_ns: (start, end), roles, cores: vec![cores.sum()] })
    }

    /// Another phase of the same programs follows. Of both, what counts stays.
    pub(crate) fn append(&mut self, other: Self) {
        let (count, from) = (self.window_ns, other.window_ns);
        let by = count.1;
        for (name, role) in &mut self.roles {
            role.retain(count);
            if let Some(mut more) = other.roles.get(name).cloned() {
                more.retain(from);
                role.extend(more, |ns| ns - from.0 + by);
            }
        }
        self.window_ns.1 += from.1 - from.0;
        self.cores.extend(other.cores);
    }

    /// How long what counts took.
    pub(crate) const fn seconds(&self) -> f64 {
        (self.window_ns.1 - self.window_ns.0) as f64 / 1e9
    }

    /// Latencies and progress of a role; `None` if it had no request that counts.
    pub(crate) fn progress(&self, role: &str) -> Option<Progress> {
        self.work(role).filter(|progress| progress.latency.samples > 0)
    }

    /// As [`Self::progress`], of a role that others may have kept from having any requests.
    pub(crate) fn work(&self, role: &str) -> Option<Progress> {
        let (start, end) = self.window_ns;
        let did = self.roles.get(role)?;
        let counts = |&(begin, _): &(u64, u64)| (start..end).contains(&begin);
        let us = |ns: u64| (ns + 500) / 1_000;
        let all = pairs(did).filter(counts).map(|(begin, end)| us(end - begin));
        let times_us = spread(&all.collect::<Vec<u64>>(), TIMES_MAX);
        let at = |part: u64| start + (end - start) / PARTS * part;
        let ended = |part| done(did, at(part + 1)) - done(did, at(part));
        let part_s = (end - start) as f64 / PARTS as f64 / 1e9;
        Some(Progress::from(Samples {
            times_us,
            rates_per_s: (0..PARTS).map(|part| ended(part) / part_s).collect(),
            digest: did.digest.clone(),
            ..tokens(did, self.window_ns)
        }))
    }

    /// The parts of each role in consecutive windows, in percent; a role's work is its requests
    /// over its rate alone.
    pub(crate) fn windows(
        &self,
        alone_per_s: &BTreeMap<String, f64>,
    ) -> BTreeMap<String, Vec<f64>> {
        let (start, end) = self.window_ns;
        let step = WINDOW_TIMESLICES * TIMESLICE_NS;
        let mut parts: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for window in 0..(end - start) / step {
            let from = start + window * step;
            let work = |(name, per_s): (&String, &f64)| {
                let did = self.roles.get(name)?;
                let count = done(did, from + step) - done(did, from);
                Some((name.clone(), count / per_s.max(f64::MIN_POSITIVE)))
            };
            let each: Vec<(String, f64)> = alone_per_s.iter().filter_map(work).collect();
            let sum: f64 = each.iter().map(|(_, work)| work).sum();
            for (name, work) in each {
                let part = if sum > 0.0 { 100.0 * work / sum } else { 0.0 };
                parts.entry(name).or_default().push(part);
            }
        }
        parts
    }
}

impl RoleAnswer {
    /// Forgets requests that did not begin in this time.
    fn retain(&mut self, (start, end): (u64, u64)) {
        let counts: Vec<bool> =
            self.begin_ns.iter().map(|begin| (start..end).contains(begin)).collect();
        for all in [&mut self.begin_ns, &mut self.end_ns, &mut self.first_token_ns] {
            let mut counts = counts.iter();
            all.retain(|_| counts.next().copied().unwrap_or(false));
        }
    }

    /// Takes the requests of another phase at other times.
    fn extend(&mut self, more: Self, at: impl Fn(u64) -> u64 + Copy) {
        self.begin_ns.extend(more.begin_ns.into_iter().map(at));
        self.end_ns.extend(more.end_ns.into_iter().map(at));
        self.first_token_ns.extend(more.first_token_ns.into_iter().map(at));
        self.tokens = self.tokens.zip(more.tokens).map(|(before, new)| before + new);
        if self.digest != more.digest {
            // Equal digests are those of equal results; these are not.
            self.digest = None;
        }
    }
}

fn pairs(role: &RoleAnswer) -> impl Iterator<Item = (u64, u64)> {
    role.begin_ns.iter().copied().zip(role.end_ns.iter().copied())
}

/// Sorts the answer by the ends, if it makes sense.
fn sorted(role: &RoleAnswer) -> Result<RoleAnswer, String> {
    let (begins, ends) = (role.begin_ns.len(), role.end_ns.len());
    if begins != ends {
        return Err(format!("{begins} requests began and {ends} ended"));
    }
    let firsts = role.first_token_ns.len();
    if firsts != 0 && firsts != ends {
        return Err(format!("{ends} requests have {firsts} first tokens"));
    }
    if pairs(role).any(|(begin, end)| end < begin) {
        return Err("a request ended before it began".to_owned());
    }
    let mut order: Vec<usize> = (0..ends).collect();
    order.sort_by_key(|&at| role.end_ns[at]);
    let pick = |from: &[u64]| order.iter().filter_map(|&at| from.get(at).copied()).collect();
    Ok(RoleAnswer {
        begin_ns: pick(&role.begin_ns),
        end_ns: pick(&role.end_ns),
        first_token_ns: pick(&role.first_token_ns),
        ..role.clone()
    })
}

/// Requests of a role that have been done at a moment; of the one that is being done, the part by
/// time since the one before ended.
fn done(role: &RoleAnswer, at: u64) -> f64 {
    let whole = role.end_ns.partition_point(|&end| end <= at);
    let Some(&next) = role.end_ns.get(whole) else { return whole as f64 };
    let begin = role.begin_ns.get(whole).copied().unwrap_or(0);
    let before = whole.checked_sub(1).and_then(|last| role.end_ns.get(last).copied());
    // In a row of requests one is done after the other.
    let from = before.map_or(begin, |before| before.max(begin));
    if at <= from || next <= from {
        return whole as f64;
    }
    whole as f64 + (at - from) as f64 / (next - from) as f64
}

/// At most `most` of the values, at equal distances.
fn spread(all: &[u64], most: usize) -> Vec<u64> {
    let count = all.len().min(most);
    (0..count).filter_map(|n| all.get(n * all.len() / count)).copied().collect()
}

/// Returns what a language model's requests have beside their length.
fn tokens(role: &RoleAnswer, (start, end): (u64, u64)) -> Samples {
    let mut samples = Samples::default();
    let requests = role.end_ns.len().max(1) as f64;
    let Some(per_request) = role.tokens.map(|tokens| tokens as f64 / requests) else {
        return samples;
    };
    let seconds = (end - start) as f64 / 1e9;
    let rate = (done(role, end) - done(role, start)) / seconds * per_request;
    samples.more.insert("tokens_per_s".to_owned(), rate);
    for ((begin, end_ns), &first) in pairs(role).zip(&role.first_token_ns) {
        if (start..end).contains(&begin) {
            samples.first_token_us.push(first.saturating_sub(begin) / 1_000);
            let others = (per_request - 1.0).max(1.0);
            samples.per_token_us.push((end_ns.saturating_sub(first) as f64 / others / 1e3) as u64);
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn role(requests: impl IntoIterator<Item = (u64, u64)>) -> RoleAnswer {
        let (begin_ns, end_ns) =
            requests.into_iter().map(|(begin, end)| (begin * MS, end * MS)).unzip();
        RoleAnswer { begin_ns, end_ns, ..RoleAnswer::default() }
    }

    fn answer(begin_ms: u64, name: &str, role: RoleAnswer) -> Answer {
        Answer {
            phase: 1,
            begin_ns: begin_ms * MS,
            end_ns: (begin_ms + 1_000) * MS,
            cpu_ns: 250 * MS,
            counts: None,
            roles: [(name.to_owned(), role)].into(),
        }
    }

    #[test]
    fn only_the_time_in_which_all_are_at_work_counts() {
        let every = |ms: u64| (0..2_000 / ms).map(move |n| (n * ms, (n + 1) * ms));
        let answers = [answer(0, "a", role(every(10))), answer(200, "b", role(every(20)))];
        let phase = Phase::join(&answers, 1.0, 0.1).unwrap();
        assert_eq!(phase.window_ns, (300 * MS, 1_000 * MS));
        assert_eq!(phase.cores, [0.5]);
        let a = phase.progress("a").unwrap();
        assert!(a.latency.samples == 70 && (a.latency.max_us - 10_000.0).abs() < 1.0);
        assert!((a.rate_per_s - 100.0).abs() < 1e-9, "{}", a.rate_per_s);
        assert!((phase.progress("b").unwrap().rate_per_s - 50.0).abs() < 1e-9);
        assert_eq!(phase.progress("c"), None);
        assert!(Phase::join(&answers, 1.0, 0.9).is_err());
    }

    #[test]
    fn one_that_began_when_the_others_had_stopped_did_nothing_beside_them() {
        let every_10_ms = |from: u64| role((from..from + 100).map(|n| (n * 10, (n + 1) * 10)));
        let answers = [answer(0, "a", every_10_ms(0)), answer(1_000, "b", every_10_ms(100))];
        let phase = Phase::join(&answers, 1.0, 0.1).unwrap();
        assert_eq!(phase.window_ns, (100 * MS, 1_000 * MS));
        assert!((phase.progress("a").unwrap().rate_per_s - 100.0).abs() < 1e-9);
        assert_eq!(phase.progress("b"), None);
        let b = phase.work("b").unwrap();
        assert!(b.rate_per_s == 0.0 && b.samples.times_us.is_empty());
        assert_eq!(b.samples.rates_per_s, [0.0; PARTS as usize]);
    }

    #[test]
    fn a_phase_that_goes_on_has_the_requests_of_both_that_count() {
        let every = |ms: u64| role((0..1_000 / ms).map(move |n| (n * ms, (n + 1) * ms)));
        let of = |ms| Phase::join(&[answer(0, "a", every(ms))], 1.0, 0.2).unwrap();
        let mut phase = of(10);
        phase.append(of(20));
        assert_eq!(phase.window_ns, (200 * MS, 1_800 * MS));
        let progress = phase.progress("a").unwrap();
        assert_eq!(progress.latency.samples, 80 + 40);
        assert!((progress.rate_per_s - 120.0 / 1.6).abs() < 1.5, "{}", progress.rate_per_s);
        assert!((phase.seconds() - 1.6).abs() < 1e-9 && phase.cores == [0.25; 2]);
    }

    #[test]
    fn times_that_contradict_each_other_are_refused() {
        let of = |role| Phase::join(&[answer(0, "a", role)], 1.0, 0.0).map(|_| ());
        assert!(of(role([(2, 1)])).unwrap_err().contains("before it began"));
        let begun = RoleAnswer { begin_ns: vec![1, 2], end_ns: vec![3], ..RoleAnswer::default() };
        assert!(of(begun).unwrap_err().contains("2 requests began and 1 ended"));
        let firsts = RoleAnswer { first_token_ns: vec![1], ..RoleAnswer::default() };
        assert!(of(firsts).is_err());
        let twice = [answer(0, "a", role([])), answer(0, "a", role([]))];
        assert!(Phase::join(&twice, 1.0, 0.0).unwrap_err().contains("two programs"));
    }

    #[test]
    fn a_p99_needs_a_thousand_requests() {
        let count = |count: u64| {
            let role = role((0..count).map(|n| (n, n + 1)));
            let joined = Phase::join(&[answer(0, "a", role)], 2.0, 0.0).unwrap();
            joined.progress("a").unwrap().latency.p99_us
        };
        assert_eq!(count(999), None);
        assert!(count(1_000).is_some());
    }

    #[test]
    fn a_request_that_is_being_done_counts_by_its_part() {
        let role = role([(0, 10), (10, 30), (35, 45)]);
        let at = |ms: u64| done(&role, ms * MS);
        let all = [at(0), at(5), at(10), at(15), at(30), at(33), at(40), at(99)];
        assert_eq!(all, [0.0, 0.5, 1.0, 1.25, 2.0, 2.0, 2.5, 3.0]);
    }

    #[test]
    fn parts_are_of_what_each_has_alone() {
        // The first does 10 ms of work in each 20 ms, the second 5 ms, which is 2 requests.
        let first = role((0..50).map(|n| (n * 20, (n + 1) * 20)));
        let second = role((0..100).map(|n| (n * 10, (n + 1) * 10)));
        let answers = [answer(0, "a", first), answer(0, "b", second)];
        let phase = Phase::join(&answers, 1.0, 0.0).unwrap();
        let alone = [("a".to_owned(), 100.0), ("b".to_owned(), 400.0)].into();
        let windows = phase.windows(&alone);
        assert_eq!(windows["a"].len(), 10);
        assert!(windows["a"].iter().all(|part| (part - 100.0 * 2.0 / 3.0).abs() < 1e-9));
        assert!(windows["b"].iter().all(|part| (part - 100.0 / 3.0).abs() < 1e-9));
    }

    #[test]
    fn of_many_requests_some_are_kept_from_the_whole_phase() {
        let many: Vec<u64> = (0..5_000).collect();
        let kept = spread(&many, TIMES_MAX);
        assert_eq!((kept.len(), kept[0], kept[TIMES_MAX - 1]), (TIMES_MAX, 0, 4_995));
        assert_eq!(spread(&many[..3], TIMES_MAX), [0, 1, 2]);
        assert!(spread(&[], TIMES_MAX).is_empty());
    }

    #[test]
    fn tokens_are_counted_and_the_first_is_told_from_the_others() {
        let talk = RoleAnswer {
            first_token_ns: (0..100).map(|n| (n * 10 + 4) * MS).collect(),
            tokens: Some(400),
            ..role((0..100).map(|n| (n * 10, (n + 1) * 10)))
        };
        let phase = Phase::join(&[answer(0, "a", talk)], 1.0, 0.0).unwrap();
        let samples = phase.progress("a").unwrap().samples;
        assert!((samples.more["tokens_per_s"] - 400.0).abs() < 1e-6, "{samples:?}");
        assert_eq!(samples.first_token_us, [4_000; 100]);
        assert_eq!(samples.per_token_us, [2_000; 100]);
    }
}
