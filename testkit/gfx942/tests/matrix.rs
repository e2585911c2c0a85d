//! Matrix multiplications: the same results as on the processor.

#[path = "support/compilers.rs"]
mod compilers;
#[path = "support/mod.rs"]
mod support;

use rand::{RngExt, SeedableRng};
use support::{Launch, Ram};

const LANES: usize = 64;

/// Where elements are. Numbers are those of a lane, and of an element among those of that lane.
struct Layout {
    name: &'static str,
    size: usize,
    depth: usize,
    blocks: usize,
    is_whole: bool,
    /// Of block, row and `k` of the matrices that are multiplied.
    factor: fn(usize, usize, usize) -> (usize, usize),
    /// Of block, row and column of the sum.
    sum: fn(usize, usize, usize) -> (usize, usize),
}

fn sum16(block: usize, row: usize, column: usize) -> (usize, usize) {
    (row / 4 * 16 + column, 4 * block + row % 4)
}

fn sum32(block: usize, row: usize, column: usize) -> (usize, usize) {
    (row / 4 % 2 * 32 + column, 16 * block + row / 8 * 4 + row % 4)
}

fn sum4(block: usize, row: usize, column: usize) -> (usize, usize) {
    (4 * block + column, row)
}

const fn layout(
    name: &'static str,
    [size, depth, blocks]: [usize; 3],
    factor: fn(usize, usize, usize) -> (usize, usize),
    sum: fn(usize, usize, usize) -> (usize, usize),
) -> Layout {
    Layout { name, size, depth, blocks, is_whole: false, factor, sum }
}

const fn whole(layout: Layout) -> Layout {
    Layout { is_whole: true, ..layout }
}

/// The kernels of `matrix.hip`.
static LAYOUTS: [Layout; 17] = [
    layout("m_16x16x16_f16", [16, 16, 1], |_, r, k| (k / 4 * 16 + r, k % 4), sum16),
    layout("m_32x32x8_f16", [32, 8, 1], |_, r, k| (k / 4 * 32 + r, k % 4), sum32),
    layout("m_4x4x4_f16", [4, 4, 16], |b, r, k| (4 * b + r, k), sum4),
    layout("m_16x16x4_f16", [16, 4, 4], |b, r, k| (16 * b + r, k), sum16),
    layout("m_32x32x4_f16", [32, 4, 2], |b, r, k| (32 * b + r, k), sum32),
    layout("m_16x16x16_bf16", [16, 16, 1], |_, r, k| (k / 4 * 16 + r, k % 4), sum16),
    layout("m_32x32x8_bf16", [32, 8, 1], |_, r, k| (k / 4 * 32 + r, k % 4), sum32),
    layout("m_4x4x4_bf16", [4, 4, 16], |b, r, k| (4 * b + r, k), sum4),
    layout("m_16x16x4_f32", [16, 4, 1], |_, r, k| (16 * k + r, 0), sum16),
    layout("m_32x32x2_f32", [32, 2, 1], |_, r, k| (32 * k + r, 0), sum32),
    layout("m_4x4x1_f32", [4, 1, 16], |b, r, _| (4 * b + r, 0), sum4),
    layout("m_32x32x1_f32", [32, 1, 2], |b, r, _| (32 * b + r, 0), sum32),
    whole(layout("m_16x16x32_i8", [16, 32, 1], |_, r, k| (k / 8 * 16 + r, k % 8), sum16)),
    whole(layout("m_32x32x16_i8", [32, 16, 1], |_, r, k| (k / 8 * 32 + r, k % 8), sum32)),
    whole(layout("m_4x4x4_i8", [4, 4, 16], |b, r, k| (4 * b + r, k), sum4)),
    layout(
        "m_16x16x4_f64",
        [16, 4, 1],
        |_, r, k| (16 * k + r, 0),
        |_, row, column| (row % 4 * 16 + column, row / 4),
    ),
    layout(
        "m_4x4x4_f64",
        [4, 4, 4],
        |b, r, k| (16 * k + 4 * b + r, 0),
        |b, row, column| (16 * row + 4 * b + column, 0),
    ),
];

impl Layout {
    fn element(&self, words: &[u64], (lane, n): (usize, usize)) -> i64 {
        let byte = (words[lane] >> (8 * n)) as u8;
        if self.is_whole { i64::from(byte as i8) } else { i64::from(byte & 15) - 7 }
    }

    fn expected(&self, [x, y]: &[Vec<u64>; 2]) -> Vec<i64> {
        let results = self.size * self.size * self.blocks / LANES;
        let mut expected = vec![i64::MIN; results * LANES];
        for block in 0..self.blocks {
            for (row, column) in (0..self.size).flat_map(|r| (0..self.size).map(move |c| (r, c))) {
                let (lane, n) = (self.sum)(block, row, column);
                let start = ((x[lane] >> 56 & 15) as i64 - 7) * (n as i64 + 1);
                let product = |k| {
                    let (a, b) = ((self.factor)(block, row, k), (self.factor)(block, column, k));
                    self.element(x, a) * self.element(y, b)
                };
                expected[n * LANES + lane] = (0..self.depth).fold(start, |sum, k| sum + product(k));
            }
        }
        assert!(!expected.contains(&i64::MIN), "{}: every element has its place", self.name);
        expected
    }
}

fn check(name: &str, object: &[u8]) {
    let mut random = rand_pcg::Pcg64::seed_from_u64(942);
    let ram = Ram::new(1 << 20);
    let kernels = ram.load(object);
    for layout in &LAYOUTS {
        let words: Vec<u64> = (0..2 * LANES).map(|_| random.random()).collect();
        let of = |n: usize| words.iter().skip(n).step_by(2).copied().collect();
        let expected = layout.expected(&[of(0), of(1)]);
        let out = ram.put(&vec![0; expected.len()]);
        let arguments = ram.put(&[ram.put(&words), out]);
        Launch::new(&ram, kernels[layout.name], arguments, 1, 64).run(&ram).unwrap();
        let found: Vec<_> =
            ram.words(out, expected.len()).iter().map(|word| *word as i64).collect();
        assert_eq!(found, expected, "{name}, {}", layout.name);
    }
}

#[test]
fn matrices_are_multiplied_as_on_the_processor() {
    check("committed", &support::file("testkit/gfx942/kernels/matrix.O3.hsaco"));
}

#[test]
fn matrices_of_other_compilers_are_multiplied_as_on_the_processor() {
    let mut failed = Vec::new();
    for (name, object) in compilers::objects("matrix.hip", &["-O0", "-O1", "-O3"]) {
        println!("{name}: {} bytes", object.len());
        if std::panic::catch_unwind(|| check(&name, &object)).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
