//! The decoder held against LLVM's.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

const LIMITS: Limits = Limits { rows: 512, accumulators: 256, floats: 0xf0 };
/// The instruction between others in what LLVM disassembles: `s_mov_b32 s0, 0x1357NNNN`.
const MARK: [u32; 2] = [0xbe80_00ff, 0x1357_0000];
/// Encodings that LLVM is asked for at once.
const BATCH: usize = 4096;

/// The first LLVM that knows gfx942.
const LLVM_LEAST: u32 = 17;

/// The major version of LLVM, by what one of its programs says.
fn llvm_major(said: &str) -> Option<u32> {
    said.split_once("LLVM version ")?.1.split('.').next()?.parse().ok()
}

/// The first of these programs that is there and knows gfx942.
fn program(names: &[&'static str]) -> Option<&'static str> {
    let works = |name: &&str| {
        let said = Command::new(name).arg("--version").output().map(|output| output.stdout);
        let major = said.ok().and_then(|said| llvm_major(&String::from_utf8_lossy(&said)));
        major.is_some_and(|major| major >= LLVM_LEAST)
    };
    let found = names.iter().copied().find(works);
    if found.is_none() {
        println!("LEFT OUT: none of {names:?} is installed, of LLVM {LLVM_LEAST} or later");
    }
    found
}

#[test]
fn versions_of_llvm_are_understood() {
    let debian = "Debian LLVM version 14.0.6\n  \n  Optimized build.\n";
    assert_eq!(llvm_major(debian), Some(14));
    assert_eq!(llvm_major("LLVM (http://llvm.org/):\n  LLVM version 19.1.7\n"), Some(19));
    assert_eq!(llvm_major("no version"), None);
}

fn mc() -> Option<&'static str> {
    program(&["llvm-mc-19", "llvm-mc"])
}

/// Returns the instructions that LLVM reads from each of these encodings.
fn disassembled(program: &str, encodings: &[[u32; 2]], long: &[bool]) -> Vec<Vec<String>> {
    let mut text = String::new();
    let mut line = |words: &[u32]| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        text.extend(bytes.map(|byte| format!("{byte:#04x} ")));
        text.push('\n');
    };
    for (n, (words, is_long)) in encodings.iter().zip(long).enumerate() {
        line(&words[..if *is_long { 2 } else { 1 }]);
        line(&[MARK[0], MARK[1] + n as u32]);
    }
    let mut child = Command::new(program)
        .args(["-disassemble", "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads");
    let mut found = vec![Vec::new()];
    for line in String::from_utf8_lossy(&output.stdout).lines().map(str::trim) {
        if line.starts_with("s_mov_b32 s0, 0x1357") {
            found.push(Vec::new());
        } else if !line.is_empty() && !line.starts_with('.') {
            found.last_mut().expect("one").push(line.to_owned());
        }
    }
    found.truncate(encodings.len());
    found
}

/// The name without what says which encoding it is.
fn base(text: &str) -> &str {
    let name = text.split_whitespace().next().unwrap_or_default();
    let suffixes = ["_e32", "_e64", "_sdwa", "_dpp"];
    suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

/// The one instruction that an encoding is, if it is one. What follows a first word that LLVM does
/// not know is an instruction of its own to it, a short one.
fn only(found: &[String], is_long: bool) -> Option<&str> {
    match found {
        [one] if !(is_long && one.contains("_e32")) => Some(one),
        _ => None,
    }
}

/// Encodings of an opcode with several sets of operands, of which some instructions take one and
/// others another.
fn variants(format: Format, opcode: u32) -> Vec<[u32; 2]> {
    let v = |n: u32| 256 + n;
    let long = |first: u32, seconds: &[u32]| seconds.iter().map(|s| [first, *s]).collect();
    match format {
        Format::Sop2 => vec![[0x8004_0206 | opcode << 23, 0]],
        Format::Sopk => vec![[0xb004_0001 | opcode << 23, 0]],
        Format::Sop1 => vec![[0xbe84_0002 | opcode << 8, 0], [0xbe84_0000 | opcode << 8, 0]],
        Format::Sopc => vec![[0xbf00_0204 | opcode << 16, 0]],
        Format::Sopp => vec![[0xbf80_0001 | opcode << 16, 0], [0xbf80_0000 | opcode << 16, 0]],
        Format::Smem => {
            let first = 0xc002_0102 | opcode << 18;
            vec![[first, 0x10], [0xc000_0000 | opcode << 18, 0], [0xc000_0100 | opcode << 18, 0]]
        }
        Format::Vop2 => vec![[opcode << 25 | 4 << 17 | 6 << 9 | v(8), 0x1234]],
        Format::Vop1 => {
            let first = 0x7e00_0000 | opcode << 9;
            vec![[first | 4 << 17 | v(8), 0], [first, 0]]
        }
        Format::Vopc => vec![[0x7c00_0000 | opcode << 17 | 6 << 9 | v(8), 0]],
        Format::Vop3 => {
            let two = v(8) | v(10) << 9;
            let sources = [two | v(12) << 18, two, v(8), v(8) | 6 << 9, 0, two | 4 << 18];
            let mut all: Vec<_> = long(0xd000_0004 | opcode << 16, &sources);
            all.push([0xd000_0604 | opcode << 16, two | 4 << 18]);
            all.push([0xd000_0604 | opcode << 16, two | v(12) << 18]);
            all.push([0xd000_0000 | opcode << 16, 0]);
            all
        }
        Format::Vop3p => {
            let three = v(8) | v(16) << 9 | v(32) << 18;
            let sources =
                [three | 3 << 27, three, v(8) | v(16) << 9 | 3 << 27, v(8) | 3 << 27, v(8)];
            let mut all: Vec<_> = long(0xd380_4004 | opcode << 16, &sources);
            all.extend(sources.map(|s| [0xd380_0004 | opcode << 16, s]));
            all
        }
        Format::Ds => {
            let first = 0xd800_0004 | opcode << 17;
            let fields = [2 | 4 << 8, 2 | 4 << 8 | 6 << 16, 2 | 8 << 24, 2 | 4 << 8 | 8 << 24];
            let mut all: Vec<_> = long(first, &fields);
            all.push([first, 2 | 4 << 8 | 6 << 16 | 8 << 24]);
            all.extend([[first | 1 << 16, 2], [0xd800_0000 | opcode << 17, 0]]);
            all
        }
        Format::Flat | Format::Global | Format::Scratch => {
            let segment = match format {
                Format::Flat => 0,
                Format::Scratch => 1,
                _ => 2,
            };
            let first = 0xdc00_0000 | segment << 14 | opcode << 18;
            let fields = [2 | 8 << 24, 2 | 4 << 8, 2 | 4 << 8 | 8 << 24, 8 << 24, 4 << 8, 0];
            let with = fields.map(|f| f | 0x7f << 16);
            let mut all: Vec<_> = long(first, &with);
            all.extend(with.map(|f| [first | 1 << 16, f]));
            all.extend(fields.map(|f| [first, f]));
            all.extend(fields.map(|f| [first | 1 << 16, f]));
            all
        }
        Format::Buffer => {
            let first = 0xe000_0000 | opcode << 18;
            vec![[first | 1 << 13, 2 | 4 << 8 | 1 << 16 | 4 << 24], [first, 0]]
        }
    }
}

/// The numbers that an encoding has for what the tables list.
fn opcodes(format: Format) -> Vec<(u32, &'static str)> {
    let list = &INDEX[format as usize];
    (0..).zip(list).filter_map(|(n, op)| op.map(|op| (n, op.1))).collect()
}

#[test]
fn every_opcode_has_the_name_that_llvm_prints() {
    let Some(program) = mc() else { return };
    let mut asked = Vec::new();
    for format in FORMATS {
        for (opcode, name) in opcodes(format) {
            asked.extend(variants(format, opcode).into_iter().map(|words| (name, format, words)));
        }
    }
    let mut seen = std::collections::BTreeMap::new();
    for batch in asked.chunks(BATCH) {
        let words: Vec<_> = batch.iter().map(|asked| asked.2).collect();
        let long: Vec<_> = batch.iter().map(|asked| is_long(asked.1, asked.2[0])).collect();
        for ((name, format, words), found) in batch.iter().zip(disassembled(program, &words, &long))
        {
            let is_known = seen.entry((*name, *format as usize)).or_insert(false);
            if let Some(one) = only(&found, is_long(*format, words[0])) {
                assert_eq!(base(one), *name, "{format:?} {words:08x?}: {one}");
                *is_known = true;
            }
        }
    }
    let unknown: Vec<_> =
        seen.iter().filter(|(_, is_known)| !**is_known).map(|(op, _)| op).collect();
    assert!(unknown.is_empty(), "LLVM knows none of these: {unknown:?}");
    println!("{} names in {} encodings", seen.len(), asked.len());
}

#[test]
fn what_llvm_knows_of_arithmetic_is_in_the_tables() {
    let Some(program) = mc() else { return };
    let formats = [
        (Format::Sop2, 53),
        (Format::Sopk, 22),
        (Format::Sop1, 56),
        (Format::Sopc, 20),
        (Format::Sopp, 31),
        (Format::Vop2, 62),
        (Format::Vop1, 256),
        (Format::Vopc, 256),
        (Format::Vop3, 1024 - 128),
    ];
    let mut missing = std::collections::BTreeSet::new();
    for (format, count) in formats {
        let known: Vec<_> = opcodes(format).into_iter().map(|(opcode, _)| opcode).collect();
        let others = (0..count).filter(|opcode| !known.contains(opcode));
        let words: Vec<_> = others.flat_map(|opcode| variants(format, opcode)).collect();
        for part in words.chunks(BATCH) {
            let long: Vec<_> = part.iter().map(|words| is_long(format, words[0])).collect();
            for (found, is_long) in disassembled(program, part, &long).iter().zip(long) {
                missing.extend(only(found, is_long).map(|one| base(one).to_owned()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// Compares every instruction of a code object, and answers how many there are.
pub(crate) fn compare(path: &std::path::Path) -> Option<usize> {
    let program = program(&["llvm-objdump-19", "llvm-objdump"])?;
    let output = Command::new(program).arg("-d").arg(path).output().expect("it starts");
    assert!(output.status.success(), "{}", path.display());
    let mut count = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((text, words)) = line.trim().split_once("// ") else { continue };
        let words = words.split_once(": ").map_or("", |(_, words)| words);
        let words = words.split_whitespace().map_while(|word| u32::from_str_radix(word, 16).ok());
        let words: Vec<_> = words.collect();
        let inst = decode([words[0], words.get(1).copied().unwrap_or(0)], &LIMITS);
        let inst = inst.unwrap_or_else(|refusal| panic!("{refusal:?}: {line}"));
        assert_eq!((inst.name, usize::from(inst.size)), (base(text), 4 * words.len()), "{line}");
        count += 1;
    }
    Some(count)
}

#[test]
fn code_objects_are_decoded_as_llvm_decodes_them() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut objects = vec![
        root.join("../../lab/kernels/work.gfx942.hsaco"),
        root.join("../../hal-hip/kernels/spin.gfx942.hsaco"),
    ];
    let own = std::fs::read_dir(root.join("kernels")).expect("kernels");
    objects.extend(own.map(|entry| entry.expect("an entry").path()));
    for object in objects.iter().filter(|path| path.extension().is_some_and(|e| e == "hsaco")) {
        let Some(count) = compare(object) else { return };
        assert!(count > 50, "{} has {count} instructions", object.display());
        println!("{}: {count} instructions", object.display());
    }
}

#[test]
fn what_is_no_instruction_is_refused() {
    for words in [[0xffff_ffff; 2], [0xc400_0000, 0], [0xf000_0000, 0], [0x8000_d100, 0]] {
        assert_eq!(decode(words, &LIMITS).err(), Some(Refusal::Illegal), "{words:08x?}");
    }
    // v_mov_b32 v16, v0, of a wave with 16 registers.
    let few = Limits { rows: 16, accumulators: 16, floats: 0xf0 };
    assert_eq!(decode([0x7e20_0300, 0], &few).err(), Some(Refusal::Illegal));
    assert!(decode([0x7e1e_0300, 0], &few).is_ok());
}

#[test]
fn arithmetic_that_flushes_is_refused_and_moves_are_not() {
    let flushing = Limits { floats: 0xc0, ..LIMITS };
    let is_refused =
        |word: u32| matches!(decode([word, 0], &flushing), Err(Refusal::NotEmulated(_)));
    // v_add_f32, and v_mov_b32 and v_add_f64 (its first word).
    assert!(is_refused(0x0200_0300));
    assert!(!is_refused(0x7e00_0300));
    assert!(!is_refused(0xd280_0000));
}
