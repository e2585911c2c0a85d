//! Times of other calls to the device while victims run and while they are interrupted:
//! allocations, copies, and a queue's first launch. Some of them wait until the victims go on;
//! that is found out without waiting for ever.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched_core::hal::{Backend, Retire, Submit};
use xsched_core::id::{CmdId, QueueId};

use super::queues::Queues;
use crate::device::LabError;
use crate::device::interruptible::Interruptible;
use crate::device::load::Load;
use crate::stats::{Quantiles, ns_of};

/// A call that takes longer while victims are interrupted waits for them.
const BLOCKED: Duration = Duration::from_millis(500);
/// Then they go on, and a call that still does not return is a hang.
const PATIENCE: Duration = Duration::from_secs(20);
/// Queues of the first launches are numbered from here.
const FIRST_QUEUE: u32 = 1_000;

/// Call to take the time of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    /// Memory of the device is allocated and freed.
    Allocate,
    /// Memory is copied to the device and back.
    Copy,
    /// A new queue is opened, a command launched in it, and its end waited for.
    FirstLaunch,
}

/// State of the victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// No work.
    Idle,
    /// The victims run.
    Running,
    /// The victims are interrupted.
    Interrupted,
}

/// Times of a call in a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Call that was made.
    pub(crate) call: Call,
    /// State of the victims.
    pub(crate) state: State,
    /// How long it took, where it did not wait for the victims.
    pub(crate) time: Quantiles,
    /// Calls that did not return before the victims went on.
    pub(crate) blocked: u32,
    /// Why it could not be done, if so.
    pub(crate) error: Option<String>,
}

/// Takes the time of each call in each state, `times` times.
pub(crate) fn measure<K: Interruptible>(
    device: &K,
    mechanism: &str,
    load: Load,
    times: u32,
) -> Result<Vec<Row>, LabError> {
    let mut victims = Queues::open(device, mechanism, load, 1)?;
    victims.run_one()?;
    let mut caller = Caller::start(device, mechanism)?;
    let mut rows = Vec::new();
    for state in [State::Idle, State::Running, State::Interrupted] {
        for call in [Call::Allocate, Call::Copy, Call::FirstLaunch] {
            rows.push(row(&mut victims, &mut caller, (call, state), times)?);
        }
    }
    victims.drain()?;
    Ok(rows)
}

fn row<K: Interruptible>(
    victims: &mut Queues<K>,
    caller: &mut Caller,
    (call, state): (Call, State),
    times: u32,
) -> Result<Row, LabError> {
    let (mut spans, mut blocked, mut error) = (Vec::new(), 0, None);
    for _ in 0..times {
        match state {
            State::Idle => victims.drain()?,
            State::Running => victims.run()?,
            State::Interrupted => {
                victims.run()?;
                victims.hold()?;
            }
        }
        let answered =
            caller.call(call, if state == State::Interrupted { BLOCKED } else { PATIENCE });
        if state == State::Interrupted {
            victims.resume()?;
        }
        match answered? {
            Some(Ok(span)) => spans.push(ns_of(span)),
            Some(Err(why)) => error = Some(why.to_string()),
            None => {
                blocked += 1;
                caller.wait(PATIENCE)?.ok_or_else(|| LabError::new("a call hangs"))??;
            }
        }
        if error.is_some() {
            break;
        }
    }
    Ok(Row { call, state, time: Quantiles::of(&spans), blocked, error })
}

type Answer = Result<Duration, LabError>;

/// A thread that makes the calls. It is not joined: one that hangs in a driver never ends.
#[derive(Debug)]
struct Caller {
    calls: SyncSender<Call>,
    answers: Receiver<Answer>,
}

impl Caller {
    fn start<K: Interruptible>(device: &K, mechanism: &str) -> Result<Self, LabError> {
        let (mut side, mut backend) = (device.side()?, device.open(mechanism)?);
        let command = device.nothing();
        let configs: Vec<_> = (0..CONFIGS).map(|_| device.interruptible()).collect();
        let mut configs = configs.into_iter();
        let (calls, wanted) = sync_channel::<Call>(1);
        let (answer, answers) = sync_channel(1);
        let work = move || {
            let mut opened = 0;
            while let Ok(call) = wanted.recv() {
                let start = Instant::now();
                let done = match call {
                    Call::Allocate => side.allocate(),
                    Call::Copy => side.copy(),
                    Call::FirstLaunch => match configs.next() {
                        None => Err(LabError::new("no more queues are opened for this")),
                        Some(config) => {
                            opened += 1;
                            first_launch(&mut backend, FIRST_QUEUE + opened, config, &command)
                        }
                    },
                };
                if answer.send(done.map(|()| start.elapsed())).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("xsched-meanwhile".to_owned()).spawn(work);
        thread.map_err(LabError::new)?;
        Ok(Self { calls, answers })
    }

    /// Makes a call. `None` if it has not returned in time.
    fn call(&self, call: Call, limit: Duration) -> Result<Option<Answer>, LabError> {
        self.calls.send(call).map_err(LabError::new)?;
        self.wait(limit)
    }

    /// Waits for the call's return.
    fn wait(&self, limit: Duration) -> Result<Option<Answer>, LabError> {
        match self.answers.recv_timeout(limit) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(LabError::new("the calls' thread is gone")),
        }
    }
}

/// Most first launches in one measurement.
const CONFIGS: u32 = 1_000;

fn first_launch<B: Backend>(
    device: &mut B,
    queue: u32,
    config: B::Config,
    command: &<B::Submit as Submit>::Payload,
) -> Result<(), LabError> {
    let refused = |error: B::Error| LabError::new(format!("the device refused: {error:?}"));
    let mut parts = device.open(QueueId::new(queue, 0), config).map_err(refused)?;
    parts.submit.launch(CmdId(0), command, true).map_err(refused)?;
    while parts.retire.poll_retired().map_err(refused)?.is_none() {
        thread::yield_now();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;
    use crate::device::load::{Kind, Share};

    #[test]
    fn calls_return_whatever_the_victims_do() {
        let load = Load { kind: Kind::Alu, share: Share::Full, ns: 1_000_000 };
        let rows = measure(&Host::open().unwrap(), "signal", load, 3).unwrap();
        assert_eq!(rows.len(), 9);
        for row in rows {
            assert_eq!((row.error.as_deref(), row.blocked), (None, 0), "{row:?}");
            assert_eq!(row.time.samples, 3, "{row:?}");
        }
    }

    #[test]
    fn a_call_that_waits_for_the_victims_is_found_and_ends() {
        let host = Host::open().unwrap();
        let load = Load { kind: Kind::Alu, share: Share::Full, ns: 1_000_000 };
        let mut victims = Queues::open(&host, "signal", load, 1).unwrap();
        // Returns when the victims have ended, which they do once they go on.
        let (calls, wanted) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let mut caller = Caller { calls, answers };
        let slow = BLOCKED + Duration::from_millis(100);
        let thread = thread::spawn(move || {
            let _: Result<Call, _> = wanted.recv();
            thread::sleep(slow);
            answer.send(Ok(slow)).unwrap();
        });
        let row = row(&mut victims, &mut caller, (Call::Copy, State::Interrupted), 1).unwrap();
        assert_eq!((row.blocked, row.time.samples), (1, 0));
        victims.drain().unwrap();
        thread.join().unwrap();
    }
}
