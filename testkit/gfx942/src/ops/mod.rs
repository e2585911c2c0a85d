//! Effects of instructions: a table of opcodes for each encoding.

mod atomic;
mod compare;
mod divide;
mod ds;
mod mask;
mod memory;
mod mfma;
mod scalar;
mod smem;
mod sopp;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;

pub(crate) use compare::COMPARE;
pub(crate) use ds::DS;
pub(crate) use memory::{BUFFER, FLAT, GLOBAL, SCRATCH};
pub(crate) use scalar::{SOP1, SOP2, SOPC, SOPK};
pub(crate) use smem::SMEM;
pub(crate) use sopp::SOPP;
pub(crate) use vop1::VOP1;
pub(crate) use vop2::VOP2;
pub(crate) use vop3::VOP3;
pub(crate) use vop3p::VOP3P;

use crate::inst::Op;

/// Lines of tables, together the table of an encoding.
pub(crate) type Table = &'static [&'static [Op]];

/// A function of lanes as what an instruction does.
macro_rules! lanes {
    (|$a:ident: $A:ty| $e:expr) => {
        |w, i, _| crate::lanes::map1::<$A, _>(w, i, |$a| $e)
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty| $e:expr) => {
        |w, i, _| crate::lanes::map2::<$A, $B, _>(w, i, |$a, $b| $e)
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| $e:expr) => {
        |w, i, _| crate::lanes::map3::<$A, $B, $C, _>(w, i, |$a, $b, $c| $e)
    };
}

/// As `lanes`, with another function if the result is to be clamped.
macro_rules! clamped {
    (|$a:ident: $A:ty, $b:ident: $B:ty| $e:expr, $clamped:expr) => {
        |w, i, _| {
            if i.clamp {
                let i = crate::inst::Inst { clamp: false, ..i.clone() };
                return crate::lanes::map2::<$A, $B, _>(w, &i, |$a, $b| $clamped);
            }
            crate::lanes::map2::<$A, $B, _>(w, i, |$a, $b| $e)
        }
    };
    (|$a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty| $e:expr, $clamped:expr) => {
        |w, i, _| {
            if i.clamp {
                let i = crate::inst::Inst { clamp: false, ..i.clone() };
                return crate::lanes::map3::<$A, $B, $C, _>(w, &i, |$a, $b, $c| $clamped);
            }
            crate::lanes::map3::<$A, $B, $C, _>(w, i, |$a, $b, $c| $e)
        }
    };
}

/// An instruction that is known and not emulated.
macro_rules! not {
    ($n:literal, $name:literal) => {
        crate::inst::Op($n, $name, |_, i, _| Err(crate::inst::Stop::NotEmulated(i.name)))
    };
}

/// A line of a table.
macro_rules! op {
    ($n:expr, $name:expr, $run:expr) => {
        crate::inst::Op($n, $name, $run)
    };
}

use {clamped, lanes, not, op};
