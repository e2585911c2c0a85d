//! What the interposers do with the functions of a vendor's library, from their lists.

use anyhow::{Context, Result};
use xsched_shim_table::List;

use crate::{read, root};

/// The functions of CUDA's driver.
pub(crate) fn cuda() -> Result<String> {
    of("cuda")
}

/// The functions of HIP's runtime.
pub(crate) fn hip() -> Result<String> {
    of("hip")
}

fn of(vendor: &str) -> Result<String> {
    let path = root().join(format!("shim/{vendor}/functions.toml"));
    let list = List::parse(&read(&path)?).with_context(|| format!("{}", path.display()))?;
    Ok(list.markdown())
}
