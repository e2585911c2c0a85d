//! The plan's experiments with real programs: `xsched lab`.

pub(crate) mod ahead;
pub(crate) mod document;
pub(crate) mod files;
pub(crate) mod judge;
mod lines;
mod measure;
mod node;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod predict;
mod program;
pub(crate) mod protocol;
pub(crate) mod quantities;
pub(crate) mod report;
pub(crate) mod run;
mod script;
pub(crate) mod session;
pub(crate) mod stand_in;
pub(crate) mod table;
pub(crate) mod timing;
