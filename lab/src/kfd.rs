//! The HIP device whose queues have Lv3 through the AMD kernel driver.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

use crate::bench::LabError;
use crate::gpu::Hip;

/// The driver's device file.
const DEVICE: &str = "/dev/kfd";

/// Opens the device with this number.
///
/// # Errors
/// If there is no AMD kernel driver, or this user may not use it, or the device cannot be opened;
/// in one line that says what to do.
pub fn open(ordinal: u32) -> Result<Hip, LabError> {
    usable(Path::new(DEVICE))?;
    let _ = ordinal;
    Err(LabError::new("Lv3 through the AMD kernel driver is not in this build; use --hal hip"))
}

/// Fails if the driver's file cannot be opened.
fn usable(device: &Path) -> Result<(), LabError> {
    let opened = OpenOptions::new().read(true).write(true).open(device);
    let Err(error) = opened else { return Ok(()) };
    let device = device.display();
    Err(LabError::new(match error.kind() {
        ErrorKind::NotFound => format!(
            "there is no {device}: no AMD kernel driver is loaded, or the container was started \
             without --device={device}"
        ),
        ErrorKind::PermissionDenied => format!(
            "{device} may not be opened: add the user to the groups `render` and `video`, or \
             start the container with --group-add for both"
        ),
        _ => format!("{device} cannot be opened: {error}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_driver_is_told_so_in_one_line() {
        let error = usable(Path::new("/nowhere/kfd")).unwrap_err().to_string();
        assert!(error.contains("no AMD kernel driver"), "{error}");
        assert_eq!(error.lines().count(), 1);
        let file = std::env::current_exe().unwrap();
        assert!(usable(&file.join("below a file")).is_err());
    }
}
