//! The floor of lower priorities, on a device that runs what may run in turns of a millisecond.

use super::*;
use crate::hint::PolicyHint;

const STEP: Duration = Duration::from_ms(1);

/// Work that ran in a span of time.
#[derive(Debug, Default)]
struct Ran {
    /// Steps of each queue.
    steps: Vec<u64>,
    /// Steps in which the highest queue had work and was held, and how often such a time began.
    late: u64,
    slices: u64,
}

impl Rig {
    fn with_floor(permille: u16) -> Self {
        let mut rig = Self::hpf();
        assert!(rig.s.hint_policy(PolicyHint::Floor(permille)));
        rig
    }

    /// Lets the device run for some steps. `works`: whether the highest queue, which is the last,
    /// has work in a step. The others always have.
    fn run(&mut self, steps: u64, mut works: impl FnMut(u64) -> bool) -> Ran {
        let mut ran =
            Ran { steps: Vec::from_iter(self.reports.iter().map(|_| 0)), ..Ran::default() };
        let (before, top) = (self.s.stats().slices, self.reports.len() - 1);
        for step in 0..steps {
            let high = self.reports[top].0;
            match (works(step), self.reports[top].1.pending()) {
                (true, false) => self.submit(high, 1_000_000),
                (false, true) => self.drain(high),
                _ => {}
            }
            self.s.handle_timeout(self.now);
            self.orders();
            self.acknowledge();
            let may_run: Vec<usize> = (0..=top)
                .filter(|&at| self.reports[at].1.pending() && self.running(self.reports[at].0))
                .collect();
            let turn = step as usize % may_run.len().max(1);
            if let Some(&at) = may_run.get(turn) {
                ran.steps[at] += 1;
                let report = &mut self.reports[at].1;
                (report.retired, report.launched) = (report.retired + 1, report.retired + 1);
                report.busy += STEP;
            }
            let is_late = self.reports[top].1.pending() && !may_run.contains(&top);
            ran.late += u64::from(is_late);
            self.now += STEP;
        }
        ran.slices = self.s.stats().slices - before;
        ran
    }
}

/// Low queues that always have work, and a high one without.
fn rig(permille: u16, low: &[i32]) -> Rig {
    let mut rig = Rig::with_floor(permille);
    for &priority in low {
        let queue = rig.attach(priority);
        rig.submit(queue, 1_000_000);
    }
    rig.attach(9);
    rig
}

#[test]
fn below_one_that_never_pauses_the_others_keep_their_share() {
    for permille in [20, 50, 200, 500] {
        let mut rig = rig(permille, &[1]);
        let ran = rig.run(60_000, |_| true);
        let share = ran.steps[0] * 1_000 / 60_000;
        let wanted = u64::from(permille);
        assert!(
            (wanted - wanted / 20..=wanted + wanted / 20).contains(&share),
            "{permille} {ran:?}"
        );
        assert!(ran.slices <= 61, "one in a second: {ran:?}");
        assert_eq!(ran.late, ran.steps[0], "slices are used");
    }
}

#[test]
fn without_a_floor_they_starve() {
    let ran = rig(0, &[1]).run(10_000, |_| true);
    assert_eq!((ran.steps[0], ran.slices), (0, 0));
}

#[test]
fn pauses_pay() {
    // One step in ten is a pause, more than the share.
    let ran = rig(50, &[1]).run(20_000, |step| step % 10 != 0);
    assert_eq!((ran.slices, ran.late), (0, 0), "{ran:?}");
    // One in forty is half of it: slices bring the rest.
    let ran = rig(50, &[1]).run(40_000, |step| step % 40 != 0);
    let share = ran.steps[0] * 1_000 / 40_000;
    assert!((45..=55).contains(&share) && ran.slices <= 25, "{ran:?}");
}

#[test]
fn all_lower_priorities_run_in_a_slice() {
    let ran = rig(50, &[1, 5]).run(20_000, |_| true);
    let together = (ran.steps[0] + ran.steps[1]) * 1_000 / 20_000;
    assert!((45..=55).contains(&together) && ran.steps[0] > 300, "{ran:?}");
}

#[test]
fn what_is_not_used_is_gone() {
    let mut rig = rig(50, &[1]);
    rig.s.hint_policy(PolicyHint::Stall(None));
    let low = rig.reports[0].0;
    // It has work and never uses the device.
    let mut late = 0;
    rig.run(1, |_| true);
    for _ in 0..20_000 {
        rig.s.handle_timeout(rig.now);
        rig.orders();
        late += u64::from(rig.running(low));
        let high = rig.reports[1].0;
        rig.report(high, |r| (r.retired, r.launched) = (r.retired + 1, r.retired + 1));
        rig.now += STEP;
    }
    assert!((950..=1_050).contains(&late), "{late} of 20,000");
}

#[test]
fn one_that_must_not_run_does_not() {
    let ran = rig(50, &[-256]).run(10_000, |_| true);
    assert_eq!((ran.steps[0], ran.slices), (0, 0));
}

#[test]
fn slices_end_with_the_share_and_with_the_policy() {
    let mut rig = rig(500, &[1]);
    while rig.s.stats().slices == 0 {
        rig.run(1, |_| true);
    }
    let (low, high) = (rig.reports[0].0, rig.reports[1].0);
    assert!(rig.running(low) && !rig.running(high));
    assert!(!rig.s.hint_policy(PolicyHint::Floor(501)), "out of range");
    assert!(rig.running(low));
    assert!(rig.s.hint_policy(PolicyHint::Floor(0)));
    rig.orders();
    assert!(!rig.running(low) && rig.running(high));
    // Under a policy that does not go by priority there are none.
    rig.s.hint_policy(PolicyHint::Floor(500));
    rig.puppet.0.borrow_mut().hpf = false;
    rig.say(low, HOLD);
    let before = rig.s.stats().slices;
    let ran = rig.run(5_000, |_| true);
    assert_eq!((rig.s.stats().slices, ran.steps[1]), (before, 5_000));
}

#[test]
fn devices_do_not_pay_for_each_other() {
    let mut rig = Rig::with_floor(50);
    let on = |device| Attach { device: DeviceId(device), ..Attach::default() };
    let lows = [0, 1].map(|device| rig.attach_as(Attach { hints: hints(1), ..on(device) }));
    let high = rig.attach_as(Attach { hints: hints(9), ..on(0) });
    for queue in [lows[0], lows[1], high] {
        rig.submit(queue, 1_000_000);
    }
    let ran = rig.run(20_000, |_| true);
    assert!((900..=1_100).contains(&ran.steps[0]), "{ran:?}");
    assert!(ran.steps[1] > 6_000, "the other device is never held: {ran:?}");
}
