//! Matrix multiplications of a whole wave.

use super::{not, op};
use crate::inst::{Inst, Op, Outcome, Stop};
use crate::value::{Bf16, Half, Value};
use crate::wave::{LANES, Wave};

/// The shape: `blocks` products of an `size`×`depth` by a `depth`×`size` matrix.
#[derive(Debug, Clone, Copy)]
struct Shape {
    size: usize,
    depth: usize,
    blocks: usize,
}

const fn shape(size: usize, depth: usize, blocks: usize) -> Shape {
    Shape { size, depth, blocks }
}

impl Shape {
    /// The lane that has an element of the matrices that are multiplied, and which of its elements
    /// it is. `row` is a row of the first, or a column of the second.
    fn factor(self, block: usize, row: usize, k: usize) -> (usize, usize) {
        let each = self.size * self.depth * self.blocks / LANES;
        let groups = LANES / self.size;
        let group = if self.blocks == groups { block } else { k / each };
        (group * self.size + row, k % each)
    }

    /// The lane and the register of an element of the sum.
    fn sum(self, block: usize, row: usize, column: usize) -> (usize, usize) {
        match self.size {
            // Each block has lanes of its own.
            4 => (block * 4 + column, row),
            size => {
                let groups = LANES / size;
                let each = size * size / LANES;
                let lane = row / 4 % groups * size + column;
                (lane, block * each + row / (4 * groups) * 4 + row % 4)
            }
        }
    }
}

/// Elements of an operand, some in each register.
trait Element: Copy {
    fn at(w: &Wave, row: usize, lane: usize, n: usize) -> Self;
}

impl Element for i8 {
    fn at(w: &Wave, row: usize, lane: usize, n: usize) -> Self {
        (w.v[row + n / 4][lane] >> (8 * (n % 4))) as Self
    }
}

impl Element for Half {
    fn at(w: &Wave, row: usize, lane: usize, n: usize) -> Self {
        Self::of(w.v[row + n / 2][lane] >> (16 * (n % 2)), 0)
    }
}

impl Element for Bf16 {
    fn at(w: &Wave, row: usize, lane: usize, n: usize) -> Self {
        Self::of(w.v[row + n / 2][lane] >> (16 * (n % 2)), 0)
    }
}

impl Element for f32 {
    fn at(w: &Wave, row: usize, lane: usize, n: usize) -> Self {
        Self::from_bits(w.v[row + n][lane])
    }
}

/// Multiplies, and adds in the order of `k`.
fn multiply<T: Element, S: Value>(
    w: &mut Wave,
    i: &Inst,
    shape: Shape,
    add: impl Fn(T, T, S) -> S,
) -> Outcome {
    if i.src[0] < 256 || i.src[1] < 256 {
        return Err(Stop::Illegal);
    }
    if i.neg != 0 || i.bits >> 8 & 7 != 0 {
        return Err(Stop::NotEmulated("a matrix multiplication with other lanes' elements"));
    }
    let [a, b] = [0, 1].map(|n| usize::from(i.src[n]) - 256);
    let constant = w.scalar_operand::<S>(i, 2);
    let results = shape.size * shape.size * shape.blocks / LANES;
    let mut rows = [[0; LANES]; 32];
    for (block, row, column) in elements(shape) {
        let (lane, register) = shape.sum(block, row, column);
        let mut sum = constant.unwrap_or_else(|| {
            S::of(w.v[usize::from(i.src[2]) - 256 + register][lane], 0)
        });
        for k in 0..shape.depth {
            let ((lane_a, n), (lane_b, m)) = (shape.factor(block, row, k), shape.factor(block, column, k));
            sum = add(T::at(w, a, lane_a, n), T::at(w, b, lane_b, m), sum);
        }
        rows[register][lane] = sum.bits().0;
    }
    w.v[usize::from(i.dst)..][..results].copy_from_slice(&rows[..results]);
    Ok(())
}

/// Block, row and column of each element of the sum.
fn elements(shape: Shape) -> impl Iterator<Item = (usize, usize, usize)> {
    let of = move |block| {
        (0..shape.size * shape.size).map(move |at| (block, at / shape.size, at % shape.size))
    };
    (0..shape.blocks).flat_map(of)
}

fn whole(a: i8, b: i8, sum: i32) -> i32 {
    sum.wrapping_add(i32::from(a) * i32::from(b))
}

fn halves(a: Half, b: Half, sum: f32) -> f32 {
    (a.0 as f32).mul_add(b.0 as f32, sum)
}

fn brains(a: Bf16, b: Bf16, sum: f32) -> f32 {
    a.0.mul_add(b.0, sum)
}

fn singles(a: f32, b: f32, sum: f32) -> f32 {
    a.mul_add(b, sum)
}

fn double(w: &Wave, row: usize, lane: usize) -> f64 {
    f64::of(w.v[row][lane], w.v[row + 1][lane])
}

/// Of the numbers with 64 bits, `place` says which lane has an element of the sum, and which of its
/// pairs of registers; `factor` says which lane has an element of the others.
fn multiply_doubles(
    w: &mut Wave,
    i: &Inst,
    shape: Shape,
    factor: fn(usize, usize, usize) -> usize,
    place: fn(usize, usize, usize) -> (usize, usize),
) -> Outcome {
    if i.src[0] < 256 || i.src[1] < 256 {
        return Err(Stop::Illegal);
    }
    if i.neg != 0 || i.bits >> 8 & 7 != 0 {
        return Err(Stop::NotEmulated("a matrix multiplication with other signs or lanes"));
    }
    let [a, b] = [0, 1].map(|n| usize::from(i.src[n]) - 256);
    let constant = w.scalar_operand::<f64>(i, 2);
    let results = shape.size * shape.size * shape.blocks / LANES;
    let mut rows = [[0; LANES]; 8];
    for (block, row, column) in elements(shape) {
        let (lane, pair) = place(block, row, column);
        let sum = constant
            .unwrap_or_else(|| double(w, usize::from(i.src[2]) - 256 + 2 * pair, lane));
        let sum = (0..shape.depth).fold(sum, |sum, k| {
            let (one, other) = (factor(block, row, k), factor(block, column, k));
            double(w, a, one).mul_add(double(w, b, other), sum)
        });
        (rows[2 * pair][lane], rows[2 * pair + 1][lane]) = sum.bits();
    }
    w.v[usize::from(i.dst)..][..2 * results].copy_from_slice(&rows[..2 * results]);
    Ok(())
}

impl Wave {
    /// Operand `n`, if it is none of vector registers.
    fn scalar_operand<T: Value>(&self, i: &Inst, n: usize) -> Option<T> {
        (i.src[n] < 256).then(|| self.scalar(i, n))
    }
}

macro_rules! mfma {
    ($n:literal, $name:literal, $shape:expr, $add:expr) => {
        op!($n, $name, |w, i, _| multiply(w, i, $shape, $add))
    };
}

pub(crate) static MATRIX: &[Op] = &[
    not!(62, "v_mfma_f32_16x16x8_xf32"),
    not!(63, "v_mfma_f32_32x32x4_xf32"),
    mfma!(64, "v_mfma_f32_32x32x1_2b_f32", shape(32, 1, 2), singles),
    mfma!(65, "v_mfma_f32_16x16x1_4b_f32", shape(16, 1, 4), singles),
    mfma!(66, "v_mfma_f32_4x4x1_16b_f32", shape(4, 1, 16), singles),
    mfma!(68, "v_mfma_f32_32x32x2_f32", shape(32, 2, 1), singles),
    mfma!(69, "v_mfma_f32_16x16x4_f32", shape(16, 4, 1), singles),
    mfma!(72, "v_mfma_f32_32x32x4_2b_f16", shape(32, 4, 2), halves),
    mfma!(73, "v_mfma_f32_16x16x4_4b_f16", shape(16, 4, 4), halves),
    mfma!(74, "v_mfma_f32_4x4x4_16b_f16", shape(4, 4, 16), halves),
    mfma!(76, "v_mfma_f32_32x32x8_f16", shape(32, 8, 1), halves),
    mfma!(77, "v_mfma_f32_16x16x16_f16", shape(16, 16, 1), halves),
    mfma!(80, "v_mfma_i32_32x32x4_2b_i8", shape(32, 4, 2), whole),
    mfma!(81, "v_mfma_i32_16x16x4_4b_i8", shape(16, 4, 4), whole),
    mfma!(82, "v_mfma_i32_4x4x4_16b_i8", shape(4, 4, 16), whole),
    mfma!(86, "v_mfma_i32_32x32x16_i8", shape(32, 16, 1), whole),
    mfma!(87, "v_mfma_i32_16x16x32_i8", shape(16, 32, 1), whole),
    mfma!(93, "v_mfma_f32_32x32x4_2b_bf16", shape(32, 4, 2), brains),
    mfma!(94, "v_mfma_f32_16x16x4_4b_bf16", shape(16, 4, 4), brains),
    mfma!(95, "v_mfma_f32_4x4x4_16b_bf16", shape(4, 4, 16), brains),
    mfma!(96, "v_mfma_f32_32x32x8_bf16", shape(32, 8, 1), brains),
    mfma!(97, "v_mfma_f32_16x16x16_bf16", shape(16, 16, 1), brains),
    op!(110, "v_mfma_f64_16x16x4_f64", |w, i, _| {
        let factor = |_, row, k| 16 * k + row;
        let place = |_, row, column| (16 * (row % 4) + column, row / 4);
        multiply_doubles(w, i, shape(16, 4, 1), factor, place)
    }),
    op!(111, "v_mfma_f64_4x4x4_4b_f64", |w, i, _| {
        let factor = |block, row, k| 16 * k + 4 * block + row;
        let place = |block, row, column| (16 * row + 4 * block + column, 0);
        multiply_doubles(w, i, shape(4, 4, 4), factor, place)
    }),
    not!(98, "v_smfmac_f32_16x16x32_f16"),
    not!(100, "v_smfmac_f32_32x32x16_f16"),
    not!(102, "v_smfmac_f32_16x16x32_bf16"),
    not!(104, "v_smfmac_f32_32x32x16_bf16"),
    not!(106, "v_smfmac_i32_16x16x64_i8"),
    not!(108, "v_smfmac_i32_32x32x32_i8"),
    not!(112, "v_mfma_f32_16x16x32_bf8_bf8"),
    not!(113, "v_mfma_f32_16x16x32_bf8_fp8"),
    not!(114, "v_mfma_f32_16x16x32_fp8_bf8"),
    not!(115, "v_mfma_f32_16x16x32_fp8_fp8"),
    not!(116, "v_mfma_f32_32x32x16_bf8_bf8"),
    not!(117, "v_mfma_f32_32x32x16_bf8_fp8"),
    not!(118, "v_mfma_f32_32x32x16_fp8_bf8"),
    not!(119, "v_mfma_f32_32x32x16_fp8_fp8"),
];
