//! Memory, a clock and a loader for tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use object::{Object, ObjectSegment, ObjectSymbol};
use xsched_gfx942::{Clock, Config, Error, Execution, Fault, Memory, PACKET_BYTES, Progress};

/// Where memory begins.
pub(crate) const BASE: u64 = 0x7f00_0000_0000;

/// Memory that is all in one place.
pub(crate) struct Ram {
    bytes: RefCell<Vec<u8>>,
    used: Cell<u64>,
}

impl Ram {
    pub(crate) fn new(length: usize) -> Self {
        Self { bytes: RefCell::new(vec![0; length]), used: Cell::new(0) }
    }

    /// The address of this many bytes that nothing else uses.
    pub(crate) fn take(&self, length: u64) -> u64 {
        let at = self.used.get().next_multiple_of(4096);
        self.used.set(at + length);
        assert!(self.used.get() <= self.bytes.borrow().len() as u64, "memory is full");
        BASE + at
    }

    pub(crate) fn put(&self, words: &[u64]) -> u64 {
        let at = self.take(8 * words.len() as u64);
        for (n, word) in words.iter().enumerate() {
            self.write_u64(at + 8 * n as u64, *word).unwrap();
        }
        at
    }

    pub(crate) fn words(&self, at: u64, count: usize) -> Vec<u64> {
        (0..count).map(|n| self.read_u64(at + 8 * n as u64).unwrap()).collect()
    }

    fn place(&self, address: u64, length: usize, is_write: bool) -> Result<usize, Fault> {
        let fault = Fault { address, is_write };
        let at = address.checked_sub(BASE).ok_or(fault)?;
        let end = at.checked_add(length as u64).ok_or(fault)?;
        if end <= self.bytes.borrow().len() as u64 { Ok(at as usize) } else { Err(fault) }
    }

    /// Loads a code object, and answers where the descriptors of its kernels are.
    pub(crate) fn load(&self, object: &[u8]) -> BTreeMap<String, u64> {
        let file = object::File::parse(object).unwrap();
        let end = file.segments().map(|s| s.address() + s.size()).max().unwrap();
        let start = self.take(end);
        for segment in file.segments() {
            self.write(start + segment.address(), segment.data().unwrap()).unwrap();
        }
        let names = file.dynamic_symbols().filter_map(|symbol| {
            let name = symbol.name().ok()?.strip_suffix(".kd")?;
            Some((name.to_owned(), start + symbol.address()))
        });
        names.collect()
    }
}

impl Memory for Ram {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let at = self.place(address, into.len(), false)?;
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let at = self.place(address, from.len(), true)?;
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn update_u32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> Result<u32, Fault> {
        if !address.is_multiple_of(4) {
            return Err(Fault { address, is_write: true });
        }
        let old = self.read_u32(address)?;
        self.write_u32(address, change(old))?;
        Ok(old)
    }

    fn update_u64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, Fault> {
        if !address.is_multiple_of(8) {
            return Err(Fault { address, is_write: true });
        }
        let old = self.read_u64(address)?;
        self.write_u64(address, change(old))?;
        Ok(old)
    }
}

/// A clock that advances whenever it is read.
#[derive(Default)]
pub(crate) struct Ticks(Cell<u64>);

impl Clock for Ticks {
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + 10);
        self.0.get()
    }
}

/// Parameters of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) kernel: u64,
    pub(crate) arguments: u64,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u16; 3],
    pub(crate) lds: u32,
    pub(crate) scratch: u32,
}

impl Launch {
    /// With what the kernel's descriptor asks for.
    pub(crate) fn new(ram: &Ram, kernel: u64, arguments: u64, blocks: u32, threads: u16) -> Self {
        let (lds, scratch) = (ram.read_u32(kernel).unwrap(), ram.read_u32(kernel + 4).unwrap());
        let grid = [blocks * u32::from(threads), 1, 1];
        Self { kernel, arguments, grid, block: [threads, 1, 1], lds, scratch }
    }

    pub(crate) fn packet(&self) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[2, 0, 3, 0]);
        for n in 0..3 {
            put(4 + 2 * n, &self.block[n].to_le_bytes());
            put(12 + 4 * n, &self.grid[n].to_le_bytes());
        }
        put(24, &self.scratch.to_le_bytes());
        put(28, &self.lds.to_le_bytes());
        put(32, &self.kernel.to_le_bytes());
        put(40, &self.arguments.to_le_bytes());
        packet
    }

    pub(crate) fn start(&self, ram: &Ram, config: &Config) -> Execution {
        let packet = self.packet();
        let at = ram.take(64);
        ram.write(at, &packet).unwrap();
        Execution::start(&packet, at, ram, config).unwrap()
    }

    /// Runs it to its end, and answers how many instructions that took.
    pub(crate) fn run(&self, ram: &Ram) -> Result<u64, Error> {
        let mut execution = self.start(ram, &Config::default());
        let clock = Ticks::default();
        while execution.run(ram, &clock, 1 << 20)? != Progress::Done {
            assert!(execution.instructions() < 1 << 32, "it does not end");
        }
        Ok(execution.instructions())
    }
}

/// Reads a file of the repository.
pub(crate) fn file(path: &str) -> Vec<u8> {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
