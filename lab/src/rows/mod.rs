//! The plan's experiments with real programs: `xsched lab`.

pub(crate) mod document;
