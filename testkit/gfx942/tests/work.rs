//! The kernels that interrupts are tried on, without any, and those that spin: the same results as
//! on the processor. `src/restored.rs` interrupts them.

#[path = "support/mod.rs"]
mod support;
#[path = "support/work.rs"]
mod work;

use support::{Launch, Ram, file};
use work::{KERNELS, THREADS, WORDS, sums};
use xsched_gfx942::Memory;

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

/// Nanoseconds that this thread has had a processor.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Prints how many instructions of waves are executed in a second:
/// `cargo test --release -p xsched-gfx942 --test work -- --ignored --nocapture`.
#[test]
#[ignore = "a figure, not a check"]
fn speed() {
    for kernel in KERNELS {
        let ram = Ram::new(1 << 20);
        let (launch, _) = launch(&ram, kernel, 200);
        let start = processor_ns();
        let instructions = launch.run(&ram).unwrap();
        let seconds = (processor_ns() - start) as f64 / 1e9;
        let millions = instructions as f64 / seconds / 1e6;
        println!("{kernel}: {instructions} instructions, {millions:.1} million a second");
    }
}
