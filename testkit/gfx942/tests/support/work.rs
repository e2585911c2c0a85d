//! Results of the kernels of `lab/kernels/work.hip`, computed on the processor.

pub(crate) const THREADS: usize = 256;
pub(crate) const WORDS: usize = 8;
const STEPS: usize = 32;
const LDS_WORDS: usize = 4096;

pub(crate) const KERNELS: [&str; 7] = [
    "xs_work_alu",
    "xs_work_lds",
    "xs_work_mfma",
    "xs_work_memory",
    "xs_work_atomics",
    "xs_work_barrier",
    "xs_work_cooperative",
];

pub(crate) fn mix(state: u64) -> u64 {
    let mut x = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

fn seed(block: usize, thread: usize) -> u64 {
    mix((block * THREADS + thread) as u64)
}

/// The sum of each block.
pub(crate) fn sums(kernel: &str, rounds: usize, blocks: usize) -> Vec<u64> {
    let results: Vec<Vec<u64>> = match kernel {
        "xs_work_alu" => each(blocks, |seed| alu(seed, rounds)),
        "xs_work_lds" => each(blocks, |seed| lds(seed, rounds)),
        "xs_work_memory" => each(blocks, |seed| memory(seed, rounds)),
        "xs_work_mfma" => (0..blocks).map(|block| mfma(block, rounds)).collect(),
        "xs_work_atomics" => (0..blocks).map(|block| atomics(block, rounds)).collect(),
        "xs_work_barrier" => (0..blocks).map(|block| barrier(block, rounds)).collect(),
        "xs_work_cooperative" => cooperative(blocks, rounds),
        other => panic!("{other}"),
    };
    let sum = |block: Vec<u64>| block.into_iter().fold(0, |sum: u64, r| sum.wrapping_add(mix(r)));
    results.into_iter().map(sum).collect()
}

fn each(blocks: usize, f: impl Fn((u64, usize)) -> u64) -> Vec<Vec<u64>> {
    let of = |block| (0..THREADS).map(|thread| f((seed(block, thread), thread))).collect();
    (0..blocks).map(of).collect()
}

fn alu((seed, _): (u64, usize), rounds: usize) -> u64 {
    let mut a = seed;
    let mut b = mix(a);
    let mut c = mix(b);
    let mut d = mix(c);
    for _ in 0..rounds * STEPS {
        a = mix(a ^ d);
        b = mix(b ^ a);
        c = mix(c ^ b);
        d = mix(d ^ c);
    }
    a ^ b ^ c ^ d
}

fn lds((seed, thread): (u64, usize), rounds: usize) -> u64 {
    const ROWS: usize = LDS_WORDS / THREADS;
    let mut state = seed;
    let mut column: Vec<u64> =
        (0..ROWS).map(|row| mix(state.wrapping_add((row * THREADS + thread) as u64))).collect();
    for _ in 0..rounds * STEPS {
        let word = &mut column[(state as u32 % ROWS as u32) as usize];
        let read = *word;
        *word = read.wrapping_add(state);
        state = mix(state ^ read);
    }
    column.into_iter().fold(state, |state, word| mix(state ^ word))
}

fn memory((seed, _): (u64, usize), rounds: usize) -> u64 {
    let mut state = seed;
    let mut own: Vec<u64> = (0..WORDS).map(|n| mix(state.wrapping_add(n as u64))).collect();
    for _ in 0..rounds * 4 {
        let word = &mut own[(state % WORDS as u64) as usize];
        let read = *word;
        *word = read.wrapping_add(state);
        state = mix(state ^ read);
    }
    own.into_iter().fold(state, |state, word| mix(state ^ word))
}

fn atomics(block: usize, rounds: usize) -> Vec<u64> {
    let mut counters = vec![0_u64; THREADS];
    let mut states: Vec<_> = (0..THREADS).map(|thread| seed(block, thread)).collect();
    for state in &mut states {
        for _ in 0..rounds * 4 {
            let counter = &mut counters[(*state % THREADS as u64) as usize];
            *counter = counter.wrapping_add(*state);
            *state = mix(*state);
        }
    }
    states.iter().zip(counters).map(|(state, counter)| state ^ counter).collect()
}

fn barrier(block: usize, rounds: usize) -> Vec<u64> {
    let mut states: Vec<_> = (0..THREADS).map(|thread| seed(block, thread)).collect();
    for _ in 0..rounds * 4 {
        let old = states.clone();
        for (thread, state) in states.iter_mut().enumerate() {
            *state = mix(*state ^ old[(thread + 65) % THREADS]);
        }
    }
    states
}

fn cooperative(blocks: usize, rounds: usize) -> Vec<Vec<u64>> {
    let mut states: Vec<Vec<u64>> =
        (0..blocks).map(|b| (0..THREADS).map(|t| seed(b, t)).collect()).collect();
    for _ in 0..rounds {
        let old = states.clone();
        for (block, own) in states.iter_mut().enumerate() {
            for (thread, state) in own.iter_mut().enumerate() {
                *state = mix(*state ^ old[(block + 1) % blocks][thread]);
            }
        }
    }
    states
}

/// Adds to the four sums of each lane of a wave: a 16×32 by a 32×16 matrix of bytes.
fn multiply(a: &[u64], b: &[u64], sums: &mut [[i32; 4]]) {
    // Lane `l` has row, or column, `l % 16` and of it the eight elements from `l / 16 * 8`.
    let element =
        |words: &[u64], row: usize, k: usize| words[k / 8 * 16 + row].to_le_bytes()[k % 8] as i8;
    for (lane, sums) in sums.iter_mut().enumerate() {
        for (n, sum) in sums.iter_mut().enumerate() {
            for k in 0..32 {
                let product = i32::from(element(a, lane / 16 * 4 + n, k))
                    * i32::from(element(b, lane % 16, k));
                *sum = sum.wrapping_add(product);
            }
        }
    }
}

fn mfma(block: usize, rounds: usize) -> Vec<u64> {
    let wave = |first: usize| {
        let mut states: Vec<u64> = (first..first + 64).map(|thread| seed(block, thread)).collect();
        let halves = |state: &u64| [*state as i32, (*state >> 32) as i32];
        let mut c: Vec<[i32; 4]> =
            states.iter().map(halves).map(|[low, high]| [low, high, 1, 2]).collect();
        let mut d: Vec<[i32; 4]> =
            states.iter().map(halves).map(|[low, high]| [3, 4, low, high]).collect();
        for step in 0..rounds * STEPS {
            let mixed: Vec<u64> = states.iter().map(|state| mix(*state)).collect();
            multiply(&states, &mixed, &mut c);
            multiply(&mixed, &states, &mut d);
            for (state, c) in states.iter_mut().zip(&c) {
                *state = mix(*state ^ u64::from(c[step % 4] as u32));
            }
        }
        for (lane, state) in states.iter_mut().enumerate() {
            for n in 0..4 {
                let (c, d) = (c[lane][n] as u32, d[lane][n] as u32);
                *state = mix(*state ^ u64::from(c) ^ u64::from(d) << 32);
            }
        }
        states
    };
    (0..THREADS).step_by(64).flat_map(wave).collect()
}
