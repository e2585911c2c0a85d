//! The plan's experiments with real programs: `xsched lab`.

pub(crate) mod document;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod protocol;
pub(crate) mod report;
