//! Names that processes send, which tools print.

/// Characters of a name.
const NAME_MAX: usize = 64;
/// Bytes of the name of a GPU.
const DEVICE_MAX: usize = 128;

/// Returns whether a terminal shows a character as itself: no order to the terminal, and nothing
/// that changes the direction of other text or cannot be seen.
///
/// ```
/// assert!(xsched_daemon::is_shown('ü') && !xsched_daemon::is_shown('\u{202e}'));
/// ```
#[must_use]
pub fn is_shown(c: char) -> bool {
    let is_hidden = matches!(c, '\u{ad}' | '\u{61c}' | '\u{feff}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !is_hidden
}

/// A name without what terminals take for orders or what changes the direction of other text.
pub(crate) fn cleaned(name: &str) -> String {
    name.chars().filter(|c| is_shown(*c)).take(NAME_MAX).collect()
}

/// Returns whether a text may be the name of a GPU.
pub(crate) fn is_name_of_device(name: &str) -> bool {
    (1..=DEVICE_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns whether a text may be the name of a gang.
pub(crate) fn is_name_of_gang(name: &str) -> bool {
    !name.is_empty() && name.len() <= 4 * NAME_MAX && cleaned(name) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_line_of_text() {
        assert_eq!(cleaned("a\u{1b}[2J\n\u{202e}b\u{200b}\u{e0041}ü"), "a[2Jbü");
        assert_eq!(cleaned(&"ü".repeat(65)), "ü".repeat(64));
        assert!(["0000:3b:00.0", "x", &"x".repeat(128)].into_iter().all(is_name_of_device));
        assert!(["job 7", "ü", &"ü".repeat(64)].into_iter().all(is_name_of_gang));
        assert!(!["", "a\n", "\u{202e}", &"x".repeat(65)].into_iter().any(is_name_of_gang));
        let wrong = ["", "a b", "ü", "\u{1b}[2J", &"x".repeat(129)];
        assert!(!wrong.into_iter().any(is_name_of_device));
    }
}
