//! Tests of the wrappers, on the no-op device and on a scripted one.

use std::cell::RefCell;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::queue::Outcome;
use crate::time::Duration;

/// A half that answers what it was told to, and remembers what it was asked.
#[derive(Default)]
struct Script {
    launches: Vec<(u64, bool)>,
    fences: Vec<u64>,
    refuse: bool,
    completions: Vec<Retired>,
    steps: Vec<Step>,
    answers: Vec<Result<StepDone, Fault>>,
    polls: Vec<Result<Option<StepDone>, Fault>>,
}

impl ErrorType for Script {
    type Error = Fault;
}

impl Submit for Script {
    type Payload = ();

    fn launch(&mut self, cmd: CmdId, (): &(), fence: bool) -> Result<(), Fault> {
        self.launches.push((cmd.0, fence));
        if self.refuse { Err(Fault::Launch) } else { Ok(()) }
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
        self.fences.push(upto.0);
        if self.refuse { Err(Fault::Launch) } else { Ok(()) }
    }
}

impl Retire for Script {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        if self.refuse {
            return Err(Fault::DeviceLost);
        }
        Ok((!self.completions.is_empty()).then(|| self.completions.remove(0)))
    }
}

impl Steps for Script {
    fn level(&self) -> Level {
        Level::Interrupt
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        self.steps.push(step);
        if self.answers.is_empty() { Ok(StepDone::Now(None)) } else { self.answers.remove(0) }
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        if self.polls.is_empty() { Ok(None) } else { self.polls.remove(0) }
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        if self.refuse { Err(Fault::DeviceLost) } else { Ok(Some(!self.steps.is_empty())) }
    }
}

fn retired(cmd: u64) -> Retired {
    Retired { upto: CmdId(cmd), busy: Duration::from_us(10), outcome: Outcome::Ok }
}

fn failed(cmd: u64, from: u64) -> Retired {
    let outcome = Outcome::Failed { from: CmdId(from), fault: Fault::Execution };
    Retired { outcome, ..retired(cmd) }
}

mod noop {
    use super::*;

    #[test]
    fn commands_complete_as_soon_as_they_are_fenced() {
        let queues = [NoopQueue::default()];
        let mut device: Noop<'_> = Noop::new(&queues);
        let Halves { mut submit, mut retire, caps, .. } =
            device.open(QueueId::default(), ()).unwrap();
        assert_eq!(caps.level, Level::Interrupt);
        submit.launch(CmdId(0), &(), false).unwrap();
        assert_eq!(retire.poll_retired(), Ok(None), "without a fence it is not reported");
        submit.launch(CmdId(1), &(), true).unwrap();
        assert_eq!(retire.poll_retired().unwrap().unwrap().upto, CmdId(1));
        assert_eq!(retire.poll_retired(), Ok(None));
        submit.launch(CmdId(2), &(), false).unwrap();
        submit.fence(CmdId(2)).unwrap();
        assert_eq!(retire.poll_retired().unwrap().unwrap().upto, CmdId(2));
    }

    #[test]
    fn nothing_completes_while_held() {
        let queues = [NoopQueue::default()];
        let mut device: Noop<'_> = Noop::new(&queues);
        let Halves { mut submit, mut retire, mut preempt, .. } =
            device.open(QueueId::default(), ()).unwrap();
        assert_eq!(preempt.level(), Level::Interrupt);
        for step in [Step::Deactivate, Step::Interrupt] {
            assert_eq!(preempt.step(step), Ok(StepDone::Now(None)));
        }
        submit.launch(CmdId(0), &(), true).unwrap();
        assert_eq!(retire.poll_retired(), Ok(None));
        for step in [Step::Restore, Step::Reactivate] {
            assert_eq!(preempt.step(step), Ok(StepDone::Now(None)));
        }
        assert_eq!(retire.poll_retired().unwrap().unwrap().upto, CmdId(0));
        assert_eq!(preempt.poll_step(), Ok(None));
        assert_eq!(device.commit(), Ok(()));
    }

    #[test]
    fn it_opens_as_many_queues_as_it_has() {
        let queues = [NoopQueue::default(), NoopQueue::default()];
        let mut device: Noop<'_> = Noop::new(&queues);
        assert!(device.open(QueueId::default(), ()).is_ok());
        assert!(device.open(QueueId::default(), ()).is_ok());
        let error = device.open(QueueId::default(), ()).unwrap_err();
        assert_eq!((error, error.kind()), (NoMoreQueues, Fault::NotSupported));
    }
}

mod adapter {
    use super::*;

    struct Gate(Vec<&'static str>);

    impl ErrorType for Gate {
        type Error = Fault;
    }

    impl Preempt for Gate {
        type Top = Lv2;
    }

    impl Deactivate for Gate {
        fn deactivate(&mut self) -> Result<StepDone, Fault> {
            self.0.push("deactivate");
            Ok(StepDone::Later)
        }

        fn reactivate(&mut self) -> Result<StepDone, Fault> {
            Err(Fault::Timeout)
        }
    }

    struct Launcher;

    impl ErrorType for Launcher {
        type Error = Fault;
    }

    impl Preempt for Launcher {
        type Top = Lv1;
    }

    #[test]
    fn steps_above_the_rung_are_not_supported() {
        let mut gate = LevelAdapter(Gate(Vec::new()));
        assert_eq!(gate.level(), Level::Deactivate);
        assert_eq!(gate.step(Step::Deactivate), Ok(StepDone::Later));
        assert_eq!(gate.step(Step::Reactivate), Err(Fault::Timeout));
        assert_eq!(gate.step(Step::Interrupt), Err(Fault::NotSupported));
        assert_eq!(gate.step(Step::Restore), Err(Fault::NotSupported));
        assert_eq!(gate.0.0, ["deactivate"]);
        assert_eq!(gate.is_quiet(), Ok(None), "it has no code for it");
        assert_eq!(gate.poll_step(), Ok(None));

        let mut launcher = LevelAdapter(Launcher);
        assert_eq!(launcher.level(), Level::Block);
        for step in [Step::Deactivate, Step::Interrupt, Step::Restore, Step::Reactivate] {
            assert_eq!(launcher.step(step), Err(Fault::NotSupported));
        }
    }
}

mod checked {
    use super::*;

    fn breach(act: impl FnOnce(&mut Checked<Script, &Contract>)) -> (Option<Breach>, u64) {
        let contract = Contract::default();
        act(&mut Checked::new(Script::default(), &contract));
        (contract.first(), contract.violations())
    }

    fn launch(half: &mut Checked<Script, &Contract>, cmds: &[u64]) {
        for &cmd in cmds {
            half.launch(CmdId(cmd), &(), true).unwrap();
        }
    }

    fn complete(half: &mut Checked<Script, &Contract>, cmds: &[u64]) {
        half.inner_mut().completions = cmds.iter().map(|&cmd| retired(cmd)).collect();
        while half.poll_retired().unwrap().is_some() {}
    }

    fn steps(half: &mut Checked<Script, &Contract>, steps: &[Step]) {
        for &step in steps {
            let _ = half.step(step);
        }
    }

    #[test]
    fn a_proper_life_breaks_nothing() {
        let found = breach(|half| {
            launch(half, &[0, 1, 3]);
            half.fence(CmdId(3)).unwrap();
            complete(half, &[1, 1, 3]);
            for _ in 0..2 {
                steps(half, &[Step::Deactivate, Step::Interrupt, Step::Restore, Step::Reactivate]);
            }
            launch(half, &[4]);
        });
        assert_eq!(found, (None, 0));
    }

    #[test]
    fn each_breach_is_named() {
        let found = breach(|half| launch(half, &[1, 0]));
        assert_eq!(found, (Some(Breach::LaunchOrder), 1));
        let found = breach(|half| launch(half, &[1, 1]));
        assert_eq!(found, (Some(Breach::LaunchOrder), 1), "the same twice");
        let found = breach(|half| {
            launch(half, &[0]);
            half.fence(CmdId(1)).unwrap();
        });
        assert_eq!(found, (Some(Breach::FenceOrder), 1));
        let found = breach(|half| {
            launch(half, &[0]);
            complete(half, &[1]);
        });
        assert_eq!(found, (Some(Breach::RetireUnknown), 1));
        let found = breach(|half| {
            launch(half, &[0, 1]);
            complete(half, &[1, 0]);
        });
        assert_eq!(found, (Some(Breach::RetireOrder), 1));
    }

    #[test]
    fn launching_while_held_is_a_breach_at_either_level() {
        for hold in [Step::Deactivate, Step::Interrupt] {
            let found = breach(|half| {
                steps(half, &[hold]);
                launch(half, &[0]);
            });
            assert_eq!(found, (Some(Breach::LaunchWhileHeld), 1), "{hold:?}");
        }
    }

    #[test]
    fn between_threads_one_launch_may_be_on_its_way() {
        let contract = Contract::between_threads();
        let mut half = Checked::new(Script::default(), &contract);
        launch(&mut half, &[0]);
        steps(&mut half, &[Step::Deactivate]);
        launch(&mut half, &[1]);
        assert_eq!(contract.violations(), 0);
        launch(&mut half, &[2]);
        assert_eq!((contract.first(), contract.violations()), (Some(Breach::LaunchWhileHeld), 1));
    }

    #[test]
    fn steps_must_come_in_order() {
        use Step::{Deactivate, Interrupt, Reactivate, Restore};
        for (sequence, expected) in [
            (&[Deactivate, Deactivate][..], 1),
            (&[Interrupt, Interrupt], 1),
            (&[Interrupt, Deactivate], 1),
            (&[Restore], 1),
            (&[Reactivate], 1),
            (&[Deactivate, Interrupt, Reactivate], 1),
            (&[Deactivate, Restore], 1),
            (&[Interrupt, Restore], 0),
            (&[Deactivate, Reactivate, Deactivate], 0),
        ] {
            let (first, count) = breach(|half| steps(half, sequence));
            assert_eq!(count, expected, "{sequence:?}");
            assert_eq!(first, (count > 0).then_some(Breach::StepOrder));
        }
    }

    #[test]
    fn a_step_counts_when_it_is_done() {
        let found = breach(|half| {
            half.inner_mut().answers = vec![Ok(StepDone::Later), Err(Fault::Timeout)];
            half.inner_mut().polls = vec![Ok(None), Ok(Some(StepDone::Now(None)))];
            steps(half, &[Step::Deactivate]);
            launch(half, &[0]);
            assert_eq!(half.poll_step(), Ok(None));
            launch(half, &[1]);
            assert_eq!(half.poll_step(), Ok(Some(StepDone::Now(None))));
            launch(half, &[2]);
            steps(half, &[Step::Reactivate]);
        });
        assert_eq!(found, (Some(Breach::LaunchWhileHeld), 1), "2 only");
    }

    #[test]
    fn a_step_that_fails_late_did_not_happen() {
        let found = breach(|half| {
            half.inner_mut().answers = vec![Ok(StepDone::Later), Ok(StepDone::Later)];
            half.inner_mut().polls = vec![Err(Fault::Timeout), Ok(Some(StepDone::Now(None)))];
            steps(half, &[Step::Deactivate]);
            assert_eq!(half.poll_step(), Err(Fault::Timeout));
            assert_eq!(half.poll_step(), Ok(Some(StepDone::Now(None))));
            launch(half, &[0]);
        });
        assert_eq!(found, (None, 0));
    }

    #[test]
    fn forgotten_commands_may_be_launched_again() {
        let contract = Contract::default();
        let mut half = Checked::new(Script::default(), &contract);
        launch(&mut half, &[0, 1, 2]);
        contract.replay_from(CmdId(1));
        launch(&mut half, &[1, 2]);
        assert_eq!(contract.violations(), 0);
        launch(&mut half, &[2]);
        assert_eq!(contract.first(), Some(Breach::LaunchOrder));
    }

    #[test]
    fn the_first_breach_is_remembered_and_all_are_counted() {
        let found = breach(|half| {
            steps(half, &[Step::Restore]);
            launch(half, &[3, 1, 0]);
        });
        assert_eq!(found, (Some(Breach::StepOrder), 3));
    }
}

mod faulty {
    use super::*;

    #[test]
    fn without_rates_nothing_is_injected() {
        let mut half = Faulty::new(Script::default(), FaultRates::default(), 1);
        for cmd in 0..100 {
            half.launch(CmdId(cmd), &(), true).unwrap();
            half.fence(CmdId(cmd)).unwrap();
            half.step(Step::Deactivate).unwrap();
        }
        half.inner_mut().completions = vec![retired(4)];
        assert_eq!(half.poll_retired().unwrap(), Some(retired(4)));
        assert_eq!((half.injected(), half.level()), (0, Level::Interrupt));
        assert_eq!(half.poll_step(), Ok(None));
    }

    #[test]
    fn refused_calls_do_not_reach_the_device() {
        let rates =
            FaultRates { launch: 1_000, fence: 1_000, step: 1_000, ..FaultRates::default() };
        let mut half = Faulty::new(Script::default(), rates, 1);
        assert_eq!(half.launch(CmdId(0), &(), true).unwrap_err().kind(), Fault::Launch);
        assert_eq!(half.fence(CmdId(0)).unwrap_err().kind(), Fault::Launch);
        assert_eq!(half.step(Step::Deactivate), Err(Fault::Timeout));
        assert_eq!(half.step(Step::Interrupt), Err(Fault::Timeout));
        for release in [Step::Restore, Step::Reactivate] {
            assert!(half.step(release).is_ok(), "letting go always works");
        }
        assert_eq!(half.injected(), 4);
        let inner = half.inner_mut();
        assert_eq!((inner.launches.len(), inner.fences.len(), inner.steps.len()), (0, 0, 2));
        half.set_rates(FaultRates::default());
        assert!(half.launch(CmdId(0), &(), true).is_ok());
    }

    #[test]
    fn errors_of_the_device_pass_through() {
        let script = Script { refuse: true, ..Script::default() };
        let mut half = Faulty::new(script, FaultRates::default(), 1);
        assert_eq!(half.launch(CmdId(0), &(), true).unwrap_err().kind(), Fault::Launch);
        assert_eq!(half.poll_retired().unwrap_err().kind(), Fault::DeviceLost);
    }

    #[test]
    fn a_lost_completion_is_told_by_a_later_one_with_its_time() {
        let rates = FaultRates { lost_fence: 1_000, ..FaultRates::default() };
        let mut half = Faulty::new(Script::default(), rates, 1);
        half.inner_mut().completions = vec![retired(1), retired(2), retired(5)];
        assert_eq!(half.poll_retired().unwrap(), None);
        assert_eq!(half.poll_retired().unwrap(), None);
        half.set_rates(FaultRates::default());
        let told = half.poll_retired().unwrap().unwrap();
        assert_eq!((told.upto, told.busy), (CmdId(5), Duration::from_us(30)));
        half.inner_mut().completions = vec![retired(6)];
        assert_eq!(half.poll_retired().unwrap().unwrap().busy, Duration::from_us(10), "once");
    }

    #[test]
    fn an_error_is_never_lost_with_a_completion() {
        let rates = FaultRates { lost_fence: 1_000, ..FaultRates::default() };
        let mut half = Faulty::new(Script::default(), rates, 1);
        half.inner_mut().completions = vec![failed(3, 2)];
        assert_eq!(half.poll_retired().unwrap(), Some(failed(3, 2)));
    }

    #[test]
    fn the_last_of_a_batch_can_fail_and_real_failures_stay() {
        let rates = FaultRates { execution: 1_000, ..FaultRates::default() };
        let mut half = Faulty::new(Script::default(), rates, 1);
        half.inner_mut().completions = vec![retired(3), failed(7, 5)];
        assert_eq!(half.poll_retired().unwrap(), Some(failed(3, 3)));
        assert_eq!(half.poll_retired().unwrap(), Some(failed(7, 5)));
        assert_eq!(half.injected(), 1);
    }

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let rates = FaultRates { launch: 300, ..FaultRates::default() };
        let run = |seed| {
            let mut half = Faulty::new(Script::default(), rates, seed);
            (0..200).map(|n| half.launch(CmdId(n), &(), true).is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let refused = run(7).iter().filter(|ok| !**ok).count();
        assert!((30..90).contains(&refused), "about 60 of 200: {refused}");
    }
}

mod traced {
    use super::*;

    #[test]
    fn every_call_is_seen_with_its_answer() {
        let calls = RefCell::new(Vec::new());
        let script = Script {
            completions: vec![retired(0)],
            answers: vec![Ok(StepDone::Now(None)), Err(Fault::Timeout)],
            ..Script::default()
        };
        let mut half = Traced::new(script, |call| calls.borrow_mut().push(call));
        half.launch(CmdId(0), &(), true).unwrap();
        half.fence(CmdId(0)).unwrap();
        assert_eq!(half.poll_retired(), Ok(Some(retired(0))));
        assert_eq!(half.poll_retired(), Ok(None));
        half.step(Step::Deactivate).unwrap();
        assert_eq!(half.step(Step::Interrupt), Err(Fault::Timeout));
        assert_eq!((half.level(), half.poll_step()), (Level::Interrupt, Ok(None)));
        let (deactivate, interrupt) = (Step::Deactivate, Step::Interrupt);
        assert_eq!(
            *calls.borrow(),
            [
                Call::Launch { cmd: CmdId(0), fence: true, ok: true },
                Call::Fence { upto: CmdId(0), ok: true },
                Call::Retired(retired(0)),
                Call::Step { step: deactivate, done: Ok(StepDone::Now(None)) },
                Call::Step { step: interrupt, done: Err(Fault::Timeout) },
            ]
        );
    }

    #[test]
    fn refusals_are_seen_too() {
        let calls = RefCell::new(Vec::new());
        let script = Script { refuse: true, ..Script::default() };
        let mut half = Traced::new(script, |call| calls.borrow_mut().push(call));
        assert!(half.launch(CmdId(4), &(), false).is_err());
        assert!(half.fence(CmdId(4)).is_err());
        assert!(half.poll_retired().is_err());
        assert_eq!(
            *calls.borrow(),
            [
                Call::Launch { cmd: CmdId(4), fence: false, ok: false },
                Call::Fence { upto: CmdId(4), ok: false },
            ]
        );
    }

    #[test]
    fn wrappers_stack() {
        let contract = Contract::default();
        let calls = RefCell::new(0);
        let faulty = Faulty::new(Script::default(), FaultRates::default(), 1);
        let mut half = Traced::new(Checked::new(faulty, &contract), |_| *calls.borrow_mut() += 1);
        half.launch(CmdId(1), &(), true).unwrap();
        half.launch(CmdId(0), &(), true).unwrap();
        assert_eq!((*calls.borrow(), contract.violations()), (2, 1));
    }

    #[test]
    fn whether_a_queue_is_quiet_is_the_devices_answer() {
        let contract = Contract::default();
        let stack = |script| {
            let faulty = Faulty::new(script, FaultRates::default(), 1);
            Traced::new(Checked::new(faulty, &contract), |_| {})
        };
        let mut half = stack(Script::default());
        assert_eq!(half.is_quiet(), Ok(Some(false)));
        half.step(Step::Deactivate).unwrap();
        assert_eq!(half.is_quiet(), Ok(Some(true)));
        let mut refusing = stack(Script { refuse: true, ..Script::default() });
        assert_eq!(refusing.is_quiet(), Err(Fault::DeviceLost));
    }
}

#[test]
fn borrowed_halves_are_halves() {
    fn error<H: ErrorType<Error = Fault>>(_: H) {}
    let mut script = Script::default();
    error::<&mut Script>(&mut script);
    assert_eq!(Fault::Timeout.kind(), Fault::Timeout);
}
