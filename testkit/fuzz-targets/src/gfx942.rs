//! The interpreter of gfx942 with code, packets and context images of any bytes.
//!
//! The first byte says how the others are used: bit 0, as a context image behind a head that fits;
//! bit 1, with a packet of bytes instead of one that fits. Then come as many bytes of a packet and
//! of a kernel's descriptor as it takes, and the rest is code.

use std::cell::RefCell;

use xsched_gfx942::{Clock, Config, Execution, Fault, Memory, PACKET_BYTES, Progress, checksum};

/// Where memory begins. It has as many bytes as [`Ram`] holds.
const BASE: u64 = 0x10_0000;
const RAM_BYTES: usize = 64 << 10;
/// Where the descriptor, the code and the arguments are in it.
const DESCRIPTOR: usize = 0;
const CODE: usize = 256;
const ARGUMENTS: usize = 32 << 10;
/// Instructions in one run.
const INSTRUCTIONS: u64 = 2000;

/// A piece of memory.
struct Ram(RefCell<Vec<u8>>);

impl Ram {
    fn place(&self, address: u64, length: usize, is_write: bool) -> Result<usize, Fault> {
        let at = address.checked_sub(BASE).and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| at.saturating_add(length) <= RAM_BYTES);
        at.ok_or(Fault { address, is_write })
    }
}

impl Memory for Ram {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let at = self.place(address, into.len(), false)?;
        into.copy_from_slice(&self.0.borrow()[at..at + into.len()]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let at = self.place(address, from.len(), true)?;
        self.0.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn update_u32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> Result<u32, Fault> {
        let old = self.read_u32(address)?;
        self.write_u32(address, change(old))?;
        Ok(old)
    }

    fn update_u64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        let old = self.read_u64(address)?;
        self.write_u64(address, change(old))?;
        Ok(old)
    }
}

/// A clock that always says the same.
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        1000
    }
}

/// Takes as many bytes as there are and fit.
fn fill(data: &mut &[u8], into: &mut [u8]) {
    let length = into.len().min(data.len());
    into[..length].copy_from_slice(&data[..length]);
    *data = &data[length..];
}

/// A packet for one workgroup of 64 work-items, and a descriptor of a kernel with 64 vector
/// registers, 32 of them accumulators, and 16 user registers.
fn packet_that_fits() -> ([u8; PACKET_BYTES], [u8; 64]) {
    let mut packet = [0; PACKET_BYTES];
    let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
    put(2, &[1, 0, 64, 0]);
    put(12, &64_u32.to_le_bytes());
    put(24, &64_u32.to_le_bytes());
    put(28, &1024_u32.to_le_bytes());
    put(32, &(BASE + DESCRIPTOR as u64).to_le_bytes());
    put(40, &(BASE + ARGUMENTS as u64).to_le_bytes());
    let mut descriptor = [0; 64];
    descriptor[16..24].copy_from_slice(&(CODE as u64).to_le_bytes());
    descriptor[44] = 7;
    descriptor[48..52].copy_from_slice(&0x00af_00c7_u32.to_le_bytes());
    descriptor[52..56].copy_from_slice(&0xa0_u32.to_le_bytes());
    descriptor[56] = 8;
    (packet, descriptor)
}

/// Runs code, or continues an image, and saves and restores it on the way.
///
/// # Panics
/// If an execution that was saved and restored does not go on as the one that was not, or an error
/// says nothing.
pub fn wave(data: &[u8]) {
    let Some((&how, mut data)) = data.split_first() else { return };
    let (mut packet, mut descriptor) = packet_that_fits();
    if how & 2 != 0 {
        fill(&mut data, &mut packet);
        fill(&mut data, &mut descriptor);
        // The kernel stays where it is, so that something runs.
        packet[32..40].copy_from_slice(&(BASE + DESCRIPTOR as u64).to_le_bytes());
        descriptor[18..24].fill(0);
    }
    let mut bytes = vec![0; RAM_BYTES];
    bytes[DESCRIPTOR..DESCRIPTOR + 64].copy_from_slice(&descriptor);
    let code = &data[..data.len().min(ARGUMENTS - CODE)];
    bytes[CODE..CODE + code.len()].copy_from_slice(code);
    for (n, word) in bytes[ARGUMENTS..].chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(BASE + 8 * n as u64).to_le_bytes());
    }
    let ram = Ram(RefCell::new(bytes));
    let config = Config { workgroups_max: 2, ..Config::default() };
    match Execution::start(&packet, BASE, &ram, &config) {
        Ok(execution) if how & 1 != 0 => made_up(&execution, data, &ram, &config),
        Ok(execution) => run(execution, &ram, &config),
        Err(error) => check(&error),
    }
}

/// An error is one line that says something.
fn check(error: &impl std::error::Error) {
    let text = error.to_string();
    assert!(!text.trim().is_empty() && !text.contains('\n'), "{error:?} says `{text}`");
}

fn image(execution: &Execution) -> Vec<u8> {
    let mut image = Vec::new();
    execution.save(&mut image);
    image
}

/// Runs it in two pieces, restored in between, and in one.
fn run(execution: Execution, ram: &Ram, config: &Config) {
    let before = ram.0.borrow().clone();
    let first = image(&execution);
    let pieces = in_pieces(execution, ram, config);
    let after = ram.0.replace(before.clone());
    let mut whole = Execution::restore(&first, ram, config).expect("it was just saved");
    let progress = whole.run(ram, &Still, INSTRUCTIONS).map_err(|error| check(&error)).ok();
    assert!(whole.instructions() <= INSTRUCTIONS);
    // Code that was overwritten is seen once it is decoded again, and a sleep ends a piece.
    let is_code_there = before[..ARGUMENTS] == after[..ARGUMENTS];
    let ends = |progress| matches!(progress, Some(Progress::Done | Progress::Running));
    let pieces_end = pieces.is_some_and(|(progress, _)| ends(Some(progress)));
    if is_code_there && ends(progress) && pieces_end {
        assert_eq!(pieces, progress.map(|progress| (progress, whole.instructions())));
        assert!(after == *ram.0.borrow(), "it went on otherwise");
    }
}

/// How far it comes, with how many instructions, unless it fails.
fn in_pieces(mut execution: Execution, ram: &Ram, config: &Config) -> Option<(Progress, u64)> {
    let descriptor = &ram.0.borrow()[..64].to_vec();
    for _ in 0..2 {
        let progress = execution.run(ram, &Still, INSTRUCTIONS / 2);
        let progress = progress.map_err(|error| check(&error)).ok()?;
        if progress != Progress::Running {
            return Some((progress, execution.instructions()));
        }
        let is_there = ram.0.borrow()[..64] == *descriptor;
        execution = match Execution::restore(&image(&execution), ram, config) {
            Ok(restored) => restored,
            // Its code has overwritten its descriptor.
            Err(error) if !is_there => {
                check(&error);
                return None;
            }
            Err(error) => panic!("what was saved is not restored: {error}"),
        };
    }
    Some((Progress::Running, execution.instructions()))
}

/// Continues an image of bytes behind a head that fits.
fn made_up(execution: &Execution, data: &[u8], ram: &Ram, config: &Config) {
    // What it is, its version and the packet stay.
    const HEAD: usize = 12 + PACKET_BYTES;
    let mut image = image(execution);
    let length = image.len() - 8;
    for (byte, change) in image[HEAD..length].iter_mut().zip(data) {
        *byte ^= change;
    }
    let sum = checksum(&image[..length]);
    image[length..].copy_from_slice(&sum.to_le_bytes());
    match Execution::restore(&image, ram, config) {
        Ok(mut restored) => {
            let _ = restored.run(ram, &Still, INSTRUCTIONS).map_err(|error| check(&error));
        }
        Err(error) => check(&error),
    }
    let _ = Execution::restore(data, ram, config).map_err(|error| check(&error));
}
