//! The `amdgpu` kernel module.

use std::collections::BTreeMap;
use std::path::Path;

use super::{names, text};

/// The `amdgpu` module that is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// The version, which AMD's own packages have and mainline kernels do not.
    pub version: Option<String>,
    /// A hash of its source.
    pub source_version: Option<String>,
    /// The parameters that this user may read.
    pub parameters: BTreeMap<String, String>,
}

impl Module {
    pub(super) fn read(folder: &Path) -> Self {
        let mut parameters = BTreeMap::new();
        for name in names(&folder.join("parameters")).unwrap_or_default() {
            // Some parameters are readable by root only.
            if let Some(value) = text(&folder.join("parameters").join(&name)) {
                parameters.insert(name, value);
            }
        }
        let version = text(&folder.join("version"));
        Self { version, source_version: text(&folder.join("srcversion")), parameters }
    }

    /// The value of a parameter that is a number.
    #[must_use]
    pub fn number(&self, parameter: &str) -> Option<i64> {
        self.parameters.get(parameter)?.parse().ok()
    }

    /// True if the version, or the source's hash, contains a text.
    #[must_use]
    pub fn has_signature(&self, signature: &str) -> bool {
        let texts = [&self.version, &self.source_version];
        texts.into_iter().flatten().any(|text| text.contains(signature))
    }

    /// The version as text for the user.
    #[must_use]
    pub fn version_text(&self) -> String {
        match (&self.version, &self.source_version) {
            (Some(version), _) => version.clone(),
            (None, Some(source)) => format!("srcversion {source}"),
            (None, None) => "unknown".to_owned(),
        }
    }
}
