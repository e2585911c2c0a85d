//! Names of fixed size.

use core::fmt;

/// A short name in an entry. Longer ones are cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl Name {
    /// Bytes that a name has at most.
    pub const BYTES_MAX: usize = 40;

    /// As much of `text` as there is room for, up to a zero character.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = text.split('\0').next().unwrap_or_default();
        let end = text.floor_char_boundary(Self::BYTES_MAX);
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self { bytes, length: end as u8 }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Names are made of text and cut between characters, so this is never empty by mistake.
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }

    pub(super) const fn encode(&self) -> &[u8; Self::BYTES_MAX] {
        &self.bytes
    }

    /// From bytes that are padded with zeros.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ Self::BYTES_MAX }>()?;
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(Self::BYTES_MAX);
        if bytes[end..].iter().any(|&b| b != 0) {
            return None;
        }
        core::str::from_utf8(&bytes[..end]).ok().map(Self::new)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
