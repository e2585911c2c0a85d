//! The C API's headers, generated from its Rust source.
//!
//! `cargo xtask headers` writes them to `capi/include`, where they are committed; with `--check` it
//! says whether those are what the source comes to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cbindgen::{Builder, Config, EnumConfig, Language, RenameRule, Style};
use clap::Args;

use crate::root;

/// Where the headers are.
const FOLDER: &str = "capi/include/xsched";
/// Names of types in Rust, where any number can come in, and in C.
const RENAMED: [(&str, &str); 6] = [
    ("XResultValue", "XResult"),
    ("XPreemptLevelValue", "XPreemptLevel"),
    ("XSchedulerTypeValue", "XSchedulerType"),
    ("XPolicyTypeValue", "XPolicyType"),
    // By what they stand for: before C11 the headers cannot have the vendors' names.
    ("hipStream_t", "struct ihipStream_t *"),
    ("CUstream", "struct CUstream_st *"),
];

/// A header: its name, its source, what it includes, and what stands before its functions.
struct Header {
    name: &'static str,
    source: &'static str,
    includes: &'static [&'static str],
    before: &'static str,
}

const TYPES: &[&str] = &["xsched/types.h"];

const HEADERS: [Header; 6] = [
    Header { name: "types.h", source: "capi/src/types.rs", includes: &[], before: "" },
    Header { name: "xqueue.h", source: "capi/src/xqueue.rs", includes: TYPES, before: "" },
    Header { name: "hint.h", source: "capi/src/hint.rs", includes: TYPES, before: "" },
    Header { name: "host/hal.h", source: "capi/halhost/src/lib.rs", includes: TYPES, before: "" },
    Header {
        name: "hip/hal.h",
        source: "capi/halhip/src/lib.rs",
        includes: TYPES,
        before: "/* As hip/hip_runtime.h has it, which need not be included. Before C11 a name cannot be\n   \
                 declared twice, so it is that header's. */\n\
                 struct ihipStream_t;\n\
                 #if defined(__cplusplus) || __STDC_VERSION__ >= 201112L\n\
                 typedef struct ihipStream_t *hipStream_t;\n\
                 #endif",
    },
    Header {
        name: "cuda/hal.h",
        source: "capi/halcuda/src/lib.rs",
        includes: TYPES,
        before: "/* As cuda.h has it, which need not be included. Before C11 a name cannot be declared twice, so\n   \
                 it is that header's. */\n\
                 struct CUstream_st;\n\
                 #if defined(__cplusplus) || __STDC_VERSION__ >= 201112L\n\
                 typedef struct CUstream_st *CUstream;\n\
                 #endif",
    },
];

/// Headers that only include others: what they are for, and which.
const FORWARDING: [(&str, &str, &[&str]); 10] = [
    ("xsched.h", "", &["types.h", "xqueue.h", "hint.h"]),
    ("preempt/hal/hw_command.h", CLASSES, &["xqueue.h"]),
    ("preempt/hal/hw_queue.h", CLASSES, &["xqueue.h"]),
    ("preempt/sched/agent.h", CLASSES, &["hint.h"]),
    ("preempt/sched/executor.h", CLASSES, &["types.h"]),
    ("preempt/xqueue/async_xqueue.h", CLASSES, &["xqueue.h"]),
    ("preempt/xqueue/command_buffer.h", CLASSES, &["types.h"]),
    ("preempt/xqueue/launch_worker.h", CLASSES, &["types.h"]),
    ("preempt/xqueue/xcommand.h", CLASSES, &["xqueue.h"]),
    ("preempt/xqueue/xqueue.h", CLASSES, &["xqueue.h"]),
];

/// Why a header of the C++ XSched's classes has other things.
const CLASSES: &str = "/* The C++ XSched has classes here. This library has functions of the C interface \
                       instead. */\n\n";

/// How to do it.
#[derive(Args, Debug, Default)]
pub struct Options {
    /// Write nothing; fail if a committed header is not what the source comes to.
    #[arg(long)]
    pub check: bool,
}

/// Does it.
///
/// # Errors
/// If the source makes no header, or `--check` finds another one than is committed.
pub fn run(options: &Options) -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in generate()? {
        if is_there(&path, &text) {
            continue;
        }
        if options.check {
            stale.push(path.display().to_string());
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("headers: {}", path.display());
    }
    if !stale.is_empty() {
        bail!("run `cargo xtask headers`; these are not up to date: {}", stale.join(", "));
    }
    println!("headers: up to date");
    Ok(())
}

fn is_there(path: &Path, text: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|there| there == text)
}

/// All headers, by path.
fn generate() -> Result<Vec<(PathBuf, String)>> {
    let folder = root().join(FOLDER);
    let forwarding = FORWARDING
        .map(|(name, note, includes)| (folder.join(name), forwarding(name, note, includes)));
    let mut all = forwarding.to_vec();
    for header in &HEADERS {
        all.push((folder.join(header.name), header.generate(&root())?));
    }
    Ok(all)
}

fn guard(name: &str) -> String {
    let word = name.to_uppercase().replace(['/', '.'], "_");
    format!("XSCHED_{word}")
}

const NOTE: &str = "/* Generated by `cargo xtask headers`; change the Rust source instead. */";

/// A header that only includes others.
fn forwarding(name: &str, note: &str, includes: &[&str]) -> String {
    let guard = guard(name);
    let includes = includes.iter().map(|name| format!("#include \"xsched/{name}\"\n"));
    let includes: String = includes.collect();
    format!(
        "{NOTE}\n\n#ifndef {guard}\n#define {guard}\n\n{note}{includes}\n#endif  /* {guard} */\n"
    )
}

impl Header {
    fn generate(&self, root: &Path) -> Result<String> {
        let path = root.join(self.source);
        let source = fs::read_to_string(&path)?;
        let bindings = Builder::new()
            .with_src(path)
            .with_config(self.config(&source))
            .generate()
            .with_context(|| format!("no header from {}", self.source))?;
        let mut text = Vec::new();
        bindings.write(&mut text);
        // As other pointers are written.
        Ok(String::from_utf8(text)?.replace(" * stream", " *stream"))
    }

    fn config(&self, source: &str) -> Config {
        let mut config = Config {
            language: Language::C,
            cpp_compat: true,
            header: Some(NOTE.to_owned()),
            include_guard: Some(guard(self.name)),
            no_includes: true,
            sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
            includes: self.includes.iter().map(|name| (*name).to_owned()).collect(),
            after_includes: (!self.before.is_empty()).then(|| format!("\n{}", self.before)),
            style: Style::Type,
            usize_is_size_t: true,
            documentation: true,
            enumeration: EnumConfig { rename_variants: RenameRule::None, ..Default::default() },
            ..Config::default()
        };
        let renamed = RENAMED.map(|(rust, c)| (rust.to_owned(), c.to_owned()));
        config.export.rename = renamed.into_iter().collect();
        let others = [
            "HwQueueHandle",
            "HwCommandHandle",
            "LaunchCallback",
            "XResult",
            "hipStream_t",
            "CUstream",
        ];
        let defines_types = self.includes.is_empty();
        let left_out = others.iter().filter(|_| !defines_types);
        let left_out = left_out.chain(RENAMED.iter().map(|(rust, _)| rust));
        config.export.exclude = left_out.map(|name| (*name).to_owned()).collect();
        config.export.exclude.extend(declared(source, "fn xsched_private_"));
        // Also those that no function of the same file has.
        config.export.include = declared(source, "pub enum ");
        config.export.include.extend(declared(source, "pub type "));
        config
    }
}

/// Names that are declared like this, with the last word of it if that goes on.
fn declared(source: &str, like: &str) -> Vec<String> {
    let start = like.rfind(' ').map_or(0, |at| at + 1);
    let rests = source.lines().filter_map(|line| line.trim_start().strip_prefix(like));
    let ends = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    rests
        .map(|rest| format!("{}{}", &like[start..], &rest[..ends(rest).unwrap_or(rest.len())]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_headers_are_up_to_date() {
        run(&Options { check: true }).expect("up to date");
    }

    #[test]
    fn declarations_are_found_by_how_they_begin() {
        let source = "pub type A = u8;\n  fn private_b(c: u8);\npub enum C {\n";
        assert_eq!(declared(source, "pub type "), ["A"]);
        assert_eq!(declared(source, "fn private_"), ["private_b"]);
        assert_eq!(declared(source, "pub enum "), ["C"]);
    }

    #[test]
    fn a_header_that_is_not_up_to_date_is_found() {
        let all = generate().expect("headers");
        assert_eq!(all.len(), 16);
        let (path, text) = all.iter().find(|(path, _)| path.ends_with("xsched/xqueue.h")).unwrap();
        assert!(is_there(path, text) && !is_there(path, &format!("{text}\n")));
        assert!(!is_there(&path.with_extension("gone"), text));
        assert!(text.contains("XResult XQueueSubmit(XQueueHandle xq, HwCommandHandle hw_cmd);"));
    }
}
