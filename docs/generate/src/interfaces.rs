//! The first program in C, as it is committed.

use anyhow::Result;

use crate::{read, root};

/// The first program in C.
pub(crate) fn c_program() -> Result<String> {
    Ok(format!("```c\n{}```\n", read(&root().join("capi/examples/first.c"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers that declare functions.
    const HEADERS: [&str; 5] = ["xqueue.h", "hint.h", "host/hal.h", "hip/hal.h", "cuda/hal.h"];

    #[test]
    fn every_exported_function_is_declared_with_a_comment() {
        let folder = root().join("capi/include/xsched");
        let texts = HEADERS.map(|header| read(&folder.join(header)).expect("a header"));
        let documented: Vec<_> = texts.iter().flat_map(|text| text.split("*/\n")).collect();
        for library in ["preempt", "halhost", "halhip", "halcuda"] {
            let map = read(&root().join(format!("capi/install/lib{library}.map"))).expect("a map");
            let names = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
            let is_public = |name: &&str| name.starts_with(char::is_uppercase);
            for name in names.filter(is_public) {
                let call = format!("{name}(");
                let begins =
                    |part: &&&str| part.split(';').next().is_some_and(|d| d.contains(&call));
                assert!(documented.iter().any(|part| begins(&part)), "no header documents {name}");
            }
        }
    }
}
