//! The plan's experiments with real programs: `xsched-lab`.

mod counts;
pub(crate) mod document;
pub(crate) mod files;
pub(crate) mod identity;
pub(crate) mod judge;
mod measure;
mod node;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod prestart;
mod program;
pub(crate) mod program_files;
pub(crate) mod protocol;
pub(crate) mod quantities;
pub(crate) mod report;
pub(crate) mod run;
mod script;
pub(crate) mod session;
pub(crate) mod stand_in;
pub(crate) mod table;
pub(crate) mod timing;
