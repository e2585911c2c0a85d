//! Executions that are saved and restored after random numbers of instructions: the same results.

#[path = "../tests/support/mod.rs"]
mod support;
#[path = "../tests/support/work.rs"]
mod work;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::{Config, Execution, ImageError, Progress, checksum};
use support::{Launch, Ram, Ticks, file};
use work::{KERNELS, THREADS, WORDS, sums};

const BLOCKS: usize = 3;
const ROUNDS: usize = 3;

/// A launch of a kernel, and where its sums are.
fn launch(ram: &Ram, kernel: &str) -> (Launch, u64) {
    let kernels = ram.load(&file("lab/kernels/work.gfx942.hsaco"));
    let (beats, sums) = (ram.take(16 * BLOCKS as u64), ram.take(16 * BLOCKS as u64));
    let memory = ram.take(8 * (BLOCKS * THREADS * WORDS + 2) as u64);
    let arguments = ram.put(&[ROUNDS as u64, beats, 1, sums, memory]);
    (Launch::new(ram, kernels[kernel], arguments, BLOCKS as u32, THREADS as u16), sums)
}

/// Runs a kernel that is interrupted after up to `pause_max` instructions each time. Answers how
/// often it was.
fn interrupted(kernel: &str, seed: u64, pause_max: u64) -> usize {
    let mut random = Pcg64::seed_from_u64(seed);
    let ram = Ram::new(1 << 20);
    let (launch, found) = launch(&ram, kernel);
    let (config, clock) = (Config::default(), Ticks::default());
    let mut execution = launch.start(&ram, &config);
    let mut interrupts = 0;
    let what = |interrupts| format!("{kernel}, seed {seed}, {interrupts} interrupts");
    loop {
        let progress = execution.run(&ram, &clock, random.random_range(1..pause_max));
        match progress.unwrap_or_else(|error| panic!("{}: {error}", what(interrupts))) {
            Progress::Done => break,
            Progress::Running | Progress::Waiting => {}
        }
        assert!(execution.instructions() < 1_000_000, "{}: it does not end", what(interrupts));
        let mut image = Vec::new();
        execution.save(&mut image);
        execution = Execution::restore(&image, &ram, &config).expect("the image is as it was");
        interrupts += 1;
    }
    let expected = sums(kernel, ROUNDS, BLOCKS).into_iter().flat_map(|sum| [sum, 1]);
    assert_eq!(
        ram.words(found, 2 * BLOCKS),
        expected.collect::<Vec<_>>(),
        "{} make the result wrong",
        what(interrupts)
    );
    interrupts
}

/// Kernels that use all parts of a compute unit compute the same when they are interrupted.
#[test]
fn interrupted_kernels_compute_the_same() {
    let mut total = 0;
    let mut seeds = 0..;
    while total < 10_000 {
        let seed = seeds.next().expect("a seed");
        total += KERNELS.iter().map(|kernel| interrupted(kernel, seed, 300)).sum::<usize>();
    }
    println!("{total} interrupts with seeds below {}", seeds.start);
}

#[test]
fn accumulators_go_on() {
    interrupted("xs_work_mfma", 1, 300);
}

#[test]
fn the_local_data_share_goes_on() {
    interrupted("xs_work_lds", 2, 300);
}

#[test]
fn waves_that_wait_go_on() {
    interrupted("xs_work_cooperative", 0, 300);
}

#[test]
fn conditions_go_on() {
    interrupted("xs_work_alu", 0, 300);
}

/// An image of a kernel that is half done, and the memory of its packet.
fn image() -> (Ram, Vec<u8>) {
    let ram = Ram::new(1 << 20);
    let (launch, _) = launch(&ram, "xs_work_lds");
    let mut execution = launch.start(&ram, &Config::default());
    execution.run(&ram, &Ticks::default(), 5000).expect("it runs");
    let mut image = Vec::new();
    execution.save(&mut image);
    (ram, image)
}

#[test]
fn damaged_images_are_refused() {
    let (ram, image) = image();
    let restored = |image: &[u8]| Execution::restore(image, &ram, &Config::default());
    assert!(restored(&image).is_ok());
    let mut random = Pcg64::seed_from_u64(5);
    for _ in 0..500 {
        let mut damaged = image.clone();
        let at = random.random_range(0..damaged.len());
        damaged[at] ^= 1 << random.random_range(0..8);
        assert!(restored(&damaged).is_err(), "byte {at}");
        assert!(restored(&image[..at]).is_err(), "{at} bytes");
    }
    let mut other = image.clone();
    other[8] += 1;
    assert_eq!(restored(&other).err(), Some(ImageError::Version(2)));
    assert_eq!(restored(b"").err(), Some(ImageError::NotAnImage));
}

/// Even if the checksum fits, there is no panic, then or when it goes on.
#[test]
fn images_that_are_made_up_do_no_harm() {
    let (ram, image) = image();
    let mut random = Pcg64::seed_from_u64(6);
    let (mut restored, mut refused) = (0, 0);
    for round in 0..500 {
        let mut made_up = image.clone();
        // The fields at the beginning are more interesting than the registers.
        let end = if round % 2 == 0 { 128 } else { made_up.len() - 8 };
        for _ in 0..random.random_range(1..8) {
            made_up[random.random_range(12..end)] = random.random();
        }
        let length = made_up.len() - 8;
        let sum = checksum(&made_up[..length]);
        made_up[length..].copy_from_slice(&sum.to_le_bytes());
        match Execution::restore(&made_up, &ram, &Config::default()) {
            Ok(mut execution) => {
                restored += 1;
                let _ = execution.run(&ram, &Ticks::default(), 2000);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(restored > 100 && refused > 100, "{restored} restored, {refused} refused");
}
