//! Branches, barriers, and what has no operands.

use super::{not, op};
use crate::inst::{Inst, Outcome, Stop};
use crate::ops::Table;
use crate::wave::{INDEXED, M0, Wave};

/// The message that interrupts the host.
const MSG_INTERRUPT: i32 = 1;

fn branch_if(w: &mut Wave, i: &Inst, condition: bool) -> Outcome {
    if condition {
        w.branch(i);
    }
    Ok(())
}

pub(crate) static SOPP: Table = &[&[
    op!(0, "s_nop", |_, _, _| Ok(())),
    op!(1, "s_endpgm", |_, _, _| Err(Stop::End)),
    op!(2, "s_branch", |w, i, _| branch_if(w, i, true)),
    op!(4, "s_cbranch_scc0", |w, i, _| branch_if(w, i, !w.scc)),
    op!(5, "s_cbranch_scc1", |w, i, _| branch_if(w, i, w.scc)),
    op!(6, "s_cbranch_vccz", |w, i, _| branch_if(w, i, w.vcc() == 0)),
    op!(7, "s_cbranch_vccnz", |w, i, _| branch_if(w, i, w.vcc() != 0)),
    op!(8, "s_cbranch_execz", |w, i, _| branch_if(w, i, w.exec() == 0)),
    op!(9, "s_cbranch_execnz", |w, i, _| branch_if(w, i, w.exec() != 0)),
    op!(10, "s_barrier", |_, _, _| Err(Stop::Barrier)),
    not!(11, "s_setkill"),
    // Every instruction is complete before the next one.
    op!(12, "s_waitcnt", |_, _, _| Ok(())),
    // As the hardware does, 0 goes on.
    op!(13, "s_sethalt", |_, i, _| match i.imm & 1 {
        0 => Ok(()),
        _ => Err(Stop::NotEmulated("s_sethalt 1")),
    }),
    op!(14, "s_sleep", |_, _, _| Err(Stop::Sleep)),
    op!(15, "s_setprio", |_, _, _| Ok(())),
    op!(16, "s_sendmsg", |w, i, e| {
        if i.imm != MSG_INTERRUPT {
            return Err(Stop::NotEmulated("this message of s_sendmsg"));
        }
        e.memory.interrupt(w.s[M0]);
        Ok(())
    }),
    not!(17, "s_sendmsghalt"),
    op!(18, "s_trap", |_, i, _| Err(Stop::Trap(i.imm as u8))),
    op!(19, "s_icache_inv", |_, _, _| Err(Stop::ForgetCode)),
    op!(20, "s_incperflevel", |_, _, _| Ok(())),
    op!(21, "s_decperflevel", |_, _, _| Ok(())),
    op!(22, "s_ttracedata", |_, _, _| Ok(())),
    // No debugger is attached.
    op!(23, "s_cbranch_cdbgsys", |_, _, _| Ok(())),
    op!(24, "s_cbranch_cdbguser", |_, _, _| Ok(())),
    op!(25, "s_cbranch_cdbgsys_or_user", |_, _, _| Ok(())),
    op!(26, "s_cbranch_cdbgsys_and_user", |_, _, _| Ok(())),
    not!(27, "s_endpgm_saved"),
    op!(28, "s_set_gpr_idx_off", |w, _, _| {
        w.mode &= !INDEXED;
        Ok(())
    }),
    op!(29, "s_set_gpr_idx_mode", |w, i, _| {
        w.s[M0] = w.s[M0] & !0xf000 | (i.imm as u32 & 15) << 12;
        Ok(())
    }),
    not!(30, "s_endpgm_ordered_ps_done"),
]];
