//! Device files: what they say, how scenarios use them, and how mistakes in them are reported.

use std::path::Path;

use xsched_sim::scenario::{Concurrency, DeviceFile, OriginKind, Scenario};

/// A device file in which nothing is missing.
const GOOD: &str = r#"version = 1
description = "a device"

[device]
name = "dev"
concurrency = "processor_sharing"
contention = 0.5
launch_latency_us = 4
host_launch_us = 3
host_sync_us = 5
detect_ms = 0.009
launch_queue = 64
max_level = 2
gate_us = 2
gate_close_us = 1
gate_spacing_us = 100

[origin]
concurrency = "assumed: x"
contention = "fitted: to y"
launch_latency_us = "sourced: z"
host_launch_us = "sourced: z"
host_sync_us = "sourced: z"
detect_ms = "sourced: z"
launch_queue = "sourced: z"
max_level = "sourced: z"
gate_us = "sourced: z"
gate_close_us = "sourced: z"
gate_spacing_us = "sourced: z"
"#;

fn parse(text: &str) -> Result<DeviceFile, String> {
    DeviceFile::parse(text.as_bytes(), Path::new("d/dev.toml")).map_err(|error| error.to_string())
}

#[test]
fn a_device_file_has_every_parameter_with_its_origin() {
    let file = parse(GOOD).unwrap();
    assert_eq!(file.description, "a device");
    assert_eq!(file.spec.detect_ns, 9_000);
    assert_eq!(file.spec.max_level, 2);
    assert_eq!(file.spec.concurrency, Concurrency::ProcessorSharing { contention: 0.5 });
    assert_eq!(file.origins.len(), 11);
    assert_eq!(file.origins["contention"].kind, OriginKind::Fitted);
    assert_eq!(file.origins["contention"].note, "to y");
    assert_eq!(file.origins["detect"].kind, OriginKind::Sourced);
}

#[test]
fn mistakes_are_reported_with_file_line_and_key() {
    let changed = |from: &str, to: &str| GOOD.replacen(from, to, 1);
    let cases = [
        (changed("version = 1\n", ""), "1: version: missing"),
        (changed("gate_us = 2\n", "gate_us = -2\n"), "14: device.gate_us: must not be negative"),
        (changed("gate_us = 2\n", "gate = 2\n"), "14: device.gate: unknown key"),
        (changed("gate_us = 2\ngate", "gate"), "26: origin.gate_us: no such key in [device]"),
        (changed("gate_us = \"sourced: z\"\n", ""), "14: device.gate_us: has no origin"),
        (changed("assumed: x", "guessed: x"), "19: origin.concurrency: must read"),
        (changed("assumed: x", "assumed:"), "19: origin.concurrency: must read"),
        (changed("assumed: x", "assumed"), "19: origin.concurrency: must read"),
        (changed("max_level = 2", "max_level = 3"), "4: device.save_fixed: missing"),
        (
            changed("name = \"dev\"", "name = \"dev\"\nfile = \"x.toml\""),
            "6: device.file: a device",
        ),
        (changed("name = \"dev\"\n", ""), "4: device.name: missing"),
        (changed("[device]", "[[device]]"), "4: device[0]: must be a table"),
        (changed("[origin]", "[origins]"), "18: origins: unknown key"),
        ("version = 1\n".to_owned(), "1: device: missing"),
        ("version = 2\n".to_owned(), "1: version: unsupported"),
        ("= 3".to_owned(), "1: syntax: "),
    ];
    for (text, expected) in cases {
        let error = parse(&text).expect_err(expected);
        assert!(error.starts_with(&format!("d/dev.toml:{expected}")), "{error}, not {expected}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = DeviceFile::parse(&[0xff], Path::new("d/dev.toml")).unwrap_err();
    assert!(error.to_string().starts_with("d/dev.toml:1: file: "), "{error}");
}

/// A scenario with one device table.
fn scenario(device: &str) -> Result<Scenario, String> {
    let text = format!(
        "version = 1\nname = \"s\"\nduration_ms = 1\n[[device]]\nname = \"mine\"\n{device}\n\
         [[task]]\nname = \"t\"\narrival = {{ kind = \"closed\", think_ms = 1 }}\n\
         command = {{ kind = \"constant\", us = 1 }}\n"
    );
    let mut read = |path: &Path| match path.to_str() {
        Some("s/../d/dev.toml") => Ok(GOOD.as_bytes().to_vec()),
        Some("s/bad.toml") => Ok(GOOD.replace("gate_us = 2", "gate_us = -2").into_bytes()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    Scenario::parse_with(&text, Path::new("s/s.toml"), &mut read).map_err(|e| e.to_string())
}

#[test]
fn a_scenario_takes_what_it_does_not_say_from_the_file() {
    let device = &scenario("file = \"../d/dev.toml\"").unwrap().devices[0];
    assert_eq!((device.name.as_str(), device.detect_ns, device.max_level), ("mine", 9_000, 2));
    assert_eq!(device.concurrency, Concurrency::ProcessorSharing { contention: 0.5 });
    let device = &scenario("file = \"../d/dev.toml\"\ncontention = 0.7\ndetect_us = 1").unwrap();
    let device = &device.devices[0];
    assert_eq!(device.concurrency, Concurrency::ProcessorSharing { contention: 0.7 });
    assert_eq!((device.detect_ns, device.gate_ns), (1_000, 2_000));
    let device = &scenario("file = \"../d/dev.toml\"\nconcurrency = \"exclusive\"").unwrap();
    assert_eq!(device.devices[0].concurrency, Concurrency::Exclusive);
}

#[test]
fn a_mistake_in_the_file_names_the_file() {
    let error = scenario("file = \"none.toml\"").unwrap_err();
    assert!(error.starts_with("s/s.toml:6: device[0].file: cannot read s/none.toml"), "{error}");
    let error = scenario("file = \"bad.toml\"").unwrap_err();
    assert!(error.starts_with("s/bad.toml:14: device.gate_us: must not"), "{error}");
    let error = scenario("file = \"\"").unwrap_err();
    assert!(error.starts_with("s/s.toml:6: device[0].file: must not be empty"), "{error}");
    let wrong = scenario("file = \"../d/dev.toml\"\nconcurrency = \"exclusive\"\ncontention = 1");
    assert!(wrong.unwrap_err().contains("contention"));
}
