//! Lowering of a wait for a word in memory by the runtime.

use std::env;

/// The runtime's own variable that chooses.
const VARIABLE: &str = "GPU_STREAMOPS_CP_WAIT";

/// Lowering of `hipStreamWaitValue32`.
///
/// The runtime reads `GPU_STREAMOPS_CP_WAIT` when it is loaded, so it must be set before the
/// process starts. The attribute `hipDeviceAttributeCanUseStreamWaitValue` says nothing: it is true
/// whatever the device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitLowering {
    /// A kernel of one work-item that looks at the word again and again. It takes a wave's place on
    /// one compute unit, and its hardware ring for as long as it waits. The word may be anywhere in
    /// memory that the device sees. This is the default.
    SpinKernel,
    /// A packet that the command processor handles, with `GPU_STREAMOPS_CP_WAIT=1`. Takes no
    /// compute unit. The word must be signal memory: 8 bytes per allocation, one word each.
    CommandProcessor,
}

impl WaitLowering {
    /// Lowering by the runtime of this process, going by the environment.
    #[must_use]
    pub fn from_environment() -> Self {
        Self::from_value(env::var(VARIABLE).ok().as_deref())
    }

    /// Lowering for this value of the variable: any number but 0, and `true`, turn the
    /// command processor's wait on.
    fn from_value(value: Option<&str>) -> Self {
        let text = value.unwrap_or_default().trim();
        let number = text.parse::<i64>();
        let on = number.map_or_else(|_| text.eq_ignore_ascii_case("true"), |number| number != 0);
        if on { Self::CommandProcessor } else { Self::SpinKernel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_chooses() {
        for off in [None, Some(""), Some("0"), Some("false"), Some("no")] {
            assert_eq!(WaitLowering::from_value(off), WaitLowering::SpinKernel, "{off:?}");
        }
        for on in ["1", " 1", "2", "true", "TRUE"] {
            assert_eq!(WaitLowering::from_value(Some(on)), WaitLowering::CommandProcessor, "{on}");
        }
    }
}
