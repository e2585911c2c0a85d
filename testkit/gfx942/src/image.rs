//! Context images.
//!
//! An image is: what it is and its version; the packet; whose turn it is; for each resident
//! workgroup its number, local data share and waves; and a checksum. All numbers are little-endian.

use crate::code::Code;
use crate::execution::{Config, Execution, Group, PACKET_BYTES, Turn};
use crate::packet::Kernel;
use crate::wave::{Row, SCALARS, State, Wave};
use crate::{Error, ImageError, Memory};

const MAGIC: [u8; 8] = *b"gfx942cu";
const VERSION: u32 = 1;
const STATES: [State; 4] = [State::Ready, State::Sleeps, State::Waits, State::Ended];

/// Returns the last 8 bytes of a context image for those before.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = bytes.len() as u64;
    let mut add = |word: u64| {
        sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^= sum >> 29;
    };
    let (words, rest) = bytes.as_chunks();
    words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
    rest.iter().for_each(|byte| add(u64::from(*byte)));
    sum
}

impl Execution {
    /// Appends the context image: everything that is needed to go on.
    pub fn save(&self, image: &mut Vec<u8>) {
        let start = image.len();
        image.extend(MAGIC);
        image.extend(VERSION.to_le_bytes());
        image.extend(self.packet);
        for number in [self.packet_address, self.next, self.instructions] {
            image.extend(number.to_le_bytes());
        }
        let Turn { group, wave, left, is_awake } = self.turn;
        for number in [group as u32, wave as u32, left, is_awake.into(), self.groups.len() as u32] {
            image.extend(number.to_le_bytes());
        }
        for group in &self.groups {
            image.extend(group.number.to_le_bytes());
            image.extend(&group.lds);
            group.waves.iter().for_each(|wave| save_wave(wave, image));
        }
        let sum = checksum(&image[start..]);
        image.extend(sum.to_le_bytes());
    }

    /// Makes of a context image what was saved in it. `config` may differ in how many workgroups
    /// are resident; then that holds from the next workgroup on.
    ///
    /// # Errors
    /// If the image is damaged or of another version, or the packet's kernel is gone.
    pub fn restore(
        image: &[u8],
        memory: &impl Memory,
        config: &Config,
    ) -> Result<Self, ImageError> {
        let mut reader = Reader(checked(image)?);
        let packet: [u8; PACKET_BYTES] = reader.array()?;
        let [packet_address, next, instructions] = [reader.u64()?, reader.u64()?, reader.u64()?];
        let kernel =
            Kernel::read(&packet, packet_address, memory, config).map_err(ImageError::Packet)?;
        let total = kernel.groups_total().ok_or(ImageError::Packet(Error::Packet("its size")))?;
        let [group, wave] = [reader.u32()? as usize, reader.u32()? as usize];
        let turn = Turn { group, wave, left: reader.u32()?, is_awake: reader.u32()? != 0 };
        let count = reader.u32()?;
        let mut groups = Vec::new();
        for _ in 0..count {
            groups.push(reader.group(&kernel, total, config)?);
        }
        let is_there =
            groups.get(turn.group).map_or(groups.is_empty(), |group| turn.wave < group.waves.len());
        if !is_there || next > total || !reader.0.is_empty() {
            return Err(ImageError::Damaged("its parts do not fit together"));
        }
        let code = Code::new(kernel.limits);
        let config = *config;
        Ok(Self {
            packet,
            packet_address,
            config,
            kernel,
            groups,
            next,
            total,
            turn,
            instructions,
            code,
        })
    }
}

/// Returns the bytes between the head of an image and its checksum.
fn checked(image: &[u8]) -> Result<&[u8], ImageError> {
    let rest = image.strip_prefix(&MAGIC).ok_or(ImageError::NotAnImage)?;
    let (version, _) = rest.split_first_chunk().ok_or(ImageError::NotAnImage)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(ImageError::Version(version));
    }
    let (all, sum) = image.split_last_chunk().ok_or(ImageError::NotAnImage)?;
    if checksum(all) != u64::from_le_bytes(*sum) {
        return Err(ImageError::Damaged("its checksum is wrong"));
    }
    all.get(MAGIC.len() + 4..).ok_or(ImageError::NotAnImage)
}

fn save_wave(wave: &Wave, image: &mut Vec<u8>) {
    image.extend(wave.pc.to_le_bytes());
    let state = STATES.iter().position(|state| *state == wave.state).unwrap_or_default();
    image.extend([state as u8, wave.scc.into()]);
    image.extend(wave.mode.to_le_bytes());
    image.extend(wave.s.iter().flat_map(|word| word.to_le_bytes()));
    image.reserve(wave.v.len() * size_of::<Row>() + wave.scratch.len());
    for row in &wave.v {
        image.extend(row.map(u32::to_le_bytes).as_flattened());
    }
    image.extend(&wave.scratch);
}

/// Bytes of an image that have not been read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Result<&[u8], ImageError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(ImageError::Damaged("too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(ImageError::Damaged("too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, ImageError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ImageError> {
        self.array().map(u64::from_le_bytes)
    }

    fn words(&mut self, to: &mut [u32]) -> Result<(), ImageError> {
        let bytes = self.take(4 * to.len())?;
        let (words, _) = bytes.as_chunks();
        to.iter_mut().zip(words).for_each(|(to, word)| *to = u32::from_le_bytes(*word));
        Ok(())
    }

    fn group(&mut self, kernel: &Kernel, total: u64, config: &Config) -> Result<Group, ImageError> {
        let number = self.u64()?;
        if number >= total {
            return Err(ImageError::Damaged("it has a workgroup that the grid has not"));
        }
        let lds = self.take(kernel.lds_bytes)?.to_vec();
        let mut waves = Vec::new();
        for _ in 0..kernel.waves(number) {
            waves.push(self.wave(kernel, config)?);
        }
        Ok(Group { number, waves, lds })
    }

    fn wave(&mut self, kernel: &Kernel, config: &Config) -> Result<Wave, ImageError> {
        let mut wave = kernel.blank(config);
        wave.pc = self.u64()? & !3;
        let [state, scc] = self.array()?;
        let state = STATES.get(usize::from(state)).copied();
        wave.state = state.ok_or(ImageError::Damaged("the state of a wave"))?;
        wave.scc = scc != 0;
        wave.mode = self.u32()?;
        let mut scalars = [0; SCALARS];
        self.words(&mut scalars)?;
        wave.s = scalars;
        for row in &mut wave.v {
            self.words(row)?;
        }
        let length = wave.scratch.len();
        wave.scratch.copy_from_slice(self.take(length)?);
        Ok(wave)
    }
}
