//! Kernels of several compilers and several levels of optimisation: the same results as on the
//! processor.

#[path = "support/compilers.rs"]
mod compilers;
#[path = "support/reference.rs"]
mod reference;
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use reference::Value;
use support::{Launch, Ram};

const ITEMS: usize = 512;
const SEED: u64 = 20_261_125;
/// Bytes of scratch memory for kernels that call functions whose depth compilers do not know.
const STACK: u32 = 8192;

/// Bits that are special as numbers of some length.
const SPECIAL: [u64; 16] = [
    0,
    1,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff8_0000_0000_0000,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x3f80_0000_4049_0fdb,
    0x7f80_0000_ff80_0000,
    0x0080_0000_007f_ffff,
    0x8000_0000_7fc0_0001,
    0x3c00_7c00_fc00_0400,
    0x0000_0001_8000_03ff,
    u64::MAX,
];

/// Words of inputs: some special, some whose numbers are close to each other, the rest at random.
fn inputs(seed: u64) -> Vec<u64> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut word = move |n: usize| match n / 3 % 8 {
        0 => SPECIAL[random.random_range(0..SPECIAL.len())],
        1 => f64::to_bits(random.random_range(-1000.0..1000.0)),
        2 => u64::from(f32::to_bits(random.random_range(-1000.0..1000.0))),
        3 => random.random_range(0..2000),
        4 => random.random::<u64>() & 0x800f_ffff_80ff_83ff,
        _ => random.random(),
    };
    (0..3 * ITEMS).map(|n| if n < 12 { SPECIAL[n] } else { word(n) }).collect()
}

/// A code object that is loaded, with inputs.
struct Loaded {
    ram: Ram,
    kernels: BTreeMap<String, u64>,
    inputs: Vec<u64>,
    name: String,
}

impl Loaded {
    fn new(name: &str, object: &[u8], seed: u64) -> Self {
        let ram = Ram::new(8 << 20);
        let kernels = ram.load(object);
        Self { ram, kernels, inputs: inputs(seed), name: name.to_owned() }
    }

    /// Runs a kernel and answers its results, this many words of zeros before.
    fn run(&self, kernel: &str, blocks: u32, out: &[u64]) -> Vec<u64> {
        let (from, to) = (self.ram.put(&self.inputs), self.ram.put(out));
        let arguments = self.ram.put(&[from, to, ITEMS as u64]);
        let mut launch = Launch::new(&self.ram, self.kernels[kernel], arguments, blocks, 256);
        launch.scratch = launch.scratch.max(if kernel == "k_call" { STACK } else { 0 });
        launch.run(&self.ram).unwrap_or_else(|error| panic!("{}, {kernel}: {error}", self.name));
        self.ram.words(to, out.len())
    }

    /// Compares each work-item's results with those of a function of its three inputs.
    fn compare(&self, kernel: &str, f: impl Fn(u64, u64, u64) -> Vec<Value>) {
        let count = f(1, 1, 1).len();
        let found = self.run(kernel, 2, &vec![0; count * ITEMS]);
        for (item, input) in self.inputs.chunks_exact(3).enumerate() {
            for (n, value) in f(input[0], input[1], input[2]).into_iter().enumerate() {
                let found = found[n * ITEMS + item];
                let what = || format!("{}, {kernel}, result {n} of {input:#x?}", self.name);
                assert!(value.is(found), "{}: {found:#x} instead of {value:x?}", what());
            }
        }
    }

    fn check(&self) {
        self.compare("k_f32", reference::k_f32);
        self.compare("k_f64", reference::k_f64);
        self.compare("k_f16", reference::k_f16);
        self.compare("k_convert", reference::k_convert);
        self.compare("k_integer", reference::k_integer);
        self.compare("k_near", reference::k_near);
        self.compare("k_scratch", |a, b, c| reference::k_scratch(a, b, c, self.inputs[0]));
        self.compare("k_call", reference::k_call);
        self.check_lanes();
        self.check_reduce();
        self.check_atomics();
        self.check_widths();
        self.check_grid();
    }

    /// Each kind of word of all work-items.
    fn column(&self, n: usize) -> Vec<u64> {
        self.inputs.iter().skip(n).step_by(3).copied().collect()
    }

    fn check_lanes(&self) {
        let found = self.run("k_lanes", 2, &vec![0; 26 * ITEMS]);
        let columns = [0, 1, 2].map(|n| self.column(n));
        for first in (0..ITEMS).step_by(64) {
            let words =
                columns.each_ref().map(|c| c[first..][..64].iter().map(|w| *w as u32).collect());
            for (n, expected) in lanes(&words).into_iter().enumerate() {
                let found = &found[n * ITEMS + first..][..64];
                assert_eq!(found, expected, "{}, k_lanes, result {n} from {first}", self.name);
            }
        }
    }

    fn check_reduce(&self) {
        let found = self.run("k_reduce", 2, &vec![0; 3 * ITEMS]);
        let (a, b) = (self.column(0), self.column(1));
        for block in 0..2 {
            let sum = |from: &[u64]| from.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
            for item in 256 * block..256 * (block + 1) {
                let last_lane = item / 64 * 64 + 63;
                if item == last_lane {
                    assert_eq!(found[item], sum(&a[item - 63..=item]) & 0xffff_ffff, "{item}");
                }
                let of_block = 256 * block..256 * (block + 1);
                assert_eq!(found[ITEMS + item], sum(&a[of_block.clone()]) & 0xffff_ffff, "{item}");
                assert_eq!(found[2 * ITEMS + item], sum(&b[of_block]), "{item}");
            }
        }
    }

    fn check_atomics(&self) {
        let mut before = vec![0; 3 * ITEMS];
        before[1] = u64::MAX;
        before[7] = u64::MAX;
        before[16] = 0xffff_ffff << 32;
        before[19] = 99;
        let found = self.run("k_atomics", 2, &before);
        let [a, b, c] = [0, 1, 2].map(|n| self.column(n));
        let signed = |words: &[u64]| words.iter().map(|w| *w as i64).collect::<Vec<_>>();
        let sum =
            |words: &[u64], mask: u64| words.iter().fold(0, |s: u64, w| s.wrapping_add(w & mask));
        let together = |f: fn(u64, u64, u64) -> u64| (0..ITEMS).map(move |n| f(a[n], b[n], c[n]));
        let _ = together;
        let [a, b, c] = [0, 1, 2].map(|n| self.column(n));
        assert_eq!(found[0], sum(&a, u64::MAX));
        assert_eq!(found[1], *b.iter().min().unwrap());
        assert_eq!(found[2], *b.iter().max().unwrap());
        assert_eq!(found[3] as i64, (*signed(&c).iter().min().unwrap()).min(0));
        assert_eq!(found[4] as i64, (*signed(&c).iter().max().unwrap()).max(0));
        assert_eq!(found[5], a.iter().fold(0, |x, w| x ^ w));
        let all = |f: fn(u64, u64, u64) -> u64| {
            (0..ITEMS).map(|n| f(a[n], b[n], c[n])).collect::<Vec<_>>()
        };
        assert_eq!(found[6], all(|a, b, c| a & b & c).iter().fold(0, |x, w| x | w));
        assert_eq!(found[7], all(|a, b, c| a | b | c).iter().fold(u64::MAX, |x, w| x & w));
        assert_eq!(f64::from_bits(found[8]), sum(&a, 0xffff) as f64);
        assert_eq!(found[9], (0..ITEMS).fold(0_u64, |x, _| x.wrapping_mul(3).wrapping_add(1)));
        let blocks = [0, 256].map(|first| sum(&a[first..first + 256], u64::MAX) & 0xffff_ffff);
        assert_eq!(found[10], blocks[0] + blocks[1]);
        assert_eq!(found[11], *b.iter().max().unwrap());
        assert_eq!(found[12], sum(&c, 7));
        let words: Vec<u32> =
            found[16..20].iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect();
        assert_eq!(words[0], sum(&a, u64::MAX) as u32);
        assert_eq!(words[1], b.iter().map(|w| *w as u32).min().unwrap());
        assert_eq!(words[2] as i32, c.iter().map(|w| *w as i32).max().unwrap().max(0));
        assert_eq!(words[3], b.iter().fold(0, |x, w| x ^ *w as u32));
        assert_eq!(f32::from_bits(words[4]), sum(&a, 0xff) as f32);
        assert_eq!(words[5], (ITEMS % 100) as u32);
        assert_eq!(words[6], (0..ITEMS).fold(99, |x, _| if x == 0 { 99 } else { x - 1 }));
        assert_eq!(found[2 * ITEMS..], a[..], "{}", self.name);
    }

    fn check_widths(&self) {
        let found = self.run("k_widths", 2, &vec![0; 8 * ITEMS]);
        let bytes: Vec<u8> = self.inputs.iter().flat_map(|word| word.to_le_bytes()).collect();
        for item in 0..ITEMS {
            let own = &bytes[24 * item..][..24];
            let even = &bytes[24 * (item & !1)..][..24];
            let (results, stored) = widths(item, own, even);
            for (n, result) in results.into_iter().enumerate() {
                assert_eq!(found[n * ITEMS + item], result, "{}, result {n} of {item}", self.name);
            }
            assert_eq!(found[4 * ITEMS + 4 * item..][..4], stored, "{}, {item}", self.name);
        }
    }

    /// A grid whose last blocks are not full, in any direction.
    fn check_grid(&self) {
        let [block, grid] = [[5, 7, 3], [33, 17, 8]];
        let sizes = self.ram.put(&[block[0] | block[1] << 8 | block[2] << 16, 41]);
        let count = (grid[0] * grid[1] * grid[2]) as usize;
        let out = self.ram.put(&vec![0; count]);
        let arguments = self.ram.put(&[sizes, out, 0]);
        let launch = Launch::new(&self.ram, self.kernels["k_grid"], arguments, 1, 1);
        let (block, grid) = (block.map(|n| n as u16), grid.map(|n| n as u32));
        Launch { block, grid, ..launch }.run(&self.ram).unwrap();
        assert_eq!(self.ram.words(out, count), vec![42; count], "{}", self.name);
    }
}

/// Returns what `k_lanes` computes in a wave.
fn lanes([x, y, z]: &[Vec<u32>; 3]) -> Vec<Vec<u64>> {
    const OLD: u32 = 0xdead;
    let each = |f: &dyn Fn(usize) -> u32| (0..64).map(|lane| u64::from(f(lane))).collect();
    let from = |source: Option<usize>, or: u32| source.map_or(or, |lane| x[lane]);
    let pushed = |lane: usize| (0..64).find(|from| (from * 5 + 3) % 64 == lane).unwrap();
    let ballot = (0..64).fold(0, |mask, lane| mask | u64::from(x[lane] & 1) << lane);
    let below = |lane: usize| (1_u64 << lane) - 1;
    let before = |lane: usize| {
        let mask = u64::from(z[lane]) | u64::from(x[lane]) << 32;
        (mask & below(lane)).count_ones() + 5
    };
    let bytes = |word: u32| word.to_le_bytes();
    let sdot = |lane: usize| {
        let terms = bytes(x[lane]).into_iter().zip(bytes(z[lane]));
        terms.fold(y[lane] as i32, |s, (a, b)| {
            s.wrapping_add(i32::from(a as i8) * i32::from(b as i8))
        })
    };
    let udot = |lane: usize| {
        let terms = bytes(x[lane]).into_iter().zip(bytes(z[lane]));
        terms.fold(y[lane], |s, (a, b)| s.wrapping_add(u32::from(a) * u32::from(b)))
    };
    let has = |lane: usize| x[lane] & 2 != 0;
    let first_without = (0..64).find(|lane| !has(*lane)).unwrap_or(0);
    let divergent = |lane: usize| match (has(lane), lane % 16) {
        (false, _) => z[first_without],
        (true, 0) => OLD,
        (true, _) => {
            if has(lane - 1) {
                z[lane - 1]
            } else {
                OLD
            }
        }
    };
    // Byte 0 is byte 1 of the second, byte 1 is 0, byte 2 is byte 2 of the first, byte 3 is ones.
    let perm = |lane: usize| z[lane] >> 8 & 0xff | x[lane] & 0xff_0000 & 0xff0000 | 0xff00_0000;
    let perm = |lane: usize| perm(lane) & !0xff_0000 | (x[lane] >> 16 & 0xff) << 16;
    vec![
        each(&|lane| from((lane % 16 >= 1).then(|| lane - 1), OLD)),
        each(&|lane| from((lane % 16 < 14).then_some(lane + 2), 0)),
        each(&|lane| x[lane & !15 | (lane + 15) & 15]),
        each(&|lane| x[lane ^ 2]),
        each(&|lane| x[lane ^ 15]),
        each(&|lane| x[lane ^ 7]),
        each(&|lane| if lane / 16 % 2 == 1 { x[lane / 16 * 16 - 1] } else { OLD }),
        each(&|lane| if lane >= 32 { x[31] } else { OLD }),
        each(&|lane| from(lane.checked_sub(1), OLD)),
        each(&|lane| from((lane % 16 >= 4).then(|| lane.wrapping_sub(4)), OLD)),
        each(&|lane| x[(z[lane] % 64) as usize]),
        each(&|lane| x[pushed(lane)]),
        each(&|lane| x[lane ^ 1]),
        each(&|lane| x[lane & !3 | [1, 0, 3, 2][lane & 3]]),
        each(&|_| x[17]),
        each(&|_| x[0]),
        vec![ballot; 64],
        each(&before),
        each(&perm),
        each(&|lane| ((u64::from(x[lane]) << 32 | u64::from(z[lane])) >> 13) as u32),
        each(&|lane| x[lane] >> 5 & 0x1ff),
        each(&|lane| ((x[lane] << 18) as i32 >> 23) as u32),
        each(&|lane| sdot(lane) as u32),
        each(&udot),
        each(&divergent),
        vec![u64::MAX; 64],
    ]
}

/// Returns what `k_widths` computes and stores.
fn widths(item: usize, own: &[u8], even: &[u8]) -> ([u64; 4], [u64; 4]) {
    let u64_of = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let u32_of = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let u16_of = |bytes: &[u8]| u16::from_le_bytes(bytes[..2].try_into().unwrap());
    let signed = |value: i64| value as u64;
    let mut shared: Vec<u8> = even[..16].to_vec();
    let sum = u64::from(shared[1])
        .wrapping_add(signed((shared[2] as i8).into()))
        .wrapping_add(u16_of(&shared[4..]).into())
        .wrapping_add(
            (u16_of(&shared[6..]) as i16 as u32).wrapping_add(u32_of(&shared[8..])).into(),
        )
        .wrapping_add(u64_of(&shared[8..]));
    shared[3] = own[5];
    shared[10..12].copy_from_slice(&(item as u16).to_le_bytes());
    let small = i32::from(own[3]) + i32::from(own[7] as i8) + i32::from(u16_of(&own[10..]) as i16);
    let results = [sum, u64_of(&shared), u64_of(&shared[8..]), signed(small.into())];
    let mut stored = [0; 32];
    stored[..12].copy_from_slice(&even[..12]);
    stored[12] = item as u8;
    stored[14..16].copy_from_slice(&[own[0], own[9]]);
    stored[16..24].copy_from_slice(&own[..8]);
    let half = half::f16::from_f32((item + 1) as f32);
    stored[24..26].copy_from_slice(&half.to_le_bytes());
    stored[26..28].copy_from_slice(&(u16_of(&own[6..]) >> 1).to_le_bytes());
    stored[29] = own[2];
    (results, std::array::from_fn(|n| u64_of(&stored[8 * n..])))
}

#[test]
fn committed_kernels_compute_what_the_processor_does() {
    for level in ["O1", "O3"] {
        let path = format!("testkit/gfx942/kernels/arithmetic.{level}.hsaco");
        for seed in SEED..SEED + 4 {
            let name = format!("{level}, seed {seed}");
            Loaded::new(&name, &support::file(&path), seed).check();
        }
    }
}

#[test]
fn kernels_of_other_compilers_compute_what_the_processor_does() {
    let mut failed = Vec::new();
    for (name, object) in compilers::objects("arithmetic.hip", &["-O0", "-O1", "-O2", "-O3", "-Os"])
    {
        println!("{name}: {} bytes", object.len());
        if std::panic::catch_unwind(|| Loaded::new(&name, &object, SEED).check()).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
