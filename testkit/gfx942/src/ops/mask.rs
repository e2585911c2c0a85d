//! Instructions between vector and scalar registers, and between lanes.

use crate::inst::{Env, Inst, Outcome};
use crate::lanes::{map0, words};
use crate::wave::Wave;

pub(crate) fn read_first_lane(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let lane = w.first_lane();
    read(w, i, lane)
}

pub(crate) fn read_lane(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let lane = w.scalar::<u32>(i, 1) as usize & 63;
    read(w, i, lane)
}

fn read(w: &mut Wave, i: &Inst, lane: usize) -> Outcome {
    let value = w.row(i, 0).map(|row| row[lane]);
    w.s[usize::from(i.dst)] = value.unwrap_or_else(|| w.scalar(i, 0));
    Ok(())
}

pub(crate) fn write_lane(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let value = w.scalar(i, 0);
    let lane = w.scalar::<u32>(i, 1) as usize & 63;
    w.v[usize::from(i.dst)][lane] = value;
    Ok(())
}

pub(crate) fn swap(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let (a, b) = (usize::from(i.dst), usize::from(i.src[0]).saturating_sub(256));
    let (row_a, row_b, exec) = (w.v[a], w.v[b], w.exec());
    w.write_row(a, &row_b, exec);
    w.write_row(b, &row_a, exec);
    Ok(())
}

pub(crate) fn accumulator_move(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let (row, exec) = (words::<u32>(w, i, 0), w.exec());
    w.write_row(usize::from(i.dst), &row, exec);
    Ok(())
}

/// Operand 1 where the mask in operand 2 has a bit, operand 0 elsewhere.
pub(crate) fn choose(w: &mut Wave, i: &Inst, _: &mut Env<'_>) -> Outcome {
    let mask: u64 = w.scalar(i, 2);
    let (no, yes) = (words::<u32>(w, i, 0), words::<u32>(w, i, 1));
    map0(w, i, |lane| if mask >> lane & 1 == 1 { yes[lane] } else { no[lane] })
}

/// How many bits of operand 0 belong to lanes before each lane, plus operand 1. The bits are those
/// of the lanes from `first`.
pub(crate) fn count_before(w: &mut Wave, i: &Inst, first: usize) -> Outcome {
    let (masks, added) = (words::<u32>(w, i, 0), words::<u32>(w, i, 1));
    map0(w, i, |lane| {
        let before = (1_u64 << lane.saturating_sub(first).min(32)) - 1;
        (u64::from(masks[lane]) & before).count_ones().wrapping_add(added[lane])
    })
}
