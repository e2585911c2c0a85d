//! Compares what `xsched-hal-hip` declares of HIP with other projects' bindings, generated from
//! AMD's headers. If it compiles, all types agree; its tests say that no function was left out.
//!
//! * `cubecl-hip-sys`: HIP 6.1 to 7.14, the version that `hipconfig` reports, the newest without
//!   one.
//! * `hip-sys`, with the feature `check-hip-sys`: HIP 5.4.

#[cfg(test)]
mod against;
#[cfg(test)]
mod constants;
#[cfg(test)]
mod same;
