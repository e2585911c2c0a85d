//! The simulator against closed forms of queueing theory, and against sums that can be done by
//! hand.

#[path = "theory/build.rs"]
mod build;
#[path = "theory/closed.rs"]
mod closed;
#[path = "theory/draw.rs"]
mod draw;
#[path = "theory/formulas.rs"]
mod formulas;
#[path = "theory/grid.rs"]
mod grid;
#[path = "theory/latency.rs"]
mod latency;
#[path = "theory/laws.rs"]
mod laws;
#[path = "theory/levels.rs"]
mod levels;
#[path = "theory/measure.rs"]
mod measure;
#[path = "theory/priority.rs"]
mod priority;
#[path = "theory/single.rs"]
mod single;
#[path = "theory/window.rs"]
mod window;
