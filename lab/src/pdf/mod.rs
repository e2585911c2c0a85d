//! Documents in PDF, with text that can be found and copied, and drawings as lines. They use the
//! fonts that every reader of PDF has, so no font has to be installed where they are written.

mod flow;
pub(crate) mod font;
mod page;
pub(crate) mod svg;

pub(crate) use flow::{Align, Cell, Flow, Tone};
