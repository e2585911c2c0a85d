//! The environment variables that the product reads.

use anyhow::{Result, ensure};
use walkdir::WalkDir;
use xsched_cli::variables::{C_API, POLICY, VARIABLES, Variable};

use crate::{read, root};

pub(crate) fn reference() -> Result<String> {
    let mut out = String::new();
    for variable in VARIABLES {
        is_read(variable)?;
        has_its_default(variable)?;
        let values = match variable.values {
            POLICY => "a [policy](../concepts/policies.md)".to_owned(),
            values => values.replace("day_us", "86_400_000_000").replace('_', ","),
        };
        let default = match variable.default {
            "" => String::new(),
            default => format!("; {default}"),
        };
        out.push_str(&format!("- `{}` ({values}{default}): {}\n", variable.name, variable.meaning));
    }
    nothing_is_missing()?;
    Ok(out)
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

/// Defaults that the source does not state where it reads the variable: the file, its text, and by
/// what the text's numbers are divided.
const STATED: [(&str, &str, &str, u64); 4] = [
    ("XSCHED_AUTO_XQUEUE_THRESHOLD", C_API, "else { 16 }", 1),
    ("XSCHED_AUTO_XQUEUE_BATCH_SIZE", C_API, "batch.unwrap_or(8)", 1),
    ("XSCHED_QUEUE_CAPACITY", C_API, "CAPACITY: u64 = 8_192;", 1),
    (
        "XSCHED_GATE_SPACING_US",
        "hal-stream/src",
        "(HeldFor::None, GatesIn::Graph) => 300_000",
        1_000,
    ),
];

/// Fails if the listed default of a number or a switch is not the source's.
fn has_its_default(variable: &Variable) -> Result<()> {
    let Variable { name, default, source, .. } = variable;
    let listed = values(default);
    if *source != C_API || listed.is_empty() {
        return Ok(());
    }
    let stated = STATED.iter().find(|(of, ..)| of == name);
    let Some((_, file, text, divisor)) = stated else {
        let stated = stated_default(&sources(source)?, name);
        // A flag that changes nothing is read without a default.
        let same = stated.as_ref().is_none_or(|stated| values(stated) == listed);
        ensure!(same, "the default of {name} is {stated:?} in {source}, not {default}");
        return Ok(());
    };
    ensure!(sources(file)?.contains(text), "{file} has no `{text}`, the default of {name}");
    let numbers: Vec<_> = values(text).into_iter().map(|number| number / divisor).collect();
    ensure!(numbers == listed, "the default of {name} is of `{text}`, not {default}");
    Ok(())
}

/// The argument of `unwrap_or` behind the name of a variable, up to the next literal.
fn stated_default(source: &str, name: &str) -> Option<String> {
    let (_, rest) = source.split_once(&format!("\"{name}\""))?;
    let (_, rest) = rest.split('"').next()?.split_once("unwrap_or(")?;
    Some(rest.split(')').next()?.to_owned())
}

/// The numbers and switches of a text, in order of size.
fn values(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let value = |word: &str| match word {
        "ON" | "true" => Some(u64::MAX),
        "OFF" | "false" => Some(0),
        word => word.replace('_', "").parse().ok(),
    };
    let mut values: Vec<_> = words.filter_map(value).collect();
    values.sort_unstable();
    values
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
    // For experiments, tests and models, and the beginning of names in what a report keeps.
    let known = [
        "XSCHED_MUTANT",
        "XSCHED_LOOM_LONG",
        "XSCHED_TEST_SEQUENCES",
        "XSCHED_EMULATED_KFD",
        "XSCHED_HIP_KERNELS",
        "XSCHED_HIP_WORK_KERNELS",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_that_is_not_the_sources_is_found() {
        let find = |name: &str| VARIABLES.iter().find(|of| of.name == name).copied();
        for name in ["XSCHED_AUTO_XQUEUE_THRESHOLD", "XSCHED_AUTO_XQUEUE_LEVEL", "XSCHED_STRICT"] {
            let variable = find(name).expect("a variable");
            has_its_default(&variable).expect("the source's default");
            let wrong = Variable { default: "17", ..variable };
            has_its_default(&wrong).expect_err("another default");
        }
    }

    #[test]
    fn the_example_of_the_daemons_file_names_its_defaults() {
        use xsched_daemon::config::{Config, TIMESLICE, TURN};
        let text = read(&root().join("daemon/xschedd.example.toml")).expect("the example");
        let default = Config::default();
        let line = |key: &str| {
            let is = |line: &&str| line.trim_start_matches("# ").starts_with(&format!("{key} ="));
            text.lines().find(is).unwrap_or_else(|| panic!("no line of {key}"))
        };
        let ends = |key: &str, value: String| {
            assert!(line(key).trim_end().ends_with(&value), "the default of {key} is {value}");
        };
        ends("name", format!("# {}", default.policy.name));
        ends("turns", format!("; {}", default.policy.takes_turns));
        ends("fill_pauses", format!("; {}", default.policy.fill_pauses.is_some()));
        for span in [TIMESLICE, TURN] {
            let us = (span.as_ns() / 1_000).to_string();
            assert!(values(line("timeslice_us")).iter().any(|value| value.to_string() == us));
        }
        let spin_us = default.spin.as_ns() / 1_000;
        ends("spin_us", format!("; {spin_us}"));
        ends("spin_percent", format!("; {}", default.spin_percent));
        let limits = default.limits;
        assert!(line("clients").contains(&format!("= {} ", limits.clients)));
        assert!(line("clients_of_user").contains(&format!("= {} ", limits.clients_of_user)));
        assert!(line("drivers").contains(&format!("= {} ", default.asks_drivers)));
    }
}
