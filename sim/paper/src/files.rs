//! The scenarios and device files that are part of the program.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Makes a table of files that are read when the program is built.
macro_rules! embedded {
    ($($path:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] =
            &[$(($path, include_str!(concat!("../../", $path)))),*];
    };
}

embedded![
    "devices/gv100.toml",
    "devices/h200-streams.toml",
    "devices/h200.toml",
    "devices/k40m.toml",
    "devices/mi308x-lv3-bandwidth.toml",
    "devices/mi308x-lv3-printed.toml",
    "devices/mi308x-lv3-slow.toml",
    "devices/mi308x.toml",
    "devices/mi50.toml",
    "devices/npu3720.toml",
    "scenarios/bert-h200.toml",
    "scenarios/bert-mi308x-endless.toml",
    "scenarios/bert-mi308x-six.toml",
    "scenarios/bert-mi308x.toml",
    "scenarios/lv3.toml",
    "scenarios/paper/bert-alone.toml",
    "scenarios/paper/bert-sequence.toml",
    "scenarios/paper/foreground-h200.toml",
    "scenarios/paper/harvest-mixed.toml",
    "scenarios/paper/harvest-train.toml",
    "scenarios/paper/hetero.toml",
    "scenarios/paper/partition-h200.toml",
    "scenarios/paper/partition.toml",
    "scenarios/paper/preempt.toml",
    "scenarios/paper/priority-npu.toml",
    "scenarios/paper/priority.toml",
    "scenarios/paper/rates.toml",
    "scenarios/paper/serve-h200.toml",
    "scenarios/paper/serve.toml",
    "scenarios/paper/threshold.toml",
    "scenarios/paper/video.toml",
];

/// The text of a file. `..` in the path is resolved.
pub(super) fn read(path: &Path) -> io::Result<&'static str> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    let found = FILES.iter().find(|(name, _)| Path::new(name) == plain);
    found.map(|(_, text)| *text).ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xsched_sim::scenario::{DeviceFile, Scenario};

    #[test]
    fn every_file_is_sound() {
        for (name, text) in FILES {
            let path = Path::new(name);
            if name.starts_with("devices/") {
                let device = DeviceFile::parse(text.as_bytes(), path).unwrap();
                assert_eq!(path.file_stem().unwrap(), device.spec.name.as_str());
                assert!(!device.description.is_empty());
            } else {
                let mut open = |path: &Path| read(path).map(|text| text.as_bytes().to_vec());
                Scenario::parse_with(text, path, &mut open).unwrap();
            }
        }
    }

    #[test]
    fn there_is_nothing_else() {
        assert!(read(Path::new("scenarios/paper/../../devices/gv100.toml")).is_ok());
        assert!(read(Path::new("devices/none.toml")).is_err());
    }
}
