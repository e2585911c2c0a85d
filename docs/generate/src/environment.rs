//! The environment variables that the product reads.

use anyhow::{Result, ensure};
use walkdir::WalkDir;
use xsched_cli::variables::{C_API, POLICY, VARIABLES, Variable};
use xsched_sim::run::policy_names;

use crate::table::Table;
use crate::{read, root};

pub(crate) fn reference() -> Result<String> {
    let mut table = Table::new(["variable", "values", "default", "meaning"]);
    for variable in VARIABLES {
        is_read(variable)?;
        let values = match variable.values {
            POLICY => policy_names().join(", "),
            values => values.replace("day_us", "86_400_000_000").replace('_', ","),
        };
        let meaning = variable.meaning.to_owned();
        table.row([format!("`{}`", variable.name), values, variable.default.to_owned(), meaning]);
    }
    nothing_is_missing()?;
    Ok(table.markdown())
}

/// Fails if the source does not read the variable, or reads another range.
fn is_read(variable: &Variable) -> Result<()> {
    let Variable { name, values, source, .. } = variable;
    let text = sources(source)?;
    ensure!(text.contains(&format!("\"{name}\"")), "{source} does not read {name}");
    if let Some((min, max)) = values.split_once(" to ") {
        let call = format!("number(\"{name}\", {min}, {max})");
        ensure!(text.contains(&call), "{name} is not {values} in {source}");
    } else if *source == C_API && values.contains(", ") && *values != "ON, OFF" {
        for word in values.split(", ") {
            ensure!(text.contains(&format!("(\"{word}\", ")), "{name} cannot be {word}");
        }
    }
    Ok(())
}

/// The text of a file, or of all files of a folder.
fn sources(path: &str) -> Result<String> {
    let mut text = String::new();
    for entry in WalkDir::new(root().join(path)).sort_by_file_name() {
        let entry = entry?;
        let source = entry.path().extension().is_some_and(|end| end == "rs" || end == "py");
        if entry.file_type().is_file() && source {
            text.push_str(&read(entry.path())?);
        }
    }
    Ok(text)
}

/// Fails if the product names a variable that is not in the list.
fn nothing_is_missing() -> Result<()> {
    let product = ["capi/src", "shim", "runtime/src", "hal-host/src", "hal-stream/src", "node/src"];
    let more =
        ["hal-cuda/src", "hal-hip/src", "hal-kfd/src", "python/xsched", "sim/src", "lab/src"];
    // For tests and models, and the beginning of names in what a report keeps.
    let known = [
        "XSCHED_MUTANT",
        "XSCHED_LOOM_LONG",
        "XSCHED_EMULATED_KFD",
        "XSCHED_EMULATED_DEVICES",
        "XSCHED_EMULATED_UNITS",
        "XSCHED_REAL_HIP",
        "XSCHED_REAL_LINK",
        "XSCHED_",
    ];
    for folder in product.into_iter().chain(more) {
        for literal in sources(folder)?.split('"').filter(|text| text.starts_with("XSCHED_")) {
            let name =
                literal.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            let listed = VARIABLES.iter().any(|variable| variable.name == literal);
            ensure!(
                !name || listed || known.contains(&literal),
                "`{literal}` of {folder} is not listed"
            );
        }
    }
    Ok(())
}
