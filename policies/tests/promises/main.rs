//! Promises of policies, on a device that does what it is told at once.

mod ageing;
mod device;
mod shares_and_deadlines;
