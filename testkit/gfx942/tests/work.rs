//! The kernels whose results are checked when they are interrupted, and those that spin: the same
//! results as on the processor.

#[path = "support/mod.rs"]
mod support;
#[path = "support/work.rs"]
mod work;

use rand::{RngExt, SeedableRng};
use support::{Launch, Ram, Ticks, file};
use work::{KERNELS, THREADS, WORDS, sums};
use xsched_gfx942::{Config, Execution, Memory, Progress};

const BLOCKS: usize = 3;

/// A launch of a kernel, and where its sums are.
fn launch(ram: &Ram, kernel: &str, rounds: usize) -> (Launch, u64) {
    let kernels = ram.load(&file("lab/kernels/work.gfx942.hsaco"));
    let beats = ram.take(16 * BLOCKS as u64);
    let sums = ram.take(16 * BLOCKS as u64);
    let memory = ram.take(8 * (BLOCKS * THREADS * WORDS + 2) as u64);
    let arguments = ram.put(&[rounds as u64, beats, 1, sums, memory]);
    (Launch::new(ram, kernels[kernel], arguments, BLOCKS as u32, THREADS as u16), sums)
}

fn expected(kernel: &str, rounds: usize) -> Vec<u64> {
    sums(kernel, rounds, BLOCKS).into_iter().flat_map(|sum| [sum, 1]).collect()
}

#[test]
fn the_kernels_of_work_compute_what_the_processor_does() {
    for kernel in KERNELS {
        let ram = Ram::new(1 << 20);
        let (launch, sums) = launch(&ram, kernel, 5);
        let instructions = launch.run(&ram).unwrap_or_else(|error| panic!("{kernel}: {error}"));
        println!("{kernel}: {instructions} instructions");
        assert_eq!(ram.words(sums, 2 * BLOCKS), expected(kernel, 5), "{kernel}");
    }
}

/// Runs a kernel that is saved and restored after random numbers of instructions. Answers how often.
fn interrupted(kernel: &str, seed: u64, rounds: usize, pause_max: u64) -> usize {
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    let ram = Ram::new(1 << 20);
    let (launch, sums) = launch(&ram, kernel, rounds);
    let (config, clock) = (Config::default(), Ticks::default());
    let mut execution = launch.start(&ram, &config);
    let mut interrupts = 0;
    let mut image = Vec::new();
    while execution.run(&ram, &clock, random.random_range(1..pause_max)).unwrap() != Progress::Done
    {
        image.clear();
        execution.save(&mut image);
        execution = Execution::restore(&image, &ram, &config).unwrap();
        interrupts += 1;
    }
    let found = ram.words(sums, 2 * BLOCKS);
    assert_eq!(found, expected(kernel, rounds), "{kernel}, seed {seed}, {interrupts} interrupts");
    interrupts
}

#[test]
fn interrupted_kernels_compute_the_same() {
    let mut total = 0;
    for seed in 0.. {
        for kernel in KERNELS {
            total += interrupted(kernel, seed, 3, 300);
        }
        if total >= 10_000 {
            println!("{total} interrupts with seeds 0 to {seed}");
            return;
        }
    }
}

#[test]
fn kernels_that_spin_end() {
    let ram = Ram::new(1 << 20);
    let kernels = ram.load(&file("hal-hip/kernels/spin.gfx942.hsaco"));
    let run = |kernel: &str, arguments: &[u64]| {
        let arguments = ram.put(arguments);
        Launch::new(&ram, kernels[kernel], arguments, 2, 100).run(&ram).unwrap()
    };
    assert_eq!(run("xs_nothing", &[]), 4);
    let stamps = ram.take(16);
    run("xs_spin", &[10_000, stamps]);
    let [start, end] = ram.words(stamps, 2)[..] else { unreachable!() };
    assert!(start > 0 && end - start >= 10_000 && end - start < 12_000, "{start} {end}");
    // It reads the clock three times, since the host has asked for that many.
    let words = ram.put(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let arguments = ram.put(&[words, 3]);
    Launch { grid: [1, 1, 1], ..Launch::new(&ram, kernels["xs_clock"], arguments, 1, 1) }
        .run(&ram)
        .unwrap();
    let stamps = ram.words(words + 64, 3);
    assert!(stamps.is_sorted() && stamps[0] > 0, "{stamps:?}");
    assert_eq!(ram.read_u64(words).unwrap(), 3);
}
