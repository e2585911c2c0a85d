//! Transcripts without what differs from run to run.

/// Starts of lines that are answers.
const KEPT: [&str; 7] = ["IOCTL ", "NR ", "  ", "OPEN ", "SECOND OPEN ", "PENDING ", "ORDER "];
/// Ends of a transcript.
const ENDS: [&str; 2] = ["ANSWERS_DONE", "ORDER_DONE"];
/// Words whose value differs from run to run: times and descriptors.
const VARYING: [&str; 2] = ["us=", "fd="];

/// The answers alone, without times and numbers of descriptors. Lines of the kernel's log, of the
/// boot and of other programs are left out.
#[must_use]
pub fn normalise(transcript: &str) -> String {
    let mut lines = Vec::new();
    for line in transcript.lines().map(|line| line.trim_end_matches('\r')) {
        if KEPT.iter().any(|start| line.starts_with(start)) || ENDS.contains(&line) {
            lines.push(normalise_line(line));
        }
        if line == "PROBE_DONE" {
            lines.push(ENDS[0].to_owned());
        }
        if line == ENDS[1] || line == "PROBE_DONE" {
            break;
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn normalise_line(line: &str) -> String {
    let indent = if line.starts_with("  ") { "  " } else { "" };
    // Not what a call is named after: "fd=pipe" is no number.
    let is_varying = |word: &&str| {
        VARYING.iter().any(|name| {
            let value = word.strip_prefix(name);
            value.is_some_and(|value| value.starts_with(|first: char| first.is_ascii_digit()))
        })
    };
    let words: Vec<_> = line.split_whitespace().filter(|word| !is_varying(word)).collect();
    format!("{indent}{}", words.join(" "))
}

/// Compares two normalised transcripts line by line.
///
/// # Errors
/// The lines that differ, with their numbers.
pub fn compare(expected: &str, found: &str) -> Result<usize, String> {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let mut differences = Vec::new();
    for at in 0..expected.len().max(found.len()) {
        let (in_table, answered) = (expected.get(at), found.get(at));
        if in_table != answered {
            let show = |line: Option<&&str>| line.copied().unwrap_or("(nothing)").to_owned();
            differences.push(format!(
                "line {}:\n  expected {}\n  found    {}",
                at + 1,
                show(in_table),
                show(answered)
            ));
        }
    }
    if differences.is_empty() { Ok(expected.len()) } else { Err(differences.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_descriptors_and_noise_go() {
        let text = "BOOT\n[    9.1] amdgpu: x\nOPEN /dev/kfd fd=5 errno=0\r\n\
                    IOCTL A(fd=pipe)    cmd=0x1 ret=0 errno=0(0) us=3.1\n  num=1\nANSWERS_DONE\n";
        let expected = "OPEN /dev/kfd errno=0\nIOCTL A(fd=pipe) cmd=0x1 ret=0 errno=0(0)\n  num=1\n\
                        ANSWERS_DONE\n";
        assert_eq!(normalise(text), expected);
        assert_eq!(normalise(expected), expected);
    }

    #[test]
    fn any_difference_is_found() {
        assert_eq!(compare("a\nb\n", "a\nb\n"), Ok(2));
        let told = compare("a\nb\n", "a\nc\nd\n").expect_err("they differ");
        assert!(told.contains("line 2") && told.contains("line 3") && !told.contains("line 1:"));
        assert!(compare("a\n", "").is_err());
    }
}
