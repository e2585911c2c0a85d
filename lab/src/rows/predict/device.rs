//! The description of the device that is simulated.

use std::path::Path;

use xsched_sim::scenario::{DeviceFile, DeviceSpec};

use super::Target;
use crate::predict::device_for;
use crate::rows::plan::Hal;

/// Descriptions that are part of the program beside those of `bench … --predict`: a part of the
/// device's name, the file's name and what it says.
const KNOWN: [(Hal, &str, &str, &str); 2] = [
    (Hal::Host, "", "sim/devices/host.toml", include_str!("../../../../sim/devices/host.toml")),
    (
        Hal::Hip,
        "MI308X",
        "sim/devices/mi308x.toml",
        include_str!("../../../../sim/devices/mi308x.toml"),
    ),
];
/// GPUs of one architecture with the one that is described, which share its launches and gates. How
/// long kernels take comes from the programs.
const ALIKE: [(&str, &str); 1] = [("H100", "H200")];

/// The description, and what it is called for people.
pub(super) fn of(target: &Target) -> Result<(DeviceSpec, String), String> {
    if let Some(spec) = &target.device {
        return Ok((spec.clone(), spec.name.clone()));
    }
    let known =
        KNOWN.iter().find(|(hal, part, ..)| *hal == target.hal && target.hardware.contains(part));
    if let Some((_, _, file, text)) = known {
        let file = DeviceFile::parse(text.as_bytes(), Path::new(file));
        let spec = file.map_err(|error| error.to_string())?.spec;
        let name = spec.name.clone();
        return Ok((spec, name));
    }
    if let Ok(spec) = device_for(None, &target.hardware) {
        let name = spec.name.clone();
        return Ok((spec, name));
    }
    let alike = ALIKE.iter().find(|(part, _)| target.hardware.contains(part));
    let spec = alike.and_then(|(_, other)| device_for(None, other).ok());
    let spec = spec.ok_or_else(|| {
        let name = &target.hardware;
        format!("no description of {name} is part of this program; give one with --device-file")
    })?;
    let name = format!("{} (of the same architecture as {})", spec.name, target.hardware);
    Ok((spec, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(hal: Hal, hardware: &str) -> Target {
        Target { hal, hardware: hardware.into(), device: None, date: String::new() }
    }

    #[test]
    fn devices_are_found_by_name_and_strangers_are_not() {
        let name = |hal, hardware| of(&target(hal, hardware)).map(|(_, name)| name);
        assert_eq!(name(Hal::Host, "the processor").unwrap(), "host");
        assert_eq!(name(Hal::Cuda, "NVIDIA H200").unwrap(), "h200-streams");
        assert_eq!(name(Hal::Hip, "AMD Instinct MI308X").unwrap(), "mi308x");
        assert!(name(Hal::Cuda, "NVIDIA H100 80GB").unwrap().contains("same architecture"));
        assert!(name(Hal::Cuda, "a toaster").unwrap_err().contains("--device-file"));
        let given = DeviceSpec { name: "mine".into(), ..of(&target(Hal::Host, "")).unwrap().0 };
        let given = Target { device: Some(given), ..target(Hal::Cuda, "a toaster") };
        assert_eq!(of(&given).unwrap().1, "mine");
    }
}
