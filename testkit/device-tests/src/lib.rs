//! Tests of device backends that need several crates at once: see `tests`.
