//! Scenarios.

use std::path::Path;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use xsched_sim::scenario::{Scenario, ScenarioError};

/// A checked scenario. It does not change.
#[pyclass(frozen, module = "xsched._native")]
pub(crate) struct RawScenario {
    pub(crate) inner: Arc<Scenario>,
}

impl RawScenario {
    fn of(read: Result<Scenario, ScenarioError>) -> PyResult<Self> {
        let scenario = read.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { inner: Arc::new(scenario) })
    }
}

#[pymethods]
impl RawScenario {
    /// Reads a file.
    #[staticmethod]
    fn load(path: &str) -> PyResult<Self> {
        Self::of(Scenario::load(Path::new(path)))
    }

    /// Takes a scenario as text. `file` names it in messages, and other files are looked up in
    /// its folder.
    #[staticmethod]
    fn parse(text: &str, file: &str) -> PyResult<Self> {
        Self::of(Scenario::parse(text, Path::new(file)))
    }

    /// Takes the same as JSON.
    #[staticmethod]
    fn from_json(json: &str, file: &str) -> PyResult<Self> {
        let wrong = |error: String| PyValueError::new_err(format!("{file}: {error}"));
        // TOML has no null, so `None` is told apart here, by the library.
        let table: toml::Table =
            serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        let text = toml::to_string(&table).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text, file)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.inner.description
    }

    #[getter]
    fn policy(&self) -> &str {
        &self.inner.policy
    }

    #[getter]
    fn level(&self) -> u8 {
        self.inner.level
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.seed
    }

    #[getter]
    fn seeds(&self) -> u32 {
        self.inner.seeds
    }

    #[getter]
    fn devices(&self) -> Vec<&str> {
        self.inner.devices.iter().map(|device| device.name.as_str()).collect()
    }

    /// The names of the tasks, as in the file: copies are not expanded.
    #[getter]
    fn tasks(&self) -> Vec<&str> {
        self.inner.tasks.iter().map(|task| task.name.as_str()).collect()
    }
}
