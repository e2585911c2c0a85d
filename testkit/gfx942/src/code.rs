//! Instructions that were decoded.
//!
//! They belong to one execution, so that code that is loaded where other code was is decoded anew,
//! and
//! `s_icache_inv` forgets them, as the hardware does.

use crate::decode::{Format, Limits, Refusal, decode, is_long};
use crate::inst::Inst;
use crate::{Error, Memory};

const PAGE_BYTES: u64 = 4096;
const PAGE_WORDS: usize = PAGE_BYTES as usize / 4;
/// More instructions, or pages that have some, are forgotten and decoded again.
const INSTRUCTIONS_MAX: usize = 1 << 16;
const PAGES_MAX: usize = 1 << 10;

#[derive(Debug)]
pub(crate) struct Code {
    limits: Limits,
    instructions: Vec<Inst>,
    /// Where pages begin, and for each of their words 1 more than the number of its instruction.
    pages: Vec<(u64, Box<[u32; PAGE_WORDS]>)>,
    last: usize,
}

impl Code {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, instructions: Vec::new(), pages: Vec::new(), last: 0 }
    }

    pub(crate) fn forget(&mut self) {
        self.instructions.clear();
        self.pages.clear();
    }

    /// The instruction at an address.
    #[inline]
    pub(crate) fn at(&mut self, pc: u64, memory: &dyn Memory) -> Result<&Inst, Error> {
        let (page, word) = (pc & !(PAGE_BYTES - 1), (pc % PAGE_BYTES / 4) as usize);
        if let Some((start, words)) = self.pages.get(self.last) {
            let number = words[word] as usize;
            if *start == page && number != 0 {
                return Ok(&self.instructions[number - 1]);
            }
        }
        self.find(page, word, memory)
    }

    #[inline(never)]
    fn find(&mut self, page: u64, word: usize, memory: &dyn Memory) -> Result<&Inst, Error> {
        if self.instructions.len() >= INSTRUCTIONS_MAX || self.pages.len() >= PAGES_MAX {
            self.forget();
        }
        let known = self.pages.iter().position(|(start, _)| *start == page);
        self.last = known.unwrap_or_else(|| {
            self.pages.push((page, Box::new([0; PAGE_WORDS])));
            self.pages.len() - 1
        });
        let number = &mut self.pages[self.last].1[word];
        if *number == 0 {
            let pc = page + 4 * word as u64;
            self.instructions.push(read(pc, memory, &self.limits)?);
            *number = self.instructions.len() as u32;
        }
        Ok(&self.instructions[*number as usize - 1])
    }
}

fn read(pc: u64, memory: &dyn Memory, limits: &Limits) -> Result<Inst, Error> {
    let fetch = |at| memory.read_u32(at).map_err(|fault| Error::Fault { pc, fault });
    let word = fetch(pc)?;
    let is_long = Format::of(word).is_some_and(|format| is_long(format, word));
    let second = if is_long { fetch(pc.wrapping_add(4))? } else { 0 };
    decode([word, second], limits).map_err(|refusal| match refusal {
        Refusal::Illegal => Error::IllegalInstruction { pc, word },
        Refusal::NotEmulated(what) => Error::NotEmulated { pc, what },
    })
}
