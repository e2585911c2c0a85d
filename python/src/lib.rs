//! `xsched._native`: the simulator for Python, the way back from the C library into Python
//! (`launches`, `callbacks`), and the module's command line (`command`).
//!
//! Programs have no business here; they use `xsched.sim`, which wraps what this module gives in
//! dataclasses. What follows runs the simulator without the interpreter's lock, and takes it only
//! to ask a policy that is written in Python (`policy`).

mod callbacks;
mod command;
mod decisions;
mod launches;
mod outcome;
mod policy;
mod run;
mod scenario;
mod table;

use pyo3::prelude::*;

/// Use `xsched.sim` and `xsched`.
#[pymodule]
mod _native {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::callbacks::Callbacks;
    #[pymodule_export]
    use super::command::main;
    #[pymodule_export]
    use super::decisions::Decisions;
    #[pymodule_export]
    use super::launches::{close_launches, launch_address, reset_launches};
    #[pymodule_export]
    use super::outcome::RawOutcome;
    #[pymodule_export]
    use super::run::{compare, policy_names, run};
    #[pymodule_export]
    use super::scenario::RawScenario;
    #[pymodule_export]
    use super::table::{Event, QueueView, Table};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("INTERPOSERS", xsched_launch::INTERPOSERS)
    }
}
