//! Contents of entries, and their bytes.

use super::name::Name;
use crate::cost::{CostModel, Reach};
use crate::hint::{Hints, Laxity, PolicyHint, Priority};
use crate::id::{CmdId, DeviceId, EventRef, ProcessId, QueueId};
use crate::level::{Level, LevelChoice};
use crate::message::{Cursor, ORDER_BYTES, Order, REPORT_BYTES, Report};
use crate::scheduler::Attach;
use crate::time::Duration;

/// Content of an entry. Those up to [`Body::Reconsider`] are what a scheduler was fed and what it
/// answered, in the order in which that happened; the others describe the workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body {
    /// The queue was attached.
    Attach(Attach),
    /// The queue was detached.
    Detach,
    /// The queue reported.
    Report(Report),
    /// The scheduler was asked and ordered this.
    Order(Order),
    /// The queue's hints changed.
    Hint(Hints),
    /// The scheduler from here on.
    Start(Start),
    /// The level of the queue's holds is chosen in another way.
    Level(LevelChoice),
    /// Another policy is in charge.
    Policy(Name),
    /// A hint for the policy as a whole.
    PolicyHint(PolicyHint),
    /// A time that the scheduler waited for has come.
    Timeout,
    /// The scheduler was asked and had no order.
    Rest,
    /// The queue asked whether its command may wait for an event.
    Admit {
        /// The command that will wait.
        cmd: CmdId,
        /// Event that the queue waits for.
        event: EventRef,
    },
    /// Costs of holds on a device, as set.
    Cost {
        /// The device.
        device: DeviceId,
        /// The costs.
        cost: CostModel,
    },
    /// The next decision looks at everything.
    Reconsider,
    /// A command was submitted: waits for an event, if one is given.
    Submit {
        /// The command.
        cmd: CmdId,
        /// Event that the command waits for.
        wait: Option<EventRef>,
    },
    /// A thread began to wait for a command.
    Wait {
        /// The command.
        cmd: CmdId,
        /// Only for room in the queue.
        room: bool,
    },
    /// Commands retired.
    Retired {
        /// The last of them.
        upto: CmdId,
        /// Device time since the previous such entry.
        busy: Duration,
    },
    /// A device that queues may be on.
    Device(DeviceNote),
    /// How the queue is set up, apart from what the scheduler knows.
    Queue(QueueNote),
    /// Program that the queue's process runs.
    Program(Name),
    /// Loss of entries at this place, since the writer could not keep up.
    Gap {
        /// How many.
        lost: u64,
        /// Of which source; of a queue it is that of the entry.
        of: Source,
    },
    /// Nothing follows.
    End {
        /// Entries before this one.
        entries: u64,
    },
}

/// The state of a scheduler from which on its calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Slots of its queue table.
    pub queues: u32,
    /// Slots of its device table.
    pub devices: u32,
    /// Slots of its table of waits.
    pub waits: u32,
    /// Nothing was attached before. If not, the queues that were follow as [`Body::Attach`], and
    /// what the policy knew of them is not recorded.
    pub fresh: bool,
    /// The policy in charge.
    pub policy: Name,
}

/// A device as the workload sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNote {
    /// The device.
    pub device: DeviceId,
    /// Commands that it runs at once, if it runs one of each queue at a time; 0 if unknown.
    pub units: u32,
    /// Name of the device.
    pub name: Name,
}

/// A queue as the workload sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueNote {
    /// In-flight threshold; the most that an adaptive window uses.
    pub threshold: u32,
    /// Commands per fence.
    pub batch: u32,
    /// The window adapts.
    pub adaptive: bool,
    /// Commands that it takes before it is full.
    pub capacity: u32,
}

/// The source of an entry. The entries of one source are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The scheduler.
    Scheduler,
    /// A queue.
    Queue,
}

const ATTACH: u8 = 1;
const DETACH: u8 = 2;
const REPORT: u8 = 3;
const ORDER: u8 = 4;
const HINT: u8 = 5;
const START: u8 = 6;
const LEVEL: u8 = 7;
const POLICY: u8 = 8;
const POLICY_HINT: u8 = 9;
const TIMEOUT: u8 = 10;
const REST: u8 = 11;
const ADMIT: u8 = 12;
const COST: u8 = 13;
const RECONSIDER: u8 = 14;
const SUBMIT: u8 = 128;
const WAIT: u8 = 129;
const RETIRED: u8 = 130;
const DEVICE: u8 = 131;
const QUEUE: u8 = 132;
const GAP: u8 = 133;
const END: u8 = 134;
const PROGRAM: u8 = 135;

impl Body {
    pub(super) const fn is_known(kind: u8) -> bool {
        matches!(kind, ATTACH..=RECONSIDER | SUBMIT..=PROGRAM)
    }

    /// The number of the kind.
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Self::Attach(_) => ATTACH,
            Self::Detach => DETACH,
            Self::Report(_) => REPORT,
            Self::Order(_) => ORDER,
            Self::Hint(_) => HINT,
            Self::Start(_) => START,
            Self::Level(_) => LEVEL,
            Self::Policy(_) => POLICY,
            Self::PolicyHint(_) => POLICY_HINT,
            Self::Timeout => TIMEOUT,
            Self::Rest => REST,
            Self::Admit { .. } => ADMIT,
            Self::Cost { .. } => COST,
            Self::Reconsider => RECONSIDER,
            Self::Submit { .. } => SUBMIT,
            Self::Wait { .. } => WAIT,
            Self::Retired { .. } => RETIRED,
            Self::Device(_) => DEVICE,
            Self::Queue(_) => QUEUE,
            Self::Program(_) => PROGRAM,
            Self::Gap { .. } => GAP,
            Self::End { .. } => END,
        }
    }

    pub(super) fn encode(&self, to: &mut Cursor<&mut [u8]>) {
        match self {
            Self::Attach(attach) => encode_attach(attach, to),
            Self::Detach | Self::Timeout | Self::Rest | Self::Reconsider => {}
            Self::Report(report) => to.put(&report.encode()),
            Self::Order(order) => to.put(&order.encode()),
            Self::Hint(hints) => encode_hints(hints, to),
            Self::Start(start) => encode_start(start, to),
            Self::Level(choice) => encode_choice(*choice, to),
            Self::Policy(name) | Self::Program(name) => to.put(name.encode()),
            Self::PolicyHint(hint) => encode_policy_hint(*hint, to),
            Self::Admit { cmd, event } => encode_wait(*cmd, Some(*event), to),
            Self::Cost { device, cost } => encode_cost(*device, cost, to),
            Self::Submit { cmd, wait } => encode_wait(*cmd, *wait, to),
            Self::Wait { cmd, room } => {
                to.u64(cmd.0);
                to.u8(u8::from(*room));
            }
            Self::Retired { upto, busy } => {
                to.u64(upto.0);
                to.u64(busy.as_ns());
            }
            Self::Device(note) => {
                to.u32(u32::from(note.device.0));
                to.u32(note.units);
                to.put(note.name.encode());
            }
            Self::Queue(note) => {
                let words = [note.threshold, note.batch, u32::from(note.adaptive), note.capacity];
                words.iter().for_each(|&word| to.u32(word));
            }
            Self::Gap { lost, of } => {
                to.u64(*lost);
                to.u8(u8::from(*of == Source::Queue));
            }
            Self::End { entries } => to.u64(*entries),
        }
    }

    pub(super) fn decode(kind: u8, bytes: &[u8]) -> Option<Self> {
        let mut from = Cursor { bytes, at: 0 };
        let from = &mut from;
        Some(match kind {
            ATTACH => Self::Attach(decode_attach(from)?),
            DETACH => Self::Detach,
            REPORT => Self::Report(Report::decode(bytes.first_chunk::<REPORT_BYTES>()?)?),
            ORDER => Self::Order(Order::decode(bytes.first_chunk::<ORDER_BYTES>()?)?),
            HINT => Self::Hint(decode_hints(from)?),
            START => Self::Start(decode_start(from)?),
            LEVEL => Self::Level(decode_choice(from)?),
            POLICY => Self::Policy(Name::decode(bytes)?),
            POLICY_HINT => Self::PolicyHint(decode_policy_hint(from)?),
            TIMEOUT => Self::Timeout,
            REST => Self::Rest,
            ADMIT => Self::Admit { cmd: CmdId(from.u64()?), event: decode_event(from)? },
            COST => decode_cost(from)?,
            RECONSIDER => Self::Reconsider,
            SUBMIT => {
                let cmd = CmdId(from.u64()?);
                let wait = if bytes.len() > 8 { Some(decode_event(from)?) } else { None };
                Self::Submit { cmd, wait }
            }
            WAIT => Self::Wait { cmd: CmdId(from.u64()?), room: flag(from.u8()?)? },
            RETIRED => {
                let upto = CmdId(from.u64()?);
                Self::Retired { upto, busy: Duration::from_ns(from.u64()?) }
            }
            DEVICE => Self::Device(DeviceNote {
                device: DeviceId(u16::try_from(from.u32()?).ok()?),
                units: from.u32()?,
                name: Name::decode(bytes.get(from.at..)?)?,
            }),
            QUEUE => Self::Queue(QueueNote {
                threshold: from.u32()?,
                batch: from.u32()?,
                adaptive: from.u32()? != 0,
                capacity: from.u32()?,
            }),
            PROGRAM => Self::Program(Name::decode(bytes)?),
            GAP => {
                let lost = from.u64()?;
                let queue = flag(from.u8()?)?;
                Self::Gap { lost, of: if queue { Source::Queue } else { Source::Scheduler } }
            }
            _ => Self::End { entries: from.u64()? },
        })
    }
}

const fn flag(byte: u8) -> Option<bool> {
    match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn encode_wait(cmd: CmdId, event: Option<EventRef>, to: &mut Cursor<&mut [u8]>) {
    to.u64(cmd.0);
    if let Some(event) = event {
        to.u64(event.queue.to_bits());
        to.u64(event.cmd.0);
    }
}

fn decode_event(from: &mut Cursor<&[u8]>) -> Option<EventRef> {
    let queue = QueueId::from_bits(from.u64()?);
    Some(EventRef { queue, cmd: CmdId(from.u64()?) })
}

fn encode_attach(attach: &Attach, to: &mut Cursor<&mut [u8]>) {
    to.u32(u32::from(attach.device.0));
    to.u32(attach.process.0);
    encode_hints(&attach.hints, to);
    encode_choice(attach.level, to);
    to.u32(attach.threshold);
    to.u32(attach.context_permille);
}

fn decode_attach(from: &mut Cursor<&[u8]>) -> Option<Attach> {
    Some(Attach {
        device: DeviceId(u16::try_from(from.u32()?).ok()?),
        process: ProcessId(from.u32()?),
        hints: decode_hints(from)?,
        level: decode_choice(from)?,
        threshold: from.u32()?,
        context_permille: from.u32()?,
    })
}

fn encode_start(start: &Start, to: &mut Cursor<&mut [u8]>) {
    let words = [start.queues, start.devices, start.waits, u32::from(start.fresh)];
    words.iter().for_each(|&word| to.u32(word));
    to.put(start.policy.encode());
}

fn decode_start(from: &mut Cursor<&[u8]>) -> Option<Start> {
    Some(Start {
        queues: from.u32()?,
        devices: from.u32()?,
        waits: from.u32()?,
        fresh: from.u32()? != 0,
        policy: Name::decode(from.bytes.get(from.at..)?)?,
    })
}

fn encode_choice(choice: LevelChoice, to: &mut Cursor<&mut [u8]>) {
    let (upto, level) = match choice {
        LevelChoice::Exactly(level) => (false, level),
        LevelChoice::UpTo(level) => (true, level),
    };
    to.u8(level.number());
    to.u8(u8::from(upto));
    to.put(&[0; 2]);
}

fn decode_choice(from: &mut Cursor<&[u8]>) -> Option<LevelChoice> {
    let level = Level::from_number(from.u8()?)?;
    let upto = flag(from.u8()?)?;
    from.at += 2;
    Some(if upto { LevelChoice::UpTo(level) } else { LevelChoice::Exactly(level) })
}

fn encode_policy_hint(hint: PolicyHint, to: &mut Cursor<&mut [u8]>) {
    let (kind, value) = match hint {
        PolicyHint::Timeslice(span) => (1, span.as_ns()),
        PolicyHint::K(k) => (2, u64::from(k)),
        PolicyHint::Ageing(age) => (3, age.map_or(ABSENT, Duration::as_ns)),
        PolicyHint::Stall(stall) => (4, stall.map_or(ABSENT, Duration::as_ns)),
        PolicyHint::Floor(permille) => (5, u64::from(permille)),
    };
    to.u64(kind);
    to.u64(value);
}

fn decode_policy_hint(from: &mut Cursor<&[u8]>) -> Option<PolicyHint> {
    let hint = match (from.u64()?, from.u64()?) {
        (1, ns) => PolicyHint::Timeslice(Duration::from_ns(ns)),
        (2, k) => PolicyHint::K(u32::try_from(k).ok()?),
        (3, age) => PolicyHint::Ageing((age != ABSENT).then(|| Duration::from_ns(age))),
        (4, stall) => PolicyHint::Stall((stall != ABSENT).then(|| Duration::from_ns(stall))),
        (5, permille) => PolicyHint::Floor(u16::try_from(permille).ok()?),
        _ => return None,
    };
    hint.checked().ok()
}

fn encode_cost(device: DeviceId, cost: &CostModel, to: &mut Cursor<&mut [u8]>) {
    to.u64(u64::from(device.0));
    let spans = [
        cost.detect,
        cost.gate_close,
        cost.gate,
        cost.gate_spacing,
        cost.save_fixed,
        cost.save_context,
        cost.restore_fixed,
        cost.restore_context,
    ];
    spans.iter().for_each(|span| to.u64(span.as_ns()));
    let flags = u64::from(cost.reach == Reach::Device) | u64::from(cost.batches) << 1;
    // Left out where it says nothing, so that such records are as they were before there was it.
    if flags != 0 || cost.grace != Duration::ZERO {
        to.u64(cost.grace.as_ns());
        to.u64(flags);
    }
}

fn decode_cost(from: &mut Cursor<&[u8]>) -> Option<Body> {
    let device = DeviceId(u16::try_from(from.u64()?).ok()?);
    let span = |from: &mut Cursor<&[u8]>| from.u64().map(Duration::from_ns);
    let mut cost = CostModel {
        detect: span(from)?,
        gate_close: span(from)?,
        gate: span(from)?,
        gate_spacing: span(from)?,
        save_fixed: span(from)?,
        save_context: span(from)?,
        restore_fixed: span(from)?,
        restore_context: span(from)?,
        ..CostModel::default()
    };
    if from.at < from.bytes.len() {
        cost.grace = span(from)?;
        let flags = from.u64()?;
        cost.reach = if flags & 1 == 0 { Reach::Queue } else { Reach::Device };
        cost.batches = flags & 2 != 0;
    }
    Some(Body::Cost { device, cost })
}

fn rank(rank: u32) -> Option<Priority> {
    (rank <= 511).then(|| Priority::from_rank(rank as usize))
}

/// "Not given" for optional times and shares.
const ABSENT: u64 = u64::MAX;

fn encode_hints(hints: &Hints, to: &mut Cursor<&mut [u8]>) {
    to.u32(hints.priority.rank() as u32);
    to.u32(hints.weight);
    to.u32(hints.utilization.map_or(u32::MAX, u32::from));
    to.u32(u32::from(hints.active_window) | (hints.cpu_priority as u32) << 16);
    to.u64(hints.deadline.map_or(ABSENT, Duration::as_ns));
    let laxity = hints.laxity;
    to.u64(laxity.map_or(ABSENT, |l| l.lax.as_ns()));
    to.u32(laxity.map_or(0, |l| l.lax_priority.rank() as u32));
    to.u32(laxity.map_or(0, |l| l.critical_priority.rank() as u32));
}

fn decode_hints(from: &mut Cursor<&[u8]>) -> Option<Hints> {
    let mut hints = Hints::with_priority(rank(from.u32()?)?);
    hints.set_weight(from.u32()?).ok()?;
    let share = from.u32()?;
    if share != u32::MAX {
        hints.set_utilization(u8::try_from(share).ok()?).ok()?;
    }
    // Records of the first version have 0 in the upper half.
    let window = from.u32()?;
    hints.active_window = window & 0xffff != 0;
    hints.set_cpu_priority((window >> 16) as i16).ok()?;
    let time = |ns: u64| (ns != ABSENT).then(|| Duration::from_ns(ns));
    hints.deadline = time(from.u64()?);
    let lax = time(from.u64()?);
    let (lax_priority, critical_priority) = (rank(from.u32()?)?, rank(from.u32()?)?);
    hints.laxity = lax.map(|lax| Laxity { lax, lax_priority, critical_priority });
    Some(hints)
}
