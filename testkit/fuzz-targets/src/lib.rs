//! Bodies of the fuzz targets: each takes bytes, and panics if what they stand for shows a defect.
//! `fuzz/` gives them to the fuzzer; the tests of this crate give them random bytes and the corpus
//! that is checked in, on any toolchain.
//!
//! | function | the bytes are |
//! |---|---|
//! | [`fuzz_scenario`] | a scenario file |
//! | [`fuzz_record`] | a record of a run |
//! | [`machines::queue_machine`] | events for one queue |
//! | [`machines::scheduler_machine`] | events for a scheduler and its queues |
//! | [`kfd::arbitrary_answers`] | answers of AMD's kernel driver |
//! | [`capi::sequence`] | calls of the C API |
//! | [`gfx942::wave`] | code, a packet and a context image for the interpreter of gfx942 |
//! | [`daemon::socket`] | messages of processes to the daemon, with files |
//! | [`daemon::pages`] | what processes write into the pages that the daemon reads |
#![expect(unsafe_code, reason = "calls the C API, and stands in for a driver")]

pub mod capi;
mod corpus;
pub mod gfx942;
pub mod kfd;
pub mod machines;
mod record;
mod scenario;

pub use corpus::corpus;
pub use record::fuzz_record;
pub use scenario::fuzz_scenario;
/// The daemon, on one thread.
pub use xsched_daemon::fuzzing as daemon;
