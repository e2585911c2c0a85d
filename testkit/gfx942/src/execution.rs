//! A dispatch packet under way.

use crate::code::Code;
use crate::inst::{Env, Inst, Stop};
use crate::packet::Kernel;
use crate::wave::{INDEXED, M0, State, Wave};
use crate::{Clock, Error, Memory, Space};

/// How long a kernel dispatch packet is.
pub const PACKET_BYTES: usize = 64;

/// How many instructions a wave executes before it is another one's turn.
const TURN: u32 = 256;

/// Properties of the device around the compute unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Where the local data share is in flat addresses: a multiple of 2^48, since older compilers'
    /// code knows the upper 16 bits alone. The same holds for scratch memory.
    pub shared_base: u64,
    /// Where scratch memory is in flat addresses.
    pub private_base: u64,
    /// How many workgroups are resident at once. 0 counts as 1.
    pub workgroups_max: usize,
    /// The address of the queue's `amd_queue_t`, for kernels that ask for it.
    pub queue_address: u64,
    /// The packet's number in its queue, for kernels that ask for it.
    pub dispatch_id: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shared_base: 0x1_0000_0000_0000,
            private_base: 0x2_0000_0000_0000,
            workgroups_max: 16,
            queue_address: 0,
            dispatch_id: 0,
        }
    }
}

/// How far an execution has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All work-items have ended. The packet's completion signal is the device's to handle.
    Done,
    /// The instructions that were asked for are used up.
    Running,
    /// All waves sleep (`s_sleep`), so that the device may yield the processor before it goes on.
    Waiting,
}

/// A resident workgroup.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Number in the grid.
    pub(crate) number: u64,
    pub(crate) waves: Vec<Wave>,
    pub(crate) lds: Vec<u8>,
}

impl Group {
    /// Lets the waves go that wait for each other, once all do that have not ended.
    fn meet(&mut self) {
        if self.waves.iter().any(|wave| matches!(wave.state, State::Ready | State::Sleeps)) {
            return;
        }
        for wave in self.waves.iter_mut().filter(|wave| wave.state == State::Waits) {
            wave.state = State::Ready;
        }
    }

    fn has_ended(&self) -> bool {
        self.waves.iter().all(|wave| wave.state == State::Ended)
    }
}

/// Wave whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) group: usize,
    pub(crate) wave: usize,
    /// Instructions that are left of it.
    pub(crate) left: u32,
    /// True if a wave has got on in this round without going to sleep.
    pub(crate) is_awake: bool,
}

impl Turn {
    pub(crate) const FIRST: Self = Self { group: 0, wave: 0, left: TURN, is_awake: false };
}

/// A kernel dispatch packet (HSA AQL) under way: its resident workgroups with their waves, local
/// data share and scratch memory, and the next workgroup to start.
#[derive(Debug)]
pub struct Execution {
    pub(crate) packet: [u8; PACKET_BYTES],
    pub(crate) packet_address: u64,
    pub(crate) config: Config,
    pub(crate) kernel: Kernel,
    pub(crate) groups: Vec<Group>,
    /// The number of the workgroup that starts next, and how many there are.
    pub(crate) next: u64,
    pub(crate) total: u64,
    pub(crate) turn: Turn,
    pub(crate) instructions: u64,
    pub(crate) code: Code,
}

impl Execution {
    /// Starts the dispatch packet `packet`, which the queue has at `packet_address`.
    ///
    /// # Errors
    /// If the packet or its kernel's descriptor is not one that can be executed.
    pub fn start(
        packet: &[u8; PACKET_BYTES],
        packet_address: u64,
        memory: &impl Memory,
        config: &Config,
    ) -> Result<Self, Error> {
        let kernel = Kernel::read(packet, packet_address, memory, config)?;
        let total = kernel.groups_total().ok_or(Error::Packet("too many workgroups"))?;
        let mut execution = Self {
            packet: *packet,
            packet_address,
            config: *config,
            code: Code::new(kernel.limits),
            kernel,
            groups: Vec::new(),
            next: 0,
            total,
            turn: Turn::FIRST,
            instructions: 0,
        };
        execution.fill();
        Ok(execution)
    }

    /// Makes workgroups resident, as many as there is room for.
    fn fill(&mut self) {
        while self.next < self.total && self.groups.len() < self.config.workgroups_max.max(1) {
            let number = self.next;
            let waves = (0..self.kernel.waves(number))
                .map(|wave| self.kernel.wave(number, wave, &self.config));
            let group =
                Group { number, waves: waves.collect(), lds: vec![0; self.kernel.lds_bytes] };
            self.groups.push(group);
            self.next += 1;
        }
    }

    /// Runs up to `instructions` instructions of its waves in turn. Where it stops makes no
    /// difference to what follows.
    ///
    /// # Errors
    /// If a wave does what it must not. The execution cannot go on then.
    pub fn run(
        &mut self,
        memory: &impl Memory,
        clock: &impl Clock,
        instructions: u64,
    ) -> Result<Progress, Error> {
        let mut left = instructions;
        while left > 0 {
            if self.groups.is_empty() {
                return Ok(Progress::Done);
            }
            let used = self.take_turn(memory, clock, left)?;
            left -= used;
            self.instructions += used;
            let is_over = self.turn.left == 0;
            if is_over && !self.pass_on() {
                return Ok(Progress::Waiting);
            }
        }
        Ok(if self.groups.is_empty() { Progress::Done } else { Progress::Running })
    }

    /// Lets the wave whose turn it is execute at most `instructions`, and answers how many it has
    /// executed. Its turn is over when nothing is left of it.
    fn take_turn(
        &mut self,
        memory: &dyn Memory,
        clock: &dyn Clock,
        instructions: u64,
    ) -> Result<u64, Error> {
        let Turn { group: at, wave: number, left, .. } = self.turn;
        let group = &mut self.groups[at];
        let wave = &mut group.waves[number];
        if wave.state != State::Ready {
            self.turn.left = 0;
            return Ok(0);
        }
        let most = instructions.min(left.into()) as u32;
        let mut env = Env { memory, clock, lds: &mut group.lds };
        let (used, stop) = run_wave(wave, &mut self.code, &mut env, most)?;
        self.turn.left = if stop.is_some() { 0 } else { left - used };
        self.turn.is_awake |= !matches!(stop, Some(Stop::Sleep));
        match stop {
            Some(Stop::Sleep) => wave.state = State::Sleeps,
            Some(Stop::Barrier) => {
                wave.state = State::Waits;
                group.meet();
            }
            Some(Stop::End) => {
                wave.state = State::Ended;
                group.meet();
            }
            _ => {}
        }
        if group.has_ended() {
            self.groups.remove(at);
            self.fill();
            // The next turn is that of the first wave of what is there now.
            self.turn = Turn { group: at, wave: 0, left: TURN, ..self.turn };
            if at >= self.groups.len() {
                self.turn = Turn { is_awake: true, ..Turn::FIRST };
            }
        }
        Ok(used.into())
    }

    /// Gives the next wave its turn. After the last one a round is over: those that sleep wake up.
    /// Answers whether any wave did something else than sleeping in it.
    fn pass_on(&mut self) -> bool {
        let Turn { group, wave, is_awake, .. } = self.turn;
        let waves = self.groups.get(group).map_or(0, |group| group.waves.len());
        if wave + 1 < waves {
            self.turn = Turn { group, wave: wave + 1, left: TURN, is_awake };
            return true;
        }
        if group + 1 < self.groups.len() {
            self.turn = Turn { group: group + 1, wave: 0, left: TURN, is_awake };
            return true;
        }
        self.turn = Turn::FIRST;
        for wave in self.groups.iter_mut().flat_map(|group| &mut group.waves) {
            if wave.state == State::Sleeps {
                wave.state = State::Ready;
            }
        }
        is_awake
    }

    /// How many instructions its waves have executed so far.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }
}

/// Executes at most this many instructions of a wave. Answers how many, and why it stopped before.
fn run_wave(
    wave: &mut Wave,
    code: &mut Code,
    env: &mut Env<'_>,
    most: u32,
) -> Result<(u32, Option<Stop>), Error> {
    for used in 0..most {
        let pc = wave.pc;
        let inst = code.at(pc, env.memory)?;
        wave.pc = pc.wrapping_add(inst.size.into());
        let outcome = if wave.mode & INDEXED != 0 && inst.is_vector {
            indexed(wave, inst).and_then(|inst| (inst.run)(wave, &inst, env))
        } else {
            (inst.run)(wave, inst, env)
        };
        match outcome {
            Ok(()) => {}
            Err(stop @ (Stop::Sleep | Stop::Barrier | Stop::End)) => {
                return Ok((used + 1, Some(stop)));
            }
            Err(Stop::ForgetCode) => code.forget(),
            Err(stop) => return Err(error(stop, pc, env)),
        }
    }
    Ok((most, None))
}

/// An instruction whose vector registers are counted from the index in `m0`.
fn indexed(wave: &Wave, inst: &Inst) -> Result<Inst, Stop> {
    let (index, which) = ((wave.s[M0] & 0xff) as u16, wave.s[M0] >> 12);
    let mut inst = inst.clone();
    let rows = wave.v.len() - crate::wave::SPARE_ROWS;
    let moved = |row: u16| {
        let row = row + index;
        let is_there = usize::from(row) < rows;
        if is_there { Ok(row) } else { Err(Stop::OutOfRange(Space::Registers, row.into())) }
    };
    for (n, source) in inst.src.iter_mut().enumerate() {
        if which >> n & 1 == 1 && *source >= 256 {
            *source = moved(*source - 256)? + 256;
        }
    }
    if which >> 3 & 1 == 1 {
        inst.dst = moved(inst.dst)?;
    }
    Ok(inst)
}

fn error(stop: Stop, pc: u64, env: &Env<'_>) -> Error {
    match stop {
        Stop::Fault(fault) => Error::Fault { pc, fault },
        Stop::OutOfRange(space, offset) => Error::OutOfRange { pc, space, offset },
        Stop::NotEmulated(what) => Error::NotEmulated { pc, what },
        Stop::Trap(id) => Error::Trap { pc, id },
        // What does not stop a wave is no error; the rest is illegal.
        _ => {
            let word = env.memory.read_u32(pc).unwrap_or_default();
            Error::IllegalInstruction { pc, word }
        }
    }
}
